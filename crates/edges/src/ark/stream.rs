//! A query's journal as server-sent events.
//!
//! [`Narrator`] is the whole translation: each entry of the journal becomes at most one event with an
//! `id`, `<uid>.<seq>`, so a client that shows its last `id` gets exactly what comes after it. Text of
//! a turn that is still being written, and the `error` that goes before the `complete` of a failed
//! query, have no `id`: they come again with what they belong to. Watching changes nothing: a reader
//! that goes away cancels nothing.

use std::{collections::HashMap, sync::Arc};

use axum::{
    body::Bytes,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bosun_core::{
    CallId, Content, Entry, Event, Outcome, QueryName, QueryUid, Seq, Timestamp,
    content::Large,
    event::{AskedCall, Route},
    machine::outcome_code,
    trace::TraceContext,
};
use bosun_engine::{Engine, Snapshot, Watch, Watched, metrics::OpenStream};
use futures_util::stream;
use serde_json::{Value, json};

use super::{
    convert::{large_result, outcome_error},
    duration,
    tellings::{TELLINGS, Tellings},
};
use crate::http::{
    error::{ApiError, Code, clip},
    sse::{self, Message},
    warning,
};

/// No event has more than 1 MiB. What is small as text may still be six times as long in JSON.
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
pub(super) async fn open(
    engine: &Engine,
    snapshot: &Snapshot,
    seen: Seq,
    warnings: &[String],
) -> Result<Response, ApiError> {
    let key = (snapshot.head.namespace.clone(), snapshot.head.name.clone());
    let mut response = if snapshot.transcript.end.as_ref().is_some_and(|end| seen >= end.seq) {
        // The one answer that keeps an `EventSource` from coming back for ever.
        StatusCode::NO_CONTENT.into_response()
    } else {
        let watch = engine.watch(&key, seen).await?;
        sse::respond(events(watch, Narrator::new(snapshot), engine.metrics().stream_opened()))
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
pub(super) fn read_cursor(id: Option<&str>, snapshot: &Snapshot) -> Result<Seq, ApiError> {
    let Some(id) = id else { return Ok(0) };
    let seq = id
        .split_once('.')
        .filter(|(uid, _)| uid.parse() == Ok(snapshot.head.uid))
        .and_then(|(_, seq)| seq.parse::<Seq>().ok())
        .filter(|seq| *seq <= snapshot.head.seq);
    seq.ok_or_else(|| {
        ApiError::new(Code::InvalidEventId, format!("`{}` is not the id of an event of this query", clip(id)))
    })
}

fn events(
    watch: Watch,
    narrator: Narrator,
    counted: OpenStream,
) -> impl futures_util::Stream<Item = Bytes> + Send + 'static {
    let told = stream::unfold(Some((watch, narrator, counted)), async |reading| {
        let (mut watch, mut narrator, counted) = reading?;
        match watch.next().await {
            Ok(Some(watched)) => {
                let text = narrator.write(&watched, watch.has_company().then_some(&TELLINGS));
                Some((text, Some((watch, narrator, counted))))
            }
            Ok(None) if narrator.ended => None,
            // The server shuts down; the query does not end with it.
            Ok(None) => Some((sse::COME_BACK, None)),
            Err(error) => {
                tracing::warn!(error = %error, "journal cannot be read, ending the stream");
                Some((sse::COME_BACK, None))
            }
        }
    });
    // Many entries are nothing to tell of.
    futures_util::StreamExt::filter(told, |text| std::future::ready(!text.is_empty()))
}

/// Tells a journal as events.
#[derive(Debug)]
pub(crate) struct Narrator {
    uid: QueryUid,
    name: QueryName,
    /// That of the query, for those who run its calls.
    trace: Option<Arc<TraceContext>>,
    /// What later entries of a call do not repeat.
    calls: HashMap<CallId, Told>,
    ended: bool,
}

/// What is known of a call.
#[derive(Debug)]
struct Told {
    asked: Arc<AskedCall>,
    since: Timestamp,
}

impl Narrator {
    /// `snapshot` knows the calls that were asked for before the reader came.
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let mut narrator = Self {
            uid: snapshot.head.uid,
            name: snapshot.head.name.clone(),
            trace: snapshot.transcript.spec.trace.clone(),
            calls: HashMap::new(),
            ended: false,
        };
        for call in snapshot.transcript.calls() {
            narrator.remember(&call.asked, call.started_at.unwrap_or(call.asked_at));
        }
        narrator
    }

    /// The lines of one thing that happened, which may be none. Entries are written once for all readers in
    /// `shared`: a journal is told to everybody in the same words.
    fn write(&mut self, watched: &Watched, shared: Option<&Tellings>) -> Bytes {
        let (Some(shared), Watched::Entry(entry)) = (shared, watched) else { return sse::write(&self.tell(watched)) };
        let id = (self.uid, entry.seq);
        if let Some(text) = shared.find(id) {
            self.note(entry);
            return text;
        }
        let text = sse::write(&self.tell(watched));
        shared.keep(id, text.clone());
        text
    }

    /// Keeps what later entries need of this one.
    fn note(&mut self, entry: &Entry) {
        match &entry.event {
            Event::CallAsked(asked) => self.remember(asked, entry.at),
            Event::CallStarted { call, .. } => {
                if let Some(told) = self.calls.get_mut(call) {
                    told.since = entry.at;
                }
            }
            event => self.ended |= event.is_final(),
        }
    }

    /// The events of one thing that happened.
    pub(crate) fn tell(&mut self, watched: &Watched) -> Vec<Message> {
        match watched {
            Watched::Entry(entry) => self.tell_entry(entry),
            Watched::Delta { turn, attempt, offset, text } => {
                let data = json!({ "turn": turn, "attempt": attempt, "offset": offset, "delta": text });
                vec![self.message(None, "agent_response_delta", data)]
            }
        }
    }

    fn tell_entry(&mut self, entry: &Entry) -> Vec<Message> {
        self.note(entry);
        let before = match &entry.event {
            Event::Failed { code, message } => {
                Some(self.message(None, "error", json!({ "code": code, "message": message })))
            }
            _ => None,
        };
        let told = self.tell_event(&entry.event, entry.at);
        let id = Some(format!("{}.{}", self.uid, entry.seq));
        before.into_iter().chain(told.map(|(event, data)| self.message(id, event, data))).collect()
    }

    /// An event that says which query it is of: a client may have asked without a name, or read several streams.
    fn message(&self, id: Option<String>, event: &'static str, mut data: Value) -> Message {
        data["queryName"] = self.name.as_str().into();
        data["uid"] = self.uid.to_string().into();
        Message { id, event, data }
    }

    fn tell_event(&self, event: &Event, at: Timestamp) -> Option<(&'static str, Value)> {
        match event {
            // The first turn, and any that begins again: then what was read of it is void.
            Event::TurnStarted { turn, attempt, .. } if *turn == 1 || *attempt > 1 => {
                Some(("agent_thinking", json!({ "status": "reasoning", "turn": turn, "attempt": attempt })))
            }
            // Text that comes with calls is not the answer; it went out as deltas.
            // What was read of this turn is not the answer: the model is told so, and begins another one.
            Event::TurnEnded { turn, rejected: Some(_), .. } => {
                Some(("agent_thinking", json!({ "status": "correcting", "turn": turn + 1, "attempt": 1 })))
            }
            Event::TurnEnded { text, calls: 0, .. } => {
                Some(("agent_response", json!({ "response": text.as_deref().unwrap_or_default() })))
            }
            Event::CallAsked(asked) => self.tell_asked(asked),
            Event::CallStarted { call, attempt } => {
                let told = self.calls.get(call)?;
                Some((
                    "tool_started",
                    json!({
                        "id": call, "name": told.asked.tool, "arguments": told.asked.arguments, "attempt": attempt,
                    }),
                ))
            }
            Event::CallFinished { call, outcome } => self.tell_finished(*call, outcome, at),
            Event::CallExpired { call } => {
                let message = "no result was delivered in time; the agent was told so";
                self.tell_finished(*call, &Outcome::failure(outcome_code::CALL_EXPIRED, message), at)
            }
            Event::CallResolved { call, outcome, .. } => {
                let name = self.calls.get(call).map(|told| &*told.asked.tool);
                let mut data = json!({
                    "status": "processing", "id": call, "name": name, "success": outcome.is_success(),
                });
                if let Some(large) = outcome.large() {
                    data["largeResult"] = json!(large_result(*call, large));
                }
                Some(("tool_result_received", data))
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
            | Event::LoopNoticed { .. }
            | Event::Held { .. }
            | Event::Continued { .. }
            | Event::Changed(_)
            | Event::ClockStepped { .. }
            | Event::Interrupted
            | Event::Recovered { .. } => None,
        }
    }

    fn tell_asked(&self, asked: &AskedCall) -> Option<(&'static str, Value)> {
        match &asked.route {
            // `args` is the RFC's word, `arguments` everybody else's.
            Route::Outside { deadline } => {
                let mut data = json!({
                    "id": asked.call,
                    "name": asked.tool,
                    "args": asked.arguments,
                    "arguments": asked.arguments,
                    "deadline": deadline.to_rfc3339(),
                });
                if let Some(trace) = &self.trace {
                    data["traceparent"] = trace.to_string().into();
                    if let Some(state) = trace.state() {
                        data["tracestate"] = state.into();
                    }
                }
                Some(("tool_call", data))
            }
            Route::Refused { code, message } => Some((
                "tool_finished",
                json!({
                    "id": asked.call,
                    "name": asked.tool,
                    "success": false,
                    "error": { "code": code, "message": message },
                    "duration": "0s",
                }),
            )),
            // It is told of when it starts.
            Route::Inside { .. } => None,
        }
    }

    fn tell_finished(&self, call: CallId, outcome: &Outcome, at: Timestamp) -> Option<(&'static str, Value)> {
        let told = self.calls.get(&call)?;
        let mut data = json!({ "id": call, "name": told.asked.tool, "success": outcome.is_success() });
        match outcome.content() {
            Some(Content::Inline(value)) if fits_an_event(value) => data["result"] = value.clone(),
            Some(Content::Inline(value)) => data["largeResult"] = json!(large_result(call, &Large::of(value).0)),
            Some(Content::Large(large)) => data["largeResult"] = json!(large_result(call, large)),
            None => {}
        }
        if let Some(error) = outcome_error(outcome) {
            data["error"] = json!({ "code": error.code, "message": error.message });
        }
        data["duration"] = Value::from(duration::format(at.since(told.since)));
        Some(("tool_finished", data))
    }

    fn remember(&mut self, asked: &Arc<AskedCall>, since: Timestamp) {
        self.calls.insert(asked.call, Told { asked: Arc::clone(asked), since });
    }
}

fn end(status: &str) -> (&'static str, Value) {
    ("complete", json!({ "status": status }))
}
