//! Which integrations a tool that a client has stored may use.
//!
//! Those that the operator names, in a tool of the files or in `[nango.connections]`: as with a secret, which a stored
//! manifest sends only where a file does (`docs/decisions/006-secrets-and-hosts.md`). It is decided again at each call,
//! since a permission ends with the file that gave it.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use bosun_core::{Binding, Namespace, Tool, tool::ToolOrigin};
use bosun_engine::{
    Runner,
    runner::{InsideCall, RunContext, RunReply},
};
use serde_json::Value;

use super::{NangoRunner, error::NangoError};

/// The integrations that tools in files use, by namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderGrants(BTreeSet<(Namespace, String)>);

impl ProviderGrants {
    /// Those of the tools of the operator's files.
    #[must_use]
    pub fn of(tools: &[(Namespace, Tool)]) -> Self {
        let provider = |(namespace, tool): &(Namespace, Tool)| match &tool.binding {
            Binding::Nango(nango) => Some((namespace.clone(), nango.provider().to_owned())),
            _ => None,
        };
        Self(tools.iter().filter_map(provider).collect())
    }

    fn include(&self, namespace: &Namespace, provider: &str) -> bool {
        self.0.contains(&(namespace.clone(), provider.to_owned()))
    }
}

/// The runner of Nango's tools in one registry.
#[derive(Debug)]
pub struct GrantedNango {
    runner: Arc<NangoRunner>,
    grants: Arc<ProviderGrants>,
}

impl GrantedNango {
    #[must_use]
    pub fn new(runner: Arc<NangoRunner>, grants: Arc<ProviderGrants>) -> Self {
        Self { runner, grants }
    }

    /// Why a tool may not use its integration; `None` if it may.
    #[must_use]
    pub fn refusal(&self, namespace: &Namespace, tool: &Tool) -> Option<String> {
        let Binding::Nango(nango) = &tool.binding else { return None };
        let provider = nango.provider();
        let is_granted = tool.origin == ToolOrigin::Operator
            || self.grants.include(namespace, provider)
            || self.runner.settings().connections.contains_key(provider);
        (!is_granted).then(|| {
            format!(
                "a stored tool cannot use `{provider}`: the operator names it neither in `[nango.connections]` nor in a \
                 tool of a file"
            )
        })
    }
}

#[async_trait]
impl Runner for GrantedNango {
    async fn run(&self, call: &InsideCall, context: &RunContext) -> RunReply {
        match self.refusal(&call.namespace, &call.tool) {
            Some(message) => NangoError::Misconfigured(message).into_outcome().into(),
            None => self.runner.run(call, context).await,
        }
    }

    // An action that was started is followed to its end.
    async fn poll(&self, call: &InsideCall, handle: &Value, context: &RunContext) -> RunReply {
        self.runner.poll(call, handle, context).await
    }
}

#[cfg(test)]
mod tests {
    use bosun_core::tool::Nango;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_tools_of_integrations_grant_them_and_only_in_their_namespace() {
        let binding = Binding::Nango(Nango::Action { provider: "notion".into(), action: "create-page".into() });
        let tools = [
            (Namespace::default(), Tool::new("page", "", json!({}), binding)),
            (Namespace::default(), Tool::new("other", "", json!({}), Binding::External)),
        ];
        let grants = ProviderGrants::of(&tools);
        assert!(grants.include(&Namespace::default(), "notion"));
        assert!(!grants.include(&"other".parse().unwrap(), "notion"));
        assert!(!grants.include(&Namespace::default(), "slack"));
    }
}
