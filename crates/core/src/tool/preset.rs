//! Parameters that an agent sets for a tool: ARK's `partial`.
//!
//! A preset parameter is removed from the schema that the model reads, and its value is added to the arguments of every
//! call after they were validated; it wins over whatever the model sent. Presets are part of the frozen tool, and the
//! parameters of the query are part of its spec, so a call has the same arguments after a crash. They are journaled with
//! the call: a secret cannot be one.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Tool;
use crate::template::{BadTemplate, RenderError, Template, is_name};

/// The names of the query's parameters in a template begin with it: `{{ .Query.tenant }}`.
const OF_QUERY: &str = "Query.";

/// One parameter that the model does not set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Preset {
    pub name: String,
    pub value: PresetValue,
    /// The schema that the tool has for it, since it decides what the text means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// Where the value of a preset parameter comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PresetValue {
    Text(String),
    /// A text with `{{ .Query.name }}` for parameters of the query.
    Template(String),
    /// The query's parameter of this name.
    QueryParameter(String),
}

/// Parses a text with `{{ .Query.name }}` in it.
///
/// # Errors
/// With the position of the first part that is not of this form.
pub fn parse_template(text: &str) -> Result<Template, BadTemplate> {
    Template::parse_names(text, |name| name.strip_prefix(OF_QUERY).is_some_and(is_name))
}

impl Tool {
    /// Sets parameters of the tool, and hides them from the model.
    pub fn preset(&mut self, presets: &[Preset]) {
        let mut parameters = Value::clone(&self.parameters);
        for preset in presets {
            let properties = parameters.get_mut("properties").and_then(Value::as_object_mut);
            let schema = properties.and_then(|properties| properties.shift_remove(&preset.name));
            if let Some(required) = parameters.get_mut("required").and_then(Value::as_array_mut) {
                required.retain(|name| *name != preset.name);
            }
            self.presets.push(Preset { schema, ..preset.clone() });
        }
        self.parameters = Arc::new(parameters);
    }

    /// Adds the preset parameters to the arguments of a call.
    ///
    /// # Errors
    /// With a message for the model, if a value cannot be what the tool's schema says.
    pub fn fill_presets(&self, arguments: &mut Value, query: &BTreeMap<String, String>) -> Result<(), String> {
        let Value::Object(arguments) = arguments else { return Ok(()) };
        for preset in &self.presets {
            arguments.insert(preset.name.clone(), preset.resolve(query)?);
        }
        Ok(())
    }

    /// The parameters of the query that presets of the tool need and the query does not have.
    pub fn missing_presets<'a>(&'a self, query: &'a BTreeMap<String, String>) -> impl Iterator<Item = String> + 'a {
        self.presets.iter().flat_map(Preset::needs).filter(|name| !query.contains_key(name))
    }
}

impl Preset {
    /// The parameters of the query that its value needs.
    fn needs(&self) -> Vec<String> {
        match &self.value {
            PresetValue::Text(_) => Vec::new(),
            PresetValue::QueryParameter(name) => vec![name.clone()],
            PresetValue::Template(text) => {
                let template = parse_template(text).ok();
                let names = template.iter().flat_map(Template::names);
                names.filter_map(|name| name.strip_prefix(OF_QUERY)).map(str::to_owned).collect()
            }
        }
    }

    fn resolve(&self, query: &BTreeMap<String, String>) -> Result<Value, String> {
        let unusable = |reason: String| format!("the agent's own value of `{}` cannot be used: {reason}", self.name);
        let parameter = |name: &str| query.get(name).map(String::as_str);
        let text = match &self.value {
            PresetValue::Text(text) => text.clone(),
            PresetValue::QueryParameter(name) => {
                let text = parameter(name);
                text.ok_or_else(|| unusable(format!("the query has no parameter `{name}`")))?.to_owned()
            }
            PresetValue::Template(text) => {
                let template = parse_template(text).map_err(|error| unusable(error.to_string()))?;
                let rendered = template.render(|name| parameter(name.strip_prefix(OF_QUERY)?));
                rendered.map_err(|error: RenderError| unusable(error.to_string()))?
            }
        };
        self.typed(text).map_err(unusable)
    }

    /// The text as the type that the tool's schema has: manifests and queries have texts only.
    fn typed(&self, text: String) -> Result<Value, String> {
        let kind = self.schema.as_ref().and_then(|schema| schema.get("type")).and_then(Value::as_str);
        match kind {
            Some("number" | "integer" | "boolean" | "object" | "array" | "null") => {
                serde_json::from_str(&text).map_err(|_| "it is not JSON of the type that the tool needs".to_owned())
            }
            _ => Ok(Value::String(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Binding;

    fn tool(presets: &[(&str, PresetValue)]) -> Tool {
        let parameters = json!({
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "units": {"type": "string"}},
            "required": ["city", "days", "units"],
        });
        let mut tool = Tool::new("weather", "The weather", parameters, Binding::External);
        let preset = |(name, value): &(&str, PresetValue)| Preset {
            name: (*name).to_owned(),
            value: value.clone(),
            schema: None,
        };
        tool.preset(&presets.iter().map(preset).collect::<Vec<_>>());
        tool
    }

    #[test]
    fn a_preset_parameter_is_hidden_from_the_model_and_survives_json() {
        let tool = tool(&[("days", PresetValue::Text("3".into()))]);
        assert_eq!(
            *tool.parameters,
            json!({
                "type": "object",
                "properties": {"city": {"type": "string"}, "units": {"type": "string"}},
                "required": ["city", "units"],
            })
        );
        let text = serde_json::to_string(&tool).unwrap();
        assert_eq!(serde_json::from_str::<Tool>(&text).unwrap(), tool);
    }

    #[test]
    fn preset_values_win_and_have_the_type_of_the_schema() {
        let tool = tool(&[
            ("days", PresetValue::Text("3".into())),
            ("units", PresetValue::Template("{{ .Query.units }} units".into())),
            ("city", PresetValue::QueryParameter("town".into())),
        ]);
        let query = [("units", "metric"), ("town", "Paris")];
        let query = query.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mut arguments = json!({"city": "Rome", "more": 1});
        tool.fill_presets(&mut arguments, &query).unwrap();
        assert_eq!(arguments, json!({"city": "Paris", "more": 1, "days": 3, "units": "metric units"}));
        let missing: Vec<_> = tool.missing_presets(&BTreeMap::new()).collect();
        assert_eq!(missing, ["units", "town"]);
    }

    #[test]
    fn a_value_of_another_type_is_a_failure_that_names_the_parameter() {
        let tool = tool(&[("days", PresetValue::Text("three".into()))]);
        let message = tool.fill_presets(&mut json!({}), &BTreeMap::new()).unwrap_err();
        assert!(message.contains("`days`"), "{message}");
    }

    #[test]
    fn only_parameters_of_the_query_may_appear_in_a_template() {
        assert!(parse_template("{{ .Query.a }} {{.Query.b}}").is_ok());
        for text in ["{{.a}}", "{{.Query.}}", "{{.Query.a.b}}", "{{.Secret.a}}"] {
            assert!(parse_template(text).is_err(), "{text}");
        }
    }
}
