//! The catalogues of agents, for queries that choose among the tools of their agent.
//!
//! A catalogue, and its search index, is made by the first such query and serves all queries until the registry is
//! replaced: once per agent and generation. Clients store agents, so the cache is bounded: the least recently used
//! catalogues are evicted, and one that is larger than the cache serves its own query only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bosun_core::{Namespace, Tool, cache::WeightedCache, ceiling::CATALOG_CACHE_BYTES, tool::catalog::Catalog};

use super::{Agent, Registry};
use crate::EngineError;

type CachedCatalogs = WeightedCache<(Namespace, String), Arc<Catalog>>;

/// The catalogues that were made so far, by namespace and agent.
#[derive(Debug)]
pub(super) struct AgentCatalogs(Mutex<CachedCatalogs>);

impl AgentCatalogs {
    fn new(capacity: usize) -> Self {
        Self(Mutex::new(WeightedCache::new(capacity)))
    }

    fn known(&self) -> MutexGuard<'_, CachedCatalogs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for AgentCatalogs {
    fn default() -> Self {
        Self::new(CATALOG_CACHE_BYTES)
    }
}

impl Clone for AgentCatalogs {
    /// A copy of a registry is the beginning of the next one, whose tools may be others.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Registry {
    /// The catalogue of an agent's tools. It has at least the `selected` ones, and may have others too: the caller
    /// restricts its selection to those names.
    ///
    /// # Errors
    /// If one of these tools does not exist, or two have the same name.
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
            // This reports the names that are unknown.
            let tools = self.tools_of(namespace, agent, selected)?;
            // Only where the agent's other tools are faulty is a catalogue made for a single query.
            return self.catalog_of(namespace, agent, None).or_else(|_| catalog(tools));
        }
        let key = (namespace.clone(), agent.name.clone());
        if let Some(found) = self.catalogs.known().get(&key) {
            return Ok(Arc::clone(found));
        }
        // Not under the lock: two queries may make it at the same time, and the later of the two is kept.
        let made = catalog(self.tools_of(namespace, agent, None)?)?;
        let weight = made.weight();
        let evicted = self.catalogs.known().insert(key, Arc::clone(&made), weight);
        drop(evicted);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bosun_core::{Binding, query::AskedLimits, tool::catalog::Selection};
    use serde_json::json;

    use super::*;
    use crate::registry::AgentTool;

    fn tool(description: &str) -> Tool {
        Tool::new("lookup", description, json!({"type": "object"}), Binding::External)
    }

    fn agent(name: &str) -> Agent {
        Agent {
            namespace: Namespace::default(),
            name: name.into(),
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
        }
    }

    #[test]
    fn a_catalogue_is_made_once_for_each_registry() {
        let (namespace, agent) = (Namespace::default(), agent("reader"));
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

    #[test]
    fn a_query_that_names_its_tools_selects_from_the_catalogue_of_its_agent() {
        let namespace = Namespace::default();
        let mut agent = agent("reader");
        let mut registry = Registry::default();
        for (name, description) in [("invoices", "Finds invoices"), ("letters", "Finds invoices that are letters")] {
            registry.add_tool(namespace.clone(), Tool { name: name.into(), ..tool(description) });
            agent.tools.push(AgentTool { name: name.into(), ..AgentTool::default() });
        }
        let all = ["lookup", "invoices", "letters"].map(str::to_owned);
        let found = |catalog: &Catalog, selection: Selection, names: &[String]| {
            let tools = catalog.select_among(&selection, Some(names)).map_err(|unknown| unknown.to_string())?;
            Ok::<_, String>(tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>())
        };
        let best = || Selection { text: Some("invoices".into()), limit: Some(1), ..Selection::default() };
        let named = |name: &str| Selection { names: vec![name.into()], ..Selection::default() };

        // One tool of the agent does not exist: the others have a catalogue of their own.
        let [_, invoices, letters] = &all;
        let names = [letters.clone()];
        let apart = registry.catalog_of(&namespace, &agent, Some(&names)).unwrap();
        assert_eq!(found(&apart, best(), &names).unwrap(), ["letters"]);
        assert!(registry.catalog_of(&namespace, &agent, Some(&all)).is_err());

        registry.add_tool(namespace.clone(), tool("Finds letters"));
        let whole = registry.catalog_of(&namespace, &agent, None).unwrap();
        for (names, expect) in
            [(&[letters.clone()][..], "letters"), (&[letters.clone(), invoices.clone()][..], "invoices")]
        {
            let catalog = registry.catalog_of(&namespace, &agent, Some(names)).unwrap();
            assert!(Arc::ptr_eq(&catalog, &whole), "its index serves this query too");
            assert_eq!(found(&catalog, best(), names).unwrap(), [expect], "the limit counts what may be found");
        }
        assert_eq!(found(&whole, Selection::default(), &names).unwrap(), ["letters"]);
        assert_eq!(found(&whole, named("letters"), &names).unwrap(), ["letters"]);
        assert_eq!(
            found(&whole, named("lettes"), &names).unwrap_err(),
            "no such tool: `lettes` (did you mean `letters`?)"
        );
        assert_eq!(found(&whole, named("invoices"), &names).unwrap_err(), "no such tool: `invoices`");
    }

    #[test]
    fn the_catalogues_of_many_agents_are_bounded_by_their_size() {
        const CAPACITY: usize = 64 * 1024;
        let namespace = Namespace::default();
        let mut registry = Registry { catalogs: AgentCatalogs::new(CAPACITY), ..Registry::default() };
        registry.add_tool(namespace.clone(), tool(&"x".repeat(1024)));
        let used = agent("used");
        let first = registry.catalog_of(&namespace, &used, None).unwrap();
        for number in 0..100 {
            registry.catalog_of(&namespace, &agent(&number.to_string()), None).unwrap();
            assert!(Arc::ptr_eq(&first, &registry.catalog_of(&namespace, &used, None).unwrap()), "in use all the time");
            assert!(registry.catalogs.known().weight() <= CAPACITY);
        }
        assert!((2..50).contains(&registry.catalogs.known().len()));
    }
}
