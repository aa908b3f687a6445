//! The server on a real port: streams that are cut, clients that are slow, shutdown.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, routing::get};
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use tokio_util::task::TaskTracker;

use super::{
    streaming::{ParsedSseEvent, SseParser, told_by_journal},
    world::{TestServer, calculating, plain, with_calculator},
};
use crate::{AppState, ConnectionLimits, auth::Access, http::middleware, serve};

/// A server that runs until it is stopped.
struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    tasks: TaskTracker,
}

impl Running {
    async fn start(router: Router, grace: Duration) -> Self {
        Self::start_on(router, ConnectionLimits { max_connections: 16 * 1024, grace }).await
    }

    async fn start_on(router: Router, terms: ConnectionLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let tasks = TaskTracker::new();
        tasks.spawn(async move { serve(listener, router, async { drop(stopped.await) }, terms).await });
        tasks.close();
        Self { address, stop, tasks }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.tasks.wait().await;
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends the bytes of one request and reads until the server closes.
    async fn raw(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        read_to_end(&mut stream).await
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let length = body.len();
        let answer = self
            .raw(&format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"))
            .await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }
}

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is an end too: the server may close before it has read everything.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

/// A pseudo-random sequence that is the same in every run.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Reads at most `budget` bytes of a stream, whatever they cut apart, and runs the tools that are asked
/// for in them. Gives the whole events, and whether the stream ended by itself.
async fn read_some(server: &Running, name: &str, last: Option<&str>, budget: usize) -> (Vec<ParsedSseEvent>, bool) {
    let mut stream = server.connect().await;
    let cursor = last.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
    let path = format!("/v1/queries/{name}");
    let request = format!("GET {path}/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{cursor}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let mut events: Vec<ParsedSseEvent> = Vec::new();
    let mut buffer = [0; 512];
    while bytes.len() < budget {
        let wanted = buffer.len().min(budget - bytes.len());
        let read = stream.read(&mut buffer[..wanted]).await.unwrap();
        if read == 0 {
            return (events, true);
        }
        bytes.extend(&buffer[..read]);
        let body = bytes.windows(4).position(|window| window == b"\r\n\r\n").map_or(&[][..], |end| &bytes[end + 4..]);
        let all = SseParser::default().events(&unchunk(body));
        for event in all[events.len()..].iter().filter(|event| event.event == "tool_call") {
            let result = json!({"toolCallId": event.data["id"], "toolResult": event.data["args"]["n"]});
            server.post(&format!("{path}/tool-result?wait=0"), &result).await;
        }
        events = all;
    }
    (events, false)
}

/// Takes the chunk sizes out, of as many chunks as are there, the last one in part.
fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(end) = body.windows(2).position(|pair| pair == b"\r\n") {
        let size = usize::from_str_radix(str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        let rest = &body[end + 2..];
        content.extend(&rest[..size.min(rest.len())]);
        body = rest.get(size + 2..).unwrap_or_default();
    }
    content
}

fn eventful() -> ScriptedModel {
    ScriptedModel::always(vec![
        ScriptedTurn::stream(&["Let me ", "look ", "at ", "that."])
            .and_call("database_query", r#"{"table": "customers"}"#)
            .and_call("mine", r#"{"n": 1}"#)
            .and_call("mine", r#"{"n": 2}"#),
        ScriptedTurn::stream(&["And ", "again."]).and_call("mine", r#"{"n": 3}"#),
        ScriptedTurn::stream(&["Here ", "it ", "is: ", "four."]),
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_cut_at_random_and_resumed_is_the_journal() {
    const CUTS: usize = 150;
    let world = TestServer::new(eventful()).await;
    let server = Running::start(world.router.clone(), Duration::ZERO).await;
    let mut random = SeededRandom(2026);
    let (mut cuts, mut queries) = (0, 0);
    while cuts < CUTS {
        queries += 1;
        let name = format!("q-{queries}");
        let query = json!({
            "name": name, "input": "x", "target": {"type": "agent", "name": "research-assistant"},
            "externalTools": [{"name": "mine", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}],
        });
        server.post("/v1/queries", &query).await;
        let mut seen: Vec<ParsedSseEvent> = Vec::new();
        let mut texts = std::collections::BTreeMap::<(u64, u64), String>::new();
        while seen.last().is_none_or(|event| event.event != "complete") {
            let last = seen.last().and_then(|event| event.id.clone());
            // The headers of the answer take about 280 bytes: some cuts fall into them.
            let (events, ended) = read_some(&server, &name, last.as_deref(), 200 + random.below(1_500)).await;
            cuts += usize::from(!ended);
            for event in events {
                if event.event == "agent_response_delta" {
                    let part = |field: &str| event.data[field].as_u64().unwrap();
                    let text = texts.entry((part("turn"), part("attempt"))).or_default();
                    text.truncate(usize::try_from(part("offset")).unwrap());
                    assert_eq!(text.len() as u64, part("offset"), "no gap in the text");
                    text.push_str(event.data["delta"].as_str().unwrap());
                }
                if event.id.is_some() {
                    seen.push(event);
                }
            }
        }
        assert_eq!(seen, told_by_journal(&world, &name).await, "query {name}, {cuts} cuts");
        assert_eq!(texts[&(1, 1)], "Let me look at that.", "query {name}");
        assert_eq!(texts[&(2, 1)], "And again.", "query {name}");
    }
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_slow_to_ask_is_dropped() {
    let world = TestServer::new(calculating()).await;
    let server = Running::start(world.router.clone(), Duration::ZERO).await;
    let before = tokio::time::Instant::now();
    server.raw("GET /health HTTP/1.1\r\nhost: local").await;
    assert_eq!(before.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn headers_have_a_limit() {
    let world = TestServer::new(calculating()).await;
    let server = Running::start(world.router.clone(), Duration::ZERO).await;
    let request = |bytes: usize| {
        format!("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-long: {}\r\n\r\n", "x".repeat(bytes))
    };
    assert!(server.raw(&request(30 * 1024)).await.starts_with("HTTP/1.1 200"));
    let refused = server.raw(&request(40 * 1024)).await;
    // The answer may be lost in the reset that follows it, since the server reads no further.
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431"), "{refused}");
}

#[tokio::test]
async fn an_open_request_is_answered_before_the_server_ends() {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    let server = Running::start(world.router.clone(), Duration::from_secs(60)).await;
    server.post("/v1/queries", &plain("q")).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /v1/queries/q?wait=60s HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut events = server.connect().await;
    events.write_all(b"GET /v1/queries/q/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 9];
    events.read_exact(&mut first).await.unwrap();
    let ((), ended) = tokio::join!(server.stop(), world.engine.shut_down(Duration::from_secs(60)));
    ended.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"state\":\"running\""), "{answer}");
    let streamed = read_to_end(&mut events).await;
    assert!(streamed.contains("agent_thinking") && streamed.contains("retry: 1000"), "{streamed}");
}

/// One request on a connection that stays, and its whole answer.
async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(format!("{request} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let length = stream.read(&mut bytes).await.unwrap();
        answer.extend(&bytes[..length]);
        let text = str::from_utf8(&answer).unwrap();
        let wanted = text.split_once("\r\n\r\n").map(|(head, body)| {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            (length.parse::<usize>().unwrap(), body.len())
        });
        match wanted {
            Some((wanted, got)) if got >= wanted => return text.to_owned(),
            _ => assert!(length > 0, "the server closed after {text:?}"),
        }
    }
}

#[tokio::test]
async fn a_request_on_a_kept_connection_gets_a_503_while_the_server_stops() {
    let world = TestServer::new(calculating()).await;
    let server = Running::start(world.router.clone(), Duration::from_secs(60)).await;
    let mut connections = Vec::new();
    for _ in 0..4 {
        let mut connection = server.connect().await;
        assert!(!ask(&mut connection, "GET /v1/queries").await.contains("connection: close"));
        connections.push(connection);
    }
    let asked = async {
        world.engine.draining().cancelled().await;
        for (mut connection, (request, status, expected)) in connections.into_iter().zip([
            ("GET /v1/queries", 503, "shutting_down"),
            ("GET /v1/nowhere", 503, "shutting_down"),
            ("GET /health", 200, "healthy"),
            ("GET /ready", 503, "shutting down"),
        ]) {
            let answer = ask(&mut connection, request).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(expected), "{answer}");
            assert!(answer.contains("connection: close"), "{answer}");
            assert_eq!(answer.contains("retry-after: "), expected == "shutting_down", "{answer}");
            assert_eq!(read_to_end(&mut connection).await, "", "and nothing after that");
        }
    };
    let (drained, (), ()) = tokio::join!(world.engine.shut_down(Duration::from_secs(60)), server.stop(), asked);
    drained.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_does_not_delay_the_shutdown() {
    let world = TestServer::new(calculating()).await;
    let server = Running::start(world.router.clone(), Duration::from_secs(60)).await;
    let mut idle = server.connect().await;
    ask(&mut idle, "GET /health").await;
    let before = tokio::time::Instant::now();
    server.stop().await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    assert_eq!(read_to_end(&mut idle).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_end_is_cut() {
    let world = TestServer::new(calculating()).await;
    let server = Running::start(world.router.clone(), Duration::from_secs(5)).await;
    server.post("/v1/queries?wait=true", &with_calculator("q")).await;
    let mut events = server.connect().await;
    events.write_all(b"GET /v1/queries/q/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 9];
    events.read_exact(&mut first).await.unwrap();
    // The engine does not drain, so the stream does not end by itself.
    let before = tokio::time::Instant::now();
    server.stop().await;
    assert_eq!(before.elapsed(), Duration::from_secs(5));
    assert!(!read_to_end(&mut events).await.ends_with("0\r\n\r\n"));
}

#[tokio::test]
async fn a_panic_is_an_answer_without_a_reason() {
    async fn broken() -> &'static str {
        panic!("the secret reason")
    }
    let world = TestServer::new(calculating()).await;
    let app = AppState::new(world.engine.clone(), Access::open(), Vec::new());
    let router = middleware::wrap(Router::new().route("/broken", get(broken)), app);
    let server = Running::start(router, Duration::ZERO).await;
    let request = "GET /broken HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = server.raw(request).await;
    assert!(answer.starts_with("HTTP/1.1 500") && answer.contains("internal_error"), "{answer}");
    assert!(!answer.contains("secret"), "{answer}");
}

#[tokio::test]
async fn curl_works_as_printed() {
    let world = Arc::new(TestServer::new(calculating()).await);
    let server = Running::start(world.router.clone(), Duration::ZERO).await;
    let body = with_calculator("q").to_string();
    let head = "POST /v1/namespaces/default/queries?wait=true HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: curl/8.5.0\r\nAccept: */*";
    let length = body.len();
    let answer = server
        .raw(&format!("{head}\r\nContent-Length: {length}\r\nContent-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\r\n{body}"))
        .await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("tool_call_required"), "{answer}");
}

#[tokio::test]
async fn a_client_that_is_answered_before_it_has_sent_everything_gets_the_answer() {
    let world = TestServer::new(calculating()).await;
    let server = Running::start(world.router.clone(), Duration::from_secs(5)).await;
    let body = vec![b'x'; 16 << 20];
    for length in [format!("content-length: {}", body.len()), format!("content-length: {}", 1_u64 << 40)] {
        let mut stream = server.connect().await;
        let head = format!(
            "PUT /v1/queries/gone/tool-calls/x/result HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n{length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // More than any buffer on the way holds: it goes through only if the server still listens.
        stream.write_all(&body).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        assert!(answer.contains("query_not_found"), "{answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn there_are_at_most_a_hundred_headers() {
    let world = TestServer::new(calculating()).await;
    let server = Running::start(world.router.clone(), Duration::ZERO).await;
    let request = |count: usize| {
        let headers: String = (0..count).map(|number| format!("x-{number}: 1\r\n")).collect();
        format!("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")
    };
    assert!(server.raw(&request(98)).await.starts_with("HTTP/1.1 200"));
    let refused = server.raw(&request(99)).await;
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431"), "{refused}");
}

/// `BOSUN_SLOW_SOCKETS` of them, each with a beginning that never ends: of a request line, of a header, of a
/// body. Others are served meanwhile, and when their time is over, all of them are gone.
#[tokio::test]
async fn many_slow_clients_do_not_delay_others() {
    let crowd = std::env::var("BOSUN_SLOW_SOCKETS").map_or(100, |text| text.parse().unwrap());
    let world = TestServer::new(calculating()).await;
    let server = Running::start(world.router.clone(), Duration::ZERO).await;
    let beginnings = [
        "",
        "G",
        "GET /health HTTP/1.1\r\n",
        "GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: ",
        "POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    ];
    let mut slow = Vec::with_capacity(crowd);
    for number in 0..crowd {
        let mut stream = server.connect().await;
        stream.write_all(beginnings[number % beginnings.len()].as_bytes()).await.unwrap();
        slow.push(stream);
    }
    for _ in 0..20 {
        let answer = server.raw("GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    // From here on the clock advances as soon as all tasks are idle.
    tokio::time::pause();
    let before = tokio::time::Instant::now();
    for (number, stream) in slow.iter_mut().enumerate() {
        let answer = read_to_end(stream).await;
        let is_body = number % beginnings.len() == 4;
        assert_eq!(answer.starts_with("HTTP/1.1 408"), is_body, "{number}: {answer}");
    }
    assert!(before.elapsed() < Duration::from_secs(60), "{:?}", before.elapsed());
}

/// Five slow clients and three well-behaved ones hold all permits. Further clients get a 503, whatever they send; the well-behaved
/// ones are served all along; and when the slow ones time out, there are permits again.
#[tokio::test]
async fn connections_above_the_limit_get_a_503_and_others_are_served() {
    let world = TestServer::new(calculating()).await;
    let terms = ConnectionLimits { max_connections: 8, grace: Duration::ZERO };
    let server = Running::start_on(world.router.clone(), terms).await;
    let mut honest = Vec::new();
    for _ in 0..3 {
        let mut connection = server.connect().await;
        ask(&mut connection, "GET /health").await;
        honest.push(connection);
    }
    let mut slow = Vec::new();
    for _ in 0..5 {
        let mut connection = server.connect().await;
        connection.write_all(b"GET /health HTTP/1.1\r\nhost: ").await.unwrap();
        slow.push(connection);
    }
    let length = 4 << 20;
    let large = format!(
        "POST /v1/queries HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{}",
        "x".repeat(length)
    );
    let small = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned();
    for request in [&small, &large, &small] {
        let refused = server.raw(request).await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        assert!(refused.contains("retry-after: ") && refused.contains("connection: close"), "{refused}");
        assert!(refused.contains(r#""code":"overloaded""#), "{refused}");
        for connection in &mut honest {
            assert!(ask(connection, "GET /v1/queries").await.starts_with("HTTP/1.1 200 "));
        }
    }
    // Many clients above the limit: each gets a 503 or is disconnected at once, and none is kept waiting.
    let mut crowd = Vec::new();
    for _ in 0..400 {
        crowd.push(server.connect().await);
    }
    for connection in &mut crowd {
        // It may be disconnected before it has sent its request.
        let _ = connection.write_all(small.as_bytes()).await;
        let answer = read_to_end(connection).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    for connection in &mut honest {
        assert!(ask(connection, "GET /v1/queries").await.starts_with("HTTP/1.1 200 "));
    }
    // From here on the clock advances as soon as all tasks are idle.
    tokio::time::pause();
    for mut connection in slow {
        assert_eq!(read_to_end(&mut connection).await, "");
    }
    let answer = ask(&mut server.connect().await, "GET /health").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn what_is_not_json_and_a_preflight_are_refused() {
    let world = TestServer::new(calculating()).await;
    for kind in ["text/plain", "multipart/form-data", "application/x-ndjson", "application/json; charset=latin1", ""] {
        let answer = world.send("POST", "/v1/queries", &[("content-type", kind)], plain("q").to_string()).await;
        assert_eq!(answer.refusal(), (415, "unsupported_media_type"), "{kind}");
    }
    let origin = ("origin", "http://localhost:8080");
    let headers = [origin, ("access-control-request-method", "POST")];
    let preflight = world.send("OPTIONS", "/v1/queries", &headers, "").await;
    assert_eq!(preflight.status, 405);
    let answer = world.send("GET", "/v1/queries", &[origin], "").await;
    for answer in [preflight, answer] {
        let allowed = answer.headers.keys().find(|name| name.as_str().starts_with("access-control-"));
        assert_eq!(allowed, None);
    }
}
