//! The catalogues of agents, for queries that choose among the tools of their agent.
//!
//! A catalogue, and its search index, is made by the first such query and serves all queries until the registry is
//! replaced: once per agent and generation.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bosun_core::{Namespace, Tool, tool::catalog::Catalog};

use super::{Agent, Registry};
use crate::EngineError;

/// The catalogues that were made so far, by namespace and agent.
#[derive(Debug, Default)]
pub(super) struct AgentCatalogs(Mutex<HashMap<(Namespace, String), Arc<Catalog>>>);

impl Clone for AgentCatalogs {
    /// A copy of a registry is the beginning of the next one, whose tools may be others.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Registry {
    /// The catalogue of an agent's tools: of all, or of the `selected` ones.
    ///
    /// # Errors
    /// If a tool does not exist, or two have the same name.
    pub(crate) fn catalog_of(
        &self,
        namespace: &Namespace,
        agent: &Agent,
        selected: Option<&[String]>,
    ) -> Result<Arc<Catalog>, EngineError> {
        let catalog = |tools: Vec<Tool>| {
            Catalog::new(self.generation, tools).map(Arc::new).map_err(|faults| EngineError::ToolsNotFound {
                namespace: namespace.clone(),
                names: faults.into_iter().map(|fault| fault.to_string()).collect(),
            })
        };
        if selected.is_some() {
            return catalog(self.tools_of(namespace, agent, selected)?);
        }
        let key = (namespace.clone(), agent.name.clone());
        let known = || self.catalogs.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(&key) {
            return Ok(Arc::clone(found));
        }
        // Not under the lock: two queries may make it at the same time, and one of the two is kept.
        let made = catalog(self.tools_of(namespace, agent, None)?)?;
        Ok(Arc::clone(known().entry(key).or_insert(made)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bosun_core::{Binding, query::AskedLimits, tool::catalog::Selection};
    use serde_json::json;

    use super::*;
    use crate::registry::AgentTool;

    #[test]
    fn a_catalogue_is_made_once_for_each_registry() {
        let namespace = Namespace::default();
        let tool = |description: &str| Tool::new("lookup", description, json!({"type": "object"}), Binding::External);
        let agent = Agent {
            namespace: namespace.clone(),
            name: "reader".into(),
            description: None,
            prompt: None,
            parameters: Vec::new(),
            output_schema: None,
            model: "default".into(),
            remote: None,
            tools: vec![AgentTool { name: "lookup".into(), ..AgentTool::default() }],
            selected_tools: Vec::new(),
            confirm: None,
            limits: AskedLimits::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        };
        let found = |registry: &Registry, text: &str| {
            let catalog = registry.catalog_of(&namespace, &agent, None).unwrap();
            let selection = Selection { text: Some(text.into()), ..Selection::default() };
            let names: Vec<_> = catalog.select(&selection).unwrap().iter().map(|tool| tool.name.clone()).collect();
            (catalog, names)
        };
        let mut first = Registry::default();
        first.add_tool(namespace.clone(), tool("Finds invoices"));
        let (catalog, names) = found(&first, "invoices");
        assert_eq!(names, ["lookup"]);
        assert!(Arc::ptr_eq(&catalog, &found(&first, "anything").0));
        let mut second = first.clone();
        second.add_tool(namespace.clone(), tool("Finds letters"));
        let (next, names) = found(&second, "letters");
        assert_eq!(names, ["lookup"]);
        assert!(!Arc::ptr_eq(&catalog, &next));
        assert!(first.catalog_of(&namespace, &agent, Some(&["other".to_owned()])).is_err());
    }
}
