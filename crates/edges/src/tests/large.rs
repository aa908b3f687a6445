//! Large results: sent as bodies, shown as references, streamed back.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::Request,
};
use bosun_core::{
    Content, Event,
    content::{Blocks, INLINE_BYTES, LARGEST_BYTES, Large},
    transcript::Message,
};
use bosun_engine::{
    Blobs as _, EngineSettings,
    testing::{CallLedger, ScriptedModel, ScriptedTurn},
};
use futures_util::stream;
use serde_json::{Value, json};

use super::{
    streaming::Events,
    world::{HttpReply, TestServer, assert_answer, calculating, with_calculator},
};

type HeaderList = &'static [(&'static str, &'static str)];

const TEXT: HeaderList = &[("content-type", "text/plain")];
const JSON: HeaderList = &[("content-type", "application/json")];
const MIB: usize = 1 << 20;

/// A query that waits for one calculator call; where its result goes.
async fn paused() -> (TestServer, String) {
    let world = TestServer::new(calculating()).await;
    let waiting = world.post("/v1/queries?wait=true", &with_calculator("q")).await.ok();
    let id = waiting["toolCall"]["id"].as_str().unwrap().to_owned();
    (world, format!("/v1/queries/q/tool-calls/{id}/result"))
}

fn id_of(path: &str) -> &str {
    path.split('/').nth(5).unwrap()
}

/// More than a post can carry.
fn long_text() -> String {
    "wörter, ".repeat(MIB / 6)
}

/// A body without a length, in pieces of a few bytes more than a page.
fn chunked(text: &str) -> Body {
    let pieces: Vec<_> =
        text.as_bytes().chunks(5_003).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
    Body::from_stream(stream::iter(pieces))
}

async fn put(world: &TestServer, path: &str, headers: HeaderList, body: impl Into<Body>) -> HttpReply {
    world.send("PUT", path, headers, body).await
}

fn replayed(answer: &HttpReply) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

