//! Logs of the program: one line for each event, on standard error.
//!
//! `RUST_LOG` sets the level, in the syntax of `tracing` (`RUST_LOG=bosun=debug`). Ids are logged; prompts, arguments,
//! results and secrets never are. With the feature `otel`, spans are also sent to the collector in
//! `OTEL_EXPORTER_OTLP_ENDPOINT`, independently of `RUST_LOG`. A program without the feature warns once and continues:
//! the variable is often set for everything on a machine.

mod fields;
#[cfg(feature = "otel")]
mod otel;

use std::io::IsTerminal;

#[cfg(feature = "otel")]
use tracing_subscriber::Layer as _;
use tracing_subscriber::{
    EnvFilter,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    registry::LookupSpan,
    util::{SubscriberInitExt, TryInitError},
};

/// The format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// For machines: one JSON object a line
    Json,
}

/// The running telemetry, to be stopped at the end.
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    exporter: Option<otel::Exporter>,
}

impl Telemetry {
    /// Whether there is a collector for spans.
    pub(crate) fn exports_spans(&self) -> bool {
        #[cfg(feature = "otel")]
        return self.exporter.is_some();
        #[cfg(not(feature = "otel"))]
        false
    }

    /// Flushes the pending spans. Blocks for a bounded time.
    pub(crate) fn finish(self) {
        #[cfg(feature = "otel")]
        if let Some(exporter) = self.exporter {
            exporter.flush();
        }
    }
}

/// The level without `RUST_LOG`.
const USUAL: LevelFilter = LevelFilter::INFO;

/// Libraries whose log is off whatever `RUST_LOG` says; the server reports their faults itself. `rmcp` logs whole messages, with
/// arguments and results of tools. `notify` logs every file event: where the log is in a watched directory, each line would be the
/// event that causes the next one.
const SILENCED: [&str; 2] = ["rmcp", "notify"];

/// Starts logging. Only the first call in a process has an effect.
pub(crate) fn start(format: LogFormat) -> anyhow::Result<Telemetry> {
    let mut filter = EnvFilter::builder().with_default_directive(USUAL.into()).from_env()?;
    for library in SILENCED {
        filter = filter.add_directive(format!("{library}=off").parse()?);
    }
    #[cfg(feature = "otel")]
    if let Some((spans, exporter)) = otel::start()? {
        // Each has its own filter: fewer lines must not mean fewer spans.
        let spans = spans.with_filter(LevelFilter::INFO);
        let registry = tracing_subscriber::registry().with(spans);
        match format {
            LogFormat::Text => registry.with(lines().compact().with_filter(filter)).try_init()?,
            LogFormat::Json => registry.with(objects().with_filter(filter)).try_init()?,
        }
        return Ok(Telemetry { exporter: Some(exporter) });
    }
    let registry = tracing_subscriber::registry();
    // A filter that inspects spans takes a lock whenever one is entered or exited; a level does not.
    if std::env::var_os(EnvFilter::DEFAULT_ENV).is_some_and(|directives| !directives.is_empty()) {
        install_writer(registry.with(filter), format)?;
    } else {
        let targets = Targets::new().with_default(USUAL);
        install_writer(
            registry.with(targets.with_targets(SILENCED.map(|library| (library, LevelFilter::OFF)))),
            format,
        )?;
    }
    #[cfg(not(feature = "otel"))]
    for variable in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
        if std::env::var_os(variable).is_some_and(|endpoint| !endpoint.is_empty()) {
            tracing::warn!(variable, "no spans are sent: this program was built without the feature `otel`");
            break;
        }
    }
    Ok(Telemetry::default())
}

/// Installs the writer of log lines for what `registry` lets through.
fn install_writer<S>(registry: S, format: LogFormat) -> Result<(), TryInitError>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync + 'static,
{
    match format {
        LogFormat::Text => registry.with(lines().compact()).try_init(),
        LogFormat::Json => registry.with(objects()).try_init(),
    }
}

type Stderr = fn() -> std::io::Stderr;

/// The layer for JSON lines.
fn objects<S>() -> fmt::Layer<S, fields::JsonObject, fmt::format::Format<fmt::format::Json>, Stderr> {
    lines().json().flatten_event(true).fmt_fields(fields::JsonObject)
}

/// The layer for lines, in either format.
fn lines<S>() -> fmt::Layer<S, fmt::format::DefaultFields, fmt::format::Format, Stderr> {
    let lines = fmt::layer().with_writer(std::io::stderr as Stderr);
    lines.with_target(false).with_ansi(wants_colour())
}

/// Colour only on a terminal, unless plain text was requested.
fn wants_colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
