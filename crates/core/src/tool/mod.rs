//! What a tool is, as data.
//!
//! A [`Tool`] says what the model reads (name, description, parameters), how it may be run (its
//! [`Binding`]) and under which policy (timeout, annotations). It holds no code and no secret.
//!
//! ```
//! use bosun_core::tool::{Binding, Nango, Tool};
//! use serde_json::json;
//!
//! let mut send_email = Tool::new(
//!     "send_email",
//!     "Send an email to a recipient",
//!     json!({"type": "object", "properties": {"input": {
//!         "type": "object",
//!         "properties": {"to": {"type": "string"}, "subject": {"type": "string"}, "body": {"type": "string"}},
//!         "required": ["to", "subject", "body"],
//!     }}}),
//!     Binding::Nango(Nango::Action { provider: "google-mail".into(), action: "send-email".into() }),
//! );
//! send_email.category = Some("Email".into());
//!
//! // It is data: it can be stored, sent, compared and shown.
//! let text = serde_json::to_string(&send_email)?;
//! assert_eq!(serde_json::from_str::<Tool>(&text)?, send_email);
//! assert_eq!(send_email.binding.provider(), Some("google-mail"));
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::query::ExpiryPolicy;

pub use cache_policy::{CachePolicy, CacheScope};

pub use binding::{Binding, BindingKind, ConfigRef, HttpRequest, Method, NamedValue, Nango, SecretRef, ValueSource};

mod binding;
mod cache_policy;
pub mod catalog;
pub mod definition;
pub mod header;
pub mod label_selector;
pub mod missing;
pub mod name;
pub mod preset;
pub mod routing;
pub mod toolset;
pub mod wrapper;

/// The category of tools that name none.
pub const DEFAULT_CATEGORY: &str = "General";

/// One tool of a catalogue or of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// The real name. Models may see an alias; clients and operators see this.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The name that LangChain gave it. Only an additional way to look it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lc_name: Option<String>,
    pub description: String,
    /// The JSON Schema of the arguments, verbatim as its owner wrote it.
    pub parameters: Arc<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecation>,
    #[serde(default, skip_serializing_if = "Annotations::is_empty")]
    pub annotations: Annotations,
    /// How long a result may be cached and reused for the same arguments; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis")]
    pub cache_for: Option<Duration>,
    /// Who shares a cached result. [`Tool::cache_policy`] says what of it is in effect.
    #[serde(default, skip_serializing_if = "CacheScope::is_query")]
    pub cache_scope: CacheScope,
    /// How long one call may take; the server's default where absent.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis")]
    pub timeout: Option<Duration>,
    /// What becomes of the query if a client runs a call and delivers no result in time; the query's own policy where
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_expired: Option<ExpiryPolicy>,
    /// Whether a person has to approve its calls; the policy of the agent, or else of the server, where absent. In the
    /// toolset of a query it is decided: `always`, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Confirm>,
    /// How long a call waits for approval; the query's limit where absent.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis")]
    pub approval_timeout: Option<Duration>,
    pub binding: Binding,
    /// Parameters that the agent sets, and the model does not know of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub presets: Vec<preset::Preset>,
    /// Whether workers may claim its calls: it is declared in the catalogue, and not by the client of one query. Set when
    /// a query freezes the tool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub claimable: bool,
    /// jq filters that are applied to a result, in order: ARK's `functions`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
    /// The tools of the client that a tool of type `agent` or `team` passes on, by name; `*` stands for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<String>,
    /// Who defined it, which decides what it may reach and whether its annotations count.
    #[serde(default, skip_serializing_if = "ToolOrigin::is_client")]
    pub origin: ToolOrigin,
}

/// Whether a person has to approve the calls of a tool before they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confirm {
    Never,
    Always,
    /// Those of tools that write: actions of integrations, and tools that are explicitly marked as destructive.
    #[default]
    Auto,
}

impl Confirm {
    pub const ALL: [Self; 3] = [Self::Never, Self::Always, Self::Auto];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Always => "always",
            Self::Auto => "auto",
        }
    }

    /// The policy with this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|confirm| confirm.as_str() == text)
    }
}

