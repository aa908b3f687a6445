//! Choosing tools: for an agent, for a query, for a list on the screen.
//!
//! Within one field any value matches, between fields all must match. An empty selection is the whole catalogue. Fifty
//! tools in a prompt cost tokens and confuse the model, so `text` and `limit` select the few that a question is about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Catalog, Hit, provider_key};
use crate::tool::{Binding, Tool};

/// The criteria for selecting tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Selection {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<String>,
    /// Every one of these labels, with this value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Only tools that are marked read-only (`true`), or only those that are not (`false`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The topic of the tools; the best matches come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Names that no tool has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such tool: {}", .0.join(", "))]
pub struct UnknownTools(pub Vec<String>);

impl Catalog {
    /// The tools that a selection names or describes. Unknown names are an error, so that a misspelled tool is not
    /// silently missing.
    ///
    /// # Errors
    /// All unknown names, each with a suggestion.
    pub fn select(&self, selection: &Selection) -> Result<Vec<&Tool>, UnknownTools> {
        self.select_among(selection, None)
    }

    /// The same, as if the catalogue had only the tools of these names. The search ranks by the words of all tools, so
    /// that its index serves every list of names.
    ///
    /// # Errors
    /// All unknown names, each with a suggestion.
    pub fn select_among(&self, selection: &Selection, among: Option<&[String]>) -> Result<Vec<&Tool>, UnknownTools> {
        let is_among = |name: &String| among.is_none_or(|names| names.contains(name));
        let unknown: Vec<String> = selection
            .names
            .iter()
            .filter(|name| self.find(name).is_none_or(|tool| !is_among(&tool.name)))
            .map(|name| {
                let shown = crate::text::clip(name, 128);
                match crate::text::closest(name, self.tools.keys().filter(|name| is_among(name)).map(String::as_str)) {
                    Some(meant) => format!("`{shown}` (did you mean `{meant}`?)"),
                    None => format!("`{shown}`"),
                }
            })
            .collect();
        if !unknown.is_empty() {
            return Err(UnknownTools(unknown));
        }
        Ok(self.search_among(selection, among).into_iter().map(|hit| hit.tool).collect())
    }

    /// The tools that a selection describes: by rank if there is a text, else in the catalogue's order, or in that of
    /// the names.
    #[must_use]
    pub fn search(&self, selection: &Selection) -> Vec<Hit<'_>> {
        self.search_among(selection, None)
    }

    fn search_among(&self, selection: &Selection, among: Option<&[String]>) -> Vec<Hit<'_>> {
        let limit = selection.limit.unwrap_or(usize::MAX);
        let wanted = WantedTools::of(self, selection, among);
        if let Some(text) = selection.text.as_deref().filter(|text| !text.trim().is_empty()) {
            let found = self.index().search(text, limit, |position| wanted.includes_at(position, self));
            return found.into_iter().map(|(position, score)| Hit { tool: &self.tools[position], score }).collect();
        }
        let hit = |tool| Hit { tool, score: 0.0 };
        if selection.names.is_empty() {
            self.tools().filter(|tool| wanted.includes(tool)).take(limit).map(hit).collect()
        } else {
            let named = selection.names.iter().filter_map(|name| self.find(name));
            named.filter(|tool| wanted.includes(tool)).take(limit).map(hit).collect()
        }
    }
}

/// A selection, prepared for matching many tools.
struct WantedTools<'a> {
    selection: &'a Selection,
    /// The only names that may be found.
    among: Option<&'a [String]>,
    names: Vec<&'a str>,
    providers: Vec<String>,
    /// By position, from the catalogue's own lists: scanning every tool would cost more than the whole search. Empty if
    /// the selection has no category.
    listed: Vec<bool>,
}

impl<'a> WantedTools<'a> {
    fn of(catalog: &'a Catalog, selection: &'a Selection, among: Option<&'a [String]>) -> Self {
        let mut listed = Vec::new();
        if !selection.categories.is_empty() {
            listed.resize(catalog.len(), false);
            for category in &selection.categories {
                for position in catalog.by_category.get(category).into_iter().flatten() {
                    listed[*position] = true;
                }
            }
        }
        Self {
            selection,
            among,
            listed,
            names: selection.names.iter().filter_map(|name| Some(catalog.find(name)?.name.as_str())).collect(),
            providers: selection.providers.iter().map(|provider| provider_key(provider)).collect(),
        }
    }

    fn includes_at(&self, position: usize, catalog: &Catalog) -> bool {
        self.listed.get(position).copied().unwrap_or(true) && self.includes(&catalog.tools[position])
    }

    fn includes(&self, tool: &Tool) -> bool {
        let Selection { names, categories, labels, read_only, .. } = self.selection;
        self.among.is_none_or(|among| among.contains(&tool.name))
            && (names.is_empty() || self.names.contains(&tool.name.as_str()))
            && (categories.is_empty() || categories.iter().any(|category| category == tool.category()))
            && (self.providers.is_empty() || self.is_provided(tool))
            && labels.iter().all(|(key, value)| tool.labels.get(key) == Some(value))
            && read_only.is_none_or(|wanted| (tool.annotations.read_only_hint == Some(true)) == wanted)
    }

    /// Our own tools need no integration: `request_missing_parameters` is available to all.
    fn is_provided(&self, tool: &Tool) -> bool {
        match tool.binding.provider() {
            Some(provider) => self.providers.contains(&provider_key(provider)),
            None => matches!(tool.binding, Binding::Builtin { .. }),
        }
    }
}
