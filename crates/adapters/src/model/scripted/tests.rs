use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use bosun_core::{
    Binding, QueryUid, Tool,
    content::Images,
    query::Usage,
    tool::toolset::{ToolSources, Toolset},
    transcript::{Message, MessageCall},
};
use bosun_engine::{
    Model,
    model::{Deltas, ModelCall, ModelError, ModelReply, ModelRequest},
};
use serde_json::json;
use tokio::time::Instant;

use super::{Script, Scripted};

const SCRIPT: &str = r#"
scenes:
  - when: "25% of"
    turns:
      - say: Let me see.
        call:
          - {tool: calculator, arguments: {expression: "0.25 * 8432"}}
          - {tool: web.search}
      - delay: 50ms
        words: 20ms
        say: "It is {{ result.calculator }}, says {{ result[1] }} to “{{ input }}”"
        usage: {promptTokens: 5, completionTokens: 6}
  - when: {exactly: stop}
    turns:
      - fail: {status: 400, message: no}
  - when: overload
    turns:
      - fail: {status: 503, message: busy}
  - when: confused
    turns:
      - call:
          - {tool: nothing, arguments: "{not json"}
  - when: hasty
    turns:
      - say: "{{ result.calculator }}"
"#;

/// The deltas, with their times.
#[derive(Default)]
struct Pushed(Mutex<Vec<(String, Duration)>>, Option<Instant>);

impl Deltas for Pushed {
    fn push(&self, text: &str) {
        let at = self.1.map_or(Duration::ZERO, |begun| begun.elapsed());
        self.0.lock().unwrap().push((text.to_owned(), at));
    }
}

fn script(text: &str) -> Arc<Script> {
    Arc::new(Script::parse(Path::new("script.yaml"), text).unwrap())
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let tool = |name: &str| Tool::new(name, "", json!({}), Binding::External);
    let turn = 1 + messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
    ModelRequest {
        query: QueryUid::new(0, [0; 10]),
        turn: u32::try_from(turn).unwrap(),
        messages,
        toolset: Arc::new(Toolset::merge(ToolSources::Client, vec![], vec![tool("calculator"), tool("web.search")])),
        tools_allowed: true,
        options: Default::default(),
        answer: None,
        trace: None,
    }
}

async fn play(text: &str, messages: Vec<Message>) -> Result<ModelReply, ModelError> {
    Scripted::new(script(text)).reply(&request(messages), &Pushed::default()).await
}

fn user(text: &str) -> Message {
    Message::User(text.into())
}

/// The messages after the first turn's calls have been answered.
fn second_turn() -> Vec<Message> {
    let alias = request(vec![]).toolset.get("web.search").unwrap().alias.clone();
    let call =
        |id: &str, alias: &str| MessageCall { provider_id: id.into(), alias: alias.into(), arguments: "{}".into() };
    let result = |id: &str, alias: &str, content: &str| Message::Tool {
        provider_id: id.into(),
        alias: alias.into(),
        content: content.into(),
        images: Images::default(),
        is_error: false,
    };
    vec![
        Message::System("You are helpful".into()),
        user("What is 25% of 8,432?"),
        Message::Assistant { text: None, calls: vec![call("a", "calculator"), call("b", &alias)], provider: None },
        result("a", "calculator", "2108"),
        result("b", &alias, "nothing"),
    ]
}

#[tokio::test]
async fn the_input_chooses_the_scene_and_the_answers_so_far_the_turn() {
    let reply = play(SCRIPT, vec![user("What is 25% of 8,432?")]).await.unwrap();
    let alias = request(vec![]).toolset.get("web.search").unwrap().alias.clone();
    let call = |id: &str, alias: &str, arguments: &str| ModelCall {
        provider_id: id.into(),
        alias: alias.into(),
        arguments: arguments.into(),
    };
    let calls = vec![
        call("scripted-000000000000-1-0", "calculator", r#"{"expression":"0.25 * 8432"}"#),
        call("scripted-000000000000-1-1", &alias, "{}"),
    ];
    assert_eq!(reply, ModelReply { text: Some("Let me see.".into()), calls, ..ModelReply::default() });

    let reply = play(SCRIPT, second_turn()).await.unwrap();
    assert_eq!(reply.text.as_deref(), Some("It is 2108, says nothing to “What is 25% of 8,432?”"));
    assert_eq!(reply.usage, Usage { prompt_tokens: 5, completion_tokens: 6, ..Usage::default() });
}

#[tokio::test]
async fn an_earlier_conversation_does_not_count() {
    let mut messages = second_turn();
    messages.push(Message::Assistant { text: Some("Done".into()), calls: vec![], provider: None });
    messages.push(user("And 25% of 8?"));
    assert_eq!(play(SCRIPT, messages.clone()).await.unwrap().calls.len(), 2);
    messages.push(user("hasty"));
    let error = play(SCRIPT, messages).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "model is not usable: the script wants the result of `calculator`, and there is none yet"
    );
}

