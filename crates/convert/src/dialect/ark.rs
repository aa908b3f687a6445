//! ARK's tool specification, as its converter writes it.

use bosun_core::{Binding, Tool};
use serde_json::{Map, Value, json};

/// A tool that the client runs has `executionMode`; ARK's own do not.
pub(super) fn specification(tool: &Tool) -> Value {
    let kind = if matches!(tool.binding, Binding::Builtin { .. }) { "builtin" } else { "custom" };
    let mut fields = Map::new();
    fields.insert("type".to_owned(), json!(kind));
    fields.insert("name".to_owned(), json!(tool.name));
    fields.insert("description".to_owned(), json!(tool.description));
    fields.insert("parameters".to_owned(), tool.parameters.as_ref().clone());
    if tool.is_external() {
        fields.insert("executionMode".to_owned(), json!("external"));
    }
    Value::Object(fields)
}
