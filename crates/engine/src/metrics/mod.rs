//! The engine's metrics, for Prometheus.
//!
//! Counting is a handful of atomic additions; everything else happens when the metrics are scraped. Labels come from
//! small fixed sets or from the configuration, never from a client: a client that invents names must not cost memory.
//! [`FAMILIES`] lists all names, `docs/metrics.md` prints it, and a test keeps the page in sync.

mod figure;
mod process;
mod text;

pub use figure::{Counter, Gauge, HistogramCounts, MetricHistogram, SECONDS, SIZES};
pub use text::{Family, FamilyKind, MetricsText};

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use bosun_core::{
    Binding, Outcome,
    audit::{Action, AuditRecord, SUCCESS},
    query::Usage,
    tool::BindingKind,
};

use crate::{
    model::ModelReply,
    store::{CommitFigures, StoreStats},
};

/// Every family that the engine itself reports, in the order in which they are written.
pub const FAMILIES: &[Family] = &[
    Family::new("bosun_build_info", FamilyKind::Gauge, &["version"], "1, with the version of the program"),
    Family::new("bosun_queries_created_total", FamilyKind::Counter, &[], "Queries that were created"),
    Family::new(
        "bosun_queries_ended_total",
        FamilyKind::Counter,
        &["state"],
        "Queries that ended: completed, failed or cancelled",
    ),
    Family::new(
        "bosun_queries",
        FamilyKind::Gauge,
        &["state"],
        "Queries that run, wait for a permit (queued), or wait for a client (waiting, also held)",
    ),
    Family::new(
        "bosun_calls_total",
        FamilyKind::Counter,
        &["kind", "outcome"],
        "Calls that have their outcome, by what runs the tool: success, failure, or expired",
    ),
    Family::new(
        "bosun_call_seconds",
        FamilyKind::Histogram,
        &["kind"],
        "From start to end of an inside call, from hand-out to result of an outside one",
    ),
    Family::new(
        "bosun_tool_cache_lookups_total",
        FamilyKind::Counter,
        &["kind", "outcome"],
        "Calls of tools with a cache policy, by what runs the tool: hit or miss",
    ),
    Family::new("bosun_tool_cache_bytes", FamilyKind::Gauge, &[], "Memory of cached results"),
    Family::new("bosun_deliveries_refused_total", FamilyKind::Counter, &[], "Results that were refused"),
    Family::new(
        "bosun_model_requests_total",
        FamilyKind::Counter,
        &["model", "outcome"],
        "Turns of models: success or failure",
    ),
    Family::new(
        "bosun_model_request_seconds",
        FamilyKind::Histogram,
        &["model"],
        "From a request to a model to its whole answer",
    ),
    Family::new(
        "bosun_model_tokens_total",
        FamilyKind::Counter,
        &["model", "kind"],
        "Tokens that model APIs reported: prompt, completion, and those of the prompt that were cached",
    ),
    Family::new(
        "bosun_model_retries_total",
        FamilyKind::Counter,
        &["model"],
        "Turns that were retried after they broke off",
    ),
    Family::new("bosun_sse_streams", FamilyKind::Gauge, &[], "Open event streams"),
    Family::new("bosun_store_appends_total", FamilyKind::Counter, &[], "Appends that were handed to the store"),
    Family::new("bosun_store_commits_total", FamilyKind::Counter, &[], "Commits that reached the disk"),
    Family::new("bosun_store_awaited_commits_total", FamilyKind::Counter, &[], "Commits that a caller waited for"),
    Family::new("bosun_store_commit_seconds", FamilyKind::Histogram, &[], "Duration of a commit, with its flush"),
    Family::new("bosun_store_commit_appends", FamilyKind::Histogram, &[], "Appends per commit"),
    Family::new("process_resident_memory_bytes", FamilyKind::Gauge, &[], "Memory of the process"),
    Family::new("process_cpu_seconds_total", FamilyKind::Counter, &[], "CPU time of the process"),
    Family::new("process_open_fds", FamilyKind::Gauge, &[], "Open file descriptors"),
];

/// At most this many models have metrics of their own; further ones share one name.
const MOST_MODELS: usize = 200;