#[tokio::test(start_paused = true)]
async fn delays_are_honoured_and_words_are_streamed_one_by_one() {
    let pushed = Pushed(Mutex::default(), Some(Instant::now()));
    let model = Scripted::new(script("otherwise: [{delay: 50ms, words: 20ms, say: 'One two  three'}]"));
    model.reply(&request(vec![user("x")]), &pushed).await.unwrap();
    let expect = [("One ", 50), ("two ", 70), (" ", 90), ("three", 110)];
    assert_eq!(*pushed.0.lock().unwrap(), expect.map(|(text, at)| (text.to_owned(), Duration::from_millis(at))));
}

#[tokio::test]
async fn a_script_may_play_failures_and_confusion() {
    let refused = play(SCRIPT, vec![user("stop")]).await.unwrap_err();
    assert!(matches!(&refused, ModelError::Refused { status: 400, message } if message == "no"), "{refused}");
    let overloaded = play(SCRIPT, vec![user("overload")]).await.unwrap_err();
    assert!(matches!(overloaded, ModelError::Unavailable { attempts: 1, .. }), "{overloaded}");
    let confused = play(SCRIPT, vec![user("confused")]).await.unwrap();
    assert_eq!((confused.calls[0].alias.as_str(), confused.calls[0].arguments.as_str()), ("nothing", "{not json"));
}

#[tokio::test]
async fn without_an_answer_the_script_fails() {
    let check = async |text: &str, messages, expect: &str| {
        assert_eq!(play(text, messages).await.unwrap_err().to_string(), format!("model is not usable: {expect}"));
    };
    check(SCRIPT, vec![user("please stop")], "the script has no scene for `please stop` and no `otherwise`").await;
    check(SCRIPT, vec![Message::System("x".into())], "the conversation has no user message").await;
    let mut messages = second_turn();
    messages.push(Message::Assistant { text: Some("Done".into()), calls: vec![], provider: None });
    let expect = "the script's scene for `What is 25% of 8,432?` has 2 turns, and turn 3 was asked for";
    check(SCRIPT, messages, expect).await;
    let reply = play("otherwise: [{say: 'I only know {{ input }}'}]", vec![user("that")]).await.unwrap();
    assert_eq!(reply.text.as_deref(), Some("I only know that"));
}

#[track_caller]
fn check_faults(text: &str, expect: &[&str]) {
    let faults = Script::parse(Path::new("script.yaml"), text).unwrap_err();
    let shown: Vec<_> = faults.iter().map(|fault| fault.to_string().replace("script.yaml:", "")).collect();
    assert_eq!(shown, expect);
}

#[test]
fn every_fault_of_a_script_is_reported_with_its_position() {
    check_faults(
        "scenes:\n  - when: x\n    turns:\n      - sai: hello\n      - say: '{{ resul }}'\n        dealy: 5ms\n  - turns: []\n",
        &[
            "4:9: a turn does nothing [bad_script]\n  give it a `say`, a `call` or a `fail`",
            "4:9: `scenes[0].turns[0]` of the script has no field `sai` [unknown_field]\n  did you mean `say`?",
            "5:14: `{{ resul }}` is none of `input`, `result.<tool>` and `result[<number>]` [bad_script]",
            "6:9: `scenes[0].turns[1]` of the script has no field `dealy` [unknown_field]\n  did you mean `delay`?",
            "7:5: `scenes[1].when` of the script is missing [missing_field]\n  the text that the input contains, or `{exactly: …}`",
            "7:5: a scene has no turn [bad_script]\n  give it at least one `say`, `call` or `fail`",
        ],
    );
    check_faults(
        "otherwise:\n  - delay: soon\n    say: x\n  - {say: x, fail: {status: 200}}\n  - call: [{arguments: {}}]\n",
        &[
            "2:12: `otherwise[0].delay` of the script is `soon`, which is not a duration [bad_value]\n  write it like `30s`, `5m`, `1h30m` or `250ms`",
            "4:5: a turn that fails cannot also `say` or `call` [bad_script]\n  make two turns of them, or leave one out",
            "4:20: `status` of a failure is 400 to 599 [bad_script]",
            "5:12: `otherwise[2].call[0].tool` of the script is missing [missing_field]\n  the name of the tool to ask for",
        ],
    );
    check_faults("{}", &["1:1: the script has no scenes [bad_script]\n  write `scenes:` with a list of scenes"]);
    check_faults("a: [", &["1:4: unclosed bracket '[' [yaml_syntax]"]);
    let two = "otherwise: [{say: x}]\n---\notherwise: [{say: y}]\n";
    check_faults(
        two,
        &["3:1: a script is one document, and this file has 2 [bad_script]\n  write `scenes:` with a list of scenes"],
    );
}
