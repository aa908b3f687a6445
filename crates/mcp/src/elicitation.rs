//! Answers to a server that asks for a user's input in the middle of a call.
//!
//! There is no user to ask. Unless the operator says otherwise (`elicitation: defaults`), such requests are refused as
//! unsupported. With it, a form is accepted with the default values of its fields (SEP-1034) if every required field has
//! one, and declined otherwise. Sampling, roots and URLs that a user should open are never answered.

use std::collections::BTreeMap;

use bosun_adapters::manifests::ElicitationPolicy;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequests, InputResponses};
use serde_json::{Map, Value, json};

use crate::error::McpError;

const NO_USER: &str = "the tool asks for more input from a user, which this server cannot provide";

/// The answer to one request.
pub(crate) fn answer(request: &ElicitRequestParams) -> ElicitResult {
    let defaults = match request {
        ElicitRequestParams::FormElicitationParams { requested_schema, .. } => defaults(&json!(requested_schema)),
        _ => None,
    };
    match defaults {
        Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content)),
        None => ElicitResult::new(ElicitationAction::Decline),
    }
}

/// The answers to the requests that the result of a call consists of (SEP-2322).
pub(crate) fn answer_all(policy: ElicitationPolicy, requests: &InputRequests) -> Result<InputResponses, McpError> {
    let mut responses = BTreeMap::new();
    for (key, request) in requests {
        let InputRequest::Elicitation(request) = request else {
            return Err(McpError::Unsupported(NO_USER.to_owned()));
        };
        if policy == ElicitationPolicy::Refuse {
            return Err(McpError::Unsupported(NO_USER.to_owned()));
        }
        responses.insert(key.clone(), json!(answer(&request.params)));
    }
    Ok(responses)
}

/// The default values of a form; `None` if they do not fill it: a required field lacks one, or all do.
fn defaults(schema: &Value) -> Option<Map<String, Value>> {
    let fields = schema["properties"].as_object()?;
    let default = |(name, field): (&String, &Value)| Some((name.clone(), field.get("default")?.clone()));
    let content: Map<String, Value> = fields.iter().filter_map(default).collect();
    let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    (!content.is_empty() && required.all(|name| content.contains_key(name))).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(schema: Value) -> ElicitRequestParams {
        serde_json::from_value(json!({"mode": "form", "message": "Your name?", "requestedSchema": schema})).unwrap()
    }

    #[track_caller]
    fn check(request: &ElicitRequestParams, expect: Value) {
        assert_eq!(json!(answer(request)), expect);
    }

    #[test]
    fn a_form_is_accepted_with_the_defaults_that_fill_it() {
        let fields = json!({
            "name": {"type": "string", "default": "John"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "away"], "default": "active"},
            "verified": {"type": "boolean", "default": true},
            "note": {"type": "string"},
        });
        let content = json!({"name": "John", "age": 30, "score": 95.5, "status": "active", "verified": true});
        let required = json!({"type": "object", "properties": fields, "required": ["name"]});
        check(&form(required), json!({"action": "accept", "content": content}));
        check(&form(json!({"type": "object", "properties": fields})), json!({"action": "accept", "content": content}));
    }

    #[test]
    fn what_defaults_do_not_fill_is_declined() {
        let pin = json!({"pin": {"type": "string"}, "days": {"type": "integer", "default": 3}});
        check(&form(json!({"type": "object", "properties": pin, "required": ["pin"]})), json!({"action": "decline"}));
        let confirm = json!({"confirmed": {"type": "boolean"}});
        check(&form(json!({"type": "object", "properties": confirm})), json!({"action": "decline"}));
        let url = json!({"mode": "url", "message": "Log in", "url": "https://example.com", "elicitationId": "1"});
        check(&serde_json::from_value(url).unwrap(), json!({"action": "decline"}));
    }

    #[test]
    fn the_requests_of_a_result_are_answered_by_the_policy_and_others_never() {
        let params = json!({"mode": "form", "message": "Sure?",
            "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean", "default": false}}}});
        let asked = |request: Value| serde_json::from_value::<InputRequests>(json!({"a": request})).unwrap();
        let form = asked(json!({"method": "elicitation/create", "params": params}));
        let roots = asked(json!({"method": "roots/list", "params": {}}));
        let answered = answer_all(ElicitationPolicy::Defaults, &form).unwrap();
        assert_eq!(json!(answered), json!({"a": {"action": "accept", "content": {"sure": false}}}));
        assert!(answer_all(ElicitationPolicy::Refuse, &form).is_err());
        assert!(answer_all(ElicitationPolicy::Defaults, &roots).is_err());
    }
}
