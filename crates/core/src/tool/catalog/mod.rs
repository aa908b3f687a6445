//! All tools of a namespace, looked up by name, category, provider and text.
//!
//! A [`Catalog`] is immutable: a reload makes a new one with the next generation and swaps it in, so an invalid file
//! leaves the last valid catalogue in place. It keeps the order in which tools were given. Loading checks names and
//! routes; schemas are compiled when a tool is first used, and all at once only by [`Catalog::check`]. Duplicates are
//! errors, so that it is never unclear which one won.
//!
//! ```
//! use bosun_core::tool::{Binding, Nango, Tool, catalog::{Catalog, Selection}};
//! use serde_json::json;
//!
//! let mut fetch_emails = Tool::new(
//!     "fetch_emails",
//!     "Fetch Gmail emails with advanced filtering capabilities",
//!     json!({"type": "object", "properties": {"input": {"type": "object"}}}),
//!     Binding::Nango(Nango::Cache {
//!         provider: "google-mail-ynxw".into(),
//!         model: "GmailThread".into(),
//!         entity_aliases: Default::default(),
//!     }),
//! );
//! fetch_emails.category = Some("Email".into());
//! let get_device = Binding::Mcp { server: "network".into(), tool: "get_device".into() };
//! let get_device = Tool::new("get_device", "Reads the state of a device", json!({}), get_device);
//!
//! let catalog = Catalog::new(1, vec![fetch_emails, get_device]).unwrap();
//! assert_eq!(catalog.find("get_device").unwrap().category(), "General");
//! assert_eq!(catalog.by_provider("google-mail-ynxw").count(), 1);
//!
//! // Only the tools about mail, not all fifty of them.
//! let about_mail = Selection { text: Some("my latest emails".into()), limit: Some(5), ..Selection::default() };
//! let tools = catalog.select(&about_mail)?;
//! assert_eq!(tools[0].name, "fetch_emails");
//! # Ok::<(), bosun_core::tool::catalog::UnknownTools>(())
//! ```

use std::{collections::HashMap, sync::OnceLock};

use indexmap::IndexMap;
use serde_json::json;

use super::{
    Tool, name,
    routing::{RouteFault, ToolRoute},
};
use crate::{json, schema};

pub use search::Hit;
pub use selection::{Selection, UnknownTools};

mod search;
mod selection;

/// All tools of a namespace.
#[derive(Debug, Default)]
pub struct Catalog {
    generation: u64,
    tools: IndexMap<String, Tool>,
    by_lc_name: HashMap<String, usize>,
    by_category: IndexMap<String, Vec<usize>>,
    by_provider: IndexMap<String, Vec<usize>>,
    /// Built by the first search: a filter by name or label needs none.
    index: OnceLock<search::Index>,
}

/// A fault of one tool of a catalogue.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CatalogFault {
    pub tool: String,
    /// The index of the tool in the list, from 0.
    pub index: usize,
    /// The path in the tool: `parameters.properties.x.type`.
    pub path: String,
    pub code: &'static str,
    pub message: String,
}

impl std::fmt::Display for CatalogFault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "tool `{}`: ", crate::text::clip(&self.tool, 128))?;
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        formatter.write_str(&self.message)
    }
}

/// The result of a full check of a catalogue: faults stop a tool from working, warnings do not.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FoundTools {
    pub faults: Vec<CatalogFault>,
    pub warnings: Vec<CatalogFault>,
}

impl Catalog {
    /// A catalogue of these tools, in this order.
    ///
    /// # Errors
    /// Every duplicate, every invalid name, every route to a model that does not exist.
    pub fn new(generation: u64, tools: Vec<Tool>) -> Result<Self, Vec<CatalogFault>> {
        let faults = load_faults(&tools);
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut by_category: IndexMap<String, Vec<usize>> = IndexMap::new();
        let mut by_provider: IndexMap<String, Vec<usize>> = IndexMap::new();
        let mut lc_names: HashMap<String, Option<usize>> = HashMap::new();
        for (position, tool) in tools.iter().enumerate() {
            push(&mut by_category, tool.category(), position);
            if let Some(provider) = tool.binding.provider() {
                push(&mut by_provider, &provider_key(provider), position);
            }
            if let Some(lc_name) = &tool.lc_name {
                // LangChain gives every tool of a class the same one. A shared name identifies no tool.
                lc_names.entry(lc_name.clone()).and_modify(|found| *found = None).or_insert(Some(position));
            }
        }
        let by_lc_name = lc_names.into_iter().filter_map(|(name, position)| Some((name, position?))).collect();
        let tools = tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
        Ok(Self { generation, tools, by_lc_name, by_category, by_provider, index: OnceLock::new() })
    }

    /// The generation of the catalogue in its namespace; incremented by every reload.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// An estimate of its memory: the tools, and the index of their texts.
    #[must_use]
    pub fn weight(&self) -> usize {
        let texts = self.tools.values().map(|tool| json!(tool).to_string());
        texts.map(|text| json::memory_of(&text) + 2 * text.len()).sum()
    }

