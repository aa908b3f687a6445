//! Report of the parameters that a call lacks, in a form from which a user can be asked.
//!
//! The report looks *inside* objects and so inside the `input` wrapper: an absent `input` lacks its members, not
//! itself. Null, an empty text, and a placeholder that a planner left behind (`{{PLACEHOLDER_to}}`) count as missing
//! for a required parameter.
//!
//! ```
//! use bosun_core::{Schema, tool::missing::missing_parameters};
//! use serde_json::json;
//!
//! let send_email = Schema::compile(&json!({"type": "object", "properties": {"input": {
//!     "type": "object",
//!     "properties": {"to": {"type": "string", "prompt": "To whom?"}, "body": {"type": "string"}},
//!     "required": ["to", "body"],
//! }}, "required": ["input"]}).into())?;
//! let missing = missing_parameters(&send_email, &json!({"input": {"body": "Hello", "to": "{{PLACEHOLDER_to}}"}}));
//! assert_eq!(missing[0].path, "input.to");
//! assert_eq!(missing[0].prompt.as_deref(), Some("To whom?"));
//! # Ok::<(), bosun_core::schema::SchemaError>(())
//! ```

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    schema::{
        Guidance, Schema,
        path::{self, PathStep},
        reference,
    },
    text::clip,
    tool::{toolset::Toolset, wrapper},
};

/// The builtin tool with which a model asks the user for parameters that it does not know.
pub const REQUEST_MISSING_PARAMETERS: &str = "request_missing_parameters";

/// One required parameter that has no value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingParameter {
    /// `input.to`
    pub path: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Value>,
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The question to ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The required parameters that `arguments` do not give, from the outside in.
#[must_use]
pub fn missing_parameters(schema: &Schema, arguments: &Value) -> Vec<MissingParameter> {
    let normalized = schema.normalized();
    let mut search = MissingSearch { root: &normalized.clean, guidance: &normalized.guidance, found: Vec::new() };
    search.look(MissingPlace { schema: search.root, path: String::new() }, arguments, "", 0);
    search.found
}

/// A request for parameters of a tool, as [`REQUEST_MISSING_PARAMETERS`] makes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterRequest {
    /// The tool that the model wants to call.
    pub tool: String,
    pub question: String,
    pub parameters: Vec<MissingParameter>,
    /// The schema of the answer: an object with a value for each path.
    pub schema: Arc<Value>,
}

impl ParameterRequest {
    /// Reads a request, and looks its parameters up in the tool. A name that the tool does not have at its top is
    /// looked for inside the `input` wrapper.
    ///
    /// # Errors
    /// With a message for the model: the tool, or one of the parameters, does not exist.
    pub fn read(toolset: &Toolset, arguments: &Value) -> Result<Self, String> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let (wanted, question) = (text("intended_tool_name"), text("clarification_question").to_owned());
        let Some(member) = toolset.by_alias(wanted).or_else(|| toolset.get(wanted)) else {
            return Err(format!("there is no tool `{}` whose parameters could be asked for", clip(wanted, 80)));
        };
        let schema =
            member.schema().map_err(|error| format!("the parameters of `{wanted}` cannot be read: {error}"))?;
        let normalized = schema.normalized();
        let search = MissingSearch { root: &normalized.clean, guidance: &normalized.guidance, found: Vec::new() };
        let is_wrapped = wrapper::inner_schema(&normalized.clean).is_some();
        let (mut parameters, mut properties, mut unknown) = (Vec::new(), Map::new(), Vec::new());
        for name in arguments.get("missing_params").and_then(Value::as_array).into_iter().flatten() {
            let name = name.as_str().unwrap_or_default();
            let inside = format!("input.{name}");
            let paths = [Some(name), Some(inside.as_str()).filter(|_| is_wrapped)];
            let found = paths.into_iter().flatten().find_map(|path| Some((path, search.find(&path::steps(path))?)));
            match found {
                Some((path, place)) => {
                    properties.insert(path.to_owned(), place.schema.clone());
                    parameters.push(search.describe(&place, path.to_owned()));
                }
                None => unknown.push(format!("`{}`", clip(name, 80))),
            }
        }
        if !unknown.is_empty() || parameters.is_empty() {
            let named = if unknown.is_empty() { "the empty list".to_owned() } else { unknown.join(", ") };
            return Err(format!("{named}: tool `{}` has no such parameters", member.name));
        }
        let required: Vec<Value> = properties.keys().cloned().map(Value::from).collect();
        let mut answer = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        // Where references of the parameters lead.
        for definitions in ["$defs", "definitions", "$schema"] {
            if let Some(part) = normalized.clean.get(definitions) {
                answer[definitions] = part.clone();
            }
        }
        Ok(Self { tool: member.name.to_string(), question, parameters, schema: Arc::new(answer) })
    }

    /// The arguments of the request with its parameters described, for the client that shows it to the user.
    #[must_use]
    pub fn describe(&self) -> Value {
        let names: Vec<&str> = self.parameters.iter().map(|parameter| parameter.path.as_str()).collect();
        json!({
            "intended_tool_name": self.tool,
            "missing_params": names,
            "clarification_question": self.question,
            "parameters": self.parameters,
        })
    }
}