#[derive(Debug, Default)]
struct OfKind {
    success: Counter,
    failure: Counter,
    expired: Counter,
    cache_hits: Counter,
    cache_misses: Counter,
    seconds: MetricHistogram<{ SECONDS.len() }>,
}

#[derive(Debug, Default)]
struct OfModel {
    success: Counter,
    failure: Counter,
    retries: Counter,
    prompt: Counter,
    completion: Counter,
    cached: Counter,
    cache_write: Counter,
    seconds: MetricHistogram<{ SECONDS.len() }>,
}

/// All metrics of one engine.
#[derive(Debug, Default)]
pub struct Metrics {
    created: Counter,
    completed: Counter,
    failed: Counter,
    cancelled: Counter,
    refused: Counter,
    /// By the kind of the tool's binding.
    kinds: [OfKind; BindingKind::ALL.len()],
    /// Calls that were refused before they had a runner.
    refused_calls: OfKind,
    /// Read for every turn, written once for each model.
    models: RwLock<BTreeMap<String, Arc<OfModel>>>,
    streams: Arc<Gauge>,
}

impl Metrics {
    /// Counts what has just been appended. Inside calls are counted where they run, by their binding.
    pub(crate) fn note(&self, records: &[AuditRecord]) {
        for record in records {
            match record.action {
                Action::QueryCreated => self.created.add(1),
                Action::QueryCompleted => self.completed.add(1),
                Action::QueryFailed => self.failed.add(1),
                Action::QueryCancelled => self.cancelled.add(1),
                Action::CallRefused => self.refused_calls.failure.add(1),
                Action::CallExpired => self.kinds[BindingKind::External as usize].expired.add(1),
                Action::CallDelivered => {
                    let is_success = record.outcome.as_deref() == Some(SUCCESS);
                    let took = Duration::from_millis(record.duration_ms.unwrap_or_default());
                    self.kinds[BindingKind::External as usize].ended(is_success, took);
                }
                _ => {}
            }
        }
    }

    pub(crate) fn delivery_refused(&self, count: usize) {
        self.refused.add(count as u64);
    }

    pub(crate) fn call_ran(&self, binding: &Binding, outcome: &Outcome, took: Duration) {
        self.kinds[binding.kind() as usize].ended(outcome.is_success(), took);
    }

    pub(crate) fn cache_looked_up(&self, binding: &Binding, is_hit: bool) {
        let kind = &self.kinds[binding.kind() as usize];
        let counter = if is_hit { &kind.cache_hits } else { &kind.cache_misses };
        counter.add(1);
    }

    pub(crate) fn model_asked(&self, model: &str, reply: Option<&ModelReply>, took: Duration) {
        let figures = self.model(model);
        figures.seconds.observe(took.as_secs_f64(), &SECONDS);
        let Some(reply) = reply else { return figures.failure.add(1) };
        figures.success.add(1);
        let Usage { prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens } = reply.usage;
        figures.prompt.add(prompt_tokens);
        figures.completion.add(completion_tokens);
        figures.cached.add(cached_tokens);
        figures.cache_write.add(cache_write_tokens);
    }

    pub(crate) fn model_retried(&self, model: &str) {
        self.model(model).retries.add(1);
    }

    fn model(&self, name: &str) -> Arc<OfModel> {
        if let Some(figures) = self.models.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Arc::clone(figures);
        }
        let mut models = self.models.write().unwrap_or_else(PoisonError::into_inner);
        let name = if models.len() < MOST_MODELS { name } else { bosun_core::usage::OTHER };
        Arc::clone(models.entry(name.to_owned()).or_default())
    }

    /// Counts a stream as open until the returned guard is dropped.
    #[must_use]
    pub fn stream_opened(&self) -> OpenStream {
        self.streams.add(1);
        OpenStream(Arc::clone(&self.streams))
    }
}

