//! An API that is overloaded, down, silent, or sends too much.

use std::time::{Duration, Instant, SystemTime};

use bosun_core::ceiling::{REPLY_BYTES, REPLY_CALLS, REPLY_TEXT_BYTES};
use bosun_engine::model::ModelError;
use bosun_standin::{Answer, End};

use super::{OPENAI, config, model, stream};
use crate::model::{
    remote::Wire as _,
    testing::{KeptDeltas, failing, hello, literal, refused_after, reply, stand_in},
};
use bosun_engine::Model;

#[tokio::test]
async fn temporary_errors_are_retried() {
    for status in [408, 429, 500, 502, 503, 529] {
        let server = stand_in(vec![failing(status, "later"), stream("one-word")]).await;
        let reply = reply(&model(config(&server.url()))).await.unwrap_or_else(|error| panic!("{status}: {error}"));
        assert_eq!(reply.text.as_deref(), Some("Hello"));
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0].body, requests[1].body);
    }
}

#[tokio::test]
async fn there_are_at_most_three_attempts() {
    let answers = vec![failing(500, "one"), failing(429, "two"), failing(503, "three")];
    let server = stand_in(answers).await;
    let error = reply(&model(config(&server.url()))).await.unwrap_err();
    assert_eq!(error.to_string(), "model API is overloaded or down after 3 attempts: 503: three");
    assert_eq!(error.code(), "model_unavailable");
}

