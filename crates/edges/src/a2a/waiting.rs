//! What a task waits for, as the message of its status: calls for the client, approvals, and values of parameters.
//!
//! What the queries below the task's query wait for is part of it, with the way to it in `agentPath`; results and
//! decisions for it are accepted at the task. Each is a data part next to a text for people. Values are delivered like
//! the results of client tools; a plain message is never consent.

use std::sync::Arc;

use bosun_core::{
    CallId, Head, Status, Timestamp, Transcript,
    event::{AskedCall, CallRoute},
    json::content_hash,
};
use bosun_engine::{BelowCall, Snapshot};
use serde_json::{Value, json};

use super::{
    task,
    wire::{MessagePart, TaskState},
};
use crate::asking::{
    person::{Approval, ParameterRequest, parameter_request, preview, question_request},
    tree,
};

/// Everything that a task waits for from outside.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenWork {
    pub(super) calls: Vec<OpenCall>,
    approvals: Vec<Approval>,
    requests: Vec<ParameterRequest>,
}

/// A call that the client must run.
#[derive(Clone, Debug)]
pub(super) struct OpenCall {
    pub(super) asked: Arc<AskedCall>,
    pub(super) deadline: Timestamp,
    /// The agents and teams from the task's to the one that makes the call, if that is not the task's own.
    agent_path: Vec<Arc<str>>,
}

impl OpenWork {
    pub(super) fn of_snapshot(snapshot: &Snapshot) -> Self {
        Self::of(&snapshot.head, &snapshot.transcript, &snapshot.below)
    }

    pub(super) fn of(head: &Head, transcript: &Transcript, below: &[Snapshot]) -> Self {
        let mut calls = open_calls(head, transcript, &[]);
        for one in below {
            calls.extend(open_calls(&one.head, &one.transcript, &tree::path(one)));
        }
        let approvals = tree::approvals(head, transcript, below);
        let requests = tree::parameter_requests(head, transcript, below);
        Self { calls, approvals, requests }
    }

    pub(super) fn awaits_approval(&self) -> bool {
        !self.approvals.is_empty()
    }

    /// The call whose question a plain message answers: the only one that is open.
    pub(super) fn question(snapshot: &Snapshot) -> Option<CallId> {
        let queries = std::iter::once((&snapshot.head, &snapshot.transcript))
            .chain(snapshot.below.iter().map(|below| (&below.head, &below.transcript)));
        let mut open = queries
            .flat_map(|(head, transcript)| head.parameter_requests().filter_map(|(call, _)| transcript.call(call.id)));
        let only = open.next().filter(|_| open.next().is_none())?;
        only.question.is_some().then_some(only.asked.call)
    }

    /// The same without what the task's own query waits for.
    pub(super) fn below(snapshot: &Snapshot) -> Self {
        let mut open = Self::of_snapshot(snapshot);
        open.calls.retain(|call| !call.agent_path.is_empty());
        open.approvals.retain(|approval| !approval.agent_path.is_empty());
        open.requests.retain(|request| !request.agent_path.is_empty());
        open
    }

    /// Adds a call of a query below, unless it is known.
    pub(super) fn add(&mut self, below: &BelowCall) {
        let asked = &below.asked;
        if self.ids().contains(&asked.call.to_string()) {
            return;
        }
        let agent_path = below.path.clone();
        if let Some(question) = &below.question {
            let request = question_request(asked, question, below.deadline);
            self.requests.push(ParameterRequest { agent_path, ..request });
            return;
        }
        match &asked.route {
            CallRoute::Outside { deadline, .. } => {
                self.calls.push(OpenCall { asked: Arc::clone(asked), deadline: *deadline, agent_path });
            }
            CallRoute::Approval { deadline, .. } => self.approvals.push(Approval {
                id: asked.call.to_string(),
                name: asked.tool.clone(),
                arguments: asked.arguments.clone(),
                preview: preview(&asked.tool, &asked.arguments),
                hash: content_hash(&asked.arguments).to_string(),
                deadline: deadline.to_rfc3339(),
                agent_path,
            }),
            CallRoute::Parameters { deadline } => {
                self.requests.push(ParameterRequest { agent_path, ..parameter_request(asked, *deadline) });
            }
            // They wait for no one outside.
            CallRoute::Inside { .. } | CallRoute::Refused { .. } | CallRoute::Cached { .. } => {}
        }
    }

