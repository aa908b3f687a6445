//! No redirect leads to this machine, its network or a cloud's metadata.
//!
//! A counter listens on every address of this machine and counts connections. An API redirects to it in every spelling that
//! is known; the proof is the counter: it counts none, until the operator allows it.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    http::{StatusCode, header::LOCATION},
    response::IntoResponse,
};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};

use super::{KEY, call, service::Service, world};

/// Counts connections, and answers none.
struct ConnectionCounter {
    port: u16,
    connections: Arc<AtomicUsize>,
    _listening: JoinSet<()>,
}

impl ConnectionCounter {
    async fn start() -> Self {
        let first = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = first.local_addr().expect("an address").port();
        let connections = Arc::new(AtomicUsize::new(0));
        let mut listening = JoinSet::new();
        // A machine may have no IPv6; then nothing can be reached there either.
        let second = TcpListener::bind(("::1", port)).await.ok();
        for listener in [Some(first), second].into_iter().flatten() {
            let connections = Arc::clone(&connections);
            listening.spawn(async move {
                while listener.accept().await.is_ok() {
                    connections.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self { port, connections, _listening: listening }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// The ways to write an IPv4 address in a URL.
fn spellings(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let whole = address.to_bits();
    let rest = whole & 0xff_ffff;
    let full_width = |text: &str| -> String {
        let wide =
            |letter: char| letter.to_digit(10).and_then(|digit| char::from_u32(0xff10 + digit)).unwrap_or(letter);
        text.chars().map(wide).collect()
    };
    let encoded: String = address.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect();
    vec![
        format!("{address}"),
        format!("{address}."),
        format!("{whole}"),
        format!("{whole:#x}"),
        format!("{whole:#o}").replace("0o", "0"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("{a}.{rest}"),
        format!("{a}.{b}.{}", whole & 0xffff),
        format!("{a:#x}.{b}.0{c:o}.{d}"),
        format!("0x{a:08x}.{b}.{c}.{d}"),
        format!("{a}。{b}。{c}。{d}"),
        format!("{a}．{b}．{c}．{d}"),
        full_width(&address.to_string()),
        encoded,
        format!("[::ffff:{address}]"),
        format!("[::ffff:{:x}:{:x}]", whole >> 16, whole & 0xffff),
        format!("[0:0:0:0:0:ffff:{address}]"),
        format!("[::{address}]"),
        format!("[64:ff9b::{address}]"),
        format!("[2002:{:x}:{:x}::1]", whole >> 16, whole & 0xffff),
    ]
}

fn targets(port: u16) -> Vec<String> {
    let addresses = [
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::new(127, 8, 9, 10),
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::new(169, 254, 169, 254),
        Ipv4Addr::new(10, 0, 0, 1),
        Ipv4Addr::new(192, 168, 0, 1),
        Ipv4Addr::new(100, 100, 100, 200),
    ];
    let names = [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "ｌｏｃａｌｈｏｓｔ",
        "l%6fcalhost",
        "127.1",
        "127.0.1",
        "0",
        "0x0",
        "[::1]",
        "[::]",
        "[0000:0000:0000:0000:0000:0000:0000:0001]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[fc00::1]",
        "[ff02::1]",
        "[2001:db8::1]",
        "[64:ff9b:1::7f00:1]",
        "[::ffff:0:127.0.0.1]",
    ];
    let hosts = addresses.into_iter().flat_map(spellings).chain(names.map(str::to_owned));
    let mut targets: Vec<_> = hosts.map(|host| format!("http://{host}:{port}/latest/meta-data/")).collect();
    targets.extend([
        format!("//127.0.0.1:{port}/"),
        format!("\\\\127.0.0.1:{port}/"),
        format!("http:\\\\127.0.0.1:{port}"),
        format!("http:///127.0.0.1:{port}/"),
        format!("HTTP://127.0.0.1:{port}/"),
        format!("http://a@127.0.0.1:{port}/"),
        format!("http://public.example@127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}#@public.example/"),
        format!("gopher://127.0.0.1:{port}/"),
        "file:///etc/passwd".to_owned(),
    ]);
    targets
}

fn tool(url: &str) -> String {
    format!(
        r#"
apiVersion: ark.mckinsey.com/v1alpha1
kind: Tool
metadata: {{name: hop, annotations: {{bosun.dev/follow-redirects: "true"}}}}
spec:
  type: http
  inputSchema: {{type: object, properties: {{to: {{type: string}}}}, required: [to]}}
  http:
    url: {url}/{{to}}
    headers:
      - {{name: Authorization, value: {{valueFrom: {{secretKeyRef: {{name: weather, key: token}}}}}}}}
      - {{name: Accept, value: {{value: text/plain}}}}
"#
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_redirect_reaches_a_private_address_unless_the_operator_allows_it() {
    let counter = ConnectionCounter::start().await;
    let targets = targets(counter.port);
    assert!(targets.len() >= 150, "{}", targets.len());
    let known = targets.clone();
    let service = Service::start(move |received| {
        let index: usize = received.target.trim_start_matches('/').parse().unwrap();
        (StatusCode::FOUND, [(LOCATION, known[index].clone().into_bytes())]).into_response()
    })
    .await;
    let mut world = world(&[("hop.yaml", &tool(&service.url))]);
    let mut server = world.start().await;
    for (index, target) in targets.iter().enumerate() {
        let (code, message) = call(&server, "hop", &json!({"to": index.to_string()})).await;
        let is_refused = code == "address_not_allowed"
            || (code == "tool_failed" && message == "the API answered with a redirect without a usable `Location`");
        assert!(is_refused, "{target}: {code} {message}");
        assert_eq!(counter.connections(), 0, "{target}");
    }
    assert_eq!(service.received().len(), targets.len());
    server.kill().await;

    // The counter works: it counts what the operator allows.
    world.set("BOSUN_ALLOW_PRIVATE", format!("127.0.0.1:{}", counter.port));
    let server = world.start().await;
    let arguments = json!({"to": "0"});
    let calling = call(&server, "hop", &arguments);
    let connected = crate::support::until("a connection", || counter.connections() > 0);
    tokio::select! {
        ended = calling => panic!("the counter answers nothing: {ended:?}"),
        () = connected => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_is_followed_if_the_manifest_says_so_and_takes_no_key_to_another_host() {
    let other = Service::start(|_| "received elsewhere").await;
    let elsewhere = format!("{}/elsewhere", other.url);
    let service = Service::start(move |received| match received.target.as_str() {
        "/same" => (StatusCode::FOUND, [(LOCATION, "/end".to_owned())]).into_response(),
        "/other" => (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, elsewhere.clone())]).into_response(),
        "/loop" => (StatusCode::SEE_OTHER, [(LOCATION, "/loop".to_owned())]).into_response(),
        _ => "received".into_response(),
    })
    .await;
    let never =
        tool(&service.url).replace("name: hop, annotations: {bosun.dev/follow-redirects: \"true\"}", "name: never");
    let mut world = world(&[("hop.yaml", &tool(&service.url)), ("never.yaml", &never)]);
    world.set("BOSUN_ALLOW_PRIVATE", other.url.trim_start_matches("http://"));
    let server = world.start().await;
    let check = async |tool: &str, to: &str, code: &str, message: &str| {
        let answered = call(&server, tool, &json!({"to": to})).await;
        assert_eq!(answered, (code.to_owned(), message.to_owned()), "{tool} {to}");
    };
    check("hop", "same", "completed", "received").await;
    check("hop", "other", "completed", "received elsewhere").await;
    check("hop", "loop", "tool_failed", "the API answered with more than 3 redirects").await;
    check("never", "same", "http_status", "the API answered 302 Found, and this tool follows no redirects").await;

    let paths: Vec<_> = service.received().iter().map(|received| received.target.clone()).collect();
    assert_eq!(paths, ["/same", "/end", "/other", "/loop", "/loop", "/loop", "/loop", "/same"]);
    assert!(service.received().iter().all(|received| received.header("authorization") == KEY));
    let [received] = &other.received()[..] else { panic!("one request") };
    assert_eq!((received.header("authorization"), received.header("accept")), ("", "text/plain"));
    assert_eq!(received.header("traceparent"), "");
}
