//! Resources on the wire, in ARK's spelling.
//!
//! What a manifest says is shown as it was written, in `spec`; next to it are the flat fields that
//! clients of ARK's API read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::ark::wire::{ArkStatus, Condition};

type Texts = BTreeMap<String, String>;

/// What every resource has.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) labels: Texts,
    pub(super) annotations: Texts,
    /// `file`, `url`, `api`, `server` for what ships with it, or `mcp-server` or `a2a-server` for what one has announced. Only what
    /// is of the `api` can be changed.
    pub(super) managed_by: &'static str,
    /// How often it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) creation_timestamp: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    /// ARK's older word for it.
    pub(super) phase: &'static str,
    /// Its word for tools.
    pub(super) state: &'static str,
    pub(super) message: String,
    pub(super) conditions: Vec<Condition>,
    /// How many tools of an MCP server can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_count: Option<usize>,
    /// Where an MCP server is, unless its address is a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resolved_address: Option<String>,
}

/// What every resource has in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) description: Option<String>,
    pub(super) available: &'static str,
    pub(super) annotations: Texts,
}

/// What every resource has where it is shown alone.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Detail {
    #[serde(flatten)]
    pub(super) identity: Identity,
    pub(super) description: Option<String>,
    pub(super) available: &'static str,
    pub(super) status: Status,
}

/// An agent in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedAgent {
    #[serde(flatten)]
    pub(super) listed: Listed,
    pub(super) model_ref: String,
    pub(super) prompt: Option<String>,
}

/// An agent: flat as ARK's API has it, and with the `spec` that clients of its custom resources read.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Agent {
    #[serde(flatten)]
    pub(super) detail: Detail,
    pub(super) model_ref: Value,
    pub(super) prompt: Option<String>,
    pub(super) parameters: Vec<Value>,
    pub(super) tools: Vec<Value>,
    /// What its model reads of them; those that do not exist are missing.
    #[serde(rename = "toolDetails")]
    pub(super) tool_details: Vec<ToolDetail>,
    pub(super) execution_engine: Option<Value>,
    pub(super) overrides: Vec<Value>,
    #[serde(rename = "isA2A")]
    pub(super) is_a2a: bool,
    pub(super) skills: Vec<Value>,
    pub(super) spec: Map<String, Value>,
}

/// One tool of an agent, as its model sees it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolDetail {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) description: String,
    pub(super) input_schema: Value,
    /// `external` if clients or workers run it.
    pub(super) execution_mode: &'static str,
}

/// A model in a list. `type` is the provider, as clients of older versions of ARK read it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedModel {
    #[serde(flatten)]
    pub(super) listed: Listed,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) provider: Option<String>,
    pub(super) model: Option<String>,
    pub(super) phase: &'static str,
    /// The same by the name that the older versions gave it.
    pub(super) status: &'static str,
}

/// A model. There is no `spec`: ARK's API has none here, and in a manifest `model` is an object.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Model {
    #[serde(flatten)]
    pub(super) detail: Detail,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) provider: Option<String>,
    pub(super) model: Option<String>,
    pub(super) config: Value,
    pub(super) fallback: Vec<String>,
    pub(super) resolved_address: Option<String>,
}

/// A tool in a list: ARK's fields, then ours.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedTool {
    #[serde(flatten)]
    pub(super) listed: Listed,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) labels: Texts,
    /// The name that LangChain gave it, under which it is found, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lc_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) category: Option<String>,
    /// The integration or the server that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<String>,
    pub(super) source: ToolSource,
    /// The name of its file, its URL, or its server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) location: Option<String>,
    /// What runs it: `builtin`, `http`, `mcp`, …, or `external` for the client.
    pub(super) binding: Option<String>,
    pub(super) state: ToolState,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The generation of the registry that the list was read from.
    pub(super) registry_generation: u64,
}

/// Where a tool comes from.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolSource {
    /// A manifest, or a file of `--tools`.
    File,
    /// A client.
    Stored,
    /// A URL of `--tools`.
    Url,
    /// An MCP server that has announced it.
    Server,
    /// The program itself.
    Builtin,
}

/// Whether a call of a tool can succeed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolState {
    Ready,
    /// Nothing in this server runs tools of its type.
    NoRunner,
    /// Its server has changed it, and the change is not approved yet.
    Quarantined,
    /// It is invalid, or something that it needs does not exist.
    Unavailable,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Tool {
    #[serde(flatten)]
    pub(super) detail: Detail,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) spec: Map<String, Value>,
}

/// A memory in a list. ARK has no `spec` here; its n8n nodes look for one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedMemory {
    #[serde(flatten)]
    pub(super) listed: Listed,
    pub(super) spec: MemorySpec,
    pub(super) status: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Memory {
    #[serde(flatten)]
    pub(super) detail: Detail,
    pub(super) config: MemorySpec,
    pub(super) spec: MemorySpec,
}

/// How much of a conversation is shown.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemorySpec {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_messages: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
}

