//! What the program says about itself while it runs: one line for each event, on standard error.
//!
//! `RUST_LOG` chooses how much, in the words of `tracing` (`RUST_LOG=bosun=debug`). Ids are logged;
//! prompts, arguments, results and secrets never are. With the feature `otel`, spans also go to the collector that
//! `OTEL_EXPORTER_OTLP_ENDPOINT` names.

mod fields;
#[cfg(feature = "otel")]
mod otel;

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// For machines: one JSON object a line
    Json,
}

/// Starts logging. The first call in a process counts.
pub(crate) fn start(format: LogFormat) -> anyhow::Result<()> {
    let filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env()?;
    let registry = tracing_subscriber::registry().with(filter).with(spans()?);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => registry.with(lines.with_ansi(wants_colour()).compact()).try_init()?,
        LogFormat::Json => registry.with(lines.json().flatten_event(true).fmt_fields(fields::JsonObject)).try_init()?,
    }
    Ok(())
}

/// What sends spans to a collector, if there is one.
#[cfg(feature = "otel")]
fn spans() -> anyhow::Result<Option<otel::Spans>> {
    otel::endpoint().map(otel::Spans::start).transpose()
}

/// This program was built without it; a collector that is named all the same is told of.
#[cfg(not(feature = "otel"))]
fn spans() -> anyhow::Result<tracing_subscriber::layer::Identity> {
    if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_some_and(|endpoint| !endpoint.is_empty()) {
        anyhow::bail!("OTEL_EXPORTER_OTLP_ENDPOINT is set, and this program was built without the feature `otel`");
    }
    Ok(tracing_subscriber::layer::Identity::new())
}

/// Colour is for people who look at a terminal and have not asked for plain text.
fn wants_colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