/// Maximum depth: the report of a recursive schema could be endless.
const DEEPEST: usize = 16;
const MOST: usize = 200;

struct MissingSearch<'a> {
    root: &'a Value,
    guidance: &'a BTreeMap<String, Guidance>,
    found: Vec<MissingParameter>,
}

/// A subschema, and its place.
#[derive(Clone)]
struct MissingPlace<'a> {
    schema: &'a Value,
    path: String,
}

impl<'a> MissingSearch<'a> {
    fn look(&mut self, place: MissingPlace<'a>, value: &Value, here: &str, depth: usize) {
        let MissingPlace { schema, path } = self.resolve(place);
        let Some(Value::Object(properties)) = schema.get("properties") else { return };
        if depth == DEEPEST || self.found.len() >= MOST {
            return;
        }
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let below = path::with_key(&path, "properties");
        for (name, property) in properties {
            let here = path::with_key(here, name);
            let place = MissingPlace { schema: property, path: path::with_key(&below, name) };
            match value.get(name).filter(|given| !is_nothing(given)) {
                Some(given) if given.is_object() => self.look(place, given, &here, depth + 1),
                Some(_) => {}
                None if required.contains(&name.as_str()) => self.lack(&place, here, depth),
                None => {}
            }
        }
    }

    /// A missing object with required members lacks those, everything else lacks itself.
    fn lack(&mut self, place: &MissingPlace<'a>, here: String, depth: usize) {
        let before = self.found.len();
        self.look(place.clone(), &Value::Null, &here, depth + 1);
        if self.found.len() > before {
            return;
        }
        let described = self.describe(place, here);
        self.found.push(described);
    }

    fn describe(&self, place: &MissingPlace<'a>, path: String) -> MissingParameter {
        let resolved = self.resolve(place.clone());
        // An annotation next to a reference takes precedence over one behind it.
        let description = place.schema.get("description").or_else(|| resolved.schema.get("description"));
        let guidance = self.guidance.get(&place.path).or_else(|| self.guidance.get(&resolved.path));
        let Guidance { prompt, hint, .. } = guidance.cloned().unwrap_or_default();
        MissingParameter {
            path,
            kind: resolved.schema.get("type").cloned(),
            options: resolved.schema.get("enum").cloned(),
            description: description.and_then(Value::as_str).map(str::to_owned),
            prompt,
            hint,
        }
    }

    /// The parameter at a path of names, wherever objects and references lead.
    fn find(&self, names: &[PathStep]) -> Option<MissingPlace<'a>> {
        let mut place = MissingPlace { schema: self.root, path: String::new() };
        for name in names {
            let PathStep::Key(name) = name else { return None };
            place = self.resolve(place);
            let schema = place.schema.get("properties")?.get(name)?;
            let below = path::with_key(&place.path, "properties");
            place = MissingPlace { schema, path: path::with_key(&below, name) };
        }
        Some(place)
    }

    /// Follows references. The schema was compiled, so they terminate.
    fn resolve(&self, mut place: MissingPlace<'a>) -> MissingPlace<'a> {
        while let Some(reference) = place.schema.get("$ref").and_then(Value::as_str) {
            let Some((schema, pointer)) = reference::resolve(self.root, reference) else { break };
            place = MissingPlace { schema, path: path::from_pointer(&pointer, self.root) };
        }
        place
    }
}