#[tokio::test]
async fn retry_after_is_honoured() {
    // A date has whole seconds: it is up to one second earlier than intended, which is still a second away.
    let date = || httpdate::fmt_http_date(SystemTime::now() + Duration::from_millis(2_200));
    for wait in [|| "1".to_owned(), date] as [fn() -> String; 2] {
        let wait = wait();
        let slow = failing(429, "slow down").header("retry-after", wait.clone());
        let server = stand_in(vec![slow, stream("one-word")]).await;
        let model = model(config(&server.url()));
        let begun = Instant::now();
        reply(&model).await.unwrap();
        assert!(begun.elapsed() >= Duration::from_secs(1), "{wait}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_long_retry_after_is_not_waited_for() {
    let server = stand_in(vec![failing(429, "come back tomorrow").header("retry-after", "86400")]).await;
    match reply(&model(config(&server.url()))).await.unwrap_err() {
        ModelError::Unavailable { attempts: 1, retry_after, .. } => {
            assert_eq!(retry_after, Some(Duration::from_secs(86_400)));
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    let quota = r#"{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}"#;
    let cases = [
        (failing(400, "bad request"), 400, "bad request"),
        (failing(401, "no such key"), 401, "no such key"),
        (Answer::json(404, r#"{"detail": "Not Found"}"#), 404, "Not Found"),
        (Answer::json(422, r#"{"error": "unprocessable"}"#), 422, "unprocessable"),
        (Answer::json(403, "<html>"), 403, "Forbidden"),
        (Answer::json(429, quota), 429, "You exceeded your current quota"),
        (failing(500, "do not").header("x-should-retry", "false"), 500, "do not"),
        (Answer::json(302, "").header("location", "/elsewhere"), 302, "redirects are not followed"),
        (Answer::json(204, ""), 204, "No Content"),
    ];
    for (answer, expect_status, expect) in cases {
        let server = stand_in(vec![answer]).await;
        match reply(&model(config(&server.url()))).await.unwrap_err() {
            ModelError::Refused { status, message } => {
                assert_eq!(status, expect_status);
                assert!(message.contains(expect), "{message}");
            }
            other => panic!("{expect}: {other}"),
        }
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_closed_port_is_tried_three_times() {
    // No process listens on the port of a service that has been out of use for decades.
    let url = "http://127.0.0.1:1";
    match reply(&model(config(url))).await.unwrap_err() {
        ModelError::Unavailable { attempts: 3, message, .. } => {
            assert!(message.starts_with("no connection to its `baseUrl`: "), "{message}");
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_timeout_before_an_answer_is_retried_and_one_within_it_is_not() {
    // A listener that accepts no connection: clients connect, and get no answer.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut mute = model(config(&url));
    mute.config.timeouts.first_byte = Duration::from_millis(50);
    let error = reply(&mute).await.unwrap_err();
    assert!(matches!(error, ModelError::Unavailable { attempts: 3, .. }), "{error}");

    let whole = stream("parallel-calls").body();
    let server = stand_in(vec![Answer::sse(&whole[..whole.len() / 2]).then(End::Silence)]).await;
    let mut model = model(config(&server.url()));
    model.config.timeouts.idle = Duration::from_millis(50);
    let error = reply(&model).await.unwrap_err();
    assert_eq!(error.to_string(), "model's answer broke off: nothing arrived for 0 s");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn dropping_the_turn_cancels_its_retries() {
    let server = stand_in(vec![failing(429, "wait").header("retry-after", "3")]).await;
    let model = model(config(&server.url()));
    tokio::select! {
        reply = reply(&model) => panic!("{reply:?}"),
        () = server.asked() => {}
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = stand_in(vec![]).await;
    let moved = Answer::json(307, "").header("location", format!("{}/v1/chat/completions", elsewhere.url()));
    let server = stand_in(vec![moved]).await;
    let mut config = config(&server.url());
    config.api_key = Some(literal("sk-canary"));
    assert!(matches!(reply(&model(config)).await, Err(ModelError::Refused { status: 307, .. })));
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn an_answer_of_another_kind_is_refused() {
    let page = Answer { headers: vec![("content-type".into(), "text/html".into())], ..Answer::sse("<html>") };
    let server = stand_in(vec![page]).await;
    let error = reply(&model(config(&server.url()))).await.unwrap_err();
    assert_eq!(error.to_string(), "model's answer is not readable: the answer is of type `text/html`");
    let endless = Answer::sse(format!("data: {}", "x".repeat(1024 * 1024)));
    let server = stand_in(vec![endless]).await;
    assert!(matches!(reply(&model(config(&server.url()))).await, Err(ModelError::Malformed(_))));
}

/// The event that exceeds a limit is refused: the rest of the stream is not read.
#[test]
fn a_stream_is_aborted_at_the_event_that_exceeds_a_limit() {
    let chunk = |delta: serde_json::Value| format!("data: {}\n\n", serde_json::json!({"choices": [{"delta": delta}]}));
    let call = |number: usize| {
        let function = serde_json::json!({"name": "calculator", "arguments": "{}"});
        chunk(serde_json::json!({"tool_calls": [{"index": number, "id": format!("c{number}"), "function": function}]}))
    };
    assert_eq!(refused_after(OPENAI.reader(), call), (REPLY_CALLS, "model_malformed", 0));
    let piece = REPLY_TEXT_BYTES / 8;
    let text = |_| chunk(serde_json::json!({"content": "x".repeat(piece)}));
    assert_eq!(refused_after(OPENAI.reader(), text), (8, "model_output_limit", REPLY_TEXT_BYTES));
    let arguments = |number: usize| {
        let function = serde_json::json!({"name": "calculator", "arguments": "x".repeat(REPLY_BYTES / 8)});
        let id = if number == 0 { "c0" } else { "" };
        chunk(serde_json::json!({"tool_calls": [{"index": 0, "id": id, "function": function}]}))
    };
    assert_eq!(refused_after(OPENAI.reader(), arguments), (7, "model_output_limit", 0));
    for field in ["refusal", "reasoning_content"] {
        let own = |_| chunk(serde_json::json!({field: "x".repeat(REPLY_BYTES / 8)}));
        let (taken, code, _) = refused_after(OPENAI.reader(), own);
        assert!((7..=8).contains(&taken) && code == "model_output_limit", "{field}: {taken} {code}");
    }
}

#[tokio::test]
async fn a_plain_answer_has_the_same_limits() {
    let call = |number: usize| serde_json::json!({"id": format!("c{number}"), "function": {"name": "calculator", "arguments": "{}"}});
    let answer = |message: serde_json::Value, finish: &str| {
        Answer::json(200, serde_json::json!({"choices": [{"message": message, "finish_reason": finish}]}).to_string())
    };
    let calls = |count: usize| {
        answer(serde_json::json!({"tool_calls": (0..count).map(call).collect::<Vec<_>>()}), "tool_calls")
    };
    let text = |bytes: usize| answer(serde_json::json!({"content": "x".repeat(bytes)}), "stop");
    for (answer, expect) in [
        (calls(REPLY_CALLS), None),
        (calls(REPLY_CALLS + 1), Some("model_malformed")),
        (text(REPLY_TEXT_BYTES), None),
        (text(REPLY_TEXT_BYTES + 1), Some("model_output_limit")),
        (Answer::json(200, " ".repeat(6 * REPLY_BYTES + 1)), Some("model_output_limit")),
    ] {
        let server = stand_in(vec![answer]).await;
        assert_eq!(reply(&model(config(&server.url()))).await.err().map(|error| error.code()), expect);
    }
}

/// Whatever an API sends back, the error contains neither the key, nor a header, nor the URL's query.
#[tokio::test]
async fn no_error_repeats_a_secret() {
    let [key, header, query] = ["sk-canary-0123456789", "header-canary-42", "token=query-canary"];
    let chatter = format!("Incorrect key Bearer {key} with {header} at /v1?{query}\u{1b}[31m {}", "x".repeat(2_000));
    let chunk = serde_json::json!({"choices": [{"delta": {"role": chatter}}]});
    let in_stream = serde_json::json!({"error": {"message": chatter}});
    let cases = [
        vec![failing(401, &chatter)],
        vec![failing(400, &chatter)],
        vec![failing(500, &chatter), failing(429, &chatter), failing(503, &chatter)],
        vec![Answer::json(302, "").header("location", format!("https://x.test/?{query}"))],
        vec![Answer::sse(format!("data: {chatter}\n\n"))],
        vec![Answer::sse(format!("data: {chunk}\n\n"))],
        vec![Answer::sse(format!("data: {in_stream}\n\n"))],
        vec![Answer::json(200, serde_json::json!({"choices": chatter}).to_string())],
        vec![Answer::json(200, chatter.clone())],
        vec![Answer { headers: vec![("content-type".into(), format!("text/{key}"))], ..Answer::sse("") }],
        vec![Answer::sse("data: {}").then(End::Cut)],
    ];
    let check = |error: ModelError| {
        let shown = format!("{error} {error:?}");
        for canary in [key, header, query, "query-canary", "\u{1b}"] {
            assert!(!shown.contains(canary), "{shown}");
        }
        assert!(error.to_string().chars().count() < 600, "{shown}");
    };
    for answers in cases {
        let server = stand_in(answers).await;
        let mut config = config(&server.url());
        config.base_url = literal(&format!("{}/v1?{query}", server.url()));
        config.api_key = Some(literal(key));
        config.headers = vec![("x-secret".into(), literal(header))];
        let model = model(config);
        check(reply(&model).await.unwrap_err());
        let shown = format!("{model:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }
    // Nor does one of our own.
    let closed = model(crate::model::remote::RemoteConfig {
        base_url: literal(&format!("http://127.0.0.1:1/v1?{query}")),
        api_key: Some(literal(key)),
        ..config("")
    });
    check(closed.reply(&hello(), &KeptDeltas::default()).await.unwrap_err());
    for (base, key) in
        [(format!("nonsense {query}"), key.to_owned()), ("http://127.0.0.1:1".into(), format!("{key}\n"))]
    {
        let broken = model(crate::model::remote::RemoteConfig {
            base_url: literal(&base),
            api_key: Some(literal(&key)),
            ..config("")
        });
        check(broken.reply(&hello(), &KeptDeltas::default()).await.unwrap_err());
    }
}

/// OpenAI shows the first and the last characters of a key that it refuses; others show fewer.
#[tokio::test]
async fn parts_of_a_key_in_an_error_are_redacted() {
    const KEY: &str = "sk-proj-qwertyuiop0123456789asdfghWXYZ";
    for message in [
        "Incorrect API key provided: sk-proj-************************WXYZ. You can find your API key at your account.",
        "invalid key sk-proj-qwe...WXYZ",
        "the key that ends with WXYZ was disabled",
        "****WXYZ is no key",
    ] {
        let server = stand_in(vec![failing(401, message)]).await;
        let model = model(crate::model::remote::RemoteConfig { api_key: Some(literal(KEY)), ..config(&server.url()) });
        let shown = reply(&model).await.unwrap_err().to_string();
        assert!(!shown.contains("WXYZ") && !shown.contains("qwe") && shown.contains("[redacted]"), "{shown}");
    }
}
