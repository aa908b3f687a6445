//! Spans for OpenTelemetry, sent as OTLP over HTTP in JSON.
//!
//! Every span of the program becomes one of a trace. A request that brings a W3C `traceparent` goes on in the
//! caller's trace. Models and tools are named as the GenAI conventions have it (`chat`, `execute_tool`,
//! `gen_ai.*`). Spans go out in batches from a thread of their own; when the collector does not keep up, they
//! are dropped and counted, and nothing else waits. There is no sampling here: collectors do that better.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use serde_json::{Value, json};
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// Spans that wait to be sent.
const WAITING: usize = 8_192;
const BATCH: usize = 512;
const PERIOD: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where the collector is, from the variables that OpenTelemetry names; `None` if there is none.
pub(super) fn endpoint() -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| {
        let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT")?;
        Some(format!("{}/v1/traces", base.trim_end_matches('/')))
    })
}

/// Makes spans of a trace of what the program traces.
pub(super) struct Spans {
    finished: SyncSender<Value>,
    dropped: Arc<AtomicU64>,
    random: RandomState,
    next: AtomicU64,
}

impl Spans {
    /// Starts the thread that sends to `endpoint`.
    pub(super) fn start(endpoint: String) -> anyhow::Result<Self> {
        let (finished, waiting) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime for traces")?;
        // Fails if a provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().context("no client for traces")?;
        std::thread::Builder::new()
            .name("bosun-traces".into())
            .spawn(move || send_all(&waiting, &counted, |body| runtime.block_on(post(&client, &endpoint, body))))
            .context("no thread for traces")?;
        Ok(Self { finished, dropped, random: RandomState::new(), next: AtomicU64::new(0) })
    }

    fn random(&self) -> u64 {
        // Ids must differ, not be secret; an id of zero is none.
        self.random.hash_one(self.next.fetch_add(1, Ordering::Relaxed)).max(1)
    }

    /// The trace that a span without a parent belongs to: the caller's, if it said so.
    fn begin(&self, traceparent: Option<&str>) -> (u128, Option<u64>) {
        match traceparent.and_then(parse) {
            Some((trace, parent)) => (trace, Some(parent)),
            None => (u128::from(self.random()) << 64 | u128::from(self.random()), None),
        }
    }
}

/// `00-<32 digits>-<16 digits>-<flags>`, as W3C has it. What is not one is as if it were not there.
fn parse(traceparent: &str) -> Option<(u128, u64)> {
    let mut parts = traceparent.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let fits = is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    let (trace, parent) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(parent, 16).ok()?);
    (fits && trace != 0 && parent != 0).then_some((trace, parent))
}

/// One span while it lasts.
struct Open {
    trace: u128,
    id: u64,
    parent: Option<u64>,
    began: SystemTime,
    attributes: Attribute,
}

#[derive(Default)]
struct Attribute {
    list: Vec<Value>,
    traceparent: Option<String>,
    /// What the name of the span ends with.
    subject: Option<String>,
}

impl Attribute {
    fn add(&mut self, field: &Field, value: Value) {
        let name = match field.name() {
            "traceparent" => {
                self.traceparent = value["stringValue"].as_str().map(str::to_owned);
                return;
            }
            "model" => "gen_ai.request.model",
            "input_tokens" => "gen_ai.usage.input_tokens",
            "output_tokens" => "gen_ai.usage.output_tokens",
            "tool" => "gen_ai.tool.name",
            "call" => "gen_ai.tool.call.id",
            "method" => "http.request.method",
            "route" => "http.route",
            "query" => "bosun.query",
            "request" => "bosun.request",
            other => other,
        };
        if matches!(name, "gen_ai.request.model" | "gen_ai.tool.name" | "http.route") {
            self.subject = value["stringValue"].as_str().map(str::to_owned);
        }
        self.list.push(json!({"key": name, "value": value}));
    }
}

