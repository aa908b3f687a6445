//! Whole conversations with the API, and its failures.

use bosun_core::{
    ceiling::{REPLY_BYTES, REPLY_CALLS, REPLY_TEXT_BYTES},
    transcript::Message,
};
use bosun_engine::{Model, model::ModelError};
use bosun_standin::{Answer, StandIn, StandInAnswers};
use serde_json::{Value, json};

use super::{MESSAGES, config, model, stream};
use crate::model::{
    remote::{RemoteConfig, Wire as _},
    testing::{KeptDeltas, conversation, failing, follow, hello, refused_after, reply, request, stand_in},
};

fn error_event(kind: &str) -> String {
    format!("event: error\ndata: {}\n\n", json!({"type": "error", "error": {"type": kind, "message": "Overloaded"}}))
}

#[tokio::test]
async fn thoughts_come_back_unchanged_and_in_their_places() {
    for name in ["thinking-and-call", "interleaved-thinking", "server-tool", "caller", "redacted-thinking"] {
        let server = stand_in(vec![stream(name), stream("text-only")]).await;
        let model = model(config(&server.url()));
        let mut request = hello();
        let reply = model.reply(&request, &KeptDeltas::default()).await.unwrap();
        request.messages.extend(follow(&reply));
        request.messages.push(Message::User("go on".into()));
        model.reply(&request, &KeptDeltas::default()).await.unwrap();
        let sent: Value = serde_json::from_str(&server.requests()[1].body).unwrap();
        assert_eq!(sent["messages"][1]["content"], blocks(name), "{name}");
    }
}

/// The blocks of a stream of the corpus, assembled by the API's rules, independently of the code under test.
fn blocks(name: &str) -> Value {
    let mut blocks: Vec<Value> = Vec::new();
    for line in String::from_utf8(stream(name).body()).unwrap().lines() {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let event: Value = serde_json::from_str(data).unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => blocks.push(event["content_block"].clone()),
            "content_block_delta" => {
                let (block, delta) = (blocks.last_mut().unwrap(), &event["delta"]);
                let mut append = |name: &str, more: &Value| {
                    let text = format!("{}{}", block[name].as_str().unwrap_or_default(), more.as_str().unwrap());
                    block[name] = json!(text);
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append("text", &delta["text"]),
                    "thinking_delta" => append("thinking", &delta["thinking"]),
                    "signature_delta" => append("signature", &delta["signature"]),
                    "input_json_delta" => append("partial", &delta["partial_json"]),
                    "citations_delta" => block["citations"].as_array_mut().unwrap().push(delta["citation"].clone()),
                    other => panic!("{other}"),
                }
            }
            _ => {}
        }
    }
    for block in &mut blocks {
        if let Some(partial) = block.as_object_mut().unwrap().shift_remove("partial") {
            block["input"] = serde_json::from_str(partial.as_str().unwrap()).unwrap();
        }
    }
    Value::Array(blocks)
}

/// The condition for a prompt cache hit: apart from the marks, the next turn of a query begins with the bytes of the
/// turn before it.
#[tokio::test]
async fn a_turn_begins_with_the_bytes_of_the_turn_before_it() {
    let answers = ["thinking-and-call", "parallel-calls", "text-only"].map(stream);
    let server = stand_in(answers.to_vec()).await;
    let model = model(config(&server.url()));
    let mut messages: Vec<_> = conversation().drain(..2).collect();
    for _ in 0..3 {
        let reply = model.reply(&request(messages.clone()), &KeptDeltas::default()).await.unwrap();
        messages.extend(follow(&reply));
    }
    let mark = ",\"cache_control\":{\"type\":\"ephemeral\"}";
    let bodies: Vec<_> = server.requests().into_iter().map(|sent| sent.body).collect();
    for (turn, pair) in bodies.windows(2).enumerate() {
        let [before, after] = [&pair[0], &pair[1]].map(|body| body.replace(mark, ""));
        let prefix = before.strip_suffix("]}").unwrap();
        assert!(after.starts_with(prefix), "turn {turn}:\n{before}\n{after}");
    }
    // After the tools, after the prompt, and after the last one or two messages of the user.
    assert_eq!(bodies.iter().map(|body| body.matches(mark).count()).collect::<Vec<_>>(), [3, 4, 4]);
    for body in &bodies {
        let (tools, system) = (body.find("\"tools\":").unwrap(), body.find("\"system\":").unwrap());
        assert!(tools < system && system < body.find("\"messages\":").unwrap());
    }
}

