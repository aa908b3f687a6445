//! Spans for OpenTelemetry, sent as OTLP over HTTP in JSON.
//!
//! Every span of the program becomes a span of a trace. Fields of a span override its parent: `traceparent` is its
//! parent, `trace` its own id where the program has chosen it. Agents, models and tools are named by the GenAI
//! conventions (`invoke_agent`, `chat`, `execute_tool`, `gen_ai.*`), and none of their content is sent. A trace that
//! its caller does not sample is not sent either; there is no other sampling here: collectors do that better.
//! `docs/decisions/016-otlp.md` explains why the crates of OpenTelemetry are not used.

mod export;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use bosun_core::trace::TraceContext;
use serde_json::{Value, json};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

pub(super) use export::Exporter;

/// Starts the export to the collector in the environment; `None` if there is none.
pub(super) fn start() -> anyhow::Result<Option<(Spans, Exporter)>> {
    let Some(collector) = export::Collector::of_environment(|name| std::env::var(name).ok())? else { return Ok(None) };
    let exporter = Exporter::start(collector)?;
    Ok(Some((Spans::new(exporter.clone()), exporter)))
}

/// A layer that turns the program's spans into spans of a trace.
pub(super) struct Spans {
    exporter: Exporter,
    random: RandomState,
    next: AtomicU64,
}

impl Spans {
    fn new(exporter: Exporter) -> Self {
        Self { exporter, random: RandomState::new(), next: AtomicU64::new(0) }
    }

    fn random(&self) -> u64 {
        // Ids must be unique, not secret; zero is not a valid id.
        self.random.hash_one(self.next.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}

/// A span in progress.
struct Open {
    trace: u128,
    id: u64,
    parent: Option<u64>,
    /// Links to spans of other traces that caused it.
    links: Vec<(u128, u64)>,
    sampled: bool,
    began: SystemTime,
    fields: Fields,
}

/// The fields of a span.
#[derive(Default)]
struct Fields {
    attributes: Vec<Value>,
    traceparent: Option<TraceContext>,
    trace: Option<TraceContext>,
    /// The suffix of the span's name.
    subject: Option<String>,
    method: Option<String>,
    /// Whether an agent is run, and not a model or a tool alone.
    is_agent: bool,
    failed: bool,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        let text = || value["stringValue"].as_str().map(str::to_owned);
        let context = || TraceContext::parse(value["stringValue"].as_str()?, None);
        let name = match field.name() {
            "traceparent" => return self.traceparent = context(),
            "trace" => return self.trace = context(),
            "model" => "gen_ai.request.model",
            "provider" => "gen_ai.provider.name",
            "input_tokens" => "gen_ai.usage.input_tokens",
            "output_tokens" => "gen_ai.usage.output_tokens",
            "cached_tokens" => "gen_ai.usage.cache_read.input_tokens",
            "cache_write_tokens" => "gen_ai.usage.cache_creation.input_tokens",
            "tool" => "gen_ai.tool.name",
            "call" => "gen_ai.tool.call.id",
            "agent" => "gen_ai.agent.name",
            "conversation" => "gen_ai.conversation.id",
            "method" => "http.request.method",
            "route" => "http.route",
            "status" => "http.response.status_code",
            "error" => "error.type",
            "namespace" => "bosun.namespace",
            "query" => "bosun.query.name",
            "uid" => "bosun.query.uid",
            "state" => "bosun.query.state",
            "target" => "bosun.target",
            "turn" => "bosun.turn",
            "attempt" => "bosun.attempt",
            "kind" => "bosun.tool.kind",
            "answered_by" => "bosun.model.answered_by",
            "request" => "bosun.request.id",
            other => other,
        };
        match name {
            "gen_ai.request.model" | "gen_ai.tool.name" | "gen_ai.agent.name" | "http.route" => self.subject = text(),
            "http.request.method" => self.method = text(),
            "bosun.target" => self.is_agent = value["stringValue"] == "agent",
            "error.type" => self.failed = true,
            // An error of the client is not a failure of the server.
            "http.response.status_code" => {
                let status = value["intValue"].as_str().and_then(|status| status.parse().ok());
                self.failed |= status.is_some_and(|status: u16| status >= 500);
            }
            _ => {}
        }
        self.attributes.push(json!({"key": name, "value": value}));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, json!({"stringValue": format!("{value:?}")}));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, json!({"stringValue": value}));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        // OTLP's JSON encodes 64-bit integers as strings.
        self.add(field, json!({"intValue": value.to_string()}));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, json!({"intValue": value.to_string()}));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, json!({"boolValue": value}));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, new: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        new.record(&mut fields);
        let above = span.parent().and_then(|parent| {
            parent.extensions().get::<Open>().map(|parent| (parent.trace, Some(parent.id), parent.sampled))
        });
        let (trace, parent, sampled) = match (above, &fields.traceparent, &fields.trace) {
            (Some(above), _, _) => above,
            (None, Some(caller), _) => (caller.trace(), Some(caller.span()), caller.is_sampled()),
            (None, None, Some(own)) => (own.trace(), None, own.is_sampled()),
            (None, None, None) => (u128::from(self.random()) << 64 | u128::from(self.random()), None, true),
        };
        let id = fields.trace.as_ref().map_or_else(|| self.random(), TraceContext::span);
        let open = Open { trace, id, parent, links: Vec::new(), sampled, began: SystemTime::now(), fields };
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            values.record(&mut open.fields);
        }
    }

    fn on_follows_from(&self, id: &Id, cause: &Id, context: Context<'_, S>) {
        let (Some(span), Some(cause)) = (context.span(id), context.span(cause)) else { return };
        let Some((trace, id)) = cause.extensions().get::<Open>().map(|cause| (cause.trace, cause.id)) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<Open>()
            // Within a trace, the parent is sufficient.
            && open.trace != trace
        {
            open.links.push((trace, id));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<Open>() else { return };
        if open.sampled {
            self.exporter.send(finish(span.name(), open));
        }
    }
}

