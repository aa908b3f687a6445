//! What a query waits for from a person: approvals, values of parameters, and answers to questions.

use std::sync::Arc;

use bosun_core::{
    Head, Timestamp, Transcript,
    event::{AskedCall, CallQuestion},
    text::clip,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// A call that runs once a person has approved it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Approval {
    pub(crate) id: String,
    pub(crate) name: Arc<str>,
    /// As they will be run: validated, with what the agent sets.
    pub(crate) arguments: Arc<Value>,
    /// The call on one line.
    pub(crate) preview: String,
    /// The SHA-256 of the arguments in canonical form. An approval that carries it is for these arguments only.
    pub(crate) hash: String,
    pub(crate) deadline: String,
    /// The agents and teams from the query to the one that makes the call, if that is not the query itself.
    #[serde(rename = "agentPath", skip_serializing_if = "Vec::is_empty")]
    pub(crate) agent_path: Vec<Arc<str>>,
}

/// Parameters that the model does not know: the user's values are posted as the result of the call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct ParameterRequest {
    pub(crate) id: String,
    pub(crate) name: Arc<str>,
    /// The tool that the model wants to call.
    pub(crate) tool: String,
    pub(crate) question: String,
    /// Each with its `path`, which is its name in the result, and with `type`, `enum`, `description`, `prompt` and
    /// `hint` where the tool has them.
    pub(crate) parameters: Value,
    /// What an agent behind an A2A server has sent with its question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) data: Vec<Value>,
    pub(crate) deadline: String,
    /// The agents and teams from the query to the one that makes the call, if that is not the query itself.
    #[serde(rename = "agentPath", skip_serializing_if = "Vec::is_empty")]
    pub(crate) agent_path: Vec<Arc<str>>,
}

/// The calls that a person must approve, in the order in which the model asked.
pub(crate) fn approvals(head: &Head, transcript: &Transcript) -> Vec<Approval> {
    head.approvals()
        .filter_map(|(call, deadline)| {
            let asked = &transcript.call(call.id)?.asked;
            Some(Approval {
                id: call.id.to_string(),
                name: asked.tool.clone(),
                arguments: asked.arguments.clone(),
                preview: preview(&asked.tool, &asked.arguments),
                hash: call.arguments.to_string(),
                deadline: deadline.to_rfc3339(),
                agent_path: Vec::new(),
            })
        })
        .collect()
}

/// A call on one line, for a person who decides about it.
pub(crate) fn preview(tool: &str, arguments: &Value) -> String {
    const LONGEST: usize = 200;
    clip(&format!("{tool} {arguments}"), LONGEST)
}

/// The requests for parameters that the user must answer.
pub(crate) fn parameter_requests(head: &Head, transcript: &Transcript) -> Vec<ParameterRequest> {
    head.parameter_requests()
        .filter_map(|(call, deadline)| {
            let call = transcript.call(call.id)?;
            Some(match &call.question {
                Some(question) => question_request(&call.asked, question, deadline),
                None => parameter_request(&call.asked, deadline),
            })
        })
        .collect()
}

/// The question of a call that continues elsewhere, as a request for one parameter, `answer`. The answer may also be
/// posted as it is, without that name.
pub(crate) fn question_request(asked: &AskedCall, question: &CallQuestion, deadline: Timestamp) -> ParameterRequest {
    let CallQuestion { text, needs_authorization, data } = question;
    let mut parameter = json!({"path": "answer", "type": "string", "description": text});
    if *needs_authorization {
        parameter["hint"] = json!("give the authorization where it is asked for, and say here that you did");
    }
    ParameterRequest {
        id: asked.call.to_string(),
        name: asked.tool.clone(),
        tool: asked.tool.to_string(),
        question: text.clone(),
        parameters: json!([parameter]),
        data: data.clone(),
        deadline: deadline.to_rfc3339(),
        agent_path: Vec::new(),
    }
}

pub(crate) fn parameter_request(asked: &AskedCall, deadline: Timestamp) -> ParameterRequest {
    let text = |name: &str| asked.arguments[name].as_str().unwrap_or_default().to_owned();
    ParameterRequest {
        id: asked.call.to_string(),
        name: asked.tool.clone(),
        tool: text("intended_tool_name"),
        question: text("clarification_question"),
        parameters: asked.arguments["parameters"].clone(),
        data: Vec::new(),
        deadline: deadline.to_rfc3339(),
        agent_path: Vec::new(),
    }
}
