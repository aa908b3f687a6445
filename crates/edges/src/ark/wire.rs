//! Answers on the wire, in ARK's and the RFC's spelling.
//!
//! Only data: how a query becomes one of these is in `convert`.

use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::asking::person::{Approval, ParameterRequest};

/// A query in the RFC's shape: `status` is a word.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RfcQuery {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    pub(crate) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_call: Option<ToolCall>,
    pub(crate) tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) approvals: Vec<Approval>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parameter_requests: Vec<ParameterRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response: Option<String>,
    /// The response as data, if the query or its agent has an `outputSchema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Error>,
    pub(crate) tool_execution_history: Vec<Execution>,
    /// What the query itself has used.
    pub(crate) usage: TokenUsage,
    /// The usage of the query and of the queries of agents and teams that it asked, if it asked any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tree_usage: Option<TokenUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<String>,
    pub(crate) metadata: RfcMetadata,
    #[serde(flatten)]
    pub(crate) session: Option<Session>,
    pub(crate) creation_timestamp: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) results: Option<Vec<PostedResult>>,
    pub(crate) warnings: Vec<String>,
}

/// A query in the RFC's shape, as far as a key without the right `read` sees it: its state and the calls to run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BriefRfcQuery {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    pub(crate) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_call: Option<ToolCall>,
    pub(crate) tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) approvals: Vec<Approval>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parameter_requests: Vec<ParameterRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) results: Option<Vec<PostedResult>>,
    pub(crate) warnings: Vec<String>,
}

/// A query in ARK's shape, as far as a key without the right `read` sees it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BriefArkQuery {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    pub(crate) status: BriefArkStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) results: Option<Vec<PostedResult>>,
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BriefArkStatus {
    pub(crate) phase: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) approvals: Vec<Approval>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parameter_requests: Vec<ParameterRequest>,
}

/// A query in ARK's shape: `status` is an object with a `phase`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArkQuery {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    #[serde(flatten)]
    pub(crate) spec: QuerySpec,
    pub(crate) metadata: Metadata,
    pub(crate) creation_timestamp: String,
    pub(crate) status: ArkStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) results: Option<Vec<PostedResult>>,
    pub(crate) warnings: Vec<String>,
}

/// The request of a query.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuerySpec {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// A text, or the messages of a conversation.
    pub(crate) input: Value,
    pub(crate) parameters: Option<Vec<Parameter>>,
    pub(crate) target: Target,
    pub(crate) targets: Vec<Target>,
    /// What was sent, where the target was found by its labels.
    pub(crate) selector: Option<Value>,
    /// The model that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model_ref: Option<ModelRef>,
    pub(crate) memory: Option<MemoryRef>,
    #[serde(flatten)]
    pub(crate) session: Session,
    pub(crate) timeout: String,
    pub(crate) ttl: String,
    /// Whether it was cancelled.
    pub(crate) cancel: bool,
    pub(crate) service_account: Never,
    pub(crate) overrides: Never,
}

/// A field of ARK's that is refused when it is sent, and so is always `null`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Never(pub(crate) ());

/// The fields with which every view of a query begins.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    /// The state in the engine's own terms.
    pub(crate) state: &'static str,
}

/// A value for a placeholder in the input or in the agent's prompt.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct MemoryRef {
    pub(crate) name: String,
}

/// Old clients read `sessionId`, new ones `conversationId`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    pub(crate) session_id: Option<String>,
    pub(crate) conversation_id: Option<String>,
}

/// A call that the client must run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: Arc<str>,
    pub(crate) arguments: Arc<Value>,
    pub(crate) deadline: String,
    /// The agents and teams from the query to the one that makes the call, if that is not the query itself.
    #[serde(rename = "agentPath", skip_serializing_if = "Vec::is_empty")]
    pub(crate) agent_path: Vec<Arc<str>>,
    /// A worker may run it instead of the client.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) workers: bool,
    /// W3C's `traceparent` of the call, for the client that runs it; only if the query was created in a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tracestate: Option<String>,
}