fn finish(name: &str, open: Open) -> Value {
    let Open { trace, id, parent, links, began, fields, .. } = open;
    let Fields { mut attributes, subject, method, is_agent, failed, .. } = fields;
    let operation = match name {
        "query.run" if is_agent => Some("invoke_agent"),
        "model.reply" => Some("chat"),
        "tool.call" => Some("execute_tool"),
        _ => None,
    };
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    attributes.extend(operation.map(|name| text("gen_ai.operation.name", name)));
    if name == "tool.call" {
        // It runs on the agent's side; what a client runs would be a `function`.
        attributes.push(text("gen_ai.tool.type", "extension"));
    }
    let before = operation.map(str::to_owned).or_else(|| method.filter(|_| name == "http.request"));
    let shown = match (before, subject) {
        (Some(before), Some(subject)) => format!("{before} {subject}"),
        (Some(before), None) => before,
        (None, _) => name.to_owned(),
    };
    // SERVER for incoming requests, CLIENT for outgoing ones, INTERNAL for the rest.
    let kind = match name {
        "http.request" => 2,
        "model.reply" => 3,
        _ => 1,
    };
    let place = |trace: u128, id: u64| json!({"traceId": format!("{trace:032x}"), "spanId": format!("{id:016x}")});
    let mut span = place(trace, id);
    span["name"] = shown.into();
    span["kind"] = kind.into();
    span["startTimeUnixNano"] = nanos(began).into();
    span["endTimeUnixNano"] = nanos(SystemTime::now()).into();
    span["attributes"] = attributes.into();
    if let Some(parent) = parent {
        span["parentSpanId"] = format!("{parent:016x}").into();
    }
    if !links.is_empty() {
        span["links"] = links.into_iter().map(|(trace, id)| place(trace, id)).collect();
    }
    if failed {
        span["status"] = json!({"code": 2});
    }
    span
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
