//! The journal's text form of every event.

use std::sync::Arc;

use serde_json::json;

use super::{NOW, after_turn, all_changed, apply, outside, spec};
use crate::{
    Actor, ContentHash, Event, Outcome, QueryLimits, QueryUid, Spec,
    event::Changed,
    machine::cancel,
    query::Usage,
    tree::{Spent, TreeBudget},
};

/// A spec with every optional field set.
fn rich_spec() -> Spec {
    use crate::{
        conversation::{ConversationKey, Frozen},
        query::{ModelOptions, TargetKind},
        trace::TraceContext,
        transcript::Message,
    };
    Spec {
        target_kind: TargetKind::Model,
        selector: Some(Arc::new(json!({"matchLabels": {"team": "blue"}}))),
        template: Some("hello {{.name}}".into()),
        messages: vec![Message::System("Be brief.".into()), Message::User("hello".into())],
        parameters: [("name".to_owned(), "you".to_owned())].into(),
        options: ModelOptions { temperature: Some(0.1), max_tokens: Some(7) },
        output_schema: Some(Arc::new(json!({"type": "object"}))),
        conversation: Some(Frozen {
            key: ConversationKey { memory: "default".into(), id: "c".into() },
            history: Some(ContentHash::of(b"history")),
        }),
        trace: TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Some("congo=1"))
            .map(Arc::new),
        ..spec(QueryLimits::default())
    }
}

#[test]
fn every_event_survives_encoding_and_decoding() {
    let mut head = after_turn(vec![outside("a")]);
    let call = head.calls[0].id;
    let by = Actor::of_key("ci").unwrap().acting_for("alice").unwrap();
    let spent = Spent { calls: 1, tokens: 2, running_ms: 3, ..Spent::default() };
    let events = [
        Event::Created { spec: Arc::new(spec(QueryLimits::default())), by: by.clone() },
        Event::Created { spec: Arc::new(rich_spec()), by: by.clone() },
        Event::TurnStarted { turn: 1, attempt: 2, tools: false },
        Event::TurnEnded {
            turn: 1,
            text: None,
            usage: Usage::default(),
            calls: 1,
            output: None,
            rejected: None,
            provider: None,
            answered_by: None,
            tree: None,
        },
        Event::TurnEnded {
            turn: 2,
            text: None,
            usage: Usage::default(),
            calls: 0,
            output: Some(json!({"a": 1}).into()),
            rejected: Some("no".into()),
            provider: Some(Arc::new(json!({"anthropic": {"content": []}}))),
            answered_by: Some("second".into()),
            tree: Some(TreeBudget { others: spent, max_tool_calls: 3, max_tokens: Some(4) }),
        },
        Event::CallDelegated { call, child: QueryUid::for_child(QueryUid::new(7, [1; 10]), call) },
        Event::ChildEnded {
            call,
            child: QueryUid::for_child(QueryUid::new(7, [1; 10]), call),
            spent,
            terminated: true,
        },
        Event::Settled,
        Event::CallStarted { call, attempt: 1 },
        Event::CallFinished { call, outcome: Outcome::failure("a", "b").into() },
        Event::CallResolved {
            call,
            outcome: Outcome::success(json!({"deep": [1, null, "ü"]})).into(),
            by: by.clone(),
            took_ms: Some(70),
        },
        Event::CallApproved { call, hash: ContentHash::of(b"a"), arguments: None, by: by.clone() },
        Event::CallApproved {
            call,
            hash: ContentHash::of(b"a"),
            arguments: Some(json!({"to": "ada"}).into()),
            by: Actor::local(),
        },
        Event::CallRejected { call, reason: Some("not today".into()), by: by.clone() },
        Event::CallRejected { call, reason: None, by: Actor::local() },
        Event::CallExpired { call },
        Event::LoopNoticed { call },
        Event::Held { until: NOW, by: by.clone() },
        Event::Continued { by: Actor::local() },
        Event::Continued { by: by.clone() },
        Event::Changed(Box::new(Changed { by: by.clone(), ..Changed::default() })),
        Event::Changed(Box::new(all_changed())),
        Event::ClockStepped { by_ms: -360_000 },
        Event::Interrupted,
        Event::Recovered { orderly: false, alone: false },
        Event::Recovered { orderly: true, alone: true },
        Event::Completed,
        Event::Failed { code: "a".into(), message: "b".into() },
        Event::Cancelled { reason: None, by },
    ];
    for event in events {
        assert_eq!(Event::decode(&event.encode().unwrap()).unwrap(), event);
    }
    let newer = r#"{"v":99,"kind":"teleported"}"#;
    assert!(Event::decode(newer).unwrap_err().to_string().contains("newer"));
    let events = cancel(&head, None, &Actor::local());
    apply(&mut head, NOW, events);
}