/// The guard of a counted stream.
#[derive(Debug)]
pub struct OpenStream(Arc<Gauge>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

impl OfKind {
    fn ended(&self, is_success: bool, took: Duration) {
        let counter = if is_success { &self.success } else { &self.failure };
        counter.add(1);
        self.seconds.observe(took.as_secs_f64(), &SECONDS);
    }
}

/// Values that are read when the metrics are scraped.
pub(crate) struct Readings {
    pub(crate) running: usize,
    pub(crate) queued: usize,
    pub(crate) waiting: usize,
    pub(crate) cached_bytes: usize,
    pub(crate) store: StoreStats,
    pub(crate) commits: CommitFigures,
}

impl Metrics {
    /// Writes all metrics.
    pub(crate) fn write(&self, text: &mut MetricsText, now: &Readings) {
        text.family(FAMILIES, "bosun_build_info").sample(&[env!("CARGO_PKG_VERSION")], 1.0);
        text.family(FAMILIES, "bosun_queries_created_total").count(&[], self.created.get());
        let mut family = text.family(FAMILIES, "bosun_queries_ended_total");
        for (state, counter) in
            [("completed", &self.completed), ("failed", &self.failed), ("cancelled", &self.cancelled)]
        {
            family.count(&[state], counter.get());
        }
        let mut family = text.family(FAMILIES, "bosun_queries");
        for (state, count) in [("running", now.running), ("queued", now.queued), ("waiting", now.waiting)] {
            family.count(&[state], count as u64);
        }
        let mut family = text.family(FAMILIES, "bosun_calls_total");
        let kinds = || BindingKind::ALL.iter().map(|kind| kind.as_str()).zip(&self.kinds);
        for (kind, figures) in kinds().chain([("refused", &self.refused_calls)]) {
            family.count(&[kind, "success"], figures.success.get());
            family.count(&[kind, "failure"], figures.failure.get());
            family.count(&[kind, "expired"], figures.expired.get());
        }
        let mut family = text.family(FAMILIES, "bosun_call_seconds");
        for (kind, figures) in kinds() {
            family.histogram(&[kind], &figures.seconds.counts(&SECONDS));
        }
        let mut family = text.family(FAMILIES, "bosun_tool_cache_lookups_total");
        for (kind, figures) in kinds() {
            family.count(&[kind, "hit"], figures.cache_hits.get());
            family.count(&[kind, "miss"], figures.cache_misses.get());
        }
        text.family(FAMILIES, "bosun_tool_cache_bytes").count(&[], now.cached_bytes as u64);
        text.family(FAMILIES, "bosun_deliveries_refused_total").count(&[], self.refused.get());
        self.write_models(text);
        text.family(FAMILIES, "bosun_sse_streams").sample(&[], self.streams.get());
        text.family(FAMILIES, "bosun_store_appends_total").count(&[], now.store.appends);
        text.family(FAMILIES, "bosun_store_commits_total").count(&[], now.store.commits);
        text.family(FAMILIES, "bosun_store_awaited_commits_total").count(&[], now.store.awaited_commits);
        text.family(FAMILIES, "bosun_store_commit_seconds").histogram(&[], &now.commits.seconds);
        text.family(FAMILIES, "bosun_store_commit_appends").histogram(&[], &now.commits.appends);
        process::write(text);
    }

    fn write_models(&self, text: &mut MetricsText) {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let mut family = text.family(FAMILIES, "bosun_model_requests_total");
        for (model, figures) in &*models {
            family.count(&[model, "success"], figures.success.get());
            family.count(&[model, "failure"], figures.failure.get());
        }
        let mut family = text.family(FAMILIES, "bosun_model_request_seconds");
        for (model, figures) in &*models {
            family.histogram(&[model], &figures.seconds.counts(&SECONDS));
        }
        let mut family = text.family(FAMILIES, "bosun_model_tokens_total");
        for (model, figures) in &*models {
            family.count(&[model, "prompt"], figures.prompt.get());
            family.count(&[model, "completion"], figures.completion.get());
            family.count(&[model, "cached"], figures.cached.get());
            family.count(&[model, "cache_write"], figures.cache_write.get());
        }
        let mut family = text.family(FAMILIES, "bosun_model_retries_total");
        for (model, figures) in &*models {
            family.count(&[model], figures.retries.get());
        }
    }
}