#[tokio::test]
async fn a_paused_turn_is_continued() {
    let server = stand_in(vec![stream("paused"), stream("server-tool"), stream("text-only")]).await;
    let model = model(config(&server.url()));
    let kept = KeptDeltas::default();
    let mut request = hello();
    let reply = model.reply(&request, &kept).await.unwrap();
    assert_eq!(reply.text.as_deref(), Some("Searching. I'll search.It is 64 °F."));
    assert_eq!(kept.text(), reply.text.clone().unwrap());
    assert_eq!(reply.usage.completion_tokens, 570);
    let second: Value = serde_json::from_str(&server.requests()[1].body).unwrap();
    assert_eq!(second["messages"][1], json!({"role": "assistant", "content": blocks("paused")}));
    // For the next turn the two answers are one.
    request.messages.extend(follow(&reply));
    request.messages.push(Message::User("go on".into()));
    model.reply(&request, &KeptDeltas::default()).await.unwrap();
    let third: Value = serde_json::from_str(&server.requests()[2].body).unwrap();
    let (Value::Array(mut expect), Value::Array(rest)) = (blocks("paused"), blocks("server-tool")) else { panic!() };
    expect.extend(rest);
    assert_eq!(third["messages"][1]["content"], Value::Array(expect));
}

#[tokio::test]
async fn a_pause_without_end_is_an_error() {
    let server = stand_in(vec![stream("paused"); 9]).await;
    let error = reply(&model(config(&server.url()))).await.unwrap_err();
    assert_eq!(error.to_string(), "model's answer broke off: the model paused its turn 8 times");
    assert_eq!(server.requests().len(), 8);
}

#[tokio::test]
async fn an_overload_is_retried_until_text_was_shown() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let first = Answer::json(529, overloaded.to_string());
    let server = stand_in(vec![first, Answer::sse(error_event("overloaded_error")), stream("text-only")]).await;
    assert!(reply(&model(config(&server.url()))).await.is_ok());
    assert_eq!(server.requests().len(), 3);

    let whole = String::from_utf8(stream("text-only").body()).unwrap();
    let (begun, _) = whole.split_once("event: message_delta").unwrap();
    let broken = Answer::sse(format!("{begun}{}", error_event("overloaded_error")));
    let server = stand_in(vec![broken]).await;
    let error = reply(&model(config(&server.url()))).await.unwrap_err();
    assert!(matches!(&error, ModelError::Incomplete(message) if message == "overloaded_error: Overloaded"), "{error}");
}

