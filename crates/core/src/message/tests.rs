use serde_json::json;

use super::*;
use crate::ceiling::FAULTS_LISTED;

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "look_up", "arguments": "{\"a\": 1}"}})
}

fn user() -> Value {
    json!({"role": "user", "content": "Hello"})
}

#[track_caller]
fn check(items: &Value, expect: &[(&str, &str)]) {
    let found = read(items.as_array().unwrap());
    let faults = found.err().map(FaultList::into_listed).unwrap_or_default();
    let faults: Vec<_> = faults.iter().map(|fault| (fault.path.as_str(), fault.code)).collect();
    assert_eq!(faults, expect);
}

#[test]
fn a_whole_conversation_is_read_and_written_back() {
    let items = json!([
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Where"}, {"type": "text", "text": "is it?"}]},
        {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "b", "content": "second"},
        {"role": "tool", "tool_call_id": "a", "content": "first"},
        {"role": "assistant", "content": "There.", "name": "helper"},
        {"role": "user", "content": "Thanks"},
    ]);
    let read = read(items.as_array().unwrap()).unwrap();
    assert_eq!(read.warnings, ["field `name` of messages is not shown to the model"]);
    let written: Vec<_> = read.messages.iter().map(write).collect();
    assert_eq!(written[0], json!({"role": "system", "content": "Be brief."}));
    assert_eq!(written[1], json!({"role": "user", "content": "Where\nis it?"}));
    assert_eq!(written[2], items[2]);
    assert_eq!(written[3], json!({"role": "tool", "tool_call_id": "b", "name": "look_up", "content": "second"}));
    assert_eq!(written[5], json!({"role": "assistant", "content": "There."}));
}

#[test]
fn shapes_that_are_not_messages() {
    check(&json!([]), &[("", "no_user_message")]);
    check(&json!([7]), &[("[0]", "wrong_type")]);
    check(&json!([{}]), &[("[0].role", "missing")]);
    check(&json!([{"role": "robot", "content": "x"}]), &[("[0].role", "unknown_role")]);
    check(&json!([{"role": "user"}]), &[("[0].content", "missing")]);
    check(&json!([{"role": "user", "content": 7}]), &[("[0].content", "wrong_type"), ("[0].content", "missing")][..1]);
    check(&json!([{"role": "user", "content": [{"type": "poem"}]}]), &[("[0].content[0]", "unknown_type")]);
    check(&json!([{"role": "user", "content": ["x"]}]), &[("[0].content[0]", "wrong_type")]);
    check(&json!([user(), {"role": "assistant"}, user()]), &[("[1].content", "missing")]);
}

#[test]
fn other_content_than_text_is_rejected_by_name() {
    for kind in ["image_url", "input_audio", "file", "refusal"] {
        let items = json!([{"role": "user", "content": [{"type": kind}]}]);
        let faults = read(items.as_array().unwrap()).unwrap_err().into_listed();
        assert!(faults[0].class == FaultClass::Unserved && faults[0].message.contains(kind), "{faults:?}");
    }
    check(&json!([{"role": "function", "content": "x"}]), &[("[0].role", "unsupported_content")]);
    check(
        &json!([user(), {"role": "assistant", "content": "x", "function_call": {}}, user()]),
        &[("[1].function_call", "unsupported_content")],
    );
}

#[test]
fn calls_and_answers_belong_together() {
    let assistant = |calls: Value| json!({"role": "assistant", "tool_calls": calls});
    let tool = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "x"});
    check(&json!([user(), tool("a")]), &[("[1].tool_call_id", "unknown_call")]);
    check(&json!([user(), {"role": "tool", "content": "x"}]), &[("[1].tool_call_id", "missing")]);
    check(&json!([user(), assistant(json!([call("a")]))]), &[("[1].tool_calls[0]", "unanswered_call")]);
    check(
        &json!([user(), assistant(json!([call("a"), call("b")])), tool("a"), user()]),
        &[("[1].tool_calls[1]", "unanswered_call")],
    );
    check(
        &json!([user(), assistant(json!([call("a")])), tool("a"), tool("a")]),
        &[("[3].tool_call_id", "unknown_call")],
    );
    check(
        &json!([user(), assistant(json!([call("a"), call("a")])), tool("a"), tool("a")]),
        &[("[1].tool_calls[1].id", "duplicate_id")],
    );
    check(&json!([user(), assistant(json!([call("a")])), tool("a")]), &[]);
}

