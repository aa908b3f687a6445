//! Which results of a tool may be cached, for how long, and who shares them.
//!
//! Whether a tool is read-only is the operator's word, or HTTP's: a client or a remote server must not decide that an
//! action is skipped. The results of an outside tool come from one client, so they are never shared beyond its session:
//! one client must not feed another. Every result is cached for one [`Actor`](crate::Actor), whatever the scope.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Binding, Method, Nango, Tool, ToolOrigin};
use crate::duration;

/// Who shares a cached result: calls of one query, of one session, or of one namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CacheScope {
    #[default]
    Query,
    Session,
    Namespace,
}

impl CacheScope {
    pub const ALL: [Self; 3] = [Self::Query, Self::Session, Self::Namespace];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Session => "session",
            Self::Namespace => "namespace",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    pub(super) fn is_query(&self) -> bool {
        *self == Self::Query
    }
}

/// How long a result is cached, and who shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    pub ttl: Duration,
    pub scope: CacheScope,
}

impl CachePolicy {
    /// Reads `60`, `"5m"` or `{"ttl": …, "scope": …}`.
    ///
    /// # Errors
    /// With the member that is at fault, and what is expected there.
    pub fn from_json(value: &Value) -> Result<Self, (Option<&'static str>, String)> {
        const TTL: &str = "expected seconds, or a text such as \"30s\", \"5m\" or \"1h\"";
        let Value::Object(members) = value else {
            let ttl = duration::positive_from_json(value).ok_or_else(|| (None, TTL.to_owned()))?;
            return Ok(Self { ttl, scope: CacheScope::default() });
        };
        if let Some(unknown) = members.keys().find(|key| !matches!(key.as_str(), "ttl" | "scope")) {
            return Err((None, format!("`{unknown}` is not a field of `cache`: expected `ttl` and `scope`")));
        }
        let ttl = members.get("ttl").and_then(duration::positive_from_json);
        let scope = match members.get("scope") {
            None | Some(Value::Null) => Some(CacheScope::default()),
            Some(scope) => scope.as_str().and_then(CacheScope::parse),
        };
        let ttl = ttl.ok_or_else(|| (Some("ttl"), TTL.to_owned()))?;
        let scope = scope.ok_or_else(|| (Some("scope"), "expected one of query, session and namespace".to_owned()))?;
        Ok(Self { ttl, scope })
    }
}

impl Tool {
    /// Sets the policy as its author wrote it.
    #[must_use]
    pub fn with_cache(mut self, policy: Option<CachePolicy>) -> Self {
        self.set_cache(policy);
        self
    }

    pub fn set_cache(&mut self, policy: Option<CachePolicy>) {
        self.cache_for = policy.map(|policy| policy.ttl);
        self.cache_scope = policy.map(|policy| policy.scope).unwrap_or_default();
    }

    /// The policy as its author wrote it.
    #[must_use]
    pub fn written_cache(&self) -> Option<CachePolicy> {
        self.cache_for.map(|ttl| CachePolicy { ttl, scope: self.cache_scope })
    }

