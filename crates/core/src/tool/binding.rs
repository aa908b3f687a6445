//! How a tool is run, as data.
//!
//! A [`Binding`] is everything that a runner needs to know and nothing that must not be printed: a secret is a
//! [`SecretRef`] here, never its value. Timeouts are a field of the tool, whatever its binding.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a tool is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Binding {
    /// Run inside, by code that ships with Bosun.
    Builtin { name: String },
    /// Run inside, as one HTTP request.
    Http(Box<HttpRequest>),
    /// Run inside, by a tool of an MCP server.
    Mcp { server: String, tool: String },
    /// Run inside, through a Nango integration.
    Nango(Nango),
    /// Run inside, by another agent. Its tool takes one argument, `input`.
    Agent { name: String },
    /// Run inside, by a team of agents. Its tool takes one argument, `input`.
    Team { name: String },
    /// Run inside, by an agent behind an A2A server.
    A2a { server: String, agent: String },
    /// Run inside, as a script of its own.
    Inline { language: String, source: String },
    /// Run outside, by the client that owns it.
    External,
}

/// The request of an HTTP tool, with the slots that a call's arguments fill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRequest {
    /// `{field}` is replaced by an argument.
    pub url: String,
    #[serde(default)]
    pub method: Method,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<NamedValue>,
    /// The template of the body: `{{.input.field}}` is an argument, `{{.name}}` a body parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub body_parameters: Vec<NamedValue>,
    /// Whether a redirect is followed; a key then does not go to another host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow_redirects: bool,
}

/// The methods that an HTTP tool may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    #[default]
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// The method as it is in a request line. `parse` is its inverse.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// The method with this name, in any case; `None` for one that a tool may not use.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Get, Self::Post, Self::Put, Self::Patch, Self::Delete]
            .into_iter()
            .find(|method| method.as_str().eq_ignore_ascii_case(text))
    }

    /// Whether a request of this method carries the rendered body.
    #[must_use]
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// A header or a body parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedValue {
    pub name: String,
    pub value: ValueSource,
}

/// A text, or a reference that is resolved when the call is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ValueSource {
    #[serde(rename = "value")]
    Literal(String),
    SecretKeyRef(SecretRef),
    ConfigMapKeyRef(ConfigRef),
    /// A parameter of the query that makes the call.
    QueryParameterRef {
        name: String,
    },
}

/// A reference to a secret. The value is resolved at call time and goes into the request only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretRef {
    pub name: String,
    pub key: String,
    /// A missing secret omits the header instead of failing the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// A reference to a plain setting.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigRef {
    pub name: String,
    pub key: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// One of the two things that a Nango integration does for a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Nango {
    /// Reads records that a sync has stored.
    Cache {
        /// The integration: `providerConfigKey`.
        provider: String,
        /// The model to read; `{field}` is replaced by an enum argument, as in `Salesforce{entityType}`.
        model: String,
        /// Aliases of an entity: `Deal` → `Opportunity`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        entity_aliases: BTreeMap<String, String>,
    },
    /// Runs an action script.
    Action { provider: String, action: String },
}

impl Nango {
    /// The default action of a tool: its own name, with `-` for `_`, which is how Nango's scripts are usually named.
    #[must_use]
    pub fn default_action(tool: &str) -> String {
        tool.replace('_', "-")
    }

    /// The integration that does it.
    #[must_use]
    pub fn provider(&self) -> &str {
        match self {
            Self::Cache { provider, .. } | Self::Action { provider, .. } => provider,
        }
    }
}

impl Binding {
    /// The provider of the tool: the Nango integration, or the server behind it. `None` for tools of our own and of
    /// clients.
    #[must_use]
    pub fn provider(&self) -> Option<&str> {
        match self {
            Self::Nango(nango) => Some(nango.provider()),
            Self::Mcp { server, .. } | Self::A2a { server, .. } => Some(server),
            Self::Builtin { .. }
            | Self::Http(_)
            | Self::Agent { .. }
            | Self::Team { .. }
            | Self::Inline { .. }
            | Self::External => None,
        }
    }

    /// Whether its runner finds out what became of a call that a crash has interrupted. Such a call is started again, and
    /// its start is durable before it runs: an attempt above 1 tells the runner that the call may have been sent.
    #[must_use]
    pub fn is_resumed_by_runner(&self) -> bool {
        matches!(self, Self::A2a { .. })
    }

