//! A query's journal as server-sent events.
//!
//! [`EventTranslator`] is the whole translation: each entry of the journal becomes at most one event with an
//! `id`, `<uid>.<seq>`, so a client that shows its last `id` gets exactly what comes after it. Text of
//! a turn that is still being written, and the `error` that goes before the `complete` of a failed
//! query, have no `id`: they are sent again with the entry that they belong to. Watching changes nothing: a subscriber
//! that disconnects cancels nothing.

use std::{collections::HashMap, sync::Arc};

use axum::{
    body::Bytes,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bosun_core::{
    CallId, Content, Entry, Event, Outcome, QueryName, QueryUid, Seq, Timestamp,
    content::Large,
    event::{AskedCall, CallRoute},
    machine::outcome_code,
    trace::TraceContext,
};
use bosun_engine::{CallInProgress, Engine, Snapshot, Watch, Watched, metrics::OpenStream, runner::Progress};
use futures_util::stream;
use serde_json::{Value, json};

use super::{
    convert::{large_result, outcome_error},
    sse_cache::{SSE_CACHE, SseCache},
};
use crate::{
    ark::duration,
    http::{
        error::{ApiError, Code, clip},
        sse::{self, SseMessage},
        warning,
    },
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
pub(crate) async fn open(
    engine: &Engine,
    snapshot: &Snapshot,
    seen: Seq,
    warnings: &[String],
) -> Result<Response, ApiError> {
    let key = (snapshot.head.namespace.clone(), snapshot.head.name.clone());
    let mut response = if snapshot.transcript.end.as_ref().is_some_and(|end| seen >= end.seq) {
        // The one answer that keeps an `EventSource` from reconnecting for ever.
        StatusCode::NO_CONTENT.into_response()
    } else {
        let watch = engine.watch(&key, seen).await?;
        sse::respond(events(watch, EventTranslator::new(snapshot), engine.metrics().stream_opened()))
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
    translator: EventTranslator,
    counted: OpenStream,
) -> impl futures_util::Stream<Item = Bytes> + Send + 'static {
    let texts = stream::unfold(Some((watch, translator, counted)), async |reading| {
        let (mut watch, mut translator, counted) = reading?;
        match watch.next().await {
            Ok(Some(watched)) => {
                let text = translator.write(&watched, watch.has_company().then_some(&SSE_CACHE));
                Some((text, Some((watch, translator, counted))))
            }
            Ok(None) if translator.ended => None,
            // The server shuts down; the query does not end with it.
            Ok(None) => Some((sse::RECONNECT, None)),
            Err(error) => {
                tracing::warn!(error = %error, "journal cannot be read, ending the stream");
                Some((sse::RECONNECT, None))
            }
        }
    });
    // Many entries have no event.
    futures_util::StreamExt::filter(texts, |text| std::future::ready(!text.is_empty()))
}

/// Translates a journal into events.
#[derive(Debug)]
pub(crate) struct EventTranslator {
    uid: QueryUid,
    name: QueryName,
    /// The trace of the query, for the clients that run its calls.
    trace: Option<Arc<TraceContext>>,
    /// What later entries of a call do not repeat.
    calls: HashMap<CallId, ShownCall>,
    ended: bool,
}

/// What the events of a call show.
#[derive(Debug)]
struct ShownCall {
    asked: Arc<AskedCall>,
    since: Timestamp,
    /// It runs on elsewhere: from now on it is polled, not started.
    is_pending: bool,
}

impl EventTranslator {
    /// `snapshot` has the calls from before the subscription.
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let mut translator = Self {
            uid: snapshot.head.uid,
            name: snapshot.head.name.clone(),
            trace: snapshot.transcript.spec.trace.clone(),
            calls: HashMap::new(),
            ended: false,
        };
        for call in snapshot.transcript.calls() {
            translator.remember(&call.asked, call.started_at.unwrap_or(call.asked_at), call.pending.is_some());
        }
        translator
    }

    /// The lines of one thing that happened, which may be none. With a `cache`, an entry is serialized once for all
    /// subscribers: its text is the same for each of them.
    fn write(&mut self, watched: &Watched, cache: Option<&SseCache>) -> Bytes {
        let (Some(cache), Watched::Entry(entry)) = (cache, watched) else {
            return sse::write(&self.translate(watched));
        };
        let id = (self.uid, entry.seq);
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
            Event::CallAsked(asked) => self.remember(asked, entry.at, false),
            Event::CallStarted { call, .. } => {
                if let Some(call) = self.calls.get_mut(call).filter(|call| !call.is_pending) {
                    call.since = entry.at;
                }
            }
            Event::CallPending { call, .. } => {
                if let Some(call) = self.calls.get_mut(call) {
                    call.is_pending = true;
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
        SseMessage { id, event, data }
    }

    fn translate_event(&self, event: &Event, at: Timestamp) -> Option<(&'static str, Value)> {
        match event {
            // The first turn, and any that begins again: then what was read of it is void.
            Event::TurnStarted { turn, attempt, .. } if *turn == 1 || *attempt > 1 => {
                Some(("agent_thinking", json!({ "status": "reasoning", "turn": turn, "attempt": attempt })))
            }
            // Text that comes with calls is not the answer; it went out as deltas.
            // What was read of this turn is not the answer: the model gets the fault, and begins another one.
            Event::TurnEnded { turn, rejected: Some(_), .. } => {
                Some(("agent_thinking", json!({ "status": "correcting", "turn": turn + 1, "attempt": 1 })))
            }
            Event::TurnEnded { text, calls: 0, .. } => {
                Some(("agent_response", json!({ "response": text.as_deref().unwrap_or_default() })))
            }
            Event::CallAsked(asked) => self.translate_asked(asked),
            Event::CallStarted { call, attempt } => {
                let shown = self.calls.get(call).filter(|call| !call.is_pending)?;
                Some((
                    "tool_started",
                    json!({
                        "id": call, "name": shown.asked.tool, "arguments": shown.asked.arguments, "attempt": attempt,
                    }),
                ))
            }
            Event::CallFinished { call, outcome } => self.translate_finished(*call, outcome, at),
            Event::CallExpired { call } => {
                let message = "no result was delivered in time; the agent was told so";
                self.translate_finished(*call, &Outcome::failure(outcome_code::CALL_EXPIRED, message), at)
            }
            Event::CallResolved { call, outcome, .. } => {
                let name = self.calls.get(call).map(|shown| &*shown.asked.tool);
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
            | Event::CallPending { .. }
            | Event::CallDue { .. }
            | Event::LoopNoticed { .. }
            | Event::Held { .. }
            | Event::Continued { .. }
            | Event::Changed(_)
            | Event::ClockStepped { .. }
            | Event::Interrupted
            | Event::Recovered { .. } => None,
        }
    }

    fn translate_asked(&self, asked: &AskedCall) -> Option<(&'static str, Value)> {
        match &asked.route {
            // `args` is the RFC's word, `arguments` that of all other APIs.
            CallRoute::Outside { deadline } => {
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
            CallRoute::Refused { code, message } => Some((
                "tool_finished",
                json!({
                    "id": asked.call,
                    "name": asked.tool,
                    "success": false,
                    "error": { "code": code, "message": message },
                    "duration": "0s",
                }),
            )),
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

    fn remember(&mut self, asked: &Arc<AskedCall>, since: Timestamp, is_pending: bool) {
        self.calls.insert(asked.call, ShownCall { asked: Arc::clone(asked), since, is_pending });
    }
}

fn end(status: &str) -> (&'static str, Value) {
    ("complete", json!({ "status": status }))
}
