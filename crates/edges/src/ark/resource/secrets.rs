//! Secrets that a manifest contains instead of referring to them.
//!
//! They are never shown. What is shown in their place is refused when it comes back, so that a client
//! that reads, changes and writes a resource does not overwrite a key with it. [`bosun_core::audit`] decides what looks
//! like a key, here as in errors and in the audit log.

use bosun_core::audit::{begins_with_url, hide_in_urls, is_secret_name};
use serde_json::Value;

use crate::http::error_echo::HIDDEN;

/// Schemas describe values and contain none, and texts for people or models are meant to be read.
const SHOWN: &[&str] = &["inputSchema", "outputSchema", "prompt", "description"];

/// Replaces the value under a name that means a secret, the text of every header, since that is where other keys are,
/// and user info and query parameters of URLs.
pub(super) fn hide(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // `{name: api_key, value: …}`
            let is_named_secret = members.get("name").and_then(Value::as_str).is_some_and(is_secret_name);
            for (name, value) in members.iter_mut() {
                match name.as_str() {
                    name if SHOWN.contains(&name) || is_reference(name, value) => {}
                    "headers" | "env" => hide_headers(value),
                    "value" | "default" if is_named_secret => hide_all(value),
                    name if is_secret_name(name) => hide_all(value),
                    _ => hide(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::String(text) if begins_with_url(text) => *text = hide_in_urls(text, HIDDEN).into_owned(),
        _ => {}
    }
}

/// `secretKeyRef` and its like say where a value is, and not what it is.
fn is_reference(name: &str, value: &Value) -> bool {
    name.ends_with("Ref") && value.is_object()
}

/// A list of `{name, value}`, or an object of texts.
fn hide_headers(headers: &mut Value) {
    match headers {
        Value::Array(headers) => headers.iter_mut().filter_map(|header| header.get_mut("value")).for_each(hide_all),
        other => hide_all(other),
    }
}

/// Every text and number, but for references.
fn hide_all(value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::String(_) | Value::Number(_) => *value = Value::from(HIDDEN),
        Value::Array(items) => items.iter_mut().for_each(hide_all),
        Value::Object(members) => {
            let values = members.iter_mut().filter(|(name, value)| !is_reference(name, value));
            values.for_each(|(_, value)| hide_all(value));
        }
    }
}

/// Whether what was hidden has come back: a whole text, or a part of a URL.
pub(super) fn is_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => text == HIDDEN || (text.contains(HIDDEN) && begins_with_url(text)),
        Value::Array(items) => items.iter().any(is_hidden),
        Value::Object(members) => members.values().any(is_hidden),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_headers_are_hidden_and_references_are_not() {
        let reference = json!({"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
        let mut spec = json!({
            "model": {"value": "gpt"},
            "config": {"openai": {
                "apiKey": {"value": "sk-1"},
                "baseUrl": {"value": "https://x/v1?api-version=3&key=sk-4"},
                "headers": [{"name": "a", "value": {"value": "sk-2"}}, {"name": "b", "value": reference}],
                "properties": {"api_key": {"value": "sk-5"}, "token": reference, "temperature": {"value": "0.5"}},
            }, "bedrock": {"secretAccessKey": "sk-3"}},
            "parameters": [{"name": "password", "value": "sk-6"}, {"name": "city", "value": "Rome"}],
            "inputSchema": {"properties": {"password": {"type": "string"}}},
            "prompt": "https://x?ref=1 is where it is",
            "address": {"value": "https://x?token=Token sk-7 \"sk-8\""},
        });
        hide(&mut spec);
        let text = spec.to_string();
        assert!(!text.contains("sk-"), "{text}");
        for shown in
            ["secretKeyRef", "https://x/v1?api-version=3&key=[hidden]", "gpt", "0.5", "Rome", "https://x?ref=1"]
        {
            assert!(text.contains(shown), "{shown} in {text}");
        }
        assert_eq!(spec["inputSchema"]["properties"]["password"]["type"], "string");
        assert_eq!(spec["config"]["openai"]["headers"][1]["value"], reference);
        assert_eq!(spec["config"]["openai"]["properties"]["token"], reference);
        assert!(is_hidden(&spec));
    }

    #[test]
    fn what_was_hidden_is_known_when_it_comes_back() {
        for back in [json!([HIDDEN]), json!({"a": "https://x?key=[hidden]"}), json!("https://[hidden]@x")] {
            assert!(is_hidden(&back), "{back}");
        }
        for other in [json!({"a": ["hidden", {"b": 1}]}), json!("the word [hidden]"), json!("https://x?a=b")] {
            assert!(!is_hidden(&other), "{other}");
        }
    }
}
