//! A2A 1.0: the specification's objects in their JSON spelling (ProtoJSON, camelCase).
//!
//! A server writes them, and a client reads them. Readers are tolerant where the protocol is: fields that it does not
//! require may be absent, and unknown ones are ignored. What a request must have, and with which words it is refused, is
//! decided by the server. [`client_tools`] has the payloads of the client-tools extension. The objects of 0.3 are absent.

pub mod client_tools;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The header that names the version, and the version of this module.
pub const VERSION_HEADER: &str = "a2a-version";
pub const VERSION: &str = "1.0";
/// The header that activates extensions, by their URIs.
pub const EXTENSIONS_HEADER: &str = "a2a-extensions";
/// Where a card is, below the URL of an agent.
pub const CARD_PATH: &str = ".well-known/agent-card.json";

pub type Metadata = Map<String, Value>;

/// One unit of work of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    #[serde(default)]
    pub context_id: String,
    pub status: TaskStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<TaskMessage>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    pub state: TaskState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<TaskMessage>,
    #[serde(default)]
    pub timestamp: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    /// None, or one of a later version.
    #[serde(rename = "TASK_STATE_UNSPECIFIED", other)]
    Unspecified,
}

impl TaskState {
    /// A task in this state does not change any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageRole {
    #[serde(rename = "ROLE_USER")]
    User,
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

/// A message, of a client or of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskMessage {
    pub message_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    pub role: MessageRole,
    #[serde(default)]
    pub parts: Vec<MessagePart>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Metadata,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessagePart {
    #[serde(flatten)]
    pub content: PartContent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// Exactly one of them is in a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartContent {
    Text(String),
    /// Bytes in base64.
    Raw(String),
    Url(String),
    Data(Value),
}

impl MessagePart {
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: PartContent::Text(text.into()), filename: None, media_type: None }
    }

    #[must_use]
    pub fn data(data: Value) -> Self {
        let media_type = Some("application/json".to_owned());
        Self { content: PartContent::Data(data), filename: None, media_type }
    }
}

/// A result of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    pub artifact_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default)]
    pub parts: Vec<MessagePart>,
}

/// The parameters of `SendMessage` and `SendStreamingMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendMessageRequest {
    /// From the interface of the card that the request goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub message: TaskMessage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<SendMessageConfiguration>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Metadata,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendMessageConfiguration {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_output_modes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u32>,
    /// Without it, the answer comes when the task has ended or waits.
    #[serde(default)]
    pub return_immediately: bool,
}

/// The answer to `SendMessage`: a task, or a message without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SendMessageResponse {
    Task(Box<Task>),
    Message(Box<TaskMessage>),
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamEvent {
    Task(Box<Task>),
    /// An answer without a task; it is the only event of its stream.
    Message(Box<TaskMessage>),
    StatusUpdate(Box<StatusUpdate>),
    ArtifactUpdate(ArtifactUpdate),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate {
    pub task_id: String,
    #[serde(default)]
    pub context_id: String,
    pub status: TaskStatus,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate {
    pub task_id: String,
    #[serde(default)]
    pub context_id: String,
    pub artifact: Artifact,
    /// Whether the parts follow those that were sent before.
    #[serde(default)]
    pub append: bool,
    #[serde(default)]
    pub last_chunk: bool,
}

/// A page of tasks; all four fields are always present.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskPage {
    pub tasks: Vec<Task>,
    /// Empty on the last page.
    pub next_page_token: String,
    pub page_size: usize,
    pub total_size: usize,
}

/// What an agent is, where it is and what it can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// In the order of the agent's preference.
    pub supported_interfaces: Vec<AgentInterface>,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub capabilities: AgentCapabilities,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub security_schemes: Metadata,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<Value>,
    #[serde(default)]
    pub default_input_modes: Vec<String>,
    #[serde(default)]
    pub default_output_modes: Vec<String>,
    #[serde(default)]
    pub skills: Vec<AgentSkill>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    pub url: String,
    /// `JSONRPC`, `HTTP+JSON`, `GRPC`, or a URI.
    pub protocol_binding: String,
    /// What a client sends as `tenant`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    pub protocol_version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCapabilities {
    pub streaming: bool,
    pub push_notifications: bool,
    pub extensions: Vec<AgentExtension>,
    pub extended_agent_card: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentExtension {
    pub uri: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub required: bool,
    #[serde(default)]
    pub params: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub tags: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check<T: Serialize + for<'a> Deserialize<'a>>(written: &Value) {
        let read: T = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(json!(read), *written);
    }

    #[test]
    fn what_is_read_is_written_in_the_same_way() {
        let message = json!({
            "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_AGENT",
            "parts": [{"text": "x"}, {"raw": "eA==", "filename": "x.bin"}, {"url": "https://h/x"}, {"data": null, "mediaType": "application/json"}],
            "metadata": {"a": 1}, "extensions": [client_tools::URI],
        });
        let status =
            json!({"state": "TASK_STATE_INPUT_REQUIRED", "message": message, "timestamp": "2026-01-01T00:00:00Z"});
        let artifact = json!({"artifactId": "a", "name": "answer", "parts": [{"text": "x"}]});
        let task = json!({"id": "t", "contextId": "c", "status": status, "artifacts": [artifact], "history": [message], "metadata": {"a": 1}});
        check::<Task>(&task);
        check::<StreamEvent>(&json!({"task": task}));
        check::<StreamEvent>(&json!({"message": message}));
        check::<StreamEvent>(&json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status}}));
        check::<StreamEvent>(&json!({"artifactUpdate": {
            "taskId": "t", "contextId": "c", "artifact": artifact, "append": true, "lastChunk": false,
        }}));
        check::<SendMessageResponse>(&json!({"task": task}));
        check::<SendMessageRequest>(
            &json!({"message": message, "configuration": {"returnImmediately": true}, "metadata": {"b": 2}}),
        );
    }

    #[test]
    fn objects_of_other_servers_are_read_with_the_required_fields_alone() {
        let task: Task = serde_json::from_value(json!({
            "id": "t", "status": {"state": "TASK_STATE_OF_TOMORROW", "message": {"messageId": "m", "role": "ROLE_AGENT"}},
            "metadata": {"unknown": true},
        }))
        .unwrap();
        assert_eq!((task.status.state, task.context_id.as_str()), (TaskState::Unspecified, ""));
        let card: AgentCard = serde_json::from_value(json!({
            "name": "n", "supportedInterfaces": [{"url": "https://h", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "capabilities": {"extensions": [{"uri": client_tools::URI}]},
        }))
        .unwrap();
        assert_eq!((card.capabilities.streaming, card.capabilities.extensions.len()), (false, 1));
        let part = json!({"text": "x", "metadata": {"m": 1}, "later": true});
        assert_eq!(serde_json::from_value::<MessagePart>(part).unwrap(), MessagePart::text("x"));
        assert!(serde_json::from_value::<MessagePart>(json!({"metadata": {}})).is_err(), "a part has content");
    }
}