/// A call that waits for approval, in the list of a namespace.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenApproval {
    /// The name of its query.
    pub(crate) query: String,
    pub(crate) namespace: String,
    pub(crate) target: Target,
    /// The creator of the query.
    pub(crate) asked_by: String,
    pub(crate) creation_timestamp: String,
    #[serde(flatten)]
    pub(crate) approval: Approval,
}

/// A query in a tree.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TreeNode {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    pub(crate) target: Target,
    /// The parent's call that this query answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_call_id: Option<String>,
    /// The calls that wait for a client, of this query alone.
    pub(crate) tool_calls: Vec<ToolCall>,
    pub(crate) approvals: Vec<Approval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Error>,
    pub(crate) usage: TokenUsage,
    /// What it and the queries below it have used, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tree_usage: Option<TokenUsage>,
    pub(crate) creation_timestamp: String,
    /// The queries of its calls, in the order of the calls.
    pub(crate) children: Vec<TreeNode>,
}

/// A call that has its outcome.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Execution {
    pub(crate) tool_call_id: String,
    pub(crate) tool_name: Arc<str>,
    /// Where it ran; nowhere if it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) execution_mode: Option<&'static str>,
    pub(crate) success: bool,
    pub(crate) duration: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Error>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) large_result: Option<LargeResult>,
    /// The tool was not run: an earlier call had this result.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cached: bool,
    /// Optional parameters that were dropped because the model sent `null` for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dropped_arguments: Vec<String>,
    /// Why the tool should not be used any more, where it is deprecated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deprecated: Option<String>,
}

/// A result that is too large to be shown: it can be fetched by its handle, the id of its call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LargeResult {
    pub(crate) handle: String,
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) media_type: String,
    pub(crate) sha256: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Error {
    pub(crate) code: String,
    pub(crate) message: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenUsage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_write_tokens: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RfcMetadata {
    pub(crate) query_name: String,
    pub(crate) waiting_for_tool: bool,
    #[serde(flatten)]
    pub(crate) labels: Metadata,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Metadata {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Target {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArkStatus {
    pub(crate) phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response: Option<ArkResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) responses: Option<Vec<ArkResponse>>,
    /// The response as data, if the query or its agent has an `outputSchema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Error>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<ToolCall>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) approvals: Vec<Approval>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parameter_requests: Vec<ParameterRequest>,
    /// Includes the usage of the queries of agents and teams that it asked: ARK has no such queries.
    pub(crate) token_usage: TokenUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) conversation_id: Option<String>,
    pub(crate) conditions: Vec<QueryCondition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<String>,
}

/// Whether a query has ended, and how.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryCondition {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) status: &'static str,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) last_transition_time: String,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ArkResponse {
    pub(crate) target: Target,
    pub(crate) content: String,
    /// The messages of the query, as OpenAI's chat messages in a text. Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw: Option<String>,
    pub(crate) phase: &'static str,
}

/// The verdict on one posted result.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PostedResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_name: Option<String>,
    pub(crate) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
}

/// One entry of a list of queries; lists are ARK-shaped, whatever the query's own view is.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedQuery {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// A text, or the messages of a conversation.
    pub(crate) input: Value,
    pub(crate) target: Target,
    pub(crate) targets: Vec<Target>,
    pub(crate) memory: Option<MemoryRef>,
    #[serde(flatten)]
    pub(crate) session: Session,
    pub(crate) metadata: Metadata,
    pub(crate) creation_timestamp: String,
    pub(crate) status: ArkStatus,
}

/// A page of a list. ARK has called the number of items both `count` and `total`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{Item}s")]
pub(crate) struct List<Item> {
    pub(crate) items: Vec<Item>,
    /// Of this page.
    pub(crate) count: usize,
    /// Of the whole list.
    pub(crate) total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) continue_token: Option<String>,
    /// How many come after this page, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remaining_item_count: Option<u64>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ModelRef {
    pub(crate) name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}
