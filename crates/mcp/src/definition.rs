//! The definition of a tool as its server announces it, compared and turned into a tool of the catalogue.
//!
//! It is read from JSON field by field: one tool that is invalid is left out, and the others stay. Schemas are kept
//! verbatim, so that names of parameters reach the server as it wrote them.

use bosun_adapters::manifests::McpServerManifest;
use bosun_core::{
    Binding, ContentHash, Tool,
    ceiling::{TOOL_DESCRIPTION_BYTES, TOOL_NAME_LENGTH},
    json, schema,
    text::visible,
    tool::{Annotations, ToolOrigin, name::hidden_in_value},
};
use bosun_engine::tool_server::DefinitionChange;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// ARK's label for the server that announces a tool.
const SERVER_LABEL: &str = "mcp/server";

/// Everything about a tool that a model reads or that decides how it is called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Definition {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(default)]
    pub(crate) description: String,
    pub(crate) input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) annotations: Option<Value>,
}

/// Why an announced tool is left out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum DefinitionFault {
    #[error("a tool without a name")]
    NoName,
    #[error("a tool whose name has more than {TOOL_NAME_LENGTH} characters")]
    LongName,
    #[error("tool `{0}`: it has no `inputSchema`")]
    NoSchema(String),
    #[error("tool `{name}`: {fault}")]
    BadSchema { name: String, fault: String },
    #[error("tool `{name}`: its schema has the control or invisible character U+{character:04X}")]
    HiddenText { name: String, character: u32 },
}

impl Definition {
    /// Reads one member of the list of tools.
    pub(crate) fn read(announced: &Value) -> Result<Self, DefinitionFault> {
        let text = |field: &str| announced.get(field).and_then(Value::as_str);
        let name = text("name").filter(|name| !name.trim().is_empty()).ok_or(DefinitionFault::NoName)?;
        if name.chars().count() > TOOL_NAME_LENGTH {
            return Err(DefinitionFault::LongName);
        }
        let shown = || visible(name);
        let object = |field: &str| announced.get(field).filter(|value| value.is_object()).cloned();
        let input_schema = object("inputSchema").ok_or_else(|| DefinitionFault::NoSchema(shown()))?;
        let output_schema = object("outputSchema");
        for schema in [Some(&input_schema), output_schema.as_ref()].into_iter().flatten() {
            if let Some(fault) = schema::faults(schema).first() {
                return Err(DefinitionFault::BadSchema { name: shown(), fault: fault.to_string() });
            }
            // A schema is kept verbatim, so instructions that are hidden in it cannot be removed as from a description.
            if let Some(hidden) = hidden_in_value(schema) {
                return Err(DefinitionFault::HiddenText { name: shown(), character: hidden.into() });
            }
        }
        let mut description = visible(text("description").unwrap_or_default());
        description.truncate(description.floor_char_boundary(TOOL_DESCRIPTION_BYTES));
        Ok(Self {
            name: name.to_owned(),
            title: text("title").map(visible),
            description,
            input_schema,
            output_schema,
            annotations: object("annotations"),
        })
    }

    /// The identity of the definition: equal definitions have equal hashes, whatever the order of their members.
    pub(crate) fn hash(&self) -> ContentHash {
        ContentHash::of(json::canonical(&json!(self)).as_bytes())
    }

    /// The fields that differ from the approved definition.
    pub(crate) fn changes_from(&self, approved: &Self) -> Vec<DefinitionChange> {
        let (announced, approved) = (members(self), members(approved));
        let mut fields: Vec<&String> = announced.keys().chain(approved.keys()).collect();
        fields.sort_unstable();
        fields.dedup();
        let changed = fields.into_iter().filter(|field| announced.get(*field) != approved.get(*field));
        let canonical = |value: &Value| json::canonical(value);
        let change = |field: &String| DefinitionChange {
            field: field.clone(),
            approved: approved.get(field).map(canonical),
            announced: announced.get(field).map(canonical),
        };
        changed.map(change).collect()
    }

    /// The change that marks the whole tool as new.
    pub(crate) fn as_new(&self) -> Vec<DefinitionChange> {
        let announced = Some(json::canonical(&json!(self)));
        vec![DefinitionChange { field: "name".to_owned(), approved: None, announced }]
    }

    /// The tool under its name in the catalogue.
    pub(crate) fn to_tool(&self, name: String, server: &McpServerManifest) -> Tool {
        let binding = Binding::Mcp { server: server.name.clone(), tool: self.name.clone() };
        let description = match (self.description.as_str(), &self.title) {
            ("", Some(title)) => title.clone(),
            ("", None) => format!("Tool `{}` of the MCP server `{}`", visible(&self.name), server.name),
            (description, _) => description.to_owned(),
        };
        let mut tool = Tool::new(name, description, self.input_schema.clone(), binding);
        tool.display_name = self.title.clone();
        tool.labels.insert(SERVER_LABEL.to_owned(), server.name.clone());
        tool.annotations = self.hints();
        // Hints are the server's claim; they count as the operator's only if the operator trusts them.
        tool.origin = if server.trust_hints { ToolOrigin::Operator } else { ToolOrigin::Server };
        tool.confirm = server.confirm;
        tool
    }

