//! What a query is asked to do, and what it may use.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::ContentHash;

/// A query as it was frozen at submit. Nothing that changes later in a catalogue or a manifest
/// reaches it; only secrets and permissions are looked up live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    pub agent: String,
    /// The model's name in the namespace of the query.
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    pub input: String,
    /// The toolset document that was stored with the query.
    pub toolset: ContentHash,
    pub limits: Limits,
    pub view: View,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// What the caller should know about how the request was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What was asked for, where it may be asked for again: the same request is then answered with this query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ContentHash>,
}

/// In which words the query's creator reads it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// `status` is a string and open tool calls are listed: for clients that bring their own tools.
    Rfc,
    /// `status` is an object with a `phase`, as ARK's own clients read it.
    Ark,
}

/// What one query may use. Each field is already the smallest of server, agent and query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Running time; waiting outside does not count.
    #[serde(with = "millis")]
    pub query_timeout: Duration,
    /// One inside call.
    #[serde(with = "millis")]
    pub tool_timeout: Duration,
    /// How long an outside call, or a held query, waits for its client.
    #[serde(with = "millis")]
    pub external_timeout: Duration,
    pub max_tool_calls: u32,
    /// Tokens of all turns together; without it, as many as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// How long the query is kept after it has ended.
    #[serde(default = "default_ttl", with = "millis")]
    pub ttl: Duration,
}

fn default_ttl() -> Duration {
    Duration::from_secs(720 * 60 * 60)
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            query_timeout: Duration::from_secs(5 * 60),
            tool_timeout: Duration::from_secs(30),
            external_timeout: Duration::from_secs(10 * 60),
            max_tool_calls: 10,
            max_tokens: None,
            ttl: default_ttl(),
        }
    }
}

/// Tokens that the model API reported. The prompt's include what came from a cache and what went into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Tokens of the prompt that the API put into its cache, which some bill apart.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }
}

/// Durations as whole milliseconds: readable in a journal and exact in every language.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        u64::try_from(value.as_millis()).unwrap_or(u64::MAX).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}
