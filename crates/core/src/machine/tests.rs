//! Tests of the machine, one file for each transition; shared fixtures are here.

mod changes;
mod clock;
mod decisions;
mod delivery;
mod events;
mod expiry;
mod loops;
mod questions;
mod recovery;
mod turns;

use std::{sync::Arc, time::Duration};

use serde_json::json;

use super::{
    AskedByModel, CallDisposition, Delivery, DeliveryTarget, DeliveryVerdict, ModelTurnReply, advance, deliver,
    end_turn,
};
use crate::{
    Actor, ContentHash, Entry, Event, Head, Namespace, Outcome, QueryLimits, QueryName, QueryUid, Spec, Timestamp,
    event::Changed,
    query::{AskedLimits, EdgeNote, Usage},
};

const NOW: Timestamp = Timestamp(1_000_000);

pub(super) fn spec(limits: QueryLimits) -> Spec {
    Spec {
        target: "agent".into(),
        target_kind: Default::default(),
        selector: None,
        model: "default".into(),
        prompt: None,
        input: "hello".into(),
        template: None,
        messages: Vec::new(),
        parameters: Default::default(),
        options: Default::default(),
        output_schema: None,
        conversation: None,
        toolset: ContentHash::of(b"tools"),
        limits,
        edge_note: EdgeNote::new("note"),
        session_id: None,
        labels: Default::default(),
        annotations: Default::default(),
        warnings: Vec::new(),
        request: None,
        on_expired: Default::default(),
        trace: None,
        lineage: None,
        team: None,
    }
}

pub(super) fn created(limits: QueryLimits) -> Head {
    let uid = QueryUid::new(1, [1; 10]);
    let entry = Entry { seq: 1, at: NOW, event: Event::Created { spec: Arc::new(spec(limits)), by: Actor::local() } };
    Head::new(uid, Namespace::default(), QueryName::for_uid(uid), &entry).unwrap()
}

pub(super) fn apply(head: &mut Head, at: Timestamp, events: Vec<Event>) {
    for event in events {
        let entry = Entry { seq: head.seq + 1, at, event };
        head.apply(&entry).unwrap();
    }
}

fn asked(tool: &str, way: CallDisposition) -> AskedByModel {
    AskedByModel {
        provider_id: format!("provider-{tool}").into(),
        tool: tool.into(),
        alias: tool.into(),
        arguments: json!({}).into(),
        written: None,
        dropped: Vec::new(),
        deprecated: None,
        on_expired: None,
        way,
    }
}

fn outside(tool: &str) -> AskedByModel {
    asked(tool, CallDisposition::Outside { timeout: Duration::from_secs(60) })
}

fn inside(tool: &str, repeatable: bool) -> AskedByModel {
    asked(tool, CallDisposition::Inside { repeatable })
}

fn approved(tool: &str, repeatable: bool) -> AskedByModel {
    asked(tool, CallDisposition::Approval { repeatable, timeout: Duration::from_secs(60) })
}

fn reply(calls: Vec<AskedByModel>) -> ModelTurnReply {
    let usage = Usage { prompt_tokens: 20, completion_tokens: 5, ..Usage::default() };
    ModelTurnReply { text: Some("text".into()), calls, usage, ..ModelTurnReply::default() }
}

/// A query whose model has just asked for `calls`.
fn after_turn(calls: Vec<AskedByModel>) -> Head {
    let mut head = created(QueryLimits::default());
    turn(&mut head, calls);
    head
}

fn turn(head: &mut Head, calls: Vec<AskedByModel>) {
    let events = advance(head);
    apply(head, NOW, events);
    let events = end_turn(head, NOW, reply(calls));
    apply(head, NOW, events);
}

fn ok(text: &str) -> Outcome {
    Outcome::success(text)
}

fn to_call(head: &Head, index: usize, outcome: Outcome) -> Delivery {
    Delivery { target: DeliveryTarget::Call(head.calls[index].id), outcome, took: None }
}

fn to_tool(tool: &str, outcome: Outcome) -> Delivery {
    Delivery { target: DeliveryTarget::Tool(tool.into()), outcome, took: None }
}

/// Posts one result, applies it, and returns its verdict.
fn post(head: &mut Head, delivery: Delivery) -> DeliveryVerdict {
    let delivered = deliver(head, NOW, vec![delivery], false, &Actor::local());
    apply(head, NOW, delivered.events);
    delivered.verdicts[0]
}

/// Asks the model again and answers.
fn answer(head: &mut Head, reply: ModelTurnReply) -> Vec<Event> {
    let events = advance(head);
    apply(head, NOW, events);
    let events = end_turn(head, NOW, reply);
    apply(head, NOW, events.clone());
    events
}

/// Every field that can be changed, with a value that no other test uses.
fn all_changed() -> Changed {
    let texts = |text: &str| Some(Arc::new([(text.to_owned(), "ü".to_owned())].into()));
    Changed {
        limits: AskedLimits {
            query_timeout: Some(Duration::from_millis(1)),
            tool_timeout: Some(Duration::from_millis(2)),
            external_timeout: Some(Duration::from_millis(3)),
            approval_timeout: Some(Duration::from_millis(7)),
            max_tool_calls: Some(4),
            max_tokens: Some(5),
            ttl: Some(Duration::from_millis(6)),
        },
        labels: texts("label"),
        annotations: texts("annotation"),
        by: Actor::local(),
    }
}