#[test]
fn a_call_must_be_one_that_a_model_can_have_made() {
    let with = |call: Value| json!([user(), {"role": "assistant", "tool_calls": [call]}]);
    check(
        &with(json!({"type": "poem", "function": {"name": "with space"}})),
        &[
            ("[1].tool_calls[0].type", "unknown_type"),
            ("[1].tool_calls[0].id", "invalid_id"),
            ("[1].tool_calls[0].function.name", "invalid_name"),
            ("[1].tool_calls[0].function.arguments", "missing"),
        ],
    );
    let arguments = |text: &str| json!({"id": "a", "function": {"name": "f", "arguments": text}});
    for text in ["", "[]", "{", "{\"a\":1,\"a\":2}"] {
        check(
            &with(arguments(text)),
            &[("[1].tool_calls[0].function.arguments", "invalid_arguments"), ("[1].tool_calls[0]", "unanswered_call")],
        );
    }
}

#[test]
fn there_must_be_something_to_answer() {
    check(&json!([{"role": "system", "content": "x"}]), &[("", "no_user_message")]);
    check(&json!([user(), {"role": "assistant", "content": "x"}]), &[("", "nothing_to_answer")]);
    check(&json!([user(), {"role": "system", "content": "x"}]), &[("", "nothing_to_answer")]);
    check(&json!([user()]), &[]);
}

#[test]
fn faults_and_warnings_are_listed_up_to_a_number_and_counted() {
    let items = vec![json!(7); 50_000];
    let faults = read(&items).unwrap_err();
    assert_eq!((faults.listed().len(), faults.omitted()), (FAULTS_LISTED, 50_000 - FAULTS_LISTED));
    let calls: Vec<_> = (0..500).map(|number| call(&format!("c{number}"))).collect();
    let unanswered = json!([user(), {"role": "assistant", "tool_calls": calls}, user()]);
    let faults = read(unanswered.as_array().unwrap()).unwrap_err();
    assert_eq!((faults.listed().len(), faults.omitted()), (FAULTS_LISTED, 400));
    assert_eq!(faults.listed()[1].path.as_str(), "[1].tool_calls[1]", "in the order of the calls");
    let mut odd = user();
    for number in 0..1_000 {
        odd[format!("field{number}")] = json!(1);
    }
    let found = read(&[odd]).unwrap();
    assert_eq!((found.warnings.len(), found.warnings_omitted), (WARNINGS_KEPT, 1_000 - WARNINGS_KEPT));
}

/// Journals of all versions store messages in these bytes.
#[test]
fn stored_messages_keep_their_bytes() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Stored(#[serde(with = "openai")] Vec<Message>);

    let call =
        |id: &str| MessageCall { provider_id: id.into(), alias: "look_up".into(), arguments: "{\"a\": 1}".into() };
    let result = |id: &str, is_error| Message::Tool {
        provider_id: id.into(),
        alias: "look_up".into(),
        content: "first".into(),
        images: Images::default(),
        is_error,
    };
    let provider =
        json!({"openai": {"message": {"z": 1.5, "a": null}, "calls": [{"b": 18_446_744_073_709_551_615_u64}]}});
    let messages = vec![
        Message::System("Be brief.".into()),
        Message::User("Where?".into()),
        Message::Assistant { text: None, calls: vec![call("a"), call("b")], provider: Some(provider.into()) },
        result("a", false),
        result("b", true),
        Message::Assistant { text: Some("There.".into()), calls: Vec::new(), provider: None },
    ];
    let bytes = concat!(
        r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"Where?"},"#,
        r#"{"role":"assistant","content":null,"tool_calls":["#,
        r#"{"id":"a","type":"function","function":{"name":"look_up","arguments":"{\"a\": 1}"}},"#,
        r#"{"id":"b","type":"function","function":{"name":"look_up","arguments":"{\"a\": 1}"}}],"#,
        r#""provider":{"openai":{"message":{"z":1.5,"a":null},"calls":[{"b":18446744073709551615}]}}},"#,
        r#"{"role":"tool","tool_call_id":"a","name":"look_up","content":"first"},"#,
        r#"{"role":"tool","tool_call_id":"b","name":"look_up","content":"first","is_error":true},"#,
        r#"{"role":"assistant","content":"There."}]"#,
    );
    assert_eq!(serde_json::to_string(&Stored(messages.clone())).unwrap(), bytes);
    assert_eq!(serde_json::from_str::<Stored>(bytes).unwrap().0, messages);
}