    #[must_use]
    pub fn kind(&self) -> BindingKind {
        match self {
            Self::Builtin { .. } => BindingKind::Builtin,
            Self::Http(_) => BindingKind::Http,
            Self::Mcp { .. } => BindingKind::Mcp,
            Self::Nango(_) => BindingKind::Nango,
            Self::Agent { .. } => BindingKind::Agent,
            Self::Team { .. } => BindingKind::Team,
            Self::A2a { .. } => BindingKind::A2a,
            Self::Inline { .. } => BindingKind::Inline,
            Self::External => BindingKind::External,
        }
    }
}

macro_rules! binding_kinds {
    ($($kind:ident = $name:literal, $in_manifests:literal;)+) => {
        /// Which runner a binding is for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum BindingKind {
            $($kind,)+
        }

        impl BindingKind {
            /// Every kind, in the order of the variants.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The value of ARK's `type`, and ours where ARK has none.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// Whether a manifest of `kind: Tool` may have this type.
            #[must_use]
            pub fn is_in_manifests(self) -> bool {
                match self {
                    $(Self::$kind => $in_manifests,)+
                }
            }
        }
    };
}

binding_kinds! {
    Builtin = "builtin", true;
    Http = "http", true;
    Mcp = "mcp", true;
    Nango = "nango", true;
    Agent = "agent", true;
    Team = "team", true;
    A2a = "a2a", false;
    Inline = "inline", true;
    External = "external", true;
}

impl BindingKind {
    /// The types that a manifest of `kind: Tool` may have.
    pub fn of_manifests() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|kind| kind.is_in_manifests())
    }
}

impl std::fmt::Display for BindingKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(binding: &Binding, expect: &Value) {
        assert_eq!(serde_json::to_value(binding).unwrap(), *expect);
        assert_eq!(serde_json::from_value::<Binding>(expect.clone()).unwrap(), *binding);
    }

    #[test]
    fn every_binding_survives_json() {
        check(&Binding::External, &json!({"kind": "external"}));
        check(&Binding::Builtin { name: "noop".into() }, &json!({"kind": "builtin", "name": "noop"}));
        check(
            &Binding::Mcp { server: "files".into(), tool: "read.file".into() },
            &json!({"kind": "mcp", "server": "files", "tool": "read.file"}),
        );
        check(&Binding::Agent { name: "a".into() }, &json!({"kind": "agent", "name": "a"}));
        check(&Binding::Team { name: "t".into() }, &json!({"kind": "team", "name": "t"}));
        check(
            &Binding::A2a { server: "s".into(), agent: "a".into() },
            &json!({"kind": "a2a", "server": "s", "agent": "a"}),
        );
        check(
            &Binding::Nango(Nango::Action { provider: "google-mail".into(), action: "send-email".into() }),
            &json!({"kind": "nango", "source": "action", "provider": "google-mail", "action": "send-email"}),
        );
        check(
            &Binding::Nango(Nango::Cache {
                provider: "salesforce".into(),
                model: "Salesforce{entityType}".into(),
                entity_aliases: [("Deal".to_owned(), "Opportunity".to_owned())].into(),
            }),
            &json!({
                "kind": "nango", "source": "cache", "provider": "salesforce",
                "model": "Salesforce{entityType}", "entityAliases": {"Deal": "Opportunity"},
            }),
        );
    }

    #[test]
    fn an_http_tool_refers_to_its_secrets() {
        let secret = SecretRef { name: "weather".into(), key: "token".into(), optional: false };
        let request = HttpRequest {
            url: "https://api.example.com/{city}".into(),
            method: Method::Post,
            headers: vec![
                NamedValue { name: "Accept".into(), value: ValueSource::Literal("text/plain".into()) },
                NamedValue { name: "Authorization".into(), value: ValueSource::SecretKeyRef(secret) },
            ],
            body: Some("{{.input.text}}".into()),
            body_parameters: vec![NamedValue {
                name: "tenant".into(),
                value: ValueSource::QueryParameterRef { name: "tenant".into() },
            }],
            follow_redirects: false,
        };
        check(
            &Binding::Http(Box::new(request)),
            &json!({
                "kind": "http", "url": "https://api.example.com/{city}", "method": "POST",
                "headers": [
                    {"name": "Accept", "value": {"value": "text/plain"}},
                    {"name": "Authorization", "value": {"secretKeyRef": {"name": "weather", "key": "token"}}},
                ],
                "body": "{{.input.text}}",
                "bodyParameters": [{"name": "tenant", "value": {"queryParameterRef": {"name": "tenant"}}}],
            }),
        );
    }

    #[test]
    fn an_action_is_called_after_its_tool() {
        assert_eq!(Nango::default_action("send_email"), "send-email");
    }

    #[test]
    fn methods_are_read_in_any_case() {
        assert_eq!(Method::parse("post"), Some(Method::Post));
        assert_eq!(Method::parse("TRACE"), None);
    }
}