async fn recorded(world: &TestServer) -> std::sync::Arc<bosun_core::Outcome> {
    let journal = world.journal("q").await;
    let outcome = journal.iter().find_map(|entry| match &entry.event {
        Event::CallResolved { outcome, .. } => Some(outcome.clone()),
        _ => None,
    });
    outcome.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_large_body_is_the_result_and_comes_back_as_it_was() {
    for form in ["/v1/queries/q", "/v1/namespaces/default/queries/q"] {
        let (world, path) = paused().await;
        let path = path.replace("/v1/queries/q", form);
        let text = long_text();
        let answer = put(&world, &path, &[("content-type", "text/csv; charset=UTF-8")], chunked(&text)).await;
        assert!(!replayed(&answer));
        assert_eq!(answer.ok()["status"], "completed");
        let read = world.send("GET", &path, &[], "").await;
        assert_eq!(read.header("content-type"), Some("text/csv; charset=utf-8"));
        assert_eq!(read.header("content-length"), Some(text.len().to_string().as_str()));
        assert_eq!(read.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(read.header("content-security-policy"), Some("default-src 'none'; sandbox"));
        assert!(read.body == text);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_body_again_is_a_replay_and_another_one_is_refused() {
    let (world, path) = paused().await;
    let text = long_text();
    put(&world, &path, TEXT, chunked(&text)).await.ok();
    let again = put(&world, &path, TEXT, text.clone()).await;
    assert!(replayed(&again));
    assert_eq!(again.ok()["status"], "completed");
    let other = put(&world, &path, TEXT, format!("{text}!")).await;
    assert_eq!(other.refusal(), (409, "already_resolved"));
    assert_eq!(put(&world, &path, TEXT, "small").await.refusal(), (409, "already_resolved"));
    assert_eq!(world.blobs.older_than(Duration::ZERO).await.unwrap().len(), 1, "what was refused was not kept");
}

/// Content that a post can carry is the same result if it is uploaded, in either order.
#[tokio::test(start_paused = true)]
async fn a_small_body_is_the_same_result_as_a_post() {
    let long = "x".repeat(INLINE_BYTES + 1);
    let cases: &[(HeaderList, String, Value)] = &[
        (TEXT, "2108".into(), json!("2108")),
        (TEXT, String::new(), json!("")),
        (JSON, "\"2108\"".into(), json!("2108")),
        (JSON, " { \"b\" : 1,\n \"a\" : [2.0] } ".into(), json!({"a": [2], "b": 1})),
        (JSON, "null".into(), Value::Null),
        (TEXT, long.clone(), json!(long)),
        (JSON, format!("[ \"{long}\" ]"), json!([long])),
    ];
    for (headers, body, value) in cases {
        for put_first in [true, false] {
            let (world, path) = paused().await;
            let post = json!({"toolCallId": id_of(&path), "toolResult": value});
            let first = if put_first {
                put(&world, &path, headers, body.clone()).await
            } else {
                world.post("/v1/queries/q/tool-result", &post).await
            };
            assert!(!replayed(&first));
            first.ok();
            let second = if put_first {
                world.post("/v1/queries/q/tool-result", &post).await
            } else {
                put(&world, &path, headers, body.clone()).await
            };
            assert!(replayed(&second), "{} {}", &body[..body.len().min(40)], second.body);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn small_results_stay_in_the_journal_and_can_be_read_too() {
    let (world, path) = paused().await;
    put(&world, &path, JSON, r#"{"b": 1, "a": 2}"#).await.ok();
    assert_eq!(*recorded(&world).await, bosun_core::Outcome::success(json!({"b": 1, "a": 2})));
    assert_eq!(world.blobs.older_than(Duration::ZERO).await.unwrap(), []);
    let read = world.get(&path).await;
    assert_eq!(read.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(read.header("content-length"), Some("13"));
    assert_eq!(read.ok(), json!({"b": 1, "a": 2}));
}

#[tokio::test(start_paused = true)]
async fn a_large_post_is_kept_as_a_blob_too() {
    let (world, path) = paused().await;
    let text = "x".repeat(INLINE_BYTES + 1);
    let post = json!({"toolCallId": id_of(&path), "toolResult": text});
    let answer = world.post("/v1/queries/q/tool-result", &post).await.ok();
    let (large, _) = Large::of(&json!(text));
    assert_eq!(*recorded(&world).await, bosun_core::Outcome::Success { content: Content::Large(large.clone()) });
    assert_eq!(
        answer["toolExecutionHistory"][0]["largeResult"],
        json!({
            "handle": id_of(&path), "size": INLINE_BYTES + 1, "mediaType": "text/plain", "sha256": large.hash,
        })
    );
    assert!(world.get(&path).await.body == text);
}

#[tokio::test(start_paused = true)]
async fn a_large_text_keeps_its_media_type() {
    let (world, path) = paused().await;
    let text = "a;b\n".repeat(INLINE_BYTES / 4 + 1);
    put(&world, &path, &[("content-type", "Text/CSV")], text.clone()).await.ok();
    assert_eq!(recorded(&world).await.large().unwrap().media_type.as_str(), "text/csv");
    assert_eq!(world.get(&path).await.header("content-type"), Some("text/csv; charset=utf-8"));
    let post = json!({"toolCallId": id_of(&path), "toolResult": text});
    assert!(replayed(&world.post("/v1/queries/q/tool-result", &post).await), "it is the same text by either way");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_reported_in_the_url() {
    let cases = [
        (
            "?success=false",
            TEXT,
            "details",
            json!({"code": "tool_failed", "message": "the tool failed without saying why"}),
            Some("details"),
        ),
        (
            "?error=no%20such%20table",
            TEXT,
            "details",
            json!({"code": "tool_failed", "message": "no such table"}),
            Some("details"),
        ),
        ("?error=no&errorCode=E42&success=false", JSON, "[1]", json!({"code": "E42", "message": "no"}), Some("[1]")),
        ("?error=no", TEXT, "", json!({"code": "tool_failed", "message": "no"}), None),
        ("?error=no", JSON, "", json!({"code": "tool_failed", "message": "no"}), None),
        ("?error=no", &[] as HeaderList, "", json!({"code": "tool_failed", "message": "no"}), None),
        ("?error=no", JSON, "null", json!({"code": "tool_failed", "message": "no"}), None),
    ];
    for (parameters, headers, body, error, content) in cases {
        let (world, path) = paused().await;
        let answer = put(&world, &format!("{path}{parameters}"), headers, body).await.ok();
        let history = &answer["toolExecutionHistory"][0];
        assert_eq!((&history["success"], &history["error"]), (&json!(false), &error), "{parameters}");
        let kept = recorded(&world).await;
        assert_eq!(kept.content().and_then(Content::inline_text).as_deref(), content, "{parameters}");
        let again = put(&world, &format!("{path}{parameters}"), headers, body).await;
        assert!(replayed(&again), "{parameters}");
        assert_eq!(put(&world, &path, TEXT, "details").await.refusal(), (409, "already_resolved"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_may_be_large() {
    let (world, path) = paused().await;
    put(&world, &format!("{path}?error=no"), TEXT, long_text()).await.ok();
    let requests = world.model.requests();
    let result = requests.last().unwrap().messages.iter().find_map(|message| match message {
        Message::Tool { content, .. } => Some(content.as_str()),
        _ => None,
    });
    assert!(result.unwrap().starts_with("Error: no\nwörter, "));
    assert!(world.get(&path).await.body == long_text());
}

#[tokio::test(start_paused = true)]
async fn a_result_may_hold_the_query_and_need_not_wait() {
    let (world, path) = paused().await;
    let held = put(&world, &format!("{path}?continueExecution=false"), TEXT, long_text()).await.ok();
    assert_eq!(held["status"], "paused");
    let (world, path) = paused().await;
    let at_once = put(&world, &format!("{path}?wait=0&view=ark"), TEXT, long_text()).await.ok();
    assert!(at_once["status"]["phase"].is_string());
}

/// Every refusal, with its status and code; nothing is kept, and the call still waits.
#[tokio::test(start_paused = true)]
async fn what_is_refused_leaves_nothing_behind() {
    let (world, path) = paused().await;
    let long = long_text();
    let (bad_media, bad_json, bad_result) =
        ((415, "unsupported_media_type"), (400, "invalid_json"), (422, "invalid_tool_result"));
    let deep = format!("{}{}", "[".repeat(65), " ".repeat(MIB));
    let cut = Body::from_stream(stream::iter([
        Ok(Bytes::from(long.clone())),
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
    ]));
    let cut_early = Body::from_stream(stream::iter([Err::<Bytes, _>(std::io::Error::other("gone"))]));
    let cases: Vec<(HeaderList, Body, (u16, &str))> = vec![
        (&[], long.clone().into(), bad_media),
        (&[], "".into(), bad_media),
        (&[("content-type", "application/octet-stream")], long.clone().into(), bad_media),
        (&[("content-type", "image/png")], "x".into(), bad_media),
        (&[("content-type", "application/vnd.bosun.blocks+json")], r#"{"content":[]}"#.into(), bad_media),
        (&[("content-type", "application/x-www-form-urlencoded")], "x".into(), bad_media),
        (&[("content-type", "multipart/form-data; boundary=x")], "x".into(), bad_media),
        (&[("content-type", "text/plain; charset=iso-8859-1")], "x".into(), bad_media),
        (&[("content-type", "text/plain; format=flowed; charset=\"utf-16\"")], "x".into(), bad_media),
        (&[("content-type", "text/plain"), ("content-encoding", "gzip")], "x".into(), bad_media),
        (JSON, "".into(), bad_json),
        (JSON, "{".into(), bad_json),
        (JSON, format!("[{long}").into(), bad_json),
        (JSON, format!("[\"{long}\"").into(), bad_json),
        (JSON, format!("[\"{long}\"] x").into(), bad_json),
        (JSON, r#"{"a":1,"a":2}"#.into(), (400, "duplicate_key")),
        (JSON, "[".repeat(65).into(), (422, "json_too_deep")),
        (JSON, deep.into(), (422, "json_too_deep")),
        (TEXT, vec![0xff].into(), bad_result),
        (TEXT, [long.as_bytes(), b"\xff"].concat().into(), bad_result),
        (TEXT, [long.as_bytes(), b"\xc3"].concat().into(), bad_result),
        (TEXT, cut, bad_result),
        (TEXT, cut_early, bad_result),
        (TEXT, vec![b'x'; LARGEST_BYTES as usize + 1].into(), (413, "payload_too_large")),
        (TEXT, endless(), (413, "payload_too_large")),
    ];
    for (row, (headers, body, expect)) in (1..).zip(cases) {
        let answer = put(&world, &path, headers, body).await;
        assert_eq!(answer.refusal(), expect, "row {row}: {}", answer.body);
    }
    for parameters in
        ["?success=maybe", "?success=true&error=no", "?continueExecution=2", "?error=a&error=b", "?wait=x"]
    {
        let answer = put(&world, &format!("{path}{parameters}"), TEXT, "x").await;
        assert_eq!(answer.refusal(), (400, "invalid_parameter"), "{parameters}");
    }
    assert_eq!(world.get("/v1/queries/q").await.ok()["toolCall"]["id"], id_of(&path), "it still waits");
    assert_eq!(world.blobs.older_than(Duration::ZERO).await.unwrap(), []);
    assert_eq!(put(&world, &path, TEXT, "2108").await.ok()["status"], "completed");
}

/// A body without a length that never ends.
fn endless() -> Body {
    let piece = Bytes::from(vec![b'x'; MIB]);
    Body::from_stream(stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone())))
}

/// A body that must not be read.
fn untouchable() -> Body {
    Body::from_stream(stream::poll_fn(|_| -> std::task::Poll<Option<Result<Bytes, std::io::Error>>> {
        panic!("the body was read although no call waits for it")
    }))
}

#[tokio::test(start_paused = true)]
async fn a_result_that_no_call_waits_for_is_refused_before_its_body() {
    let (world, path) = paused().await;
    let (other, foreign) = paused().await;
    drop(other);
    let gone = path.replace("/q/", "/gone/");
    for (path, code) in [
        (foreign.as_str(), "call_not_found"),
        ("/v1/queries/q/tool-calls/call_1/result", "call_not_found"),
        ("/v1/queries/q/tool-calls/%20/result", "call_not_found"),
        (&gone, "query_not_found"),
        ("/v1/queries/gone/tool-calls/x/result", "query_not_found"),
        (&format!("{path}?namespace=other"), "query_not_found"),
    ] {
        assert_eq!(put(&world, path, TEXT, untouchable()).await.refusal(), (404, code), "{path}");
    }
    let (world, path) = paused().await;
    world.send("PATCH", "/v1/queries/q/cancel", &[], "").await.ok();
    assert_eq!(put(&world, &path, TEXT, untouchable()).await.refusal(), (410, "call_cancelled"));
    let (world, path) = paused().await;
    tokio::time::advance(Duration::from_secs(601)).await;
    assert_eq!(put(&world, &path, TEXT, untouchable()).await.refusal(), (410, "call_expired"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_expires_while_its_result_comes_is_expired() {
    let (world, path) = paused().await;
    let pieces = stream::unfold(0, |sent| async move {
        tokio::time::sleep(Duration::from_secs(10)).await;
        (sent < 30).then(|| (Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 100_000])), sent + 1))
    });
    tokio::time::advance(Duration::from_secs(400)).await;
    let late = put(&world, &path, TEXT, Body::from_stream(pieces)).await;
    assert_eq!(late.refusal(), (410, "call_expired"));
    let query = world.get("/v1/queries/q?wait=true").await.ok();
    assert_eq!(query["toolExecutionHistory"][0]["error"]["code"], "call_expired");
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_is_not_waited_for_forever() {
    let (world, path) = paused().await;
    let silent = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
    assert_eq!(put(&world, &path, TEXT, silent).await.refusal(), (408, "request_timeout"));
    let mut query = with_calculator("slow");
    query["externalTimeout"] = json!("1h");
    let limits =
        bosun_core::QueryLimits { external_timeout: Duration::from_secs(3_600), ..bosun_core::QueryLimits::default() };
    let settings = EngineSettings { limits, ceilings: limits, ..EngineSettings::default() };
    let world = TestServer::with(calculating(), CallLedger::open(), settings).await;
    let waiting = world.post("/v1/queries?wait=true", &query).await.ok();
    let path = format!("/v1/queries/slow/tool-calls/{}/result", waiting["toolCall"]["id"].as_str().unwrap());
    let trickle = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
    });
    assert_eq!(put(&world, &path, TEXT, Body::from_stream(trickle)).await.refusal(), (408, "request_timeout"));
}

#[tokio::test(start_paused = true)]
async fn a_result_can_be_read_in_parts() {
    let (world, path) = paused().await;
    let text: String = (0..400_000).map(|number| char::from(b'a' + (number % 26) as u8)).collect();
    put(&world, &path, TEXT, text.clone()).await.ok();
    let whole = world.get(&path).await;
    let tag = whole.header("etag").unwrap().to_owned();
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    let part = async |range: &str, condition: Option<&str>| {
        let mut request = Request::get(&path).header("host", "localhost:8080").header("range", range);
        if let Some(condition) = condition {
            request = request.header("if-range", condition);
        }
        world.request(request.body(Body::empty()).unwrap()).await
    };
    for (range, expect) in [
        ("bytes=0-9", 0..10),
        ("bytes=399990-", 399_990..400_000),
        ("bytes=-5", 399_995..400_000),
        ("bytes=1-300000", 1..300_001),
    ] {
        let answer = part(range, Some(&tag)).await;
        assert_eq!(answer.status, 206, "{range}");
        let promised = format!("bytes {}-{}/400000", expect.start, expect.end - 1);
        assert_eq!(answer.header("content-range"), Some(promised.as_str()));
        assert_eq!(answer.header("content-length"), Some(expect.len().to_string().as_str()));
        assert!(answer.body == text[expect], "{range}");
    }
    let behind = part("bytes=400000-", None).await;
    assert_eq!(behind.refusal(), (416, "range_not_satisfiable"));
    assert_eq!(behind.header("content-range"), Some("bytes */400000"));
    assert_eq!(part("bytes=0-9", Some("\"another\"")).await.status, 200);
    assert_eq!(part("bytes=0-9,20-29", None).await.status, 200);
    let head = world.send("HEAD", &path, &[], "").await;
    assert_eq!((head.status.as_u16(), head.header("content-length"), &head.body), (200, Some("400000"), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_cannot_be_read() {
    let (world, path) = paused().await;
    assert_eq!(world.get(&path).await.refusal(), (404, "result_not_found"));
    for (path, code) in [
        ("/v1/queries/q/tool-calls/call_1/result", "call_not_found"),
        ("/v1/queries/gone/tool-calls/call_1/result", "query_not_found"),
        (&format!("{path}?namespace=other"), "query_not_found"),
    ] {
        assert_eq!(world.get(path).await.refusal(), (404, code), "{path}");
    }
    put(&world, &format!("{path}?error=no"), &[], "").await.ok();
    assert_eq!(world.get(&path).await.refusal(), (404, "result_not_found"));
    assert_eq!(world.send("POST", &path, TEXT, "x").await.refusal(), (405, "method_not_allowed"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_and_a_view_have_references_instead_of_megabytes() {
    let long = "x".repeat(INLINE_BYTES + 1);
    let escaped = "\u{1}".repeat(INLINE_BYTES);
    for (content, inline) in
        [(long, false), (escaped, false), ("\n".repeat(INLINE_BYTES), false), ("y".repeat(INLINE_BYTES), true)]
    {
        let script = ScriptedModel::always(vec![
            ScriptedTurn::call("database_query", &json!({"table": "t"})).and_call("mine", "{}"),
            ScriptedTurn::say("done"),
        ]);
        let world = TestServer::with(script, CallLedger::giving(content.as_str()), EngineSettings::default()).await;
        let query = json!({
            "name": "q", "input": "x", "target": {"type": "agent", "name": "research-assistant"},
            "externalTools": [{"name": "mine"}],
        });
        let waiting = world.post("/v1/queries?wait=true", &query).await.ok();
        let mine = waiting["toolCall"]["id"].as_str().unwrap();
        put(&world, &format!("/v1/queries/q/tool-calls/{mine}/result"), TEXT, long_text()).await.ok();
        let events = Events::of(&world, "q", None).await.rest().await;
        assert!(events.iter().all(|event| event.data.to_string().len() < MIB));
        let data = |name: &str| events.iter().find(|event| event.event == name).unwrap().data.clone();
        let finished = data("tool_finished");
        let inside = finished["id"].as_str().unwrap();
        if inline {
            assert!(finished["result"] == content.as_str() && finished.get("largeResult").is_none());
        } else {
            assert!(finished.get("result").is_none());
            assert_eq!(finished["largeResult"]["handle"], inside);
            assert_eq!(finished["largeResult"]["size"], content.len());
        }
        assert!(world.get(&format!("/v1/queries/q/tool-calls/{inside}/result")).await.body == content, "inside too");
        let received = data("tool_result_received");
        assert_eq!(received["largeResult"]["size"], long_text().len());
        assert_eq!(received["largeResult"]["handle"], mine);
    }
}

/// Whether they are inline or a blob, `GET` has the whole result.
#[tokio::test(start_paused = true)]
async fn content_blocks_are_streamed_as_they_are_or_by_reference() {
    const BLOCKS: &str = "application/vnd.bosun.blocks+json";
    for (letters, inline) in [(400, true), (INLINE_BYTES, false)] {
        let image = json!({"type": "image", "data": "A".repeat(letters), "mimeType": "image/png"});
        let content = json!([{"type": "text", "text": "a map"}, image]);
        let blocks = Blocks::new(content.as_array().unwrap().clone(), Some(json!({"places": 3})));
        let script = ScriptedModel::always(vec![
            ScriptedTurn::call("database_query", &json!({"table": "t"})),
            ScriptedTurn::say("done"),
        ]);
        let world = TestServer::with(script, CallLedger::giving_blocks(blocks), EngineSettings::default()).await;
        let query = json!({"name": "q", "input": "x", "target": {"type": "agent", "name": "research-assistant"}});
        world.post("/v1/queries?wait=true", &query).await.ok();
        let events = Events::of(&world, "q", None).await.rest().await;
        let finished = &events.iter().find(|event| event.event == "tool_finished").unwrap().data;
        let whole = json!({"content": content, "structuredContent": {"places": 3}});
        if inline {
            assert_eq!((&finished["result"], &finished["structuredContent"]), (&content, &json!({"places": 3})));
        } else {
            assert_eq!((finished.get("result"), &finished["largeResult"]["mediaType"]), (None, &json!(BLOCKS)));
            assert_eq!(finished["largeResult"]["size"], whole.to_string().len());
        }
        let call = finished["id"].as_str().unwrap();
        let read = world.get(&format!("/v1/queries/q/tool-calls/{call}/result")).await;
        assert_eq!(read.header("content-type"), Some(format!("{BLOCKS}; charset=utf-8").as_str()));
        assert_eq!(read.ok(), whole);
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_large_result() {
    let (world, path) = paused().await;
    assert_answer("large_result", &put(&world, &path, JSON, format!("[\"{}\"]", long_text())).await.ok());
}

/// A body that is large enough for a draft and never ends.
fn half_sent() -> Body {
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from(long_text()))]);
    Body::from_stream(futures_util::StreamExt::chain(first, stream::pending()))
}

#[tokio::test(start_paused = true)]
async fn a_call_has_two_uploads_at_a_time_at_most() {
    let (world, path) = paused().await;
    let mut first = Box::pin(put(&world, &path, TEXT, half_sent()));
    let mut second = Box::pin(put(&world, &path, TEXT, half_sent()));
    let third = async {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        put(&world, &path, TEXT, half_sent()).await
    };
    let refused = tokio::select! {
        biased;
        _ = &mut first => panic!("it does not end"),
        _ = &mut second => panic!("it does not end"),
        refused = third => refused,
    };
    assert_eq!(refused.refusal(), (429, "too_many_uploads"));
    // An upload that is abandoned releases its permit.
    drop(first);
    let done = tokio::select! {
        biased;
        _ = &mut second => panic!("it does not end"),
        done = put(&world, &path, TEXT, long_text()) => done,
    };
    assert_eq!(done.ok()["status"], "completed");
}
