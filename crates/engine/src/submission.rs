//! A submission: the request for one query, with all its options.
//!
//! It is already parsed, and validated as far as possible without a registry; [`Inner::prepare`](crate::engine::Inner)
//! freezes it. Two submissions are the same request if their fingerprints are equal.

use std::{collections::BTreeMap, sync::Arc};

use bosun_core::{
    Actor, ContentHash, Namespace, QueryName, Tool, json,
    query::{AskedLimits, EdgeNote, ExpiryPolicy, ModelOptions, TargetKind},
    tool::{catalog::Selection, toolset::ToolSources},
    trace::TraceContext,
    transcript::Message,
};

use crate::{engine::conversations::AskedConversation, parameters::QueryParameter, store::RequestKey};

/// A request to run a query.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The caller.
    pub by: Actor,
    pub namespace: Namespace,
    /// Chosen by the server if absent.
    pub name: Option<QueryName>,
    /// The name of what is to answer: an agent, a team, a model or a tool.
    pub target: String,
    pub target_kind: TargetKind,
    /// The selector by which the client chose the target, if not by its name.
    pub selector: Option<Arc<serde_json::Value>>,
    /// Overrides the agent's own model.
    pub model: Option<String>,
    pub input: Input,
    /// Values for the templates of the input and of the agent's prompt.
    pub parameters: BTreeMap<String, QueryParameter>,
    pub options: ModelOptions,
    /// The schema that the answer must match; the agent's own if absent.
    pub output_schema: Option<Arc<serde_json::Value>>,
    /// The client's own tools, already validated.
    pub client_tools: Vec<Tool>,
    pub tool_sources: ToolSources,
    /// Only these of the agent's tools; all of them if absent.
    pub selected_tools: Option<Vec<String>>,
    /// And only those of them that this selects.
    pub tool_filter: Option<Selection>,
    pub limits: AskedLimits,
    pub edge_note: EdgeNote,
    /// What becomes of the query when a call of the client expires.
    pub on_expired: ExpiryPolicy,
    pub session_id: Option<String>,
    pub conversation: AskedConversation,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Warnings for the caller about how the request was read.
    pub warnings: Vec<String>,
    /// The client's idempotency key, scoped to actor and route.
    pub request: Option<RequestKey>,
    /// The trace that the request is part of.
    pub trace: Option<Arc<TraceContext>>,
}

