//! The wire formats of the APIs, what they refuse, and the faults of a script.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};

use super::{Answer, Api, End, Shared, StandInAnswers, play};
use bosun_adapters::model::scripted::Script;

fn script(text: &str) -> Arc<Script> {
    Arc::new(Script::parse(Path::new("script.yaml"), text).unwrap_or_else(|faults| panic!("{faults}")))
}

fn ask(script: &Script, api: Api, body: &Value, earlier: u32) -> Answer {
    play(script, api, body.to_string().as_bytes(), || earlier)
}

fn text(answer: &Answer) -> String {
    String::from_utf8(answer.body()).unwrap()
}

#[test]
fn it_speaks_chat_completions() {
    let script = script("otherwise: [{say: Hi, usage: {promptTokens: 3, completionTokens: 1}}]");
    let body = json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "stream": true});
    let answer = ask(&script, Api::ChatCompletions, &body, 0);
    let head = r#"{"id":"chatcmpl-scripted","object":"chat.completion.chunk","created":0,"model":"m","choices":"#;
    let events = [
        format!(r#"{head}[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":null}}]}}"#),
        format!(r#"{head}[{{"index":0,"delta":{{"content":"Hi"}},"finish_reason":null}}]}}"#),
        format!(r#"{head}[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}"#),
        "[DONE]".to_owned(),
    ];
    assert_eq!(text(&answer), events.map(|event| format!("data: {event}\n\n")).concat());
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers, [("content-type".to_owned(), "text/event-stream".to_owned())]);
}

#[test]
fn it_speaks_messages() {
    let script = script(
        "otherwise: [{think: Well, say: Hi, call: [{tool: noop}], usage: {promptTokens: 9, completionTokens: 2, \
         cachedTokens: 4, cacheWriteTokens: 3}}]",
    );
    let body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "stream": true});
    let answer = text(&ask(&script, Api::Messages, &body, 0));
    let kinds: Vec<_> = answer.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let expect = "message_start content_block_start ping content_block_delta content_block_delta content_block_stop \
                  content_block_start content_block_delta content_block_stop content_block_start content_block_delta \
                  content_block_stop message_delta message_stop";
    assert_eq!(kinds.join(" "), expect);
    for (kind, data) in kinds.iter().zip(answer.lines().filter_map(|line| line.strip_prefix("data: "))) {
        assert_eq!(serde_json::from_str::<Value>(data).unwrap()["type"], **kind);
    }
    let usage =
        r#""usage":{"input_tokens":2,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":2}"#;
    assert!(
        answer.contains(&format!(r#""delta":{{"stop_reason":"tool_use","stop_sequence":null}},{usage}"#)),
        "{answer}"
    );
}

#[test]
fn a_request_that_the_apis_refuse_is_refused() {
    let script = script("otherwise: [{say: Hi}]");
    let check = |api: Api, messages: Value, expect: &str| {
        let body = json!({"model": "m", "max_tokens": 1, "messages": messages});
        let answer = ask(&script, api, &body, 0);
        assert_eq!(answer.status, 400, "{expect}");
        assert!(text(&answer).contains(expect), "{}", text(&answer));
    };
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let user = json!({"role": "user", "content": "x"});
    check(
        Api::ChatCompletions,
        json!([user, {"role": "tool", "tool_call_id": "z", "content": "y"}]),
        "no tool call has the id `z`",
    );
    let asked = json!({"role": "assistant", "content": null, "tool_calls": [call("a")]});
    check(Api::ChatCompletions, json!([user, asked, user]), "did not have response messages: a");
    check(Api::ChatCompletions, json!([user, asked]), "tool call `a` has no tool message");
    check(Api::ChatCompletions, json!("x"), "request is not readable");

    let used = |input: Value| json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": input}]});
    check(Api::Messages, json!([user, used(json!({})), user]), "without `tool_result` blocks immediately after: a");
    check(Api::Messages, json!([user, used(json!("{}"))]), "did not match");
    check(Api::Messages, json!([{"role": "user", "content": " "}]), "non-whitespace");
    check(Api::Messages, json!([{"role": "user", "content": []}]), "non-empty content");
    check(Api::Messages, json!([{"role": "system", "content": "x"}]), "'user' or 'assistant'");
    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b"}]});
    check(Api::Messages, json!([user, used(json!({})), result]), "unexpected `tool_use_id`");
    let thought = json!({"type": "thinking", "thinking": "Well", "signature": "forged"});
    check(Api::Messages, json!([user, {"role": "assistant", "content": [thought]}, user]), "Invalid `signature`");
    let answer = ask(&script, Api::Messages, &json!({"model": "m", "messages": [user]}), 0);
    assert!(text(&answer).contains("missing field `max_tokens`"));
}

#[test]
fn a_thinking_block_that_is_not_sent_back_is_refused() {
    let script = script("otherwise: [{think: Hm, call: [{tool: f}]}, {say: Done}]");
    let used = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]});
    let ask = |content: Value| {
        let messages = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": content}, result]);
        ask(&script, Api::Messages, &json!({"model": "m", "max_tokens": 1, "messages": messages}), 0)
    };
    assert!(text(&ask(json!([used]))).contains("must start with a thinking block"));
    let thought = json!({"type": "thinking", "thinking": "Hm", "signature": super::messages::signature("Hm")});
    assert_eq!(ask(json!([thought, used])).status, 200);
}

#[test]
fn faults_happen_as_often_as_the_script_says() {
    let script = script(
        "scenes:\n  - when: busy\n    turns:\n      - {say: Hi, wire: {fail: {status: 429, retryAfter: 2s}, times: 2}}\n\
         \x20 - when: cut\n    turns: [{say: Hi, wire: {cutAt: 40}}]\n\
         \x20 - when: wrong\n    turns: [{call: [{tool: a}, {tool: b}], wire: {finish: length, sameIds: true, noUsage: true}}]\n",
    );
    let body = |input: &str| json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": input}]});
    for (api, kind) in [(Api::ChatCompletions, "requests"), (Api::Messages, "rate_limit_error")] {
        let statuses: Vec<_> = (0..4).map(|earlier| ask(&script, api, &body("busy"), earlier).status).collect();
        assert_eq!(statuses, [429, 429, 200, 200]);
        let refused = ask(&script, api, &body("busy"), 0);
        assert!(refused.headers.contains(&("retry-after".to_owned(), "2".to_owned())));
        assert!(text(&refused).contains(kind));
        let cut = ask(&script, api, &body("cut"), 9);
        assert_eq!((cut.body().len(), cut.end), (40, End::Cut));
        let wrong = text(&ask(&script, api, &body("wrong"), 0));
        assert!(wrong.contains("length") && !wrong.contains("usage"), "{wrong}");
        assert_eq!(wrong.matches("_scripted_1_0").count(), 2, "{wrong}");
    }
}

#[test]
fn it_lists_a_model_to_programs_that_test_their_key() {
    let shared = Shared::new(StandInAnswers::Script(script("otherwise: [{say: Hi}]")), false);
    let listed = shared.next("/v1/models", "GET", b"");
    assert_eq!(listed.status, 200);
    let body: Value = serde_json::from_slice(&listed.body()).unwrap();
    assert_eq!((&body["object"], &body["data"][0]["id"]), (&json!("list"), &json!("scripted")));
    for (path, method, status) in
        [("/v1/models", "POST", 404), ("/v1/nothing", "GET", 404), ("/v1/chat/completions", "GET", 405)]
    {
        assert_eq!(shared.next(path, method, b"").status, status, "{method} {path}");
    }
}
