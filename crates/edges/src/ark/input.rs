//! What a query asks: one text with places for parameters, or a conversation in OpenAI's chat messages.

use std::collections::BTreeMap;

use bosun_core::{
    message::{self, MessageFaults},
    schema::path::below,
    template,
    tool::ConfigRef,
};
use bosun_engine::{Input, parameters::Parameter};
use serde_json::Value;

use crate::http::{
    error::{Code, clip},
    json::{Findings, Object, kind_of},
};

pub(super) fn read(fields: &mut Object, findings: &mut Findings) -> Option<Input> {
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

fn read_text(fields: &mut Object, findings: &mut Findings) -> Option<Input> {
    let path = fields.path_of("input");
    let input = fields.text("input", findings)?;
    if input.trim().is_empty() {
        findings.fault(path, "empty", "must not be empty");
    }
    Some(Input::Text(input))
}

fn read_messages(fields: &mut Object, findings: &mut Findings) -> Option<Input> {
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

/// The values for the places in the input and in the agent's prompt.
pub(super) fn read_parameters(fields: &mut Object, findings: &mut Findings) -> BTreeMap<String, Parameter> {
    let path = fields.path_of("parameters");
    let mut read = BTreeMap::new();
    let items = fields.list("parameters", findings).unwrap_or_default();
    findings.each(&path, items, |findings, place, item| {
        let Some(mut parameter) = Object::at(place, item, findings) else { return };
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

fn read_parameter(parameter: &mut Object, findings: &mut Findings) -> Option<(String, Parameter)> {
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
        (Some(Value::String(value)), None) => Some(Parameter::Value(value)),
        (None, Some(reference)) => read_reference(reference, findings).map(Parameter::ConfigMap),
        (Some(_), Some(reference)) => {
            findings.fault(path, "value_twice", "stands beside `valueFrom`: leave one of them out");
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

/// Places of ARK's that a query's parameter cannot come from, and why.
const UNSERVED: &[(&str, &str)] = &[
    (
        "secretKeyRef",
        "is not served in a query: a parameter is read by the model, and by everybody who may see the query",
    ),
    ("queryParameterRef", "is not served in a query: it is the query's own parameters that it would refer to"),
    ("serviceRef", "is not served: there are no services without a cluster; write the address as `value`"),
];

/// Where a value is kept: in a config map of the query's namespace, and nowhere else.
fn read_reference(mut from: Object, findings: &mut Findings) -> Option<ConfigRef> {
    let mut refused = false;
    for (kind, why) in UNSERVED {
        let path = from.path_of(kind);
        if from.take(kind).is_some() {
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
    let mut reference = reference?;
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