    fn hints(&self) -> Annotations {
        let hint = |name: &str| self.annotations.as_ref()?.get(name)?.as_bool();
        Annotations {
            read_only_hint: hint("readOnlyHint"),
            destructive_hint: hint("destructiveHint"),
            idempotent_hint: hint("idempotentHint"),
            open_world_hint: hint("openWorldHint"),
        }
    }
}

fn members(definition: &Definition) -> Map<String, Value> {
    match json!(definition) {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(announced: Value) -> Definition {
        Definition::read(&announced).unwrap()
    }

    #[test]
    fn a_tool_that_cannot_be_used_is_refused_with_its_name() {
        for (announced, expect) in [
            (json!({"inputSchema": {}}), "a tool without a name"),
            (json!({"name": " ", "inputSchema": {}}), "a tool without a name"),
            (json!({"name": "a".repeat(200), "inputSchema": {}}), "a tool whose name has more than 128 characters"),
            (json!({"name": "a"}), "tool `a`: it has no `inputSchema`"),
            (json!({"name": "a\u{200b}", "inputSchema": true}), "tool `a`: it has no `inputSchema`"),
            (json!("a"), "a tool without a name"),
        ] {
            assert_eq!(Definition::read(&announced).unwrap_err().to_string(), expect, "{announced}");
        }
        let bad = Definition::read(&json!({"name": "a", "inputSchema": {"type": "objekt"}}));
        assert!(matches!(bad, Err(DefinitionFault::BadSchema { .. })), "{bad:?}");
    }

    #[test]
    fn a_schema_with_hidden_text_is_refused_wherever_a_model_reads_it() {
        let tool = |schema: Value| json!({"name": "a", "inputSchema": schema});
        for hidden in ['\u{e0041}', '\u{202e}', '\u{1b}', '\u{2066}'] {
            let text = format!("The city{hidden}");
            for announced in [
                tool(json!({"type": "object", "description": text})),
                tool(json!({"properties": {"city": {"type": "string", "description": text}}})),
                tool(json!({"properties": {(text.as_str()): {}}})),
                tool(json!({"properties": {"city": {"enum": ["Paris", text]}}})),
                tool(json!({"properties": {"city": {"anyOf": [{}, {"title": text}], "default": [text]}}})),
                tool(json!({"$defs": {"city": {"examples": [{"name": text}]}}})),
                json!({"name": "a", "inputSchema": {}, "outputSchema": {"description": text}}),
            ] {
                let fault = Definition::read(&announced).unwrap_err().to_string();
                let character = u32::from(hidden);
                let expect = format!("tool `a`: its schema has the control or invisible character U+{character:04X}");
                assert_eq!(fault, expect, "{announced}");
            }
        }
        for fine in ["a line\n\tand another\r\n", "👩\u{200d}💻 ❤\u{fe0f}", "نص عربي"] {
            read(tool(json!({"properties": {"city": {"description": fine}}})));
        }
    }

    #[test]
    fn hidden_characters_are_removed_and_long_descriptions_cut() {
        let description = format!("Read\u{202e} a\u{200b} file\n{}", "é".repeat(TOOL_DESCRIPTION_BYTES));
        let found = read(json!({"name": "a", "description": description, "inputSchema": {}}));
        assert!(found.description.starts_with("Read a file\né"), "{:.40}", found.description);
        assert!(found.description.len() <= TOOL_DESCRIPTION_BYTES);
    }

    #[test]
    fn the_order_of_members_is_no_change_and_every_field_counts() {
        let one = read(json!({"name": "a", "description": "d", "inputSchema": {"type": "object", "title": "x"}}));
        let same = read(json!({"inputSchema": {"title": "x", "type": "object"}, "description": "d", "name": "a"}));
        assert_eq!(one.hash(), same.hash());
        assert!(one.changes_from(&same).is_empty());
        for (announced, field) in [
            (json!({"name": "a", "description": "e", "inputSchema": one.input_schema}), "description"),
            (json!({"name": "a", "description": "d", "title": "t", "inputSchema": one.input_schema}), "title"),
            (json!({"name": "a", "description": "d", "inputSchema": {"type": "object"}}), "inputSchema"),
            (
                json!({"name": "a", "description": "d", "inputSchema": one.input_schema, "outputSchema": {}}),
                "outputSchema",
            ),
            (
                json!({"name": "a", "description": "d", "inputSchema": one.input_schema,
                       "annotations": {"readOnlyHint": true}}),
                "annotations",
            ),
        ] {
            let changed = read(announced);
            let changes = changed.changes_from(&one);
            assert_ne!(changed.hash(), one.hash(), "{field}");
            assert_eq!(changes.iter().map(|change| change.field.as_str()).collect::<Vec<_>>(), [field]);
        }
    }
}
