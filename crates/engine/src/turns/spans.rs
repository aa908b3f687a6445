//! Tracing spans of a query's work.
//!
//! Without a span exporter they only give log lines their context, and have no more fields than that takes. With one
//! they also have the attributes of the GenAI semantic conventions, and their place in the caller's trace:
//! `traceparent` is the parent span, `trace` is the span itself if its id must be known elsewhere. No prompt, answer,
//! argument or result is ever a field.

use std::sync::Arc;

use bosun_core::{ContentHash, Head, Outcome, Transcript, trace::TraceContext, transcript::Ending};
use tracing::{Span, field::Empty};

use crate::{
    engine::Inner,
    model::{ModelError, ModelReply, ModelRequest},
    queries::live::LiveQuery,
    runner::InsideCall,
};

/// One run of a query, from when it is resumed until it waits or ends. `cause` is the span that resumed it, which may
/// belong to another trace. Without an exporter there is no such span: every log line of the engine names its query,
/// and models and tools have spans of their own.
pub(crate) async fn run(inner: &Inner, live: &LiveQuery, cause: Option<Span>) -> Span {
    if !inner.settings.exports_spans {
        return Span::none();
    }
    let query = &live.key.1;
    // A query that cannot be read is found by the driver, which reports it.
    let known = match live.lock(&*inner.store).await {
        Ok(locked) => locked.state().map(|state| (Arc::clone(&state.head), Arc::clone(&state.transcript))),
        Err(_) => None,
    };
    let Some((head, transcript)) = known else { return tracing::info_span!("query.run", %query) };
    let spec = &transcript.spec;
    let span = tracing::info_span!(
        "query.run",
        namespace = %head.namespace,
        %query,
        uid = %head.uid,
        agent = &*head.target,
        target = spec.target_kind.as_str(),
        conversation = spec.conversation.as_ref().map(|conversation| conversation.key.id.as_str()),
        traceparent = spec.trace.as_ref().map(tracing::field::display),
        state = Empty,
        error = Empty,
    );
    if let Some(cause) = cause {
        span.follows_from(&cause);
    }
    span
}

/// Records in the current span how the run ended.
pub(crate) fn rests(inner: &Inner, head: &Head, transcript: &Transcript) {
    if inner.settings.exports_spans {
        let span = Span::current();
        span.record("state", head.status().as_str());
        if let Some(Ending::Failed { code, .. }) = transcript.end.as_ref().map(|end| &end.how) {
            span.record("error", code.as_str());
        }
    }
}

/// The trace context that a model is sent for one turn: a span of the query's trace, or the caller's own span without
/// an exporter.
pub(crate) fn trace_of_turn(inner: &Inner, head: &Head, transcript: &Transcript) -> Option<Arc<TraceContext>> {
    let trace = transcript.spec.trace.as_ref()?;
    if !inner.settings.exports_spans {
        return Some(Arc::clone(trace));
    }
    let (turn, attempt) = (head.turn.to_be_bytes(), head.attempt.to_be_bytes());
    Some(Arc::new(trace.at(span_id(&[head.uid.as_bytes(), &turn, &attempt]))))
}

/// Deterministic in its parts, and never used twice: an attempt is not repeated under its number.
fn span_id(parts: &[&[u8]]) -> u64 {
    let hash = ContentHash::of_parts(parts);
    hash.as_bytes().first_chunk().map_or(1, |bytes| u64::from_be_bytes(*bytes)).max(1)
}

/// One request to a model.
pub(crate) fn turn(inner: &Inner, live: &LiveQuery, model: &str, provider: &str, request: &ModelRequest) -> Span {
    let turn = request.turn;
    if !inner.settings.exports_spans {
        return tracing::info_span!("model.reply", query = live.key.1.as_str(), turn, model);
    }
    let (uid, trace) = (request.query, request.trace.as_ref().map(tracing::field::display));
    tracing::info_span!(
        "model.reply",
        %uid,
        turn,
        model,
        provider,
        trace,
        answered_by = Empty,
        input_tokens = Empty,
        output_tokens = Empty,
        cached_tokens = Empty,
        cache_write_tokens = Empty,
        error = Empty,
    )
}

/// Records a model's answer in its span.
pub(crate) fn replied(span: &Span, reply: &Result<ModelReply, ModelError>) {
    match reply {
        Ok(reply) => {
            let usage = reply.usage;
            span.record("input_tokens", usage.prompt_tokens).record("output_tokens", usage.completion_tokens);
            if usage.cached_tokens > 0 {
                span.record("cached_tokens", usage.cached_tokens);
            }
            if usage.cache_write_tokens > 0 {
                span.record("cache_write_tokens", usage.cache_write_tokens);
            }
            if let Some(name) = &reply.answered_by {
                span.record("answered_by", name.as_str());
            }
        }
        Err(error) => {
            span.record("error", error.code());
        }
    }
}

/// One run of an inside tool.
pub(crate) fn call(inner: &Inner, live: &LiveQuery, call: &InsideCall) -> Span {
    let (id, tool) = (call.id, &call.tool.name);
    if !inner.settings.exports_spans {
        return tracing::info_span!("tool.call", query = live.key.1.as_str(), call = %id, tool);
    }
    let kind = call.tool.binding.kind().as_str();
    tracing::info_span!("tool.call", call = %id, tool, kind, attempt = call.attempt, error = Empty)
}

/// Records a tool's outcome in its span.
pub(crate) fn finished(span: &Span, outcome: &Outcome) {
    if let Outcome::Failure { code, .. } = outcome {
        span.record("error", code.as_str());
    }
}
