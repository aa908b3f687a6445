//! What a query refers to by name: a model, a memory.
//!
//! ARK writes `{name, namespace?}`; the name alone is taken as well. What is in another namespace belongs to
//! others, so a namespace that is not the query's own is refused.

use bosun_core::Namespace;
use serde_json::Value;

use crate::http::{
    error::Code,
    json::{Findings, Object},
};

/// The name that stands at `path`; `plural` is what faults call things of its kind.
pub(super) fn read(
    plural: &str,
    path: impl Into<String>,
    value: Value,
    namespace: &Namespace,
    findings: &mut Findings,
) -> Option<String> {
    let mut reference = match value {
        Value::String(name) if !name.is_empty() => return Some(name),
        value => Object::at(path, value, findings)?,
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
