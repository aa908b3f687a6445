//! The `input` wrapper: tools whose arguments are all inside one object named `input`.
//!
//! It is recognised once, from the schema, and removed once, after the arguments have been validated. The runner of the
//! tool gets the inner object; error reports have paths that include `input`.
//!
//! ```
//! use bosun_core::tool::wrapper;
//! use serde_json::json;
//!
//! let parameters = json!({"type": "object", "properties": {"input": {
//!     "type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"],
//! }}});
//! assert_eq!(wrapper::unwrap(&parameters, json!({"input": {"to": "ada"}})), json!({"to": "ada"}));
//! assert_eq!(wrapper::require_input(&parameters.into())["required"], json!(["input"]));
//! ```

use std::sync::Arc;

use serde_json::{Map, Value, json};

const INPUT: &str = "input";

/// The schema inside the wrapper, if the parameters are exactly one object named `input`.
#[must_use]
pub fn inner_schema(parameters: &Value) -> Option<&Value> {
    let properties = parameters.get("properties")?.as_object()?;
    let inner = properties.get(INPUT).filter(|_| properties.len() == 1)?;
    let is_object = match inner.get("type") {
        Some(kind) => kind == "object",
        None => inner.get("properties").is_some(),
    };
    is_object.then_some(inner)
}

/// The arguments inside the wrapper; the arguments themselves if there is none. An absent `input` is an empty one.
#[must_use]
pub fn unwrap(parameters: &Value, arguments: Value) -> Value {
    if inner_schema(parameters).is_none() {
        return arguments;
    }
    match arguments {
        Value::Object(mut members) => members.shift_remove(INPUT).unwrap_or_else(|| Value::Object(Map::new())),
        other => other,
    }
}

/// The parameters with `input` among the required ones, if its object has required members: a call
/// without it lacks them all.
#[must_use]
pub fn require_input(parameters: &Arc<Value>) -> Arc<Value> {
    let inner_requires = inner_schema(parameters)
        .and_then(|inner| inner.get("required")?.as_array())
        .is_some_and(|names| !names.is_empty());
    let required = parameters.get("required").and_then(Value::as_array);
    if !inner_requires || required.is_some_and(|names| names.iter().any(|name| name == INPUT)) {
        return Arc::clone(parameters);
    }
    let mut amended = parameters.as_ref().clone();
    if let Value::Object(fields) = &mut amended {
        match fields.get_mut("required").and_then(Value::as_array_mut) {
            Some(names) => names.push(json!(INPUT)),
            None => _ = fields.insert("required".to_owned(), json!([INPUT])),
        }
    }
    Arc::new(amended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_email() -> Value {
        json!({"type": "object", "properties": {"input": {
            "type": "object",
            "properties": {"to": {"type": "string"}, "subject": {"type": "string"}},
            "required": ["to", "subject"],
        }}})
    }

    #[test]
    fn the_wrapper_is_one_object_named_input() {
        assert!(inner_schema(&send_email()).is_some());
        for other in [
            json!({"properties": {"input": {"type": "string"}}}),
            json!({"properties": {"input": {"type": "object"}, "dryRun": {"type": "boolean"}}}),
            json!({"properties": {"data": {"type": "object"}}}),
            json!({"properties": {}}),
            json!(true),
        ] {
            assert!(inner_schema(&other).is_none(), "{other}");
        }
    }

    #[test]
    fn the_wrapper_is_removed_once() {
        let arguments = json!({"input": {"input": {"to": "a"}}});
        assert_eq!(unwrap(&send_email(), arguments), json!({"input": {"to": "a"}}));
        assert_eq!(unwrap(&send_email(), json!({})), json!({}));
        assert_eq!(unwrap(&json!({"properties": {}}), json!({"input": 1})), json!({"input": 1}));
    }

    #[test]
    fn input_is_required_when_its_members_are() {
        let source = Arc::new(send_email());
        assert_eq!(require_input(&source)["required"], json!(["input"]));
        let amended = require_input(&source);
        assert!(Arc::ptr_eq(&require_input(&amended), &amended));
        let optional = Arc::new(json!({"properties": {"input": {"type": "object", "properties": {}}}}));
        assert!(Arc::ptr_eq(&require_input(&optional), &optional));
    }
}