    /// Whether a call has no effect, by the operator's word or because it is a GET. The operator's word is the read-only
    /// hint, or that the tool reads records that Nango has stored.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        let is_get = matches!(&self.binding, Binding::Http(request) if request.method == Method::Get);
        let is_read = matches!(self.binding, Binding::Nango(Nango::Cache { .. }));
        is_get || (self.origin == ToolOrigin::Operator && (is_read || self.annotations.read_only_hint == Some(true)))
    }

    /// The policy that is in effect; `None` if results are not cached.
    #[must_use]
    pub fn cache_policy(&self) -> Option<CachePolicy> {
        let CachePolicy { ttl, scope } = self.written_cache()?;
        if self.is_external() {
            // The owner of the tool has asked for it, unless the definition contradicts itself.
            let is_action =
                self.annotations.read_only_hint == Some(false) || self.annotations.destructive_hint == Some(true);
            return (!is_action).then_some(CachePolicy { ttl, scope: scope.min(CacheScope::Session) });
        }
        self.is_read_only().then_some(CachePolicy { ttl, scope })
    }

    /// A warning if `cache` has another effect than it says.
    #[must_use]
    pub fn cache_warning(&self) -> Option<String> {
        let (written, name) = (self.written_cache()?, &self.name);
        match self.cache_policy() {
            Some(policy) if policy == written => None,
            Some(policy) => Some(format!(
                "`cache.scope` of tool `{name}`, {}, was narrowed to {}: results of outside tools are not shared \
                 between sessions",
                written.scope.as_str(),
                policy.scope.as_str(),
            )),
            None if self.is_external() => {
                Some(format!("`cache` of tool `{name}` has no effect: its annotations say that it is an action"))
            }
            None => Some(format!(
                "`cache` of tool `{name}` has no effect: only tools that the operator has declared as read-only \
                 (`readOnlyHint`, or `source: cache` of Nango), and GET requests, are cached"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::tool::{Annotations, HttpRequest};

    fn http(method: Method) -> Binding {
        Binding::Http(Box::new(HttpRequest {
            url: "https://example.com".into(),
            method,
            headers: Vec::new(),
            body: None,
            body_parameters: Vec::new(),
            follow_redirects: false,
        }))
    }

    /// The effective scope and whether there is a warning, for a tool that asks for `scope`.
    #[track_caller]
    fn check(binding: Binding, origin: ToolOrigin, hints: (Option<bool>, Option<bool>), asked: &str, expect: &str) {
        let (read_only_hint, destructive_hint) = hints;
        let tool = Tool {
            annotations: Annotations { read_only_hint, destructive_hint, ..Annotations::default() },
            origin,
            ..Tool::new("t", "A tool", json!({}), binding)
        };
        let scope = CacheScope::parse(asked).unwrap();
        let tool = tool.with_cache(Some(CachePolicy { ttl: Duration::from_secs(60), scope }));
        let found = tool.cache_policy().map_or("never", |policy| policy.scope.as_str());
        assert_eq!((found, tool.cache_warning().is_some()), (expect, asked != expect));
    }

    #[test]
    fn only_read_only_tools_are_cached_and_outside_ones_within_a_session() {
        let builtin = || Binding::Builtin { name: "b".into() };
        let records = || {
            Binding::Nango(Nango::Cache { provider: "p".into(), model: "M".into(), entity_aliases: BTreeMap::new() })
        };
        let action = || Binding::Nango(Nango::Action { provider: "p".into(), action: "a".into() });
        let (yes, no, unsaid) = ((Some(true), None), (Some(false), None), (None, None));
        for scope in ["query", "session", "namespace"] {
            check(builtin(), ToolOrigin::Operator, yes, scope, scope);
            check(records(), ToolOrigin::Operator, unsaid, scope, scope);
            check(http(Method::Get), ToolOrigin::Client, unsaid, scope, scope);
            for (binding, origin, hints) in [
                (builtin(), ToolOrigin::Operator, unsaid),
                (builtin(), ToolOrigin::Operator, no),
                (builtin(), ToolOrigin::Server, yes),
                (records(), ToolOrigin::Client, unsaid),
                (action(), ToolOrigin::Operator, unsaid),
                (http(Method::Post), ToolOrigin::Client, yes),
                (Binding::External, ToolOrigin::Client, no),
                (Binding::External, ToolOrigin::Operator, (None, Some(true))),
            ] {
                check(binding, origin, hints, scope, "never");
            }
        }
        for origin in [ToolOrigin::Client, ToolOrigin::Operator] {
            check(Binding::External, origin, unsaid, "query", "query");
            check(Binding::External, origin, yes, "session", "session");
            check(Binding::External, origin, unsaid, "namespace", "session");
        }
        assert_eq!(Tool::new("t", "A tool", json!({}), builtin()).cache_warning(), None);
    }

    #[test]
    fn a_policy_is_a_time_or_an_object() {
        let policy = |seconds, scope| Ok(CachePolicy { ttl: Duration::from_secs(seconds), scope });
        for (value, expect) in [
            (json!(60), policy(60, CacheScope::Query)),
            (json!("5m"), policy(300, CacheScope::Query)),
            (json!({"ttl": "1h", "scope": "namespace"}), policy(3_600, CacheScope::Namespace)),
            (json!({"ttl": 1, "scope": null}), policy(1, CacheScope::Query)),
            (json!(0), Err(None)),
            (json!([]), Err(None)),
            (json!({"scope": "query"}), Err(Some("ttl"))),
            (json!({"ttl": "1h", "scope": "world"}), Err(Some("scope"))),
            (json!({"ttl": "1h", "for": 1}), Err(None)),
        ] {
            assert_eq!(CachePolicy::from_json(&value).map_err(|(member, _)| member), expect, "{value}");
        }
    }
}