/// Whether the calls of one tool wait for approval, as an agent or the tool itself says: ARK's `approval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolApproval {
    pub required: bool,
    /// How long a call waits for it.
    pub timeout: Option<Duration>,
}

impl ToolApproval {
    /// Sets the policy of a tool.
    pub fn apply(self, tool: &mut Tool) {
        tool.confirm = Some(if self.required { Confirm::Always } else { Confirm::Never });
        tool.approval_timeout = self.timeout.or(tool.approval_timeout);
    }
}

/// Who defined a tool. Frozen with the toolset of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToolOrigin {
    /// A client, through the API.
    #[default]
    Client,
    /// The operator: in a file of the server, or as a part of the program.
    Operator,
    /// A remote server that announced it.
    Server,
}

impl ToolOrigin {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    fn is_client(&self) -> bool {
        *self == Self::Client
    }
}

/// The effects of a tool as its owner describes them, in MCP's terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl Annotations {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Why a tool should no longer be used, and what to use instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deprecation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

impl Tool {
    /// A tool with the mandatory fields only.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: impl Into<Arc<Value>>,
        binding: Binding,
    ) -> Self {
        Self {
            name: name.into(),
            display_name: None,
            lc_name: None,
            description: description.into(),
            parameters: parameters.into(),
            category: None,
            labels: BTreeMap::new(),
            version: None,
            deprecated: None,
            annotations: Annotations::default(),
            cache_for: None,
            cache_scope: CacheScope::default(),
            timeout: None,
            on_expired: None,
            confirm: None,
            approval_timeout: None,
            binding,
            presets: Vec::new(),
            claimable: false,
            functions: Vec::new(),
            passes: Vec::new(),
            origin: ToolOrigin::default(),
        }
    }

    /// Whether a call may be started a second time when the outcome of the first is unknown. That is the operator's
    /// word, or HTTP's: a remote server or a client must not decide that an effect happens twice.
    #[must_use]
    pub fn is_safe_to_repeat(&self) -> bool {
        let is_idempotent = self.origin == ToolOrigin::Operator && self.annotations.idempotent_hint == Some(true);
        self.is_read_only() || is_idempotent
    }

    /// Whether a person has to approve its calls, where `policy` holds for tools without one of their own. Hints of a
    /// remote server can only ask for an approval, never waive one. Tools that the client runs are the client's to
    /// confirm.
    #[must_use]
    pub fn needs_approval(&self, policy: Confirm) -> bool {
        match self.confirm.unwrap_or(policy) {
            _ if self.is_external() => false,
            Confirm::Never => false,
            Confirm::Always => true,
            Confirm::Auto => {
                let is_action = matches!(self.binding, Binding::Nango(Nango::Action { .. }));
                is_action || self.annotations.destructive_hint == Some(true)
            }
        }
    }

    /// The schema that arguments are validated against: the parameters, with `input` required where Nango's wrapper has
    /// required members.
    #[must_use]
    pub fn checked_parameters(&self) -> Arc<Value> {
        match self.binding {
            Binding::Nango(_) => wrapper::require_input(&self.parameters),
            _ => Arc::clone(&self.parameters),
        }
    }

    /// Its category; `General` where it has none.
    #[must_use]
    pub fn category(&self) -> &str {
        self.category.as_deref().unwrap_or(DEFAULT_CATEGORY)
    }

    /// A warning for users of a deprecated tool.
    #[must_use]
    pub fn deprecation_warning(&self) -> Option<String> {
        let deprecation = self.deprecated.as_ref()?;
        let since = deprecation.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
        let message = deprecation.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        let instead =
            deprecation.replaced_by.as_ref().map(|name| format!("; use `{name}` instead")).unwrap_or_default();
        Some(format!("tool `{}` is deprecated{since}{message}{instead}", self.name))
    }

    /// Whether the client runs this tool, while the query waits.
    #[must_use]
    pub fn is_external(&self) -> bool {
        matches!(self.binding, Binding::External)
    }
}

/// Durations as whole milliseconds: readable in a journal and exact in every language.
mod millis {
    use super::{Deserialize, Duration, Serialize};

    pub(super) fn serialize<S: serde::Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