/// The input of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// One text, a template if there are parameters.
    Text(String),
    /// A conversation for the model to continue, already validated.
    Messages(Vec<Message>),
}

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Submission {
    /// A query of an agent, with defaults for everything else.
    #[must_use]
    pub fn to_agent(by: Actor, namespace: Namespace, agent: impl Into<String>, input: impl Into<Input>) -> Self {
        Self::to(TargetKind::Agent, by, namespace, agent, input)
    }

    /// A query of an agent, a team, a model or a tool, with defaults for everything else.
    #[must_use]
    pub fn to(
        target_kind: TargetKind,
        by: Actor,
        namespace: Namespace,
        target: impl Into<String>,
        input: impl Into<Input>,
    ) -> Self {
        Self {
            by,
            namespace,
            name: None,
            target: target.into(),
            target_kind,
            selector: None,
            model: None,
            input: input.into(),
            parameters: BTreeMap::new(),
            options: ModelOptions::default(),
            output_schema: None,
            client_tools: Vec::new(),
            tool_sources: ToolSources::Both,
            selected_tools: None,
            tool_filter: None,
            limits: AskedLimits::default(),
            edge_note: EdgeNote::default(),
            on_expired: ExpiryPolicy::default(),
            session_id: None,
            conversation: AskedConversation::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            warnings: Vec::new(),
            request: None,
            trace: None,
        }
    }

    /// The hash of the request, without what only affects how it is answered.
    pub(crate) fn fingerprint(&self) -> ContentHash {
        let mut asked = serde_json::json!({
            "name": self.name,
            "agent": self.target,
            "input": match &self.input {
                Input::Text(text) => serde_json::Value::from(text.as_str()),
                Input::Messages(messages) => messages.iter().map(bosun_core::message::write).collect(),
            },
            "clientTools": self.client_tools,
            "mode": sources_of_first_version(self.tool_sources),
            "selectedTools": self.selected_tools,
            "limits": limits_of_first_version(&self.limits),
            "view": self.edge_note,
            "sessionId": self.session_id,
            "labels": self.labels,
            "annotations": self.annotations,
        });
        // Members that were added since the first version appear only if they are set: a retry of a request that an
        // earlier version accepted is still the same one. An equal request of another actor is a different one.
        if let serde_json::Value::Object(members) = &mut asked {
            let added = serde_json::json!({
                "by": (!self.by.is_local()).then_some(&self.by),
                "target": (self.target_kind != TargetKind::Agent).then_some(self.target_kind),
                "model": self.model,
                "parameters": (!self.parameters.is_empty()).then_some(&self.parameters),
                "options": (!self.options.is_empty()).then_some(self.options),
                "outputSchema": self.output_schema,
                "toolFilter": self.tool_filter,
                "onExpired": (self.on_expired != ExpiryPolicy::Tell).then_some(self.on_expired),
                "conversation": (!self.conversation.is_only(self.session_id.as_deref())).then_some(&self.conversation),
            });
            let added = added.as_object().cloned().unwrap_or_default();
            members.extend(added.into_iter().filter(|(_, value)| !value.is_null()));
        }
        json::content_hash(&asked)
    }

    /// The name under which a retry would look for the query, if the request can be retried at all.
    pub(crate) fn lasting_name(&self) -> Option<QueryName> {
        let of_request = |RequestKey { actor, route, key }: &RequestKey| {
            let parts = [self.namespace.as_str(), actor, route, key];
            QueryName::for_request(ContentHash::of_parts(&parts.map(str::as_bytes)))
        };
        self.name.clone().or_else(|| self.request.as_ref().map(of_request))
    }
}

/// The word of the first version for where the tools come from, for the same reason as [`limits_of_first_version`].
fn sources_of_first_version(sources: ToolSources) -> &'static str {
    match sources {
        ToolSources::Catalog => "ark",
        ToolSources::Client => "n8n",
        ToolSources::Both => "hybrid",
    }
}

/// Limits as the first version serialised them: a retried request must keep its fingerprint, however the format of
/// journals changes.
fn limits_of_first_version(limits: &AskedLimits) -> serde_json::Value {
    let AskedLimits {
        query_timeout,
        tool_timeout,
        external_timeout,
        approval_timeout,
        max_tool_calls,
        max_tokens,
        ttl,
    } = limits;
    let mut written = serde_json::json!({
        "query_timeout": query_timeout,
        "tool_timeout": tool_timeout,
        "external_timeout": external_timeout,
        "max_tool_calls": max_tool_calls,
        "max_tokens": max_tokens,
        "ttl": ttl,
    });
    if approval_timeout.is_some() {
        written["approval_timeout"] = serde_json::json!(approval_timeout);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_fingerprint_of_a_request_is_stable_across_versions() {
        let bare = Submission {
            edge_note: EdgeNote::new("ark"),
            ..Submission::to_agent(Actor::local(), Namespace::default(), "agent", "go")
        };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let limits = AskedLimits {
            query_timeout: seconds(1),
            tool_timeout: seconds(2),
            external_timeout: seconds(3),
            approval_timeout: None,
            max_tool_calls: Some(4),
            max_tokens: Some(5),
            ttl: seconds(6),
        };
        let limited = Submission { limits, ..bare.clone() };
        let ever = [
            "8a253d4a26319313c6d717f0d80d73e5d72374c3d65fbb60d3cdbde10f8d1437",
            "ad098aa18e098fc06f0756a8dbb5d57b7d87ce47c38fe4a9e0a6c681cf48f6ba",
        ];
        assert_eq!([bare, limited].map(|asked| asked.fingerprint().to_string()), ever);
    }
}
