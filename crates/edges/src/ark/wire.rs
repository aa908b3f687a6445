//! Answers as they stand on the wire, in ARK's and the RFC's spelling.
//!
//! Only data: how a query becomes one of these is in `convert`.

use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A query in the RFC's shape: `status` is a word.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RfcQuery {
    #[serde(flatten)]
    pub(super) identity: Identity,
    pub(super) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call: Option<ToolCall>,
    pub(super) tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<String>,
    /// The response as data, if the query or its agent has an `outputSchema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Error>,
    pub(super) tool_execution_history: Vec<Execution>,
    pub(super) usage: TokenUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration: Option<String>,
    pub(super) metadata: RfcMetadata,
    #[serde(flatten)]
    pub(super) session: Option<Session>,
    pub(super) creation_timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) results: Option<Vec<PostedResult>>,
    pub(super) warnings: Vec<String>,
}

/// A query in the RFC's shape, as far as a key without the right `read` sees it: where it stands and what is to be run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BriefRfcQuery {
    #[serde(flatten)]
    pub(super) identity: Identity,
    pub(super) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call: Option<ToolCall>,
    pub(super) tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) results: Option<Vec<PostedResult>>,
    pub(super) warnings: Vec<String>,
}

/// A query in ARK's shape, as far as a key without the right `read` sees it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BriefArkQuery {
    #[serde(flatten)]
    pub(super) identity: Identity,
    pub(super) status: BriefArkStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) results: Option<Vec<PostedResult>>,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BriefArkStatus {
    pub(super) phase: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall>,
}

/// A query in ARK's shape: `status` is an object with a `phase`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArkQuery {
    #[serde(flatten)]
    pub(super) identity: Identity,
    #[serde(flatten)]
    pub(super) spec: QuerySpec,
    pub(super) metadata: Metadata,
    pub(super) creation_timestamp: String,
    pub(super) status: ArkStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) results: Option<Vec<PostedResult>>,
    pub(super) warnings: Vec<String>,
}

/// What a query was asked with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QuerySpec {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// A text, or the messages of a conversation.
    pub(super) input: Value,
    pub(super) parameters: Option<Vec<Parameter>>,
    pub(super) target: Target,
    pub(super) targets: Vec<Target>,
    /// What was sent, where the target was found by its labels.
    pub(super) selector: Option<Value>,
    /// The model that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model_ref: Option<ModelRef>,
    pub(super) memory: Option<MemoryRef>,
    #[serde(flatten)]
    pub(super) session: Session,
    pub(super) timeout: String,
    pub(super) ttl: String,
    /// That somebody has cancelled it.
    pub(super) cancel: bool,
    pub(super) service_account: Never,
    pub(super) overrides: Never,
}

/// A field of ARK's that is refused when it is sent, and so is always `null`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Never(pub(super) ());

/// What every view of a query begins with.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    /// The engine's own word.
    pub(super) state: &'static str,
}

/// A value for a place in the input or in the agent's prompt.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct MemoryRef {
    pub(super) name: String,
}

/// Old clients read `sessionId`, new ones `conversationId`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Session {
    pub(super) session_id: Option<String>,
    pub(super) conversation_id: Option<String>,
}

/// A call that the client must run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) name: Arc<str>,
    pub(super) arguments: Arc<Value>,
    pub(super) deadline: String,
    /// Where in a trace the call belongs, for whoever runs it: W3C's header. Only of queries that were created in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tracestate: Option<String>,
}

/// A call that has its outcome.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Execution {
    pub(super) tool_call_id: String,
    pub(super) tool_name: Arc<str>,
    /// Who ran it; nobody did if it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) execution_mode: Option<&'static str>,
    pub(super) success: bool,
    pub(super) duration: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Error>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) large_result: Option<LargeResult>,
    /// Optional parameters that were dropped because the model sent `null` for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) dropped_arguments: Vec<String>,
    /// Why the tool should not be used any more, where it is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deprecated: Option<String>,
}

/// A result that is too large to be shown: it can be fetched by its handle, the id of its call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LargeResult {
    pub(super) handle: String,
    /// In bytes.
    pub(super) size: u64,
    pub(super) media_type: String,
    pub(super) sha256: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Error {
    pub(super) code: String,
    pub(super) message: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TokenUsage {
    pub(super) prompt_tokens: u64,
    pub(super) completion_tokens: u64,
    pub(super) total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RfcMetadata {
    pub(super) query_name: String,
    pub(super) waiting_for_tool: bool,
    #[serde(flatten)]
    pub(super) labels: Metadata,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Metadata {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Target {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArkStatus {
    pub(super) phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<ArkResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) responses: Option<Vec<ArkResponse>>,
    /// The response as data, if the query or its agent has an `outputSchema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Error>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall>,
    pub(super) token_usage: TokenUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) conversation_id: Option<String>,
    pub(super) conditions: Vec<QueryCondition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration: Option<String>,
}

/// Whether a query has ended, and how.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueryCondition {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) last_transition_time: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ArkResponse {
    pub(super) target: Target,
    pub(super) content: String,
    /// What the query has said, as OpenAI's chat messages in a text. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw: Option<String>,
    pub(super) phase: &'static str,
}

/// What became of one posted result.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PostedResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_name: Option<String>,
    pub(super) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<&'static str>,
}

/// One entry of a list of queries; lists are ARK-shaped, whatever the query's own view is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedQuery {
    #[serde(flatten)]
    pub(super) identity: Identity,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// A text, or the messages of a conversation.
    pub(super) input: Value,
    pub(super) target: Target,
    pub(super) targets: Vec<Target>,
    pub(super) memory: Option<MemoryRef>,
    #[serde(flatten)]
    pub(super) session: Session,
    pub(super) metadata: Metadata,
    pub(super) creation_timestamp: String,
    pub(super) status: ArkStatus,
}

/// A page of a list. ARK has called the number of items both `count` and `total`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{Item}s")]
pub(super) struct List<Item> {
    pub(super) items: Vec<Item>,
    /// Of this page.
    pub(super) count: usize,
    /// Of the whole list.
    pub(super) total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) continue_token: Option<String>,
    /// How many come after this page, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remaining_item_count: Option<u64>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ModelRef {
    pub(super) name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// `/health` and `/ready`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Service {
    pub(super) status: &'static str,
    /// The service whose API this is: programs that look for one find it by this name.
    pub(super) service: &'static str,
    /// The program that serves it.
    pub(super) server: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'static str>,
}

impl Service {
    pub(super) fn new(status: &'static str, error: Option<&'static str>) -> Self {
        Self { status, service: "ark-api", server: "bosun", error }
    }
}

/// What is at `/`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Root {
    /// As `/health` has it.
    pub(super) service: &'static str,
    /// The program that serves it.
    pub(super) server: &'static str,
    pub(super) version: &'static str,
    /// Where to go on from here.
    pub(super) links: RootLinks,
    /// What to try first, on the command line.
    pub(super) commands: &'static [&'static str],
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RootLinks {
    pub(super) docs: &'static str,
    pub(super) openapi: &'static str,
    pub(super) health: &'static str,
    pub(super) ready: &'static str,
    pub(super) agents: &'static str,
}

impl Root {
    pub(super) fn new(commands: &'static [&'static str]) -> Self {
        let Service { service, server, .. } = Service::new("healthy", None);
        let links = RootLinks {
            docs: "/docs",
            openapi: "/openapi.json",
            health: "/health",
            ready: "/ready",
            agents: "/v1/agents",
        };
        Self { service, server, version: env!("CARGO_PKG_VERSION"), links, commands }
    }
}