#[tokio::test]
async fn refusals_are_not_retried() {
    for (answer, expect) in [
        (failing(401, "invalid x-api-key"), "model API answered 401: invalid x-api-key"),
        (Answer::sse(error_event("invalid_request_error")), "model API answered 400: Overloaded"),
        (
            Answer::json(200, r#"{"type":"error","error":{"type":"permission_error","message":"no"}}"#),
            "model API answered 403: no",
        ),
    ] {
        let server = stand_in(vec![answer]).await;
        assert_eq!(reply(&model(config(&server.url()))).await.unwrap_err().to_string(), expect);
        assert_eq!(server.requests().len(), 1);
    }
}

/// The stand-in checks signatures, ids, and that every call has its result.
#[tokio::test]
async fn a_whole_conversation_is_accepted_by_the_api() {
    let text = "scenes:\n  - when: question\n    turns:\n\
        \x20     - {think: 'Let me see, ü', say: Both., call: [{tool: calculator, arguments: {expression: '1'}}, {tool: calculator, arguments: '{broken'}]}\n\
        \x20     - {think: 'Again', call: [{tool: calculator, arguments: {expression: '2'}}]}\n\
        \x20     - {say: 'It is {{ result.calculator }}', usage: {promptTokens: 9, completionTokens: 1, cachedTokens: 4, cacheWriteTokens: 2}}\n";
    let script = StandInAnswers::parse("script.yaml", text).unwrap();
    for stream in [true, false] {
        let server = StandIn::recording(script.clone()).await.unwrap();
        let model = model(RemoteConfig { stream, ..config(&server.url()) });
        let mut request = request(vec![Message::System("Be brief.".into()), Message::User("question".into())]);
        let mut calls = Vec::new();
        for _ in 0..2 {
            let reply = model.reply(&request, &KeptDeltas::default()).await.unwrap();
            calls.push(reply.calls.iter().map(|call| call.arguments.clone()).collect::<Vec<_>>());
            request.messages.extend(follow(&reply));
        }
        // Only a stream can contain arguments that are not JSON.
        let broken = if stream { "{broken" } else { "{}" };
        assert_eq!(calls, [vec!["{\"expression\":\"1\"}", broken], vec!["{\"expression\":\"2\"}"]]);
        let last = model.reply(&request, &KeptDeltas::default()).await.unwrap();
        assert_eq!(last.text.as_deref(), Some("It is 2108"));
        let usage = last.usage;
        let tokens = [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.cache_write_tokens];
        assert_eq!(tokens, [9, 1, 4, 2]);
        assert_eq!(last.provider, None);
    }
}

/// The event that exceeds a limit is refused: the rest of the stream is not read.
#[test]
fn a_stream_is_aborted_at_the_event_that_exceeds_a_limit() {
    let event = |event: Value| format!("data: {event}\n\n");
    let start = |index: usize, block: Value| {
        event(json!({"type": "content_block_start", "index": index, "content_block": block}))
    };
    let begun = |number: usize| {
        let message = json!({"type": "message_start", "message": {"role": "assistant"}});
        if number == 0 { event(message) } else { String::new() }
    };
    let call = |number: usize| {
        let block = json!({"type": "tool_use", "id": format!("c{number}"), "name": "calculator", "input": {}});
        let end = event(json!({"type": "content_block_stop", "index": number}));
        format!("{}{}{end}", begun(number), start(number, block))
    };
    assert_eq!(refused_after(MESSAGES.reader(), call), (REPLY_CALLS, "model_malformed", 0));
    let grows = |number: usize, block: Value, delta: Value| {
        let first = if number == 0 { format!("{}{}", begun(0), start(0, block)) } else { String::new() };
        format!("{first}{}", event(json!({"type": "content_block_delta", "index": 0, "delta": delta})))
    };
    let text = |number: usize| {
        let delta = json!({"type": "text_delta", "text": "x".repeat(REPLY_TEXT_BYTES / 8)});
        grows(number, json!({"type": "text", "text": ""}), delta)
    };
    assert_eq!(refused_after(MESSAGES.reader(), text), (8, "model_output_limit", REPLY_TEXT_BYTES));
    let piece = "x".repeat(REPLY_BYTES / 8);
    for (block, delta) in [
        (
            json!({"type": "tool_use", "id": "c", "name": "calculator", "input": {}}),
            json!({"type": "input_json_delta", "partial_json": piece}),
        ),
        (json!({"type": "thinking", "thinking": ""}), json!({"type": "thinking_delta", "thinking": piece})),
    ] {
        let own = |number: usize| grows(number, block.clone(), delta.clone());
        assert_eq!(refused_after(MESSAGES.reader(), own), (7, "model_output_limit", 0));
    }
}
