//! Export of spans to a collector.
//!
//! They are sent in batches from a thread of their own. When the collector does not keep up they are dropped and
//! counted, and nothing else waits; an unreachable one is logged once. The address and the headers of a collector may
//! contain credentials: neither is ever logged.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use anyhow::Context as _;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

/// The capacity of the queue of spans.
const WAITING: usize = 8_192;
const BATCH: usize = 512;
const TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of the final flush at the end of the program.
const FLUSH: Duration = Duration::from_secs(3);

/// The collector, and the name of this service.
pub(super) struct Collector {
    endpoint: String,
    headers: HeaderMap,
    service: String,
}

impl Collector {
    /// The collector in the environment variables of OpenTelemetry; `None` if there is none.
    pub(super) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<Self>> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let of_all = || Some(format!("{}/v1/traces", variable("OTEL_EXPORTER_OTLP_ENDPOINT")?.trim_end_matches('/')));
        let Some(endpoint) = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(of_all) else { return Ok(None) };
        let headers = variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"));
        let service = variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "bosun".to_owned());
        Ok(Some(Self {
            endpoint,
            headers: headers.as_deref().map(read_headers).transpose()?.unwrap_or_default(),
            service,
        }))
    }
}

/// `name=value,name=value`.
fn read_headers(text: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let read = pair.split_once('=').and_then(|(name, value)| {
            let name = HeaderName::try_from(name.trim()).ok()?;
            // Percent-encoded as in a URL: a space is `%20`.
            let url = reqwest::Url::parse(&format!("x:?x={}", value.trim().replace('+', "%2B"))).ok()?;
            let value = url.query_pairs().next()?.1.into_owned();
            Some((name, HeaderValue::try_from(value).ok()?))
        });
        let (name, mut value) = read.context("OTEL_EXPORTER_OTLP_HEADERS is not written as name=value,name=value")?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

enum Message {
    Span(Value),
    /// Notified when everything before it has been sent, or has failed.
    Flush(SyncSender<()>),
}

/// The handle of the exporting thread.
#[derive(Clone)]
pub(crate) struct Exporter {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Exporter").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

impl Exporter {
    /// Starts the thread that sends to `collector`.
    pub(super) fn start(collector: Collector) -> anyhow::Result<Self> {
        let (queue, waiting) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime for traces")?;
        // Fails if a crypto provider is already installed, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().context("no client for traces")?;
        let work = move || {
            let Collector { endpoint, headers, service } = collector;
            let post = |body| runtime.block_on(post(&client, &endpoint, &headers, body));
            send_all(&waiting, &counted, &service, post);
        };
        std::thread::Builder::new().name("bosun-traces".into()).spawn(work).context("no thread for traces")?;
        Ok(Self { queue, dropped })
    }

    /// Queues a span, unless the queue is full.
    pub(super) fn send(&self, span: Value) {
        if self.queue.try_send(Message::Span(span)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything has been sent, or a timeout.
    pub(crate) fn flush(&self) {
        let (done, sent) = sync_channel(1);
        // A full queue is not drained in time.
        if self.queue.try_send(Message::Flush(done)).is_ok() {
            // A timeout is not an error.
            let _ = sent.recv_timeout(FLUSH);
        }
    }
}

/// Sends batches until all senders are dropped.
fn send_all(
    waiting: &Receiver<Message>,
    dropped: &AtomicU64,
    service: &str,
    mut send: impl FnMut(String) -> Result<(), String>,
) {
    let mut failing = false;
    while let Ok(first) = waiting.recv() {
        let (mut batch, mut flushed) = (Vec::new(), Vec::new());
        for message in std::iter::once(first).chain(waiting.try_iter().take(BATCH - 1)) {
            match message {
                Message::Span(span) => batch.push(span),
                Message::Flush(done) => flushed.push(done),
            }
        }
        if !batch.is_empty() {
            let sent = send(envelope(service, &batch).to_string());
            // Logged once: a collector may be unreachable for hours.
            match (&sent, failing) {
                (Err(error), false) => tracing::warn!(error, "traces cannot be sent"),
                (Ok(()), true) => tracing::info!("traces are sent again"),
                _ => {}
            }
            failing = sent.is_err();
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(lost, "spans were dropped: the collector does not keep up");
        }
        // The send fails only if the caller has stopped waiting.
        for done in flushed {
            let _ = done.try_send(());
        }
    }
}

fn envelope(service: &str, spans: &[Value]) -> Value {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let resource = [text("service.name", service), text("service.version", env!("CARGO_PKG_VERSION"))];
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "bosun", "version": env!("CARGO_PKG_VERSION")}, "spans": spans}],
    }]})
}

async fn post(client: &reqwest::Client, endpoint: &str, headers: &HeaderMap, body: String) -> Result<(), String> {
    let request = client.post(endpoint).headers(headers.clone()).header("content-type", "application/json");
    // The address may contain a credential; it is not logged.
    let answer = request.body(body).send().await.map_err(|error| error.without_url().to_string())?;
    if answer.status().is_success() { Ok(()) } else { Err(format!("the collector answered {}", answer.status())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], endpoint: Option<&str>) -> Option<Collector> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let collector = Collector::of_environment(find).unwrap();
        assert_eq!(collector.as_ref().map(|collector| collector.endpoint.as_str()), endpoint, "{variables:?}");
        collector
    }

    #[test]
    fn the_collector_is_the_one_that_the_environment_names() {
        const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        check(&[], None);
        check(&[(ALL, " ")], None);
        check(&[(ALL, "http://c:4318/")], Some("http://c:4318/v1/traces"));
        check(&[(ALL, "http://c:4318"), (TRACES, "http://t/x")], Some("http://t/x"));
        check(&[(ALL, "http://c:4318"), ("OTEL_SDK_DISABLED", "TRUE")], None);
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a+b=, x-team=blue,");
        let collector = check(&[(ALL, "http://c"), headers, ("OTEL_SERVICE_NAME", "ship")], Some("http://c/v1/traces"));
        let Collector { headers, service, .. } = collector.unwrap();
        assert_eq!(headers["authorization"], "Bearer a+b=");
        assert_eq!(headers["x-team"], "blue");
        assert_eq!(service, "ship");
        let bad =
            Collector::of_environment(|name| Some(if name.ends_with("HEADERS") { "x" } else { "http://c" }.into()));
        assert!(bad.is_err_and(|error| error.to_string().contains("name=value")));
    }
}
