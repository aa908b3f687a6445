//! Requests that are refused, each with its status and code.

use axum::body::Body;
use futures_util::stream;
use serde_json::json;

use super::world::{World, calculating, plain, with_calculator};

type Headers = &'static [(&'static str, &'static str)];

const NONE: Headers = &[];
const JSON: Headers = &[("content-type", "application/json")];
const QUERIES: &str = "/v1/queries";
const RESULTS: &str = "/v1/queries/q/tool-result";
/// The rest of a body that is right but for what is put in front of it.
const GOOD: &str = r#""input":"x","target":{"type":"agent","name":"math-assistant"}}"#;

struct Table {
    world: World,
    rows: usize,
}

impl Table {
    /// Sends a request and holds the answer to `status` and `code`; every error has both bodies.
    #[track_caller]
    fn check(
        &mut self,
        method: &'static str,
        path: &str,
        headers: Headers,
        body: impl Into<Body>,
        expect: (u16, &'static str),
    ) -> impl Future<Output = ()> {
        self.rows += 1;
        let (row, place, path) = (self.rows, std::panic::Location::caller(), path.to_owned());
        let (world, body) = (&self.world, body.into());
        async move {
            let answer = world.send(method, &path, headers, body).await;
            assert_eq!(answer.refusal(), expect, "row {row} at {place}: {method} {path}: {}", answer.body);
            assert_eq!(answer.body["detail"], answer.body["error"]["message"], "row {row} at {place}");
            assert!(answer.body["detail"].is_string(), "row {row} at {place}");
        }
    }

    async fn create(&mut self, fields: &str, expect: (u16, &'static str)) {
        self.check("POST", QUERIES, JSON, format!("{{{fields},{GOOD}"), expect).await;
    }

    async fn create_whole(&mut self, body: &str, expect: (u16, &'static str)) {
        self.check("POST", QUERIES, JSON, body.to_owned(), expect).await;
    }
}

async fn table() -> Table {
    let world = World::new(calculating()).await;
    world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    Table { world, rows: 0 }
}

#[tokio::test(start_paused = true)]
async fn routes_and_methods() {
    let mut table = table().await;
    let (unknown, wrong) = ((404, "route_not_found"), (405, "method_not_allowed"));
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/querys",
        "/v1/queries/",
        "/v1/queries/q/",
        "/v1/queries/q/tool-results",
        "/v2/queries",
        "/v1/namespaces/default",
        "/v1/namespaces/default/queries/q/events/x",
        "/openai/v1/models",
        "/.well-known/agent.json",
        "/v1/queries/q/../../agents",
    ] {
        table.check("GET", path, NONE, "", unknown).await;
    }
    for (method, path) in [
        ("PUT", "/v1/queries/q"),
        ("PATCH", QUERIES),
        ("GET", RESULTS),
        ("GET", "/v1/queries/q/cancel"),
        ("PATCH", "/v1/queries/q/continue"),
        ("POST", "/v1/queries/q/events"),
        ("POST", "/v1/agents"),
        ("POST", "/health"),
        ("OPTIONS", QUERIES),
        ("TRACE", "/health"),
    ] {
        table.check(method, path, NONE, "", wrong).await;
    }
    let answer = table.world.send("DELETE", QUERIES, NONE, "").await;
    assert_eq!(answer.header("allow"), Some("GET,HEAD,POST"));
}

#[tokio::test(start_paused = true)]
async fn hosts_and_origins() {
    let mut table = table().await;
    let (host, origin) = ((403, "host_not_allowed"), (403, "origin_not_allowed"));
    table.check("GET", "/health", &[("host", "evil.example")], "", host).await;
    table.check("GET", QUERIES, &[("host", "evil.example:8080")], "", host).await;
    table.check("GET", "/nowhere", &[("host", "169.254.169.254")], "", host).await;
    table.check("GET", "http://evil.example/health", NONE, "", host).await;
    table.check("POST", "/v1/queries/q/cancel", &[("origin", "http://evil.example")], "", origin).await;
    table.check("POST", "/v1/queries/q/cancel", &[("origin", "null")], "", origin).await;
    table.check("GET", "/v1/queries/q/events", &[("origin", "http://localhost:3000")], "", origin).await;
    table
        .check(
            "OPTIONS",
            QUERIES,
            &[("origin", "http://evil.example"), ("access-control-request-method", "POST")],
            "",
            origin,
        )
        .await;
    assert_eq!(table.world.get("/v1/queries/q").await.ok()["state"], "waiting");
}

#[tokio::test(start_paused = true)]
async fn media_types() {
    let mut table = table().await;
    let refused = (415, "unsupported_media_type");
    let body = plain("m").to_string();
    for headers in [
        NONE,
        &[("content-type", "")] as Headers,
        &[("content-type", "text/plain")],
        &[("content-type", "text/json")],
        &[("content-type", "application/jsonp")],
        &[("content-type", "application/json; charset=utf-16")],
        &[("content-type", "multipart/form-data; boundary=x")],
        &[("content-type", "application/json"), ("content-encoding", "gzip")],
        &[("content-type", "application/x-www-form-urlencoded"), ("origin", "http://localhost:8080")],
        &[("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")],
    ] {
        table.check("POST", QUERIES, headers, body.clone(), refused).await;
        table.check("POST", RESULTS, headers, body.clone(), refused).await;
    }
    table.check("POST", "/v1/queries/q/cancel", NONE, "{}", refused).await;
    for headers in [
        JSON,
        &[("content-type", "Application/JSON; charset=UTF-8")] as Headers,
        &[("content-type", "application/json;charset=\"utf-8\"")],
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "application/json"), ("origin", "http://localhost:8080")],
        &[("content-type", "application/json"), ("content-encoding", "identity")],
    ] {
        let mut body = plain("m");
        body.as_object_mut().unwrap().remove("name");
        assert_eq!(table.world.send("POST", QUERIES, headers, body.to_string()).await.status, 200, "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_not_json() {
    let mut table = table().await;
    let invalid = (400, "invalid_json");
    for body in [
        "",
        " ",
        "{",
        "}",
        "{]",
        "nope",
        "{'a': 1}",
        "{\"a\": 1,}",
        "{\"a\": 1} x",
        "{\"a\": NaN}",
        "{\"a\": 01}",
        "// x\n{}",
        "input=x&target=y",
        "\u{feff}{}",
        "{\"a\": \"\u{0}\"}",
        "{\"a\": \"\\ud800\"}",
        "{\"a\": 1e999}",
    ] {
        table.create_whole(body, invalid).await;
    }
    table.check("POST", QUERIES, JSON, vec![b'{', b'"', 0xff, b'"', b':', b'1', b'}'], invalid).await;
    let broken: Vec<Result<&str, std::io::Error>> = vec![Ok("{"), Err(std::io::ErrorKind::BrokenPipe.into())];
    table.check("POST", QUERIES, JSON, Body::from_stream(stream::iter(broken)), invalid).await;
    table.create(r#""a":1,"a":2"#, (400, "duplicate_key")).await;
    table.create(r#""metadata":{"labels":{"a":"1","a":"2"}}"#, (400, "duplicate_key")).await;
    table.create(&format!("\"x\":{}{}", "[".repeat(64), "]".repeat(64)), (422, "json_too_deep")).await;
    table.create(&format!("\"x\":{}", "[".repeat(100_000)), (422, "json_too_deep")).await;
    for body in ["null", "[]", "\"x\"", "5", "true"] {
        table.create_whole(body, (422, "invalid_request")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_too_large_or_too_slow() {
    let mut table = table().await;
    let large = format!("{{\"x\":\"{}\",{GOOD}", "x".repeat(1024 * 1024));
    table.check("POST", QUERIES, JSON, large.clone(), (413, "payload_too_large")).await;
    table.check("POST", RESULTS, JSON, large.clone(), (413, "payload_too_large")).await;
    let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 64 * 1024]));
    table.check("POST", QUERIES, JSON, Body::from_stream(endless), (413, "payload_too_large")).await;
    let silent = stream::pending::<Result<&str, std::io::Error>>();
    table.check("POST", QUERIES, JSON, Body::from_stream(silent), (408, "request_timeout")).await;
    let full = format!("{{\"toolName\":\"calculator\",\"toolResult\":\"{}\"}}", "x".repeat(1024 * 1024 - 41));
    assert_eq!(full.len(), 1024 * 1024);
    assert_eq!(table.world.send("POST", RESULTS, JSON, full).await.status, 200, "the limit itself is taken");
}

#[tokio::test(start_paused = true)]
async fn parameters() {
    let mut table = table().await;
    let invalid = (400, "invalid_parameter");
    for query in [
        "wait=soon",
        "wait=-1",
        "wait=1d",
        "wait=",
        "view=xml",
        "view=",
        "view=RFC",
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=-1",
        "continue_token=x",
        "state=done",
        "state=",
        "namespace=UPPER",
        "namespace=",
        "namespace=a/b",
        "namespace=a.b",
        "stream=maybe",
        "wait=1&wait=2",
        "view=rfc&view=rfc",
    ] {
        table.check("GET", &format!("{QUERIES}?{query}"), NONE, "", invalid).await;
    }
    table.check("GET", "/v1/namespaces/NOPE/queries", NONE, "", invalid).await;
    table.check("GET", "/v1/namespaces//queries", NONE, "", invalid).await;
    table.check("GET", "/v1/namespaces/default/queries?namespace=other", NONE, "", invalid).await;
    table.check("GET", "/v1/namespaces/%ff/queries", NONE, "", invalid).await;
    table.check("POST", "/v1/queries?wait=x", JSON, plain("p").to_string(), invalid).await;
    table
        .check("POST", &format!("{RESULTS}?wait=x"), JSON, r#"{"toolName":"calculator","toolResult":""}"#, invalid)
        .await;
    for name in ["NOPE", "-a", "a%20b", "%2e%2e", "a_b", "%00", &"a".repeat(254)] {
        table.check("GET", &format!("/v1/queries/{name}"), NONE, "", (404, "query_not_found")).await;
    }
    table.check("GET", "/v1/agents/%F0%9F%90%99", NONE, "", (404, "agent_not_found")).await;
    assert_eq!(table.world.get("/v1/queries/q").await.ok()["state"], "waiting");
}

#[tokio::test(start_paused = true)]
async fn fields_of_a_query() {
    let mut table = table().await;
    let invalid = (422, "invalid_request");
    for fields in [
        r#""name":"Not A Name""#,
        r#""name":5"#,
        r#""name":"""#,
        r#""metadata":5"#,
        r#""metadata":{"name":5}"#,
        r#""metadata":{"name":"a"},"name":"b""#,
        r#""metadata":{"namespace":"UPPER"}"#,
        r#""metadata":{"labels":[]}"#,
        r#""metadata":{"labels":{"a":1}}"#,
        r#""metadata":{"annotations":{"a":null}}"#,
        r#""kind":"Agent""#,
        r#""kind":1"#,
        r#""apiVersion":1"#,
        r#""spec":[]"#,
        r#""spec":{"input":"y"}"#,
        r#""type":"system""#,
        r#""type":1"#,
        r#""timeout":"soon""#,
        r#""timeout":"0s""#,
        r#""timeout":-5"#,
        r#""timeout":{}"#,
        r#""toolTimeout":"x""#,
        r#""externalTimeout":[]"#,
        r#""maxToolCalls":-1"#,
        r#""maxToolCalls":1.5"#,
        r#""maxToolCalls":"5""#,
        r#""maxToolCalls":99999999999"#,
        r#""wait":"x""#,
        r#""wait":[]"#,
        r#""wait":-1"#,
        r#""stream":"yes""#,
        r#""sessionId":5"#,
        r#""conversationId":{}"#,
        r#""externalTools":{}"#,
        r#""tools":"calculator""#,
        r#""tools":[5]"#,
        r#""tools":[{}]"#,
        r#""tools":[{"name":5}]"#,
        r#""tools":[{"name":"a","executionMode":"sideways"}]"#,
        r#""toolSource":5"#,
        r#""targets":[]"#,
        r#""targets":{}"#,
        r#""targets":[{"type":"agent","name":"other"}]"#,
    ] {
        table.create(fields, invalid).await;
    }
    for body in [
        "{}",
        r#"{"input":"x"}"#,
        r#"{"target":{"type":"agent","name":"math-assistant"}}"#,
        r#"{"input":"","target":{"type":"agent","name":"math-assistant"}}"#,
        r#"{"input":" \n","target":{"type":"agent","name":"math-assistant"}}"#,
        r#"{"input":null,"target":{"type":"agent","name":"math-assistant"}}"#,
        r#"{"input":["x"],"target":{"type":"agent","name":"math-assistant"}}"#,
        r#"{"input":"x","target":"math-assistant"}"#,
        r#"{"input":"x","target":{}}"#,
        r#"{"input":"x","target":{"type":"agent"}}"#,
        r#"{"input":"x","target":{"name":"math-assistant"}}"#,
        r#"{"input":"x","target":{"type":"robot","name":"math-assistant"}}"#,
        r#"{"input":"x","target":{"type":"agent","name":5}}"#,
        r#"{"input":"x","targets":[]}"#,
        r#"{"input":"x","targets":["math-assistant"]}"#,
    ] {
        table.create_whole(body, invalid).await;
    }
    assert_eq!(table.world.get(QUERIES).await.ok()["total"], 1, "nothing was created");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_served_or_not_there() {
    let mut table = table().await;
    for fields in [
        r#""memory":{"name":"m"}"#,
        r#""selector":{"a":1}"#,
        r#""parameters":[{"name":"a"}]"#,
        r#""serviceAccount":"a""#,
        r#""cancel":true"#,
        r#""overrides":[{}]"#,
        r#""evaluators":[{}]"#,
        r#""evaluatorSelector":{"a":1}"#,
        r#""type":"messages""#,
        r#""tools":[{"name":"a","partial":{"name":"b"}}]"#,
        r#""tools":[{"name":"a","functions":[{"name":"jq"}]}]"#,
        r#""tools":[{"labelSelector":{"a":"b"},"name":"a"}]"#,
        r#""externalTools":[{"name":"a","approval":{"required":true}}]"#,
    ] {
        table.create(fields, (422, "unsupported_field")).await;
    }
    for target in [
        r#"{"type":"team","name":"a"}"#,
        r#"{"type":"model","name":"a"}"#,
        r#"{"type":"tool","name":"a"}"#,
        r#"{"type":"agent","name":"a","namespace":"other"}"#,
    ] {
        table.create_whole(&format!(r#"{{"input":"x","target":{target}}}"#), (422, "unsupported_target")).await;
    }
    let two = r#"{"input":"x","targets":[{"type":"agent","name":"a"},{"type":"agent","name":"b"}]}"#;
    table.create_whole(two, (422, "unsupported_target")).await;
    for (agent, expect) in [
        ("nobody", (404, "agent_not_found")),
        ("without-model", (422, "model_not_found")),
        ("without-tool", (422, "tools_not_found")),
    ] {
        table
            .create_whole(&json!({"input": "x", "target": {"type": "agent", "name": agent}}).to_string(), expect)
            .await;
    }
    table.create(r#""tools":["unknown"]"#, (422, "tools_not_found")).await;
    table.create(r#""name":"q""#, (409, "query_exists")).await;
}

#[tokio::test(start_paused = true)]
async fn tool_definitions() {
    let mut table = table().await;
    for tools in [
        "[5]",
        "[{}]",
        r#"[{"name":""}]"#,
        r#"[{"name":"a\u0000"}]"#,
        r#"[{"name":"a\u200b"}]"#,
        r#"[{"name":"a"},{"name":"a"}]"#,
        r#"[{"name":"a","parameters":[]}]"#,
        r#"[{"name":"a","parameters":{"type":"array"}}]"#,
        r#"[{"name":"a","parameters":{"type":"object","properties":{"x":{"pattern":"["}}}}]"#,
        r#"[{"name":"a","parameters":{"type":"object","properties":{"x":{"$ref":"file:///etc/passwd"}}}}]"#,
        r#"[{"name":"a","executionMode":"internal"}]"#,
        r#"[{"name":"a","timeout":"soon"}]"#,
        r#"[{"name":"a","description":{}}]"#,
        r#"[{"name":"a","type":"builtin"}]"#,
    ] {
        table.create(&format!("\"externalTools\":{tools}"), (422, "invalid_tool_definitions")).await;
    }
    let long = format!(r#""externalTools":[{{"name":"{}"}}]"#, "x".repeat(129));
    table.create(&long, (422, "invalid_tool_definitions")).await;
}
