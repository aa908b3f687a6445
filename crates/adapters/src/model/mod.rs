//! Models: one module for each wire format.
//!
//! `remote` is common to all models behind HTTP, `health` is the state kept for the APIs behind them, and `fallback` is
//! a model with fallbacks.

pub mod anthropic;
mod delta_tracker;
mod fallback;
mod health;
pub mod openai;
mod provider_fields;
pub mod remote;
pub mod scripted;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use bosun_core::Namespace;
use bosun_engine::Model;

use self::remote::{Connections, Remote, RemoteConfig, Wire};
use crate::secret::Secrets;

pub use fallback::Fallback;

/// A model of `namespace` behind OpenAI's chat completions.
#[must_use]
pub fn open_ai(
    namespace: Namespace,
    config: RemoteConfig,
    wire: openai::ChatCompletions,
    secrets: &Arc<Secrets>,
    connections: &Arc<Connections>,
) -> Arc<dyn Model> {
    remote(namespace, config, wire, secrets, connections)
}

/// A model of `namespace` behind Anthropic's messages.
#[must_use]
pub fn anthropic(
    namespace: Namespace,
    config: RemoteConfig,
    wire: anthropic::MessagesApi,
    secrets: &Arc<Secrets>,
    connections: &Arc<Connections>,
) -> Arc<dyn Model> {
    remote(namespace, config, wire, secrets, connections)
}

fn remote(
    namespace: Namespace,
    config: RemoteConfig,
    wire: impl Wire,
    secrets: &Arc<Secrets>,
    connections: &Arc<Connections>,
) -> Arc<dyn Model> {
    Arc::new(Remote::new(namespace, config, wire, Arc::clone(secrets), Arc::clone(connections)))
}