    /// Removes a call that no longer waits.
    pub(super) fn remove(&mut self, call: CallId) {
        let id = call.to_string();
        self.calls.retain(|open| open.asked.call != call);
        self.approvals.retain(|approval| approval.id != id);
        self.requests.retain(|request| request.id != id);
    }

    pub(super) fn merge(mut self, other: &Self) -> Self {
        self.calls.extend(other.calls.iter().cloned());
        self.approvals.extend(other.approvals.iter().cloned());
        self.requests.extend(other.requests.iter().cloned());
        self
    }

    /// The ids of everything that the task waits for.
    pub(super) fn ids(&self) -> Vec<String> {
        let calls = self.calls.iter().map(|open| open.asked.call.to_string());
        let approvals = self.approvals.iter().map(|approval| approval.id.clone());
        calls.chain(approvals).chain(self.requests.iter().map(|request| request.id.clone())).collect()
    }

    /// The state of a task whose own query has this status: it works while it waits for queries below it, unless one of
    /// these needs something from outside.
    pub(super) fn state(&self, own: Status) -> TaskState {
        let is_open = !self.calls.is_empty() || !self.approvals.is_empty() || !self.requests.is_empty();
        if own == Status::Running && is_open { TaskState::InputRequired } else { task::state(own) }
    }

    /// The parts of the status message; none if nothing is open. What is to be approved is shown to readers and to those
    /// who may approve.
    pub(super) fn parts(&self, shows_approvals: bool) -> Vec<MessagePart> {
        let mut parts = Vec::new();
        if !self.calls.is_empty() {
            let names: Vec<_> = self.calls.iter().map(|open| format!("`{}`", open.asked.tool)).collect();
            let calls: Vec<_> = self.calls.iter().map(OpenCall::show).collect();
            parts.push(MessagePart::text(format!("Waiting for the client to run {}.", names.join(", "))));
            parts.push(MessagePart::data(json!({ "toolCalls": calls })));
        }
        if shows_approvals && !self.approvals.is_empty() {
            let names: Vec<_> = self.approvals.iter().map(|approval| format!("`{}`", approval.name)).collect();
            parts.push(MessagePart::text(format!("Waiting for a person to approve {}.", names.join(", "))));
            parts.push(MessagePart::data(json!({ "approvals": self.approvals })));
        }
        if !self.requests.is_empty() {
            let questions: Vec<_> = self.requests.iter().map(|request| request.question.as_str()).collect();
            parts.push(MessagePart::text(questions.join("\n")));
            parts.push(MessagePart::data(json!({ "parameterRequests": self.requests })));
        }
        parts
    }
}

impl OpenCall {
    fn show(&self) -> Value {
        let mut shown = task::shown_call(&self.asked);
        shown["deadline"] = json!(self.deadline.to_rfc3339());
        if !self.agent_path.is_empty() {
            shown["agentPath"] = json!(self.agent_path);
        }
        if matches!(self.asked.route, CallRoute::Outside { claim: Some(_), .. }) {
            shown["workers"] = json!(true);
        }
        shown
    }
}

/// The calls of one query that its client must run, in the order in which the model asked.
fn open_calls(head: &Head, transcript: &Transcript, agent_path: &[Arc<str>]) -> Vec<OpenCall> {
    let open = head.outside_calls().filter_map(|(call, deadline)| {
        let asked = Arc::clone(&transcript.call(call.id)?.asked);
        Some(OpenCall { asked, deadline, agent_path: agent_path.to_vec() })
    });
    open.collect()
}