impl Visit for Attribute {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, json!({"stringValue": format!("{value:?}")}));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, json!({"stringValue": value}));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        // OTLP's JSON has 64 bit integers as text.
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
        let mut attributes = Attribute::default();
        new.record(&mut attributes);
        let above = span
            .parent()
            .and_then(|parent| parent.extensions().get::<Open>().map(|parent| (parent.trace, Some(parent.id))));
        let (trace, parent) = above.unwrap_or_else(|| self.begin(attributes.traceparent.as_deref()));
        let open = Open { trace, id: self.random(), parent, began: SystemTime::now(), attributes };
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            values.record(&mut open.attributes);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<Open>() else { return };
        if self.finished.try_send(finish(span.name(), open)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn finish(name: &str, open: Open) -> Value {
    let Open { trace, id, parent, began, attributes } = open;
    let Attribute { mut list, subject, .. } = attributes;
    let operation = match name {
        "model.reply" => Some("chat"),
        "tool.call" => Some("execute_tool"),
        _ => None,
    };
    list.extend(operation.map(|name| json!({"key": "gen_ai.operation.name", "value": {"stringValue": name}})));
    let shown = match (operation, subject) {
        (Some(operation), Some(subject)) => format!("{operation} {subject}"),
        (Some(operation), None) => operation.to_owned(),
        (None, _) => name.to_owned(),
    };
    // SERVER for what comes in, CLIENT for what goes out, INTERNAL for the rest.
    let kind = match name {
        "http.request" => 2,
        "model.reply" => 3,
        _ => 1,
    };
    let mut span = json!({
        "traceId": format!("{trace:032x}"), "spanId": format!("{id:016x}"), "name": shown, "kind": kind,
        "startTimeUnixNano": nanos(began), "endTimeUnixNano": nanos(SystemTime::now()), "attributes": list,
    });
    if let Some(parent) = parent {
        span["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    span
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

/// Sends batches until nobody makes spans any more.
fn send_all(waiting: &Receiver<Value>, dropped: &AtomicU64, mut send: impl FnMut(String) -> Result<(), String>) {
    let mut failing = false;
    loop {
        let first = match waiting.recv_timeout(PERIOD) {
            Ok(span) => span,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut batch = vec![first];
        batch.extend(waiting.try_iter().take(BATCH - 1));
        let lost = dropped.swap(0, Ordering::Relaxed);
        let sent = send(envelope(&batch).to_string());
        // Said once: a collector may be away for hours.
        match (&sent, failing) {
            (Err(error), false) => tracing::warn!(error, "traces cannot be sent"),
            (Ok(()), true) => tracing::info!("traces are sent again"),
            _ => {}
        }
        failing = sent.is_err();
        if lost > 0 {
            tracing::warn!(lost, "spans were dropped: the collector does not keep up");
        }
    }
}

fn envelope(spans: &[Value]) -> Value {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let resource = [text("service.name", "bosun"), text("service.version", env!("CARGO_PKG_VERSION"))];
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "bosun"}, "spans": spans}],
    }]})
}

async fn post(client: &reqwest::Client, endpoint: &str, body: String) -> Result<(), String> {
    let sent = client.post(endpoint).header("content-type", "application/json").body(body).send().await;
    // The address may hold a credential; it is not repeated.
    let answer = sent.map_err(|error| error.without_url().to_string())?;
    if answer.status().is_success() { Ok(()) } else { Err(format!("the collector answered {}", answer.status())) }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::{Router, extract::State, routing::post};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn a_traceparent_is_taken_only_if_it_is_one() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let good = format!("00-{trace}-b7ad6b7169203331-01");
        assert_eq!(parse(&good), Some((0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331)));
        for bad in [
            "",
            "00-1-2-01",
            &good.replace("00-", "ff-"),
            &good.to_uppercase(),
            &format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            &format!("00-{trace}-{}-01", "0".repeat(16)),
            &format!("00-{trace}-b7ad6b7169203331"),
            &format!("00-{trace}-+7ad6b7169203331-01"),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    type Received = Arc<Mutex<Vec<Value>>>;

    /// A collector that keeps what it gets.
    async fn collector() -> (String, Received) {
        let received = Received::default();
        let keep = async |State(received): State<Received>, axum::Json(body): axum::Json<Value>| {
            received.lock().unwrap().push(body);
            axum::Json(json!({}))
        };
        let router = Router::new().route("/v1/traces", post(keep)).with_state(Arc::clone(&received));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        tokio_util::task::TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
        (address, received)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn spans_reach_the_collector_in_the_callers_trace() {
        let (address, received) = collector().await;
        let subscriber = tracing_subscriber::registry().with(Spans::start(address).unwrap());
        tracing::subscriber::with_default(subscriber, || {
            let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            let request = tracing::info_span!("http.request", method = "POST", route = "/v1/queries", traceparent);
            let _request = request.enter();
            let model = tracing::info_span!("model.reply", model = "gpt", input_tokens = tracing::field::Empty);
            model.record("input_tokens", 7_u64);
            drop(model);
            drop(tracing::info_span!("tool.call", tool = "lookup", call = "call_1"));
        });
        let spans = loop {
            let spans: Vec<Value> = received
                .lock()
                .unwrap()
                .iter()
                .flat_map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone())
                .collect();
            if spans.len() == 3 {
                break spans;
            }
            tokio::task::yield_now().await;
        };
        let named =
            |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {spans:?}"));
        let request = named("http.request");
        assert_eq!(request["parentSpanId"], "b7ad6b7169203331");
        for span in &spans {
            assert_eq!(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
        }
        let (model, tool) = (named("chat gpt"), named("execute_tool lookup"));
        assert_eq!((&model["parentSpanId"], &tool["parentSpanId"]), (&request["spanId"], &request["spanId"]));
        let has = |span: &Value, key: &str, value: Value| {
            span["attributes"].as_array().unwrap().contains(&json!({"key": key, "value": value}))
        };
        assert!(has(model, "gen_ai.operation.name", json!({"stringValue": "chat"})), "{model}");
        assert!(has(model, "gen_ai.request.model", json!({"stringValue": "gpt"})), "{model}");
        assert!(has(model, "gen_ai.usage.input_tokens", json!({"intValue": "7"})), "{model}");
        assert!(has(tool, "gen_ai.tool.call.id", json!({"stringValue": "call_1"})), "{tool}");
    }
}
