//! A2A 1.0 on the wire: the specification's objects in their JSON spelling (ProtoJSON, camelCase).
//!
//! Only data. Requests are read in `reading`; the objects of 0.3 are derived from these in `v03`.

use serde::Serialize;
use serde_json::{Map, Value};

pub(super) type Metadata = Map<String, Value>;

/// A query, as A2A shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) context_id: String,
    pub(super) status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) artifacts: Option<Vec<Artifact>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) history: Option<Vec<TaskMessage>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskStatus {
    pub(super) state: TaskState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<TaskMessage>,
    pub(super) timestamp: String,
}

/// The states that a query can have; `REJECTED` and `AUTH_REQUIRED` are none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum TaskState {
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
}

impl TaskState {
    pub(super) fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum MessageRole {
    #[serde(rename = "ROLE_USER")]
    User,
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskMessage {
    pub(super) message_id: String,
    pub(super) context_id: String,
    pub(super) task_id: String,
    pub(super) role: MessageRole,
    pub(super) parts: Vec<MessagePart>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) metadata: Metadata,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) extensions: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MessagePart {
    #[serde(flatten)]
    pub(super) content: PartContent,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) media_type: Option<String>,
}

/// Exactly one of them is in a part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PartContent {
    Text(String),
    /// Bytes in base64.
    Raw(String),
    Url(String),
    Data(Value),
}

impl MessagePart {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { content: PartContent::Text(text.into()), filename: None, media_type: None }
    }

    pub(super) fn data(data: Value) -> Self {
        let media_type = Some("application/json".to_owned());
        Self { content: PartContent::Data(data), filename: None, media_type }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Artifact {
    pub(super) artifact_id: String,
    pub(super) name: &'static str,
    pub(super) parts: Vec<MessagePart>,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StreamEvent {
    Task(Box<Task>),
    StatusUpdate(Box<StatusUpdate>),
    ArtifactUpdate(ArtifactUpdate),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusUpdate {
    pub(super) task_id: String,
    pub(super) context_id: String,
    pub(super) status: TaskStatus,
    /// Whether the stream ends with it. On the wire in 0.3 only.
    #[serde(skip)]
    pub(super) is_final: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ArtifactUpdate {
    pub(super) task_id: String,
    pub(super) context_id: String,
    pub(super) artifact: Artifact,
    pub(super) append: bool,
    pub(super) last_chunk: bool,
}

/// A page of tasks; all four fields are always present.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskPage {
    pub(super) tasks: Vec<Task>,
    /// Empty on the last page.
    pub(super) next_page_token: String,
    pub(super) page_size: usize,
    pub(super) total_size: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentCard {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) supported_interfaces: Vec<AgentInterface>,
    pub(super) version: &'static str,
    pub(super) capabilities: AgentCapabilities,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) security_schemes: Metadata,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) security_requirements: Vec<Value>,
    pub(super) default_input_modes: Vec<&'static str>,
    pub(super) default_output_modes: Vec<&'static str>,
    pub(super) skills: Vec<AgentSkill>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentInterface {
    pub(super) url: String,
    pub(super) protocol_binding: &'static str,
    pub(super) protocol_version: &'static str,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentCapabilities {
    pub(super) streaming: bool,
    pub(super) push_notifications: bool,
    pub(super) extensions: Vec<AgentExtension>,
    pub(super) extended_agent_card: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct AgentExtension {
    pub(super) uri: &'static str,
    pub(super) description: &'static str,
    pub(super) required: bool,
    pub(super) params: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AgentSkill {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) tags: Vec<String>,
}
