//! An API that misbehaves on purpose: every call ends with a clear outcome, and memory stays bounded.

use std::{io::Write as _, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::{call, world};
use crate::support::server::Server;

/// What the whole program may grow by, over everything that the API does.
const GROWTH: u64 = 128 * 1024 * 1024;

/// The peak of the server's memory, in bytes.
fn peak(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("a process that lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What the API does with a request for `/name`.
enum HostileAnswer {
    /// Sends this and closes.
    Send(Vec<u8>),
    /// Sends the first, and the second for as long as it is read.
    Repeat(&'static str, Vec<u8>),
    /// Sends this, and then a byte at a time.
    Drip(&'static str),
    /// Sends this, and resets the connection.
    Reset(&'static str),
}

const OK: &str = "HTTP/1.1 200 OK\r\n";

/// A name, what is done, and the code and the beginning of the message that comes of it.
fn hostile_answers() -> Vec<(&'static str, HostileAnswer, &'static str, &'static str)> {
    let send = |text: &str| HostileAnswer::Send(text.as_bytes().to_vec());
    let with = |head: &str, body: &[u8]| {
        let mut all = format!("{OK}{head}content-length: {}\r\n\r\n", body.len()).into_bytes();
        all.extend_from_slice(body);
        HostileAnswer::Send(all)
    };
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut cut = gzip(&b"hello ".repeat(1_000));
    cut.truncate(cut.len() / 2);
    vec![
        ("silent", HostileAnswer::Drip(""), "tool_timeout", "Tool execution timeout"),
        (
            "drip",
            HostileAnswer::Drip("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n"),
            "tool_timeout",
            "Tool execution timeout",
        ),
        ("drip-head", HostileAnswer::Drip("HTTP/1.1 200 OK\r\nx-slow: "), "tool_timeout", "Tool execution timeout"),
        ("closes", send(""), "tool_failed", "the API sent no valid answer"),
        ("garbage", send("\u{1}\u{2} this is not HTTP at all\r\n\r\n"), "tool_failed", "the API sent no valid answer"),
        ("bad-status", send("HTTP/1.1 2000 Fine\r\n\r\n"), "tool_failed", "the API sent no valid answer"),
        (
            "length-too-long",
            send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort"),
            "tool_failed",
            "the answer broke off",
        ),
        ("length-too-short", send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nshort and more"), "completed", "short"),
        (
            "two-lengths",
            send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 9\r\n\r\nshort"),
            "tool_failed",
            "the API sent no valid answer",
        ),
        (
            "terabyte",
            send("HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\nx"),
            "result_too_large",
            "the API answered with more than 8388608 bytes",
        ),
        (
            "endless",
            HostileAnswer::Repeat("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n", vec![b'x'; 65_536]),
            "result_too_large",
            "the API answered with more than 8388608 bytes",
        ),
        (
            "endless-error",
            HostileAnswer::Repeat("HTTP/1.1 500 Oh\r\n\r\n", vec![b'x'; 65_536]),
            "http_status",
            "the API answered 500 Internal Server Error",
        ),
        (
            "endless-head",
            HostileAnswer::Repeat("HTTP/1.1 200 OK\r\n", b"x-more: and more and more\r\n".repeat(100)),
            "tool_failed",
            "the API sent no valid answer",
        ),
        (
            "endless-header",
            HostileAnswer::Repeat("HTTP/1.1 200 OK\r\nx-long: ", vec![b'x'; 65_536]),
            "tool_failed",
            "the API sent no valid answer",
        ),
        (
            "endless-continue",
            HostileAnswer::Repeat("", b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100)),
            "tool_timeout",
            "Tool execution timeout",
        ),
        (
            "bad-chunk",
            send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n"),
            "tool_failed",
            "the answer broke off",
        ),
        (
            "huge-chunk",
            send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff1\r\nx"),
            "tool_failed",
            "the answer broke off",
        ),
        (
            "endless-trailers",
            HostileAnswer::Repeat(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
                b"x-more: and more\r\n".repeat(100),
            ),
            "tool_failed",
            "the answer broke off",
        ),
        (
            "gzip-bomb",
            HostileAnswer::Repeat("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n", gzip(&vec![0; 64 << 20])),
            "result_too_large",
            "the API answered with more than 8388608 bytes",
        ),
        (
            "deflate-bomb",
            with("content-encoding: deflate\r\n", &zlib(&vec![0; 64 << 20])),
            "result_too_large",
            "the API answered with more than 8388608 bytes",
        ),
        (
            "gzip-error-bomb",
            HostileAnswer::Repeat("HTTP/1.1 404 No\r\ncontent-encoding: gzip\r\n\r\n", gzip(&vec![b'0'; 64 << 20])),
            "http_status",
            "the API answered 404 Not Found",
        ),
        (
            "image-error",
            send("HTTP/1.1 502 Bad\r\ncontent-type: image/png\r\ncontent-length: 3\r\n\r\nabc"),
            "http_status",
            "the API answered 502 Bad Gateway, with 3 bytes of image/png, which are not shown",
        ),
        (
            "endless-archive-error",
            HostileAnswer::Repeat("HTTP/1.1 500 Oh\r\ncontent-type: application/zip\r\n\r\n", vec![0; 65_536]),
            "http_status",
            "the API answered 500 Internal Server Error, with more than 8192 bytes of application/zip, which are not shown",
        ),
        (
            "brotli-error",
            send("HTTP/1.1 404 No\r\ncontent-encoding: br\r\ncontent-length: 1\r\n\r\nx"),
            "http_status",
            "the API answered 404 Not Found, with a body that cannot be read",
        ),
        (
            "gzip-cut",
            with("content-encoding: gzip\r\n", &cut),
            "tool_failed",
            "the answer is compressed and cannot be decompressed",
        ),
        (
            "gzip-none",
            with("content-encoding: gzip\r\n", b"plain text"),
            "tool_failed",
            "the answer is compressed and cannot be decompressed",
        ),
        (
            "brotli",
            with("content-encoding: br\r\n", b"x"),
            "tool_failed",
            "the answer is compressed in a way that was not asked for",
        ),
        (
            "nested",
            with("content-encoding: gzip, gzip\r\n", b"x"),
            "tool_failed",
            "the answer is compressed in a way that was not asked for",
        ),
        (
            "reset",
            HostileAnswer::Reset("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"),
            "tool_failed",
            "the answer broke off",
        ),
        ("reset-at-once", HostileAnswer::Reset(""), "tool_failed", "the API sent no valid answer"),
        ("switching", send("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"), "", ""),
        ("deep-json", with("content-type: application/json\r\n", deep.as_bytes()), "completed", "[[[["),
        ("no-json", with("content-type: application/json\r\n", b"{\"a\": 1,}"), "completed", "{\"a\": 1,}"),
        ("two-keys", with("content-type: application/json\r\n", br#"{"a":1,"a":2}"#), "completed", r#"{"a":1,"a":2}"#),
        ("no-utf-8", with("content-type: text/plain\r\n", b"a\xff\xfeb"), "completed", "a\u{fffd}\u{fffd}b"),
        (
            "archive",
            with("content-type: application/zip\r\n", b"PK\x03\x04"),
            "unsupported_content",
            "the API answered with 4 bytes of application/zip",
        ),
        ("well", with("content-type: text/plain\r\n", b"still here"), "completed", "still here"),
    ]
}

async fn act(mut stream: TcpStream, behaviour: &HostileAnswer) {
    match behaviour {
        HostileAnswer::Send(text) => {
            let _ = stream.write_all(text).await;
            let _ = stream.shutdown().await;
        }
        HostileAnswer::Repeat(head, again) => {
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(again).await.is_ok() {}
        }
        HostileAnswer::Drip(head) => {
            let _ = stream.write_all(head.as_bytes()).await;
            let mut beat = tokio::time::interval(Duration::from_millis(50));
            loop {
                beat.tick().await;
                // Not even that before a head.
                if !head.is_empty() && stream.write_all(b"x").await.is_err() {
                    return;
                }
            }
        }
        HostileAnswer::Reset(head) => {
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.set_zero_linger();
        }
    }
}

/// Reads the head of a request; the name that it asks for.
async fn asked(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    Some(head.split([' ', '/']).nth(2)?.to_owned())
}

/// Serves every answer under its name.
async fn serve() -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let hostile_answers = std::sync::Arc::new(hostile_answers());
        let mut acting = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let hostile_answers = std::sync::Arc::clone(&hostile_answers);
            acting.spawn(async move {
                let Some(name) = asked(&mut stream).await else { return };
                if let Some((_, behaviour, ..)) = hostile_answers.iter().find(|(known, ..)| *known == name) {
                    act(stream, behaviour).await;
                }
            });
        }
    });
    (url, serving)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_an_api_does_the_call_ends_with_a_clear_outcome_in_bounded_memory() {
    let (url, _serving) = serve().await;
    // A POST is sent once, whatever happens to it. Only answers that never end are given little time.
    let tool = |name: &str, timeout: &str| {
        format!(
            "---\napiVersion: ark.mckinsey.com/v1alpha1\nkind: Tool\nmetadata: {{name: {name}}}\nspec:\n  type: http\n  \
             inputSchema: {{type: object, properties: {{behaviour: {{type: string}}}}, required: [behaviour]}}\n  \
             http: {{url: \"{url}/{{behaviour}}\", method: POST, timeout: {timeout}}}\n"
        )
    };
    let world = world(&[("hostile.yaml", &format!("{}{}", tool("hostile", "60s"), tool("endless", "2s")))]);
    let server = world.start().await;
    assert_eq!(call(&server, "hostile", &json!({"behaviour": "well"})).await.0, "completed");
    let before = peak(&server);
    for (name, _, code, message) in hostile_answers() {
        let tool = if matches!(code, "tool_timeout" | "") { "endless" } else { "hostile" };
        let (found, text) = call(&server, tool, &json!({"behaviour": name})).await;
        let is_expected = (found == code && text.starts_with(message)) || code.is_empty();
        assert!(is_expected && !text.contains("127.0.0.1"), "{name}: {found}: {}", &text[..text.len().min(300)]);
        let grown = peak(&server).saturating_sub(before);
        assert!(grown < GROWTH, "{name}: {} MiB", grown >> 20);
    }
}
