//! The bodies of new queries and evaluations, whose fields are next to each other or inside `spec`.
//!
//! The fields are described once, as a component; the body refers to it in both of its forms.

use bosun_reading::{FieldTable, table::properties};
use serde_json::{Map, Value, json};

use crate::ark::{evaluation::reading as evaluation, reading::request as query};

/// The fields of a document that never are inside `spec`.
const ENVELOPE: &[&str] = &["apiVersion", "kind", "metadata", "spec"];

/// A body, with the component that describes its `spec`.
struct AskedBody {
    component: &'static str,
    table: FieldTable,
    /// The keywords of the schema that say which fields must be there.
    required: fn() -> Value,
}

const QUERY: AskedBody = AskedBody { component: "QuerySpecBody", table: query::FIELDS, required: query::required };
const EVALUATION: AskedBody =
    AskedBody { component: "EvaluationSpecBody", table: evaluation::FIELDS, required: evaluation::required };

impl AskedBody {
    fn spec(&self) -> Value {
        let mut spec = (self.required)();
        let mut fields = properties(self.table);
        fields.retain(|name, _| !ENVELOPE.contains(&name.as_str()));
        spec["type"] = json!("object");
        spec["properties"] = fields.into();
        spec
    }

    fn body(&self) -> Value {
        let reference = format!("#/components/schemas/{}", self.component);
        let mut fields = Map::new();
        for field in self.table {
            let schema = match field.name {
                "spec" => json!({"$ref": reference}),
                name if ENVELOPE.contains(&name) => (field.schema)(),
                name => json!({"$ref": format!("{reference}/properties/{name}")}),
            };
            fields.insert(field.name.to_owned(), schema);
        }
        json!({"type": "object", "properties": fields, "anyOf": [(self.required)(), {"required": ["spec"]}]})
    }
}

/// The `spec` of each body, which the bodies refer to.
pub(super) fn specs() -> impl Iterator<Item = (String, Value)> {
    [QUERY, EVALUATION].into_iter().map(|body| (body.component.to_owned(), body.spec()))
}

pub(super) fn query() -> Value {
    QUERY.body()
}

pub(super) fn evaluation() -> Value {
    EVALUATION.body()
}
