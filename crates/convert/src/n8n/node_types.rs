//! The node types of a running n8n: its `nodes.json`.
//!
//! n8n makes the description of a tool from its node type where the workflow has none, and the export does not have it.
//! Given the file, the description is n8n's own.

use std::collections::HashMap;

use serde_json::Value;

use super::N8nNode;
use crate::document::{Document, ReadError};

/// The descriptions of node types, by name and version.
#[derive(Debug, Default)]
pub struct NodeTypes {
    /// By name: with the package in the file of a running n8n, without it in those of n8n's own packages. Older versions
    /// are entries of their own.
    types: HashMap<String, Vec<Value>>,
}

impl NodeTypes {
    /// Reads a `nodes.json`: a list of descriptions. What has no name is not a node type and is skipped.
    ///
    /// # Errors
    /// When the text is not a list.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        let document = Document::read(text)?;
        let Value::Array(entries) = document.value() else { return Err(ReadError::NotNodeTypes) };
        let mut types: HashMap<String, Vec<Value>> = HashMap::new();
        for entry in entries {
            if let Some(name) = entry.get("name").and_then(Value::as_str) {
                types.entry(name.to_owned()).or_default().push(entry.clone());
            }
        }
        if types.is_empty() { Err(ReadError::NotNodeTypes) } else { Ok(Self { types }) }
    }

    /// The description that n8n makes for a node without one.
    pub(super) fn describe(&self, node: &N8nNode<'_>) -> Option<String> {
        let kind = self.find(node)?;
        let name = kind.pointer("/defaults/name").and_then(Value::as_str).unwrap_or_default();
        let properties = kind.get("properties").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let of_name = |name: &'static str| {
            properties.iter().filter(move |property| property.get("name").and_then(Value::as_str) == Some(name))
        };
        let default = |property: &&Value| property.get("default").and_then(Value::as_str).map(str::to_owned);
        let is_shown = |property: &&Value| is_shown_in(property, node.version);
        let given = |name: &str| node.parameter(name).and_then(Value::as_str).map(str::to_owned);
        let resource = given("resource").or_else(|| of_name("resource").find(is_shown).as_ref().and_then(default));
        let operations = || {
            of_name("operation").filter(|property| {
                let shown = property.pointer("/displayOptions/show/resource").and_then(Value::as_array);
                shown.is_some_and(|list| {
                    resource.as_ref().is_some_and(|resource| list.iter().any(|value| value == resource.as_str()))
                })
            })
        };
        // A node with one resource has its operations without saying for which.
        let is_for_all = |property: &&Value| property.pointer("/displayOptions/show/resource").is_none();
        let of_any_resource = || of_name("operation").filter(is_for_all).find(is_shown);
        let default_operation = || operations().find(is_shown).or_else(of_any_resource).as_ref().and_then(default);
        let operation = given("operation").or_else(default_operation);
        let action = operations().next().and_then(|property| {
            let options = property.get("options")?.as_array()?;
            let option =
                options.iter().find(|option| option.get("value").and_then(Value::as_str) == operation.as_deref());
            option?.get("action")?.as_str()
        });
        match (action, operation, resource) {
            (Some(action), ..) => Some(format!("{action} in {name}")),
            (None, Some(operation), Some(resource)) => Some(format!("{operation} {resource} in {name}")),
            _ => kind.get("description").and_then(Value::as_str).map(str::to_owned),
        }
    }

    /// The default of a node's own parameter, such as the text of a Think Tool.
    pub(super) fn default_of(&self, node: &N8nNode<'_>, parameter: &str) -> Option<&str> {
        let properties = self.find(node)?.get("properties")?.as_array()?;
        let named = |property: &&Value| property.get("name").and_then(Value::as_str) == Some(parameter);
        properties.iter().find(named)?.get("default")?.as_str().filter(|text| !text.is_empty())
    }

    /// The entry of a node's version. A node that is used as a tool has the type of the node and `Tool` behind it.
    fn find(&self, node: &N8nNode<'_>) -> Option<&Value> {
        let kinds = [node.kind, node.kind.strip_suffix("Tool").unwrap_or(node.kind)];
        // Packages may have types of the same name; a name alone is one of n8n's own packages.
        let is_own = node.is_langchain || node.is_base;
        let entries = kinds.into_iter().find_map(|kind| {
            let own = || self.types.get(kind).filter(|_| is_own);
            self.types.get(&format!("{}.{kind}", node.package)).or_else(own)
        })?;
        entries.iter().find(|entry| has_version(entry.get("version"), node.version)).or_else(|| entries.first())
    }
}

fn has_version(version: Option<&Value>, wanted: f64) -> bool {
    let is_wanted = |value: &Value| value.as_f64().is_some_and(|version| (version - wanted).abs() < 1e-9);
    match version {
        Some(Value::Array(versions)) => versions.iter().any(is_wanted),
        Some(version) => is_wanted(version),
        None => false,
    }
}

/// Whether a property is part of a version of its node, as far as it says so.
fn is_shown_in(property: &Value, version: f64) -> bool {
    property.pointer("/displayOptions/show/@version").is_none_or(|versions| has_version(Some(versions), version))
}
