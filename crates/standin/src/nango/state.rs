//! What a stand-in for Nango has: integrations, connections, records and the runs of actions.
//!
//! A state is a JSON file, so that something can be tried without an account. Times are RFC 3339.

use std::{collections::BTreeMap, time::Duration};

use bosun_core::{ContentHash, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// The state of a stand-in, as its file describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NangoState {
    /// The secret key of the one environment: a UUID of version 4.
    pub key: String,
    #[serde(default)]
    pub integrations: Vec<NangoIntegration>,
    #[serde(default)]
    pub connections: Vec<NangoConnection>,
    #[serde(default)]
    pub records: Vec<NangoRecords>,
    #[serde(default)]
    pub faults: NangoFaults,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NangoIntegration {
    pub unique_key: String,
    pub provider: String,
    #[serde(default)]
    pub actions: Vec<NangoAction>,
    #[serde(default)]
    pub syncs: Vec<NangoSync>,
}

/// An action script. It returns its input, unless it has an output or fails.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NangoAction {
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub output: Option<Value>,
    /// The status and the `error` of a run that fails.
    #[serde(default)]
    pub fails: Option<NangoFailure>,
    #[serde(default)]
    pub delay_ms: u64,
    #[serde(default)]
    pub is_disabled: bool,
    /// The JSON Schema of its input. Nango only shows it.
    #[serde(default)]
    pub input_schema: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NangoFailure {
    pub status: u16,
    pub error: Value,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NangoSync {
    pub name: String,
    pub models: Vec<String>,
    /// The JSON Schemas of models. Nango only shows them.
    #[serde(default)]
    pub schemas: BTreeMap<String, Value>,
    #[serde(default)]
    pub status: Option<String>,
    /// Absent before the first run has ended.
    #[serde(default)]
    pub finished_at: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NangoConnection {
    pub connection_id: String,
    pub provider_config_key: String,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// The types of its errors: `auth` or `sync`.
    #[serde(default)]
    pub errors: Vec<String>,
    #[serde(default)]
    pub created: Option<String>,
}

/// The records of one model of one connection.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NangoRecords {
    pub provider_config_key: String,
    pub connection_id: String,
    pub model: String,
    pub records: Vec<NangoRecord>,
}

/// One record: its own fields, and what the sync knows of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NangoRecord {
    pub data: Map<String, Value>,
    pub modified: String,
    #[serde(default)]
    pub change: NangoChange,
    #[serde(default)]
    pub pruned: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum NangoChange {
    #[default]
    Added,
    Updated,
    Deleted,
}

impl NangoChange {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Updated => "UPDATED",
            Self::Deleted => "DELETED",
        }
    }
}

/// The faults that it injects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NangoFaults {
    pub latency_ms: u64,
    /// The next requests that fail with `fail_status`.
    pub fail_next: u32,
    pub fail_status: Option<u16>,
    /// Requests of the current minute before the rate limit; no limit if absent.
    pub rate_limit: Option<u32>,
    /// A page of records ends early after this many bytes.
    pub page_bytes: Option<usize>,
    /// The list of connections has those of every user and integration, whatever was asked for.
    pub ignore_filters: bool,
}

/// One run of an action, as the script saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct NangoRun {
    pub provider: String,
    pub connection: String,
    pub action: String,
    pub input: Value,
}

/// The state of a running stand-in.
#[derive(Debug)]
pub(super) struct Environment {
    pub(super) state: NangoState,
    pub(super) runs: Vec<NangoRun>,
    pub(super) requests: Vec<String>,
    executions: BTreeMap<String, (Instant, Result<Value, NangoFailure>)>,
    /// When the last asynchronous action ends: they run one at a time.
    busy_until: Instant,
}

impl Environment {
    pub(super) fn new(state: NangoState) -> Self {
        let busy_until = Instant::now();
        Self { state, runs: Vec::new(), requests: Vec::new(), executions: BTreeMap::new(), busy_until }
    }

    pub(super) fn integration(&self, key: &str) -> Option<&NangoIntegration> {
        self.state.integrations.iter().find(|integration| integration.unique_key == key)
    }

    pub(super) fn connection(&self, provider: &str, id: &str) -> Option<&NangoConnection> {
        let mut connections = self.state.connections.iter();
        connections.find(|connection| connection.provider_config_key == provider && connection.connection_id == id)
    }

    /// Runs an action, and returns how long that takes.
    pub(super) fn run(&mut self, run: NangoRun, action: &NangoAction) -> (Duration, Result<Value, NangoFailure>) {
        let result = match (&action.fails, &action.output) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(output)) => Ok(output.clone()),
            (None, None) => Ok(run.input.clone()),
        };
        self.runs.push(run);
        (Duration::from_millis(action.delay_ms), result)
    }

    /// Stores the result of an asynchronous run, and returns its id.
    pub(super) fn schedule(&mut self, delay: Duration, result: Result<Value, NangoFailure>) -> String {
        let ends = self.busy_until.max(Instant::now()) + delay;
        self.busy_until = ends;
        let hash = ContentHash::of_parts(&[b"nango", &self.executions.len().to_be_bytes()]).to_string();
        let id = format!("{}-{}-4{}-8{}-{}", &hash[..8], &hash[8..12], &hash[13..16], &hash[17..20], &hash[20..32]);
        self.executions.insert(id.clone(), (ends, result));
        id
    }

    /// The result of an asynchronous run; `None` if it is unknown or has not ended.
    pub(super) fn result(&self, id: &str) -> Option<&Result<Value, NangoFailure>> {
        self.executions.get(id).filter(|(ends, _)| Instant::now() >= *ends).map(|(_, result)| result)
    }
}

impl NangoRecord {
    /// As `/records` returns it: a deleted or a pruned record has only its id.
    pub(super) fn to_json(&self) -> Value {
        let mut record = match (self.change, self.pruned) {
            (NangoChange::Deleted, _) | (_, true) => self
                .data
                .iter()
                .filter(|(name, _)| *name == "id")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            _ => self.data.clone(),
        };
        let is_deleted = self.change == NangoChange::Deleted;
        record.insert(
            "_nango_metadata".to_owned(),
            json!({
                "first_seen_at": self.modified, "last_modified_at": self.modified, "last_action": self.change.as_str(),
                "deleted_at": is_deleted.then_some(&self.modified), "pruned_at": self.pruned.then_some(&self.modified),
                "cursor": super::records::cursor_of(self),
            }),
        );
        Value::Object(record)
    }

    pub(super) fn id(&self) -> String {
        self.data.get("id").map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned)).unwrap_or_default()
    }

    pub(super) fn modified_at(&self) -> Timestamp {
        Timestamp::from_rfc3339(&self.modified).unwrap_or_default()
    }
}
