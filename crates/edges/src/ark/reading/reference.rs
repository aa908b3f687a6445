//! References by name: to a model, to a memory.
//!
//! ARK writes `{name, namespace?}`; the name alone is accepted as well. What is in another namespace belongs to
//! others, so a namespace that is not the query's own is refused.

use bosun_core::Namespace;
use serde_json::{Value, json};

use super::fields::{filled_text_schema, object_schema, text_schema};
use crate::http::{
    error::Code,
    json::{BodyField, FieldTable, Object, RequestFindings},
};

const REFERENCE: FieldTable =
    &[BodyField { name: "name", schema: filled_text_schema }, BodyField { name: "namespace", schema: text_schema }];

/// A reference, described.
pub(crate) fn schema() -> Value {
    json!({"anyOf": [filled_text_schema(), object_schema(REFERENCE, &["name"])]})
}

/// The name at `path`; `plural` is what faults call things of its kind.
pub(crate) fn read(
    plural: &str,
    path: impl Into<String>,
    value: Value,
    namespace: &Namespace,
    findings: &mut RequestFindings,
) -> Option<String> {
    let mut reference = match value {
        Value::String(name) if !name.is_empty() => return Some(name),
        value => Object::at(path, value, findings)?.with_fields(REFERENCE),
    };
    let (missing, at) = (!reference.has("name"), reference.path_of("name"));
    let name = reference.text("name", findings).filter(|name| !name.is_empty());
    if missing {
        findings.fault(at, "missing", "is missing");
    }
    let at = reference.path_of("namespace");
    if reference.text("namespace", findings).is_some_and(|other| other != namespace.as_str()) {
        let message = format!("{plural} of another namespace cannot be used; this query is in {namespace}");
        findings.refuse(Code::UnsupportedField, at, "other_namespace", message);
    }
    reference.finish(findings);
    name
}
