//! The payloads of the client-tools extension of A2A: `docs/a2a-client-tools.md` is its specification.
//!
//! Definitions are in `metadata[URI]` of the request that creates a task; calls and results are data parts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The identity and the version of the extension.
pub const URI: &str = "https://bosun.dev/a2a/extensions/client-tools/v1";

/// The metadata of the request that creates a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinitions {
    /// Each with `name`, `description` and `parameters`, a JSON Schema.
    pub tools: Vec<Value>,
}

/// A data part of an input-required status message: every call that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenToolCalls {
    pub tool_calls: Vec<OpenToolCall>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenToolCall {
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: String,
    pub function: FunctionCall,
    /// When the agent stops waiting, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The agents from the task's to the one that makes the call, if that is not the task's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_path: Vec<String>,
    /// Another program may run it: a client without the tool leaves it alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub workers: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    pub name: String,
    pub arguments: Value,
}

/// A data part of a message with the task's id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResults {
    pub tool_results: Vec<ToolResult>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    pub tool_call_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// True if absent.
    #[serde(default = "is_success")]
    pub success: bool,
    #[serde(default)]
    pub result: Value,
    /// What the model reads of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn is_success() -> bool {
    true
}