/// No value, or a placeholder that a planner left for one.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => {
            let text = text.trim();
            text.is_empty() || (text.starts_with("{{") && text.ends_with("}}"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Binding, Tool, tool::toolset::ToolSources};

    fn send_email() -> Schema {
        Schema::compile(&Arc::new(json!({
            "type": "object",
            "properties": {"input": {
                "type": "object",
                "properties": {
                    "to": {"type": "string", "description": "Recipient email", "prompt": "To whom?", "hint": "An address"},
                    "subject": {"type": "string", "description": "Subject line"},
                    "body": {"type": "string"},
                    "cc": {"type": "string"},
                    "priority": {"$ref": "#/$defs/priority", "description": "How soon"},
                    "sender": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
                },
                "required": ["to", "subject", "body", "priority", "sender"],
            }},
            "required": ["input"],
            "$defs": {"priority": {"type": "string", "enum": ["high", "low"], "description": "x", "prompt": "Urgent?"}},
        })))
        .unwrap()
    }

    #[track_caller]
    fn check(arguments: &Value, expect: &[&str]) {
        let missing = missing_parameters(&send_email(), arguments);
        assert_eq!(missing.iter().map(|parameter| parameter.path.as_str()).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn the_report_looks_inside_the_wrapper() {
        let all = ["input.to", "input.subject", "input.body", "input.priority", "input.sender.name"];
        check(&json!({}), &all);
        check(&json!({"input": {}}), &all);
        check(&json!({"input": null}), &all);
        check(
            &json!({"input": {"to": "a", "subject": "s", "body": "b", "priority": "low", "sender": {}}}),
            &["input.sender.name"],
        );
    }

    #[test]
    fn empty_texts_nulls_and_placeholders_count_as_missing() {
        let given = json!({"input": {
            "to": "{{PLACEHOLDER_to}}", "subject": " ", "body": null, "cc": "", "priority": "{{step1.result.x}}",
            "sender": {"name": "{{ not }} a placeholder"},
        }});
        check(&given, &["input.to", "input.subject", "input.body", "input.priority"]);
    }

    #[test]
    fn a_missing_parameter_says_how_to_ask_for_it() {
        let missing = missing_parameters(&send_email(), &json!({}));
        assert_eq!(
            serde_json::to_value(&missing[0]).unwrap(),
            json!({"path": "input.to", "type": "string", "description": "Recipient email", "prompt": "To whom?", "hint": "An address"})
        );
        assert_eq!(
            serde_json::to_value(&missing[3]).unwrap(),
            json!({"path": "input.priority", "type": "string", "enum": ["high", "low"], "description": "How soon", "prompt": "Urgent?"})
        );
    }

    #[test]
    fn the_report_of_a_recursive_schema_is_bounded() {
        let schema = json!({"properties": {"next": {"$ref": "#"}}, "required": ["next"]});
        let schema = Schema::compile(&Arc::new(schema)).unwrap();
        assert_eq!(missing_parameters(&schema, &json!({})).len(), 1);
        let schema = json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}, "c": {"$ref": "#"}}, "required": ["a", "b", "c"]});
        let schema = Schema::compile(&Arc::new(schema)).unwrap();
        assert!(missing_parameters(&schema, &json!({})).len() <= 250);
    }

    fn toolset() -> Toolset {
        let parameters = json!({
            "type": "object",
            "properties": {"input": {
                "type": "object",
                "properties": {
                    "to": {"type": "string", "description": "Recipient", "prompt": "To whom?"},
                    "when": {"$ref": "#/$defs/day"},
                },
                "required": ["to"],
            }},
            "$defs": {"day": {"type": "string", "enum": ["today", "tomorrow"]}},
        });
        let tool = Tool::new("send.email", "Sends an email", parameters, Binding::External);
        Toolset::merge(ToolSources::Client, vec![], vec![tool])
    }

    fn request(tool: &str, names: &[&str]) -> Value {
        json!({"intended_tool_name": tool, "missing_params": names, "clarification_question": "Where to?"})
    }

    #[test]
    fn a_request_describes_its_parameters_and_the_answer_to_it() {
        let toolset = toolset();
        let alias = toolset.get("send.email").unwrap().alias.to_string();
        for tool in ["send.email", &alias] {
            let read = ParameterRequest::read(&toolset, &request(tool, &["to", "input.when"])).unwrap();
            assert_eq!((read.tool.as_str(), read.question.as_str()), ("send.email", "Where to?"));
            let shown = json!([
                {"path": "input.to", "type": "string", "description": "Recipient", "prompt": "To whom?"},
                {"path": "input.when", "type": "string", "enum": ["today", "tomorrow"]},
            ]);
            assert_eq!(read.describe()["parameters"], shown);
            let schema = Schema::compile(&read.schema).unwrap();
            let valid = |answer: Value| schema.check_value(answer).is_ok();
            assert!(valid(json!({"input.to": "ada", "input.when": "today"})));
            assert!(!valid(json!({"input.to": "ada", "input.when": "never"})));
            assert!(!valid(json!({"input.to": "ada"})), "every value is asked for");
            assert!(!valid(json!({"input.to": "ada", "input.when": "today", "input.bcc": "eve"})));
        }
    }

    #[test]
    fn a_request_for_something_else_is_a_message_for_the_model() {
        let read = |tool: &str, names: &[&str]| ParameterRequest::read(&toolset(), &request(tool, names)).unwrap_err();
        assert_eq!(read("fax", &["to"]), "there is no tool `fax` whose parameters could be asked for");
        assert_eq!(read("send.email", &["cc", "to"]), "`cc`: tool `send.email` has no such parameters");
        assert_eq!(read("send.email", &[]), "the empty list: tool `send.email` has no such parameters");
    }
}
