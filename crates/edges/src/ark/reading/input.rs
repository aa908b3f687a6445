//! The input of a query: one text, which may be a template, or a conversation in OpenAI's chat messages.

use std::collections::BTreeMap;

use bosun_core::{
    message::{self, MessageFaults},
    schema::path::below,
    template,
    tool::ConfigRef,
};
use bosun_engine::{Input, parameters::QueryParameter};
use serde_json::{Value, json};

use super::fields::{flag_schema, object_schema, text_schema};
use crate::http::{
    error::{Code, clip},
    json::{BodyField, FieldTable, Object, RequestFindings, kind_of},
};

const PARAMETER: FieldTable = &[
    BodyField { name: "name", schema: || json!({"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}) },
    BodyField { name: "value", schema: text_schema },
    BodyField { name: "valueFrom", schema: || object_schema(VALUE_FROM, &["configMapKeyRef"]) },
];
const VALUE_FROM: FieldTable =
    &[BodyField { name: "configMapKeyRef", schema: || object_schema(CONFIG_MAP_KEY, &["name", "key"]) }];
const CONFIG_MAP_KEY: FieldTable = &[
    BodyField { name: "name", schema: text_schema },
    BodyField { name: "key", schema: text_schema },
    BodyField { name: "optional", schema: flag_schema },
];

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

pub(crate) fn read(fields: &mut Object, findings: &mut RequestFindings) -> Option<Input> {
    let path = fields.path_of("type");
    let kind = fields.text("type", findings);
    let is_conversation = match kind.as_deref() {
        None | Some("user") => false,
        Some("messages") => true,
        Some(other) => {
            let message = format!("must be `user` or `messages`, not `{}`", clip(other));
            findings.fault(path, "unknown_type", message);
            false
        }
    };
    let path = fields.path_of("input");
    if !fields.has("input") {
        findings.fault(path, "missing", "is missing: what should the agent do?");
        return None;
    }
    if is_conversation { read_messages(fields, findings) } else { read_text(fields, findings) }
}

fn read_text(fields: &mut Object, findings: &mut RequestFindings) -> Option<Input> {
    let path = fields.path_of("input");
    let input = fields.text("input", findings)?;
    if input.trim().is_empty() {
        findings.fault(path, "empty", "must not be empty");
    }
    Some(Input::Text(input))
}

fn read_messages(fields: &mut Object, findings: &mut RequestFindings) -> Option<Input> {
    let path = fields.path_of("input");
    let items = fields.list("input", findings)?;
    match message::read(&items) {
        Ok(read) => {
            read.warnings.into_iter().for_each(|warning| findings.warn(warning));
            findings.omit_warnings(read.warnings_omitted);
            Some(Input::Messages(read.messages))
        }
        Err(MessageFaults { faults, omitted }) => {
            findings.omit(omitted);
            for fault in faults {
                let class = if fault.unsupported { Code::UnsupportedField } else { Code::InvalidRequest };
                findings.refuse(class, below(&path, &fault.path), fault.code, fault.message);
            }
            None
        }
    }
}

/// The parameters of the templates: the input, and the agent's prompt.
pub(crate) fn read_parameters(fields: &mut Object, findings: &mut RequestFindings) -> BTreeMap<String, QueryParameter> {
    let path = fields.path_of("parameters");
    let mut read = BTreeMap::new();
    let items = fields.list("parameters", findings).unwrap_or_default();
    findings.each(&path, items, |findings, place, item| {
        let Some(parameter) = Object::at(place, item, findings) else { return };
        let mut parameter = parameter.with_fields(PARAMETER);
        if let Some((name, value)) = read_parameter(&mut parameter, findings)
            && read.insert(name.clone(), value).is_some()
        {
            let path = parameter.path_of("name");
            findings.fault(path, "duplicate_name", format!("`{}` appears twice", clip(&name)));
        }
        parameter.finish(findings);
    });
    read
}

fn read_parameter(parameter: &mut Object, findings: &mut RequestFindings) -> Option<(String, QueryParameter)> {
    let (missing, path) = (!parameter.has("name"), parameter.path_of("name"));
    let name = parameter.text("name", findings);
    if missing {
        findings.fault(path, "missing", "is missing");
    } else if name.as_deref().is_some_and(|name| !template::is_name(name)) {
        findings.fault(path, "invalid_name", "must be letters, digits and `_`, and not begin with a digit");
    }
    let path = parameter.path_of("value");
    let reference = parameter.object("valueFrom", findings);
    let value = match (parameter.take("value"), reference) {
        (Some(Value::String(value)), None) => Some(QueryParameter::Value(value)),
        (None, Some(reference)) => read_reference(reference, findings).map(QueryParameter::ConfigMap),
        (Some(_), Some(reference)) => {
            findings.fault(path, "value_twice", "is given beside `valueFrom`: leave one of them out");
            read_reference(reference, findings);
            None
        }
        (Some(other), None) => {
            findings.fault(path, "wrong_type", format!("must be a string, not {}", kind_of(&other)));
            None
        }
        (None, None) => {
            findings.fault(path, "missing", "is missing");
            None
        }
    };
    Some((name?, value?))
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

/// Where a value is kept: in a config map of the query's namespace, and nowhere else.
fn read_reference(from: Object, findings: &mut RequestFindings) -> Option<ConfigRef> {
    let mut from = from.with_fields(VALUE_FROM);
    let mut refused = false;
    for (kind, why) in UNSERVED {
        let path = from.path_of(kind);
        if from.discard(kind).is_some_and(|value| !value.is_null()) {
            findings.refuse(Code::UnsupportedField, path, "unsupported_field", *why);
            refused = true;
        }
    }
    let path = from.path_of("configMapKeyRef");
    let (is_missing, reference) = (!from.has("configMapKeyRef"), from.object("configMapKeyRef", findings));
    from.finish(findings);
    if is_missing && !refused {
        findings.fault(path, "missing", "is missing: a parameter's `valueFrom` is a `configMapKeyRef{name, key}`");
    }
    let mut reference = reference?.with_fields(CONFIG_MAP_KEY);
    let mut required = |field: &str| {
        if !reference.has(field) {
            findings.fault(reference.path_of(field), "missing", "is missing");
        }
        reference.text(field, findings)
    };
    let (name, key) = (required("name"), required("key"));
    let optional = reference.flag("optional", findings).unwrap_or_default();
    reference.finish(findings);
    Some(ConfigRef { name: name?, key: key?, optional }).filter(|_| !refused)
}