/// A team in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedTeam {
    #[serde(flatten)]
    pub(super) listed: Listed,
    pub(super) strategy: Option<String>,
    pub(super) members_count: usize,
    pub(super) status: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Team {
    #[serde(flatten)]
    pub(super) detail: Detail,
    pub(super) strategy: Option<String>,
    pub(super) members: Vec<Value>,
    pub(super) graph: Option<Value>,
    pub(super) max_turns: Option<Value>,
    pub(super) selector: Option<Value>,
    pub(super) spec: Map<String, Value>,
}

/// Where an MCP server is.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Endpoint {
    pub(super) address: Option<String>,
    pub(super) transport: Option<String>,
    /// Older versions of ARK have this and the next in the place of `available`.
    pub(super) ready: bool,
    pub(super) discovering: bool,
    pub(super) status_message: String,
    pub(super) tool_count: usize,
    /// The state of the connection; absent if this server does not connect to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) discovery: Option<Discovery>,
}

/// The state of the connection to an MCP server.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Discovery {
    /// `discovering`, `ready`, `failed`, or `quarantined` if tools are withheld until their definitions are approved.
    pub(super) phase: &'static str,
    /// When the phase began.
    pub(super) since: String,
    /// The name and version that the server gives itself, and its revision of the protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<String>,
    pub(super) tools: Vec<AnnouncedTool>,
}

/// A tool that an MCP server announces.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AnnouncedTool {
    /// The name in the catalogue.
    pub(super) name: String,
    /// The server's own name of it.
    pub(super) original: String,
    pub(super) description: String,
    /// The SHA-256 of its definition, in canonical JSON.
    pub(super) hash: String,
    /// Why it is withheld.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<DefinitionChange>,
}

/// A field of a definition that differs from the approved one; both are canonical JSON.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DefinitionChange {
    pub(super) field: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) approved: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) announced: Option<String>,
}

/// An MCP server in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct McpServer {
    #[serde(flatten)]
    pub(super) listed: Listed,
    #[serde(flatten)]
    pub(super) endpoint: Endpoint,
    pub(super) labels: Texts,
    pub(super) authorization: Option<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct McpServerDetail {
    #[serde(flatten)]
    pub(super) detail: Detail,
    #[serde(flatten)]
    pub(super) endpoint: Endpoint,
    pub(super) spec: Map<String, Value>,
}

/// An A2A server in a list, with ARK's fields.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct A2aServer {
    #[serde(flatten)]
    pub(super) listed: Listed,
    #[serde(flatten)]
    pub(super) connection: A2aConnection,
    pub(super) labels: Texts,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct A2aServerDetail {
    #[serde(flatten)]
    pub(super) detail: Detail,
    #[serde(flatten)]
    pub(super) connection: A2aConnection,
    pub(super) spec: Map<String, Value>,
}

/// Where an A2A server is, and the agent behind it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct A2aConnection {
    pub(super) address: Option<String>,
    /// Where the card was last fetched from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_resolved_address: Option<String>,
    pub(super) ready: bool,
    pub(super) discovering: bool,
    pub(super) status_message: String,
    /// As its card describes it; absent until the card was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<ServedAgent>,
}

/// The agent behind an A2A server.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServedAgent {
    /// The name of the agent here, and of the tool that asks it.
    pub(super) name: String,
    /// The name in its card.
    pub(super) original: String,
    pub(super) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    /// The version of A2A in which it is asked.
    pub(super) protocol: &'static str,
    /// `JSONRPC` or `HTTP+JSON`.
    pub(super) binding: &'static str,
    pub(super) skills: Vec<Skill>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Skill {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) tags: Vec<String>,
}

/// The confirmation of a deletion.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Deleted {
    pub(super) message: String,
}

impl Deleted {
    pub(crate) fn new(message: String) -> Self {
        Self { message }
    }
}

/// An evaluator in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedEvaluator {
    #[serde(flatten)]
    pub(super) listed: Listed,
    pub(super) status: &'static str,
}

/// An evaluator: flat as ARK's API has it, and with the `spec` of its custom resource.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Evaluator {
    #[serde(flatten)]
    pub(super) detail: Detail,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<Value>,
    pub(super) parameters: Vec<Value>,
    pub(super) spec: Map<String, Value>,
}

/// A resource as Kubernetes has it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Raw {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: RawMetadata,
    /// `spec`, or what the kind has in its place.
    #[serde(flatten)]
    pub(super) content: Map<String, Value>,
    /// A `ConfigMap` has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<RawStatus>,
}

/// The status of an object, in the form of its kind.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::ark) enum RawStatus {
    Resource(Status),
    Query(Box<ArkStatus>),
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawMetadata {
    pub(super) name: String,
    pub(super) namespace: String,
    /// Only of queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: Texts,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: Texts,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) creation_timestamp: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawList {
    pub(super) api_version: &'static str,
    pub(super) kind: String,
    pub(super) metadata: RawListMetadata,
    pub(super) items: Vec<Raw>,
}

/// Where the next page of a list begins.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawListMetadata {
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub(super) continue_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remaining_item_count: Option<u64>,
}
