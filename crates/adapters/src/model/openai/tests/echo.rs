//! Provider-specific fields are sent back with the next turn, unchanged.

use bosun_engine::Model;
use bosun_standin as standin;
use serde_json::{Value, json};

use super::{ChatCompletions, OPENAI, config, stream};
use crate::model::testing::{self, KeptDeltas, follow, hello, stand_in};

/// The message of the model in the request after `first`.
async fn echoed(wire: ChatCompletions, first: standin::Answer) -> Value {
    let server = stand_in(vec![first, stream("one-word")]).await;
    let model = testing::remote(config(&server.url()), wire);
    let mut request = hello();
    let reply = model.reply(&request, &KeptDeltas::default()).await.unwrap();
    request.messages.extend(follow(&reply));
    model.reply(&request, &KeptDeltas::default()).await.unwrap();
    let sent: Value = serde_json::from_str(&server.requests()[1].body).unwrap();
    sent["messages"][1].clone()
}

fn events(chunks: &[Value]) -> standin::Answer {
    let body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    standin::Answer::sse(body + "data: [DONE]\n\n")
}

fn delta(delta: Value, finish: Option<&str>) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

#[tokio::test]
async fn reasoning_and_signatures_are_echoed() {
    let call = json!({
        "index": 0, "id": "call_1", "type": "function",
        "function": {"name": "calculator", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "c2lnbmVk"}},
    });
    let chunks = [
        delta(json!({"role": "assistant", "reasoning_content": "Let me ", "annotations": []}), None),
        delta(json!({"reasoning_content": "think.", "reasoning_details": [{"type": "text", "text": "a"}]}), None),
        delta(json!({"reasoning_content": null, "reasoning_details": [{"type": "text", "text": "b"}]}), None),
        delta(json!({"tool_calls": [call]}), None),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": ""}, "extra_content": null}]}), None),
        delta(json!({}), Some("tool_calls")),
    ];
    let expect = json!({
        "role": "assistant",
        "content": null,
        "tool_calls": [{
            "id": "call_1", "type": "function",
            "function": {"name": "calculator", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "c2lnbmVk"}},
        }],
        "reasoning_content": "Let me think.",
        "reasoning_details": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
    });
    assert_eq!(echoed(OPENAI, events(&chunks)).await, expect);

    let mut message = expect.clone();
    message["annotations"] = json!([]);
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    assert_eq!(echoed(OPENAI, standin::Answer::json(200, body.to_string())).await, expect);

    let mut plain = expect;
    plain.as_object_mut().unwrap().retain(|name, _| !name.starts_with("reasoning"));
    plain["tool_calls"][0].as_object_mut().unwrap().remove("extra_content");
    assert_eq!(echoed(ChatCompletions { echo: false, ..OPENAI }, events(&chunks)).await, plain);
}

#[tokio::test]
async fn an_api_without_fields_of_its_own_gets_none_back() {
    let message = echoed(OPENAI, stream("one-call")).await;
    let names: Vec<_> = message.as_object().unwrap().keys().collect();
    assert_eq!(names, ["role", "content", "tool_calls"]);
}
