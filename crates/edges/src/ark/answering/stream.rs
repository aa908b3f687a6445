//! A query's journal as server-sent events.
//!
//! [`EventTranslator`] is the whole translation: each entry of the journal becomes at most one event with an
//! `id`, `<uid>.<seq>`, so a client that sends its last `id` gets exactly what comes after it. Text of
//! a turn that is still being written, and the `error` that goes before the `complete` of a failed
//! query, have no `id`: they are sent again with the entry that they belong to. Watching changes nothing: a subscriber
//! that disconnects cancels nothing.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    body::Bytes,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bosun_core::{
    CallId, Content, Entry, Event, Outcome, QueryName, QueryUid, Seq, Timestamp,
    content::Large,
    event::{AskedCall, CallQuestion, CallRoute},
    json::content_hash,
    machine::outcome_code,
    trace::TraceContext,
    transcript::expired,
};
use bosun_engine::{BelowCall, CallInProgress, Engine, Snapshot, Watched, runner::Progress};
use serde_json::{Value, json};

use super::convert::{large_result, outcome_error};
use crate::{
    Edge,
    ark::duration,
    asking::{
        cursor,
        follow::{Narrate, follow},
        person::{parameter_request, preview, question_request},
    },
    http::{
        error::ApiError,
        sse::{self, SseMessage},
        sse_cache::{SSE_CACHE, SseCache},
        warning,
    },
};

/// No event has more than 1 MiB. A text may be six times as long in JSON.
const RESULT_IN_EVENT: usize = 512 * 1024;

fn fits_an_event(value: &Value) -> bool {
    match value {
        Value::String(text) if text.len() * 6 <= RESULT_IN_EVENT => true,
        Value::String(_) => value.to_string().len() <= RESULT_IN_EVENT,
        // It is small as JSON, or it would not be inline.
        _ => true,
    }
}

/// Streams what happens to a query after entry `seen` of its journal.
pub(crate) async fn open(
    engine: &Engine,
    snapshot: &Snapshot,
    seen: Seq,
    warnings: &[String],
) -> Result<Response, ApiError> {
    let key = (snapshot.head.namespace.clone(), snapshot.head.name.clone());
    let mut response = if snapshot.transcript.end.as_ref().is_some_and(|end| seen >= end.seq) {
        // The one answer that keeps an `EventSource` from reconnecting forever.
        StatusCode::NO_CONTENT.into_response()
    } else {
        let watch = engine.watch(&key, seen).await?;
        sse::respond(follow(watch, EventTranslator::new(snapshot), engine.metrics().stream_opened()))
    };
    let (namespace, name) = &key;
    let headers = response.headers_mut();
    // Names are DNS names, so these are always legal header values.
    if let Ok(name) = HeaderValue::from_str(name.as_str()) {
        headers.insert("x-query-name", name);
    }
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/namespaces/{namespace}/queries/{name}")) {
        headers.insert(header::LOCATION, location);
    }
    warning::add(headers, warnings);
    Ok(response)
}

/// The entry that a client has seen last, from the `id` that came with it.
pub(crate) fn read_cursor(id: Option<&str>, snapshot: &Snapshot) -> Result<Seq, ApiError> {
    id.map_or(Ok(0), |id| cursor::read(id, snapshot))
}

impl Narrate for EventTranslator {
    fn narrate(&mut self, watched: &Watched, has_other_subscribers: bool) -> Bytes {
        self.write(watched, has_other_subscribers.then_some(&SSE_CACHE))
    }

    fn is_over(&self) -> bool {
        self.ended
    }
}

/// Translates a journal into events.
#[derive(Debug)]
pub(crate) struct EventTranslator {
    uid: QueryUid,
    name: QueryName,
    /// The agents and teams from the root to the query, if it is the child of another one.
    agent_path: Option<Value>,
    /// The trace of the query, for the clients that run its calls.
    trace: Option<Arc<TraceContext>>,
    /// State of each call that later entries do not repeat.
    calls: HashMap<CallId, ShownCall>,
    ended: bool,
}

/// What the events of a call show.
#[derive(Debug)]
struct ShownCall {
    asked: Arc<AskedCall>,
    since: Timestamp,
    /// It is still running elsewhere: from now on it is polled, not started.
    is_pending: bool,
    /// A person has approved it.
    is_decided: bool,
    /// Those that are run.
    arguments: Arc<Value>,
}

