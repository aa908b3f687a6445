//! Reloading of the configuration while the server runs: the request for it, and its state.
//!
//! A [`Reload`] reads the sources of a server again (files, directories, URLs), checks all of them, and swaps the
//! registry as a whole. A faulty source changes nothing: its last valid content stays in effect. The engine does not
//! know what sources are; it only defines how their state is reported to an operator.

use std::fmt;

use async_trait::async_trait;
use bosun_core::{Actor, Fault, Timestamp};

use crate::{Engine, EngineError, resource::ResourceKey};

/// The resources that differ between two registries, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceDiff {
    pub added: Vec<ResourceKey>,
    pub removed: Vec<ResourceKey>,
    pub changed: Vec<ResourceKey>,
}

impl ResourceDiff {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// The state of reloading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadStatus {
    /// The generation of the registry that the last reload made.
    pub generation: u64,
    /// When the sources last came into effect; `None` if the server has none.
    pub reloaded_at: Option<Timestamp>,
    /// What that changed.
    pub diff: ResourceDiff,
    /// The faults of the last attempt; empty if everything that was read is in effect. The file of a fault may be a URL,
    /// in the operator's spelling.
    pub faults: Vec<Fault>,
    /// Warnings of the last attempt.
    pub warnings: Vec<String>,
    /// How often sources were reloaded without a fault, the start included.
    pub succeeded: u64,
    /// How often a reload found a fault.
    pub failed: u64,
}

/// Reads the sources of a server again.
#[async_trait]
pub trait Reload: fmt::Debug + Send + Sync + 'static {
    /// Reads all sources now and puts them into effect, on behalf of a caller. Faults are in the result.
    ///
    /// # Errors
    /// If the store fails; the registry is then unchanged.
    async fn reload(&self, by: Actor) -> Result<ReloadStatus, EngineError>;

    /// The state after the last attempt.
    fn status(&self) -> ReloadStatus;
}

/// An engine without sources of its own: its stored resources are assembled again.
#[async_trait]
impl Reload for Engine {
    async fn reload(&self, _: Actor) -> Result<ReloadStatus, EngineError> {
        let before = self.registry();
        let registry = self.refresh().await?;
        let (generation, diff) = (registry.generation(), registry.diff(&before));
        Ok(ReloadStatus { generation, diff, ..ReloadStatus::default() })
    }

    fn status(&self) -> ReloadStatus {
        ReloadStatus { generation: self.registry().generation(), ..ReloadStatus::default() }
    }
}
