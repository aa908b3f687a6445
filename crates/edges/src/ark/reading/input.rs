//! The input of a query: one text, which may be a template, or a conversation in OpenAI's chat messages.

use std::collections::BTreeMap;

use bosun_core::{message, template, tool::ConfigRef};
use bosun_engine::{Input, parameters::QueryParameter};
use bosun_reading::{
    Fault, FaultClass, Field, FieldTable,
    table::{flag_schema, object_schema, text_schema},
};
use serde_json::{Value, json};

use crate::http::{error::clip, report::BodyFields};

const PARAMETER: FieldTable = &[
    Field::new("name", || json!({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"})),
    Field::new("value", text_schema),
    Field::new("valueFrom", || object_schema(VALUE_FROM, &["configMapKeyRef"])),
];
const VALUE_FROM: FieldTable = &[Field::new("configMapKeyRef", || object_schema(CONFIG_MAP_KEY, &["name", "key"]))];
const CONFIG_MAP_KEY: FieldTable =
    &[Field::new("name", text_schema), Field::new("key", text_schema), Field::new("optional", flag_schema)];

/// An input, described.
pub(crate) fn schema() -> Value {
    // A chat message as OpenAI has it, with text only; `bosun_core::message` reads it.
    let message = json!({
        "type": "object",
        "required": ["role"],
        "properties": {
            "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
            "content": {"type": ["string", "array", "null"]},
            "tool_calls": {"type": "array", "items": {"type": "object"}},
            "tool_call_id": {"type": "string"},
        },
    });
    json!({"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": message, "minItems": 1}]})
}

/// A parameter, described.
pub(crate) fn parameter_schema() -> Value {
    let mut schema = object_schema(PARAMETER, &["name"]);
    schema["oneOf"] = json!([{"required": ["value"]}, {"required": ["valueFrom"]}]);
    schema
}

pub(crate) fn read(fields: &BodyFields<'_>) -> Option<Input> {
    let is_conversation = match fields.text("type").as_deref() {
        None | Some("user") => false,
        Some("messages") => true,
        Some(other) => {
            let message = format!("must be `user` or `messages`, not `{}`", clip(other));
            fields.reject("type", "unknown_type", message);
            false
        }
    };
    if !fields.has("input") {
        fields.reject("input", "missing", "is missing: what should the agent do?");
        return None;
    }
    if is_conversation { read_messages(fields) } else { read_text(fields) }
}

fn read_text(fields: &BodyFields<'_>) -> Option<Input> {
    let input = fields.text("input")?;
    if input.trim().is_empty() {
        fields.reject("input", "empty", "must not be empty");
    }
    Some(Input::Text(input))
}

fn read_messages(fields: &BodyFields<'_>) -> Option<Input> {
    let report = fields.report();
    match message::read(&fields.items("input")?) {
        Ok(read) => {
            read.warnings.into_iter().for_each(|warning| report.note(warning));
            report.omit_warnings(read.warnings_omitted);
            Some(Input::Messages(read.messages))
        }
        Err(faults) => {
            report.omit(faults.omitted());
            let path = fields.path_of("input");
            for fault in faults.into_listed() {
                report.add(Fault { path: path.join(fault.path.as_str()), ..fault });
            }
            None
        }
    }
}

/// The parameters of the templates: the input, and the agent's prompt.
pub(crate) fn read_parameters(fields: &BodyFields<'_>) -> BTreeMap<String, QueryParameter> {
    let mut read = BTreeMap::new();
    fields.each_object("parameters", |parameter| {
        let parameter = parameter.with_table(PARAMETER);
        if let Some((name, value)) = read_parameter(&parameter)
            && read.insert(name.clone(), value).is_some()
        {
            parameter.reject("name", "duplicate_name", format!("`{}` appears twice", clip(&name)));
        }
        parameter.finish();
    });
    read
}

fn read_parameter(parameter: &BodyFields<'_>) -> Option<(String, QueryParameter)> {
    let name = required(parameter, "name");
    if name.as_deref().is_some_and(|name| !template::is_name(name)) {
        let message = "must be letters, digits and `_`, and not begin with a digit";
        parameter.reject("name", "invalid_name", message);
    }
    let reference = parameter.fields("valueFrom");
    let value = match (parameter.get("value"), reference) {
        (Some(_), Some(reference)) => {
            parameter.reject("value", "value_twice", "is given next to `valueFrom`: leave one of them out");
            read_reference(reference);
            None
        }
        (Some(value), None) => parameter.text_of(value, "value").map(QueryParameter::Value),
        (None, Some(reference)) => read_reference(reference).map(QueryParameter::ConfigMap),
        (None, None) => {
            parameter.reject("value", "missing", "is missing");
            None
        }
    };
    Some((name?, value?))
}

/// A required text.
fn required(fields: &BodyFields<'_>, name: &str) -> Option<String> {
    if !fields.has(name) {
        fields.reject(name, "missing", "is missing");
    }
    fields.text(name)
}

/// Sources of ARK's that a query's parameter cannot come from, and why.
const UNSERVED: &[(&str, &str)] = &[
    (
        "secretKeyRef",
        "is not served in a query: a parameter is read by the model, and by every caller that may see the query",
    ),
    ("queryParameterRef", "is not served in a query: it is the query's own parameters that it would refer to"),
    ("serviceRef", "is not served: there are no services without a cluster; write the address as `value`"),
];

/// The source of a value: a config map of the query's namespace, and nothing else.
fn read_reference(from: BodyFields<'_>) -> Option<ConfigRef> {
    let from = from.with_table(VALUE_FROM);
    let mut refused = false;
    for (kind, why) in UNSERVED {
        if from.discard(kind).is_some_and(|value| !value.is_null()) {
            from.refuse(FaultClass::Unserved, kind, "unsupported_field", *why);
            refused = true;
        }
    }
    let is_missing = !from.has("configMapKeyRef");
    let reference = from.fields("configMapKeyRef");
    from.finish();
    if is_missing && !refused {
        let message = "is missing: a parameter's `valueFrom` is a `configMapKeyRef{name, key}`";
        from.reject("configMapKeyRef", "missing", message);
    }
    let reference = reference?.with_table(CONFIG_MAP_KEY);
    let (name, key) = (required(&reference, "name"), required(&reference, "key"));
    let optional = reference.bool("optional").unwrap_or_default();
    reference.finish();
    Some(ConfigRef { name: name?, key: key?, optional }).filter(|_| !refused)
}