impl EventTranslator {
    /// `snapshot` has the calls from before the subscription.
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let mut translator = Self {
            uid: snapshot.head.uid,
            name: snapshot.head.name.clone(),
            agent_path: snapshot.head.lineage.as_ref().map(|lineage| json!(lineage.path)),
            trace: snapshot.transcript.spec.trace.clone(),
            calls: HashMap::new(),
            ended: false,
        };
        for call in snapshot.transcript.calls() {
            translator.calls.insert(
                call.asked.call,
                ShownCall {
                    asked: Arc::clone(&call.asked),
                    since: call.started_at.unwrap_or(call.asked_at),
                    is_pending: call.pending.is_some(),
                    is_decided: call.decision.is_some(),
                    arguments: Arc::clone(call.arguments()),
                },
            );
        }
        translator
    }

    /// The lines of one entry or delta; empty if it has no event. With a `cache`, an entry is serialized once for all
    /// subscribers: its text is the same for each of them.
    fn write(&mut self, watched: &Watched, cache: Option<&SseCache>) -> Bytes {
        let (Some(cache), Watched::Entry(entry)) = (cache, watched) else {
            return sse::write(&self.translate(watched));
        };
        let id = (Edge::Ark, self.uid, entry.seq);
        if let Some(text) = cache.get(id) {
            self.note(entry);
            return text;
        }
        let text = sse::write(&self.translate(watched));
        cache.insert(id, text.clone());
        text
    }

    /// Keeps what later entries need of this one.
    fn note(&mut self, entry: &Entry) {
        match &entry.event {
            Event::CallAsked(asked) => self.remember(asked, entry.at),
            Event::CallStarted { call, .. } => {
                if let Some(call) = self.calls.get_mut(call).filter(|call| !call.is_pending) {
                    call.since = entry.at;
                }
            }
            Event::CallPending { call, .. } | Event::CallQuestioned { call, .. } => {
                if let Some(call) = self.calls.get_mut(call) {
                    call.is_pending = true;
                }
            }
            Event::CallApproved { call, arguments, .. } => {
                if let Some(call) = self.calls.get_mut(call) {
                    call.is_decided = true;
                    call.arguments = arguments.clone().unwrap_or_else(|| Arc::clone(&call.arguments));
                }
            }
            event => self.ended |= event.is_final(),
        }
    }

    /// The events of an entry, or of a piece of text.
    pub(crate) fn translate(&mut self, watched: &Watched) -> Vec<SseMessage> {
        match watched {
            Watched::Entry(entry) => self.translate_entry(entry),
            Watched::Delta { turn, attempt, offset, text } => {
                let data = json!({ "turn": turn, "attempt": attempt, "offset": offset, "delta": text });
                vec![self.message(None, "agent_response_delta", data)]
            }
            Watched::Below(below) => self.translate_below(below),
            // Its result is an event of the query below.
            Watched::BelowEnded(_) => Vec::new(),
            Watched::Progress(CallInProgress { call, tool, progress: Progress { done, total, message } }) => {
                let mut data = json!({ "id": call, "name": tool, "progress": done });
                if let Some(total) = total {
                    data["total"] = json!(total);
                }
                if let Some(message) = message {
                    data["message"] = json!(message);
                }
                vec![self.message(None, "tool_progress", data)]
            }
        }
    }

    /// A call of a query below this one. It has no `id`: a client that reconnects gets it again while it is open.
    fn translate_below(&self, below: &BelowCall) -> Vec<SseMessage> {
        let translated = match &below.question {
            Some(question) => Some(translate_question(&below.asked, question, below.deadline)),
            None => self.translate_asked(&below.asked, below.at),
        };
        let Some((event, mut data)) = translated else { return Vec::new() };
        data["agentPath"] = json!(below.path);
        data["childName"] = below.query.as_str().into();
        vec![self.message(None, event, data)]
    }

    fn translate_entry(&mut self, entry: &Entry) -> Vec<SseMessage> {
        self.note(entry);
        let before = match &entry.event {
            Event::Failed { code, message } => {
                Some(self.message(None, "error", json!({ "code": code, "message": message })))
            }
            _ => None,
        };
        let translated = self.translate_event(&entry.event, entry.at);
        let id = Some(format!("{}.{}", self.uid, entry.seq));
        before.into_iter().chain(translated.map(|(event, data)| self.message(id, event, data))).collect()
    }

    /// An event that says which query it is of: a client may have asked without a name, or read several streams.
    fn message(&self, id: Option<String>, event: &'static str, mut data: Value) -> SseMessage {
        data["queryName"] = self.name.as_str().into();
        data["uid"] = self.uid.to_string().into();
        // An event of a query below this one has its own path.
        if let (Some(path), None) = (&self.agent_path, data.get("agentPath")) {
            data["agentPath"] = path.clone();
        }
        SseMessage { id, event, data }
    }

    fn translate_event(&self, event: &Event, at: Timestamp) -> Option<(&'static str, Value)> {
        match event {
            // The first turn, and any that begins again: then the client discards what it has read of it.
            Event::TurnStarted { turn, attempt, .. } if *turn == 1 || *attempt > 1 => {
                Some(("agent_thinking", json!({ "status": "reasoning", "turn": turn, "attempt": attempt })))
            }
            // A rejected answer: the client discards it, and the model corrects it in the next turn.
            Event::TurnEnded { turn, rejected: Some(_), .. } => {
                Some(("agent_thinking", json!({ "status": "correcting", "turn": turn + 1, "attempt": 1 })))
            }
            // Text that comes with calls is not the answer; it was sent as deltas.
            Event::TurnEnded { text, calls: 0, .. } => {
                Some(("agent_response", json!({ "response": text.as_deref().unwrap_or_default() })))
            }
            Event::CallAsked(asked) => self.translate_asked(asked, at),
            Event::CallStarted { call, attempt } => {
                let shown = self.calls.get(call).filter(|call| !call.is_pending)?;
                Some((
                    "tool_started",
                    json!({
                        "id": call, "name": shown.asked.tool, "arguments": shown.arguments, "attempt": attempt,
                    }),
                ))
            }
            Event::CallDelegated { call, child } => self.translate_child("child_started", *call, *child),
            Event::ChildEnded { call, child, .. } => self.translate_child("child_ended", *call, *child),
            Event::CallFinished { call, outcome } => self.translate_finished(*call, outcome, at),
            Event::CallExpired { call } => {
                let shown = self.calls.get(call)?;
                let outcome = match expired(&shown.asked, shown.is_decided) {
                    Outcome::Failure { code, .. } if code == outcome_code::CALL_EXPIRED => {
                        Outcome::failure(code, "no result was delivered in time; the agent continues without it")
                    }
                    outcome => outcome,
                };
                self.translate_finished(*call, &outcome, at)
            }
            Event::CallApproved { call, hash, arguments, .. } => {
                let shown = self.calls.get(call)?;
                let mut data = json!({ "id": call, "name": shown.asked.tool, "decision": "approved", "hash": hash });
                if let Some(arguments) = arguments {
                    data["arguments"] = Value::clone(arguments);
                }
                Some(("approval_decided", data))
            }
            Event::CallRejected { call, reason, .. } => {
                let shown = self.calls.get(call)?;
                let mut data = json!({ "id": call, "name": shown.asked.tool, "decision": "rejected" });
                if let Some(reason) = reason {
                    data["reason"] = reason.as_str().into();
                }
                Some(("approval_decided", data))
            }
            Event::CallResolved { call, outcome, took_ms, .. } => {
                let name = self.calls.get(call).map(|shown| &*shown.asked.tool);
                let mut data = json!({
                    "status": "processing", "id": call, "name": name, "success": outcome.is_success(),
                });
                if let Some(large) = outcome.large() {
                    data["largeResult"] = json!(large_result(*call, large));
                }
                if let Some(took) = took_ms {
                    data["duration"] = duration::format(Duration::from_millis(*took)).into();
                }
                Some(("tool_result_received", data))
            }
            Event::CallQuestioned { call, question, deadline, .. } => {
                let shown = self.calls.get(call)?;
                Some(translate_question(&shown.asked, question, *deadline))
            }
            Event::CallAnswered { call, .. } => {
                let name = self.calls.get(call).map(|shown| &*shown.asked.tool);
                Some((
                    "tool_result_received",
                    json!({ "status": "processing", "id": call, "name": name, "success": true }),
                ))
            }
            Event::Completed => Some(end("completed")),
            Event::Failed { .. } => Some(end("failed")),
            Event::Cancelled { reason, .. } => {
                let (event, mut data) = end("cancelled");
                if let Some(reason) = reason {
                    data["reason"] = Value::from(reason.as_str());
                }
                Some((event, data))
            }
            Event::Created { .. }
            | Event::TurnStarted { .. }
            | Event::TurnEnded { .. }
            | Event::CallPending { .. }
            | Event::CallDue { .. }
            | Event::CallClaimed { .. }
            | Event::CallExtended { .. }
            | Event::CallReleased { .. }
            | Event::LoopNoticed { .. }
            | Event::Held { .. }
            | Event::Continued { .. }
            | Event::Changed(_)
            | Event::ClockStepped { .. }
            | Event::Interrupted
            | Event::Settled
            | Event::Recovered { .. } => None,
        }
    }

    /// The query that answers a call has a stream of its own, under this name. It may end before its beginning is
    /// recorded; then only its end is sent.
    fn translate_child(&self, event: &'static str, call: CallId, child: QueryUid) -> Option<(&'static str, Value)> {
        let shown = self.calls.get(&call)?;
        let name = QueryName::for_uid(child);
        Some((event, json!({ "id": call, "name": shown.asked.tool, "childName": name.as_str() })))
    }

    fn translate_asked(&self, asked: &AskedCall, at: Timestamp) -> Option<(&'static str, Value)> {
        match &asked.route {
            // `args` is the RFC's word, `arguments` that of all other APIs.
            CallRoute::Outside { deadline, claim } => {
                let mut data = json!({
                    "id": asked.call,
                    "name": asked.tool,
                    "args": asked.arguments,
                    "arguments": asked.arguments,
                    "deadline": deadline.to_rfc3339(),
                });
                if claim.is_some() {
                    data["workers"] = true.into();
                }
                if let Some(trace) = &self.trace {
                    data["traceparent"] = trace.to_string().into();
                    if let Some(state) = trace.state() {
                        data["tracestate"] = state.into();
                    }
                }
                Some(("tool_call", data))
            }
            CallRoute::Approval { deadline, .. } => Some((
                "approval_required",
                json!({
                    "id": asked.call,
                    "name": asked.tool,
                    "arguments": asked.arguments,
                    "preview": preview(&asked.tool, &asked.arguments),
                    "hash": content_hash(&asked.arguments),
                    "deadline": deadline.to_rfc3339(),
                }),
            )),
            CallRoute::Parameters { deadline } => {
                Some(("parameters_required", json!(parameter_request(asked, *deadline))))
            }
            CallRoute::Refused { code, message, .. } => Some((
                "tool_finished",
                json!({
                    "id": asked.call,
                    "name": asked.tool,
                    "success": false,
                    "error": { "code": code, "message": message },
                    "duration": "0s",
                }),
            )),
            CallRoute::Cached { outcome, .. } => {
                let (event, mut data) = self.translate_finished(asked.call, outcome, at)?;
                data["cached"] = true.into();
                Some((event, data))
            }
            // Its event is sent when it starts.
            CallRoute::Inside { .. } => None,
        }
    }

    fn translate_finished(&self, call: CallId, outcome: &Outcome, at: Timestamp) -> Option<(&'static str, Value)> {
        let shown = self.calls.get(&call)?;
        let mut data = json!({ "id": call, "name": shown.asked.tool, "success": outcome.is_success() });
        match outcome.content() {
            Some(Content::Inline(value)) if fits_an_event(value) => data["result"] = value.clone(),
            Some(Content::Inline(value)) => data["largeResult"] = json!(large_result(call, &Large::of(value).0)),
            // They are small as JSON, or they would not be inline.
            Some(Content::Blocks(blocks)) => {
                data["result"] = blocks.content().into();
                if let Some(structured) = blocks.structured() {
                    data["structuredContent"] = structured.clone();
                }
            }
            Some(Content::Large(large)) => data["largeResult"] = json!(large_result(call, large)),
            None => {}
        }
        if let Some(error) = outcome_error(outcome) {
            data["error"] = json!({ "code": error.code, "message": error.message });
        }
        data["duration"] = Value::from(duration::format(at.since(shown.since)));
        Some(("tool_finished", data))
    }

    fn remember(&mut self, asked: &Arc<AskedCall>, since: Timestamp) {
        let (shown, arguments) = (Arc::clone(asked), Arc::clone(&asked.arguments));
        let shown = ShownCall { asked: shown, since, is_pending: false, is_decided: false, arguments };
        self.calls.insert(asked.call, shown);
    }
}

fn translate_question(asked: &AskedCall, question: &CallQuestion, deadline: Timestamp) -> (&'static str, Value) {
    ("parameters_required", json!(question_request(asked, question, deadline)))
}

fn end(status: &str) -> (&'static str, Value) {
    ("complete", json!({ "status": status }))
}