    /// The full-text index of all tools.
    fn index(&self) -> &search::Index {
        self.index.get_or_init(|| search::Index::of(self.tools.values()))
    }

    /// All tools, in the order in which they were given.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.tools.values()
    }

    /// The tool with exactly this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// The tool with this name; else the only one with this `lc_name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.get(name).or_else(|| self.by_lc_name.get(name).map(|position| &self.tools[*position]))
    }

    /// The tools of a category; the match is exact.
    pub fn by_category(&self, category: &str) -> impl Iterator<Item = &Tool> {
        self.by_category.get(category).into_iter().flatten().map(|position| &self.tools[*position])
    }

    /// The tools of a provider; the match ignores case and surrounding space.
    pub fn by_provider(&self, provider: &str) -> impl Iterator<Item = &Tool> {
        self.by_provider.get(&provider_key(provider)).into_iter().flatten().map(|position| &self.tools[*position])
    }

    /// The categories, in the order of their first tool, with the number of their tools.
    pub fn categories(&self) -> impl Iterator<Item = (&str, usize)> {
        self.by_category.iter().map(|(category, tools)| (category.as_str(), tools.len()))
    }

    /// The providers, in the order of their first tool, with the number of their tools.
    pub fn providers(&self) -> impl Iterator<Item = (&str, usize)> {
        self.by_provider.iter().map(|(provider, tools)| (provider.as_str(), tools.len()))
    }

    /// Checks everything, including what loading defers: every schema, every deprecation.
    #[must_use]
    pub fn check(&self) -> FoundTools {
        let mut findings = FoundTools::default();
        for (index, tool) in self.tools.values().enumerate() {
            let finding = |path: String, code: &'static str, message: String| CatalogFault {
                tool: tool.name.clone(),
                index,
                path,
                code,
                message,
            };
            let below = |path: &str| schema::path::below("parameters", path);
            for error in schema::faults(&tool.parameters) {
                findings.faults.push(finding(below(&error.path), error.fault.code(), error.fault.to_string()));
            }
            for warning in schema::normalize(&tool.parameters).map(|normalized| normalized.warnings).unwrap_or_default()
            {
                findings.warnings.push(finding(below(&warning.path), "schema_suspicious", warning.message));
            }
            if let Some(warning) = tool.deprecation_warning() {
                findings.warnings.push(finding("deprecated".to_owned(), "tool_deprecated", warning));
            }
            if let Some(name) = tool.deprecated.as_ref().and_then(|deprecated| deprecated.replaced_by.as_ref())
                && self.get(name).is_none()
            {
                let message = format!("its replacement `{name}` is not in the catalogue");
                findings.warnings.push(finding("deprecated.replacedBy".to_owned(), "tool_unknown", message));
            }
            if let Some(lc_name) = &tool.lc_name
                && !self.by_lc_name.contains_key(lc_name)
            {
                let message = format!("`{lc_name}` is shared by several tools, so it identifies none of them");
                findings.warnings.push(finding("lcName".to_owned(), "lc_name_shared", message));
            }
        }
        findings
    }
}

fn push(index: &mut IndexMap<String, Vec<usize>>, key: &str, position: usize) {
    match index.get_mut(key) {
        Some(positions) => positions.push(position),
        None => _ = index.insert(key.to_owned(), vec![position]),
    }
}

/// Normalises a provider key: people type them by hand in several files.
fn provider_key(provider: &str) -> String {
    provider.trim().to_lowercase()
}

fn load_faults(tools: &[Tool]) -> Vec<CatalogFault> {
    let mut faults = Vec::new();
    let mut first: HashMap<&str, usize> = HashMap::with_capacity(tools.len());
    for (index, tool) in tools.iter().enumerate() {
        let mut fault = |path: &str, code: &'static str, message: String| {
            faults.push(CatalogFault { tool: tool.name.clone(), index, path: path.to_owned(), code, message });
        };
        if let Some(earlier) = first.insert(&tool.name, index) {
            fault("name", "duplicate_name", format!("Duplicate tool names: {} (also tool {earlier})", tool.name));
        }
        if let Err(problem) = name::check_open(&tool.name) {
            fault("name", "name_invalid", problem.to_string());
        }
        if let Err(problem) = ToolRoute::of(tool) {
            let at = if matches!(problem, RouteFault::UnknownAlias(_)) { "entity_aliases" } else { "cache_model" };
            fault(at, problem.code(), problem.to_string());
        }
    }
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    for (later, earlier) in name::lookalikes(&names) {
        faults.push(CatalogFault {
            tool: names[later].to_owned(),
            index: later,
            path: "name".to_owned(),
            code: "confusable_name",
            message: format!("looks like the name of tool {earlier}"),
        });
    }
    faults
}

#[cfg(test)]
mod tests;
