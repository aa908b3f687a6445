//! References by name: to a model, to a memory.
//!
//! ARK writes `{name, namespace?}`; the name alone is accepted as well. What is in another namespace belongs to
//! others, so a namespace that is not the query's own is refused.

use bosun_core::Namespace;
use bosun_reading::{
    FaultClass, Field, FieldTable,
    table::{filled_text_schema, object_schema, text_schema},
};
use serde_json::{Value, json};

use crate::http::report::BodyFields;

const REFERENCE: FieldTable = &[Field::new("name", filled_text_schema), Field::new("namespace", text_schema)];

/// A reference, described.
pub(crate) fn schema() -> Value {
    json!({"anyOf": [filled_text_schema(), object_schema(REFERENCE, &["name"])]})
}

/// The name in `field`, alone or in an object; `plural` is the word of faults for its kind.
pub(crate) fn read(plural: &str, fields: &BodyFields<'_>, field: &str, namespace: &Namespace) -> Option<String> {
    let reference = match fields.get(field)? {
        Value::String(name) if !name.is_empty() => return Some(name),
        value => fields.inner(value, field)?.with_table(REFERENCE),
    };
    let missing = !reference.has("name");
    let name = reference.text("name").filter(|name| !name.is_empty());
    if missing {
        reference.reject("name", "missing", "is missing");
    }
    refuse_other_namespace(plural, &reference, namespace);
    reference.finish();
    name
}

/// Refuses a `namespace` that is not the query's own. Kubernetes writes an absent one as an empty text.
pub(super) fn refuse_other_namespace(plural: &str, reference: &BodyFields<'_>, namespace: &Namespace) {
    if reference.text("namespace").is_some_and(|other| !other.is_empty() && other != namespace.as_str()) {
        let message = format!("{plural} of another namespace cannot be used; this query is in {namespace}");
        reference.refuse(FaultClass::Unserved, "namespace", "other_namespace", message);
    }
}
