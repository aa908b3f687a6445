//! Keys that somebody wrote into a manifest instead of referring to them.
//!
//! They are never shown. What is shown in their place is refused when it comes back, so that a client
//! that reads, changes and writes a resource does not overwrite a key with it.

use serde_json::Value;

use crate::http::echo::HIDDEN;

/// Fields whose text is a key.
const KEYS: &[&str] = &["apiKey", "accessKeyId", "secretAccessKey", "sessionToken"];

/// Replaces every key, and the text of every header, since that is where other keys are.
pub(super) fn hide(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match value {
                    _ if KEYS.contains(&name.as_str()) => hide_text(value),
                    Value::Array(headers) if name == "headers" => {
                        headers.iter_mut().filter_map(|header| header.get_mut("value")).for_each(hide_text);
                    }
                    _ => hide(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

/// A text, or the text of `{value: …}`; a reference stays as it is.
fn hide_text(value: &mut Value) {
    match value {
        Value::String(text) => HIDDEN.clone_into(text),
        Value::Object(members) => members.get_mut("value").into_iter().for_each(hide_text),
        _ => {}
    }
}

/// Whether what was hidden has come back.
pub(super) fn is_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => text == HIDDEN,
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
                "baseUrl": {"value": "https://x"},
                "headers": [{"name": "a", "value": {"value": "sk-2"}}, {"name": "b", "value": reference}],
            }, "bedrock": {"secretAccessKey": "sk-3"}},
        });
        hide(&mut spec);
        let text = spec.to_string();
        assert!(!text.contains("sk-"), "{text}");
        assert!(text.contains("secretKeyRef") && text.contains("https://x") && text.contains("gpt"), "{text}");
        assert!(is_hidden(&spec));
        assert!(!is_hidden(&json!({"a": ["hidden", {"b": 1}]})));
    }
}
