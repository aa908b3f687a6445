//! The echo of a request body in an error, with secrets hidden.
//!
//! ARK's API repeats an invalid body in its error. Clients write such answers into logs, so possible secrets are
//! hidden, whatever the fault: everything under a name that means a secret, everything in `headers` and `config` except
//! fields that are known to be harmless, values of parameters whose name means a secret, user info and query parameters
//! of URLs, and text that looks like a key. [`bosun_core::audit`] decides what looks like a key, here as in resources
//! and in the audit log. An echo is bounded: a large body is replaced by its size.

use bosun_core::{
    audit::{hide_in_urls, is_secret_name, redact_text},
    json::compact,
};
use serde_json::{Map, Value};

/// The placeholder of a hidden value. It is refused when it comes back as a key of a resource.
pub(crate) const HIDDEN: &str = "[hidden]";
/// Maximum size of an echoed body, and of all echoed parts together.
pub(crate) const MOST_BYTES: usize = 16 * 1024;

/// Names of this API that only sound like secrets.
const HARMLESS: &[&str] = &["sessionId"];
/// Members that hold secrets, under any name.
const GUARDED: &[&str] = &["headers", "config"];
/// Members below those that are shown.
const SHOWN_IN_GUARDED: &[&str] =
    &["name", "baseUrl", "apiVersion", "region", "type", "description", "maxMessages", "maxTokens"];
/// Objects that say where a value is, and not what it is.
const REFERENCES: &[&str] = &["secretKeyRef", "configMapKeyRef", "queryParameterRef", "serviceRef"];
const SHOWN_IN_REFERENCES: &[&str] = &["name", "namespace", "key", "optional", "port", "path"];

/// A body with possible secrets hidden.
#[derive(Debug)]
pub(crate) struct Echo {
    body: Value,
    /// The size that its parts may still have.
    left: usize,
}

impl Echo {
    pub(crate) fn new(sent: &Value) -> Self {
        Self { body: fit(copy(sent), MOST_BYTES), left: MOST_BYTES }
    }

    /// The value at a path of the body, or the enclosing value if the path does not exist.
    pub(crate) fn part(&mut self, steps: &[Value]) -> Value {
        let mut part = &self.body;
        for step in steps {
            let inner = match (part, step) {
                (Value::Object(members), Value::String(name)) => members.get(name),
                (Value::Array(items), Value::Number(index)) => {
                    index.as_u64().and_then(|index| items.get(usize::try_from(index).ok()?))
                }
                _ => None,
            };
            let Some(inner) = inner else { break };
            part = inner;
        }
        let part = fit(part.clone(), self.left);
        self.left = self.left.saturating_sub(compact(&part).len());
        part
    }

    pub(crate) fn into_body(self) -> Value {
        self.body
    }
}

/// A value, or its size if that is more than `most`.
fn fit(value: Value, most: usize) -> Value {
    let size = compact(&value).len();
    if size > most { Value::from(format!("[{size} bytes]")) } else { value }
}

fn copy(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(text) => Value::from(copy_text(text)),
        Value::Array(items) => items.iter().map(copy).collect(),
        Value::Object(members) => {
            // `{name: api_key, value: …}`
            let is_named_secret = members.get("name").and_then(Value::as_str).is_some_and(is_secret_name);
            let copied = members.iter().map(|(name, value)| {
                let value = if is_named_secret && matches!(name.as_str(), "value" | "default") {
                    hide(value)
                } else {
                    member(name, value)
                };
                (copy_text(name), value)
            });
            Value::Object(copied.collect::<Map<_, _>>())
        }
    }
}

fn member(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(members) if REFERENCES.contains(&name) => only(members, SHOWN_IN_REFERENCES),
        _ if GUARDED.contains(&name) => hide(value),
        _ if is_secret_name(name) && !HARMLESS.contains(&name) => hide(value),
        _ => copy(value),
    }
}

/// The shape of a value, with the values that cannot be keys: `null` and booleans.
fn hide(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Number(_) | Value::String(_) => Value::from(HIDDEN),
        Value::Array(items) => items.iter().map(hide).collect(),
        Value::Object(members) => {
            let hidden = members.iter().map(|(name, value)| {
                let value = match value {
                    Value::Object(members) if REFERENCES.contains(&name.as_str()) => only(members, SHOWN_IN_REFERENCES),
                    _ if SHOWN_IN_GUARDED.contains(&name.as_str()) => copy(value),
                    _ => hide(value),
                };
                (copy_text(name), value)
            });
            Value::Object(hidden.collect::<Map<_, _>>())
        }
    }
}

/// An object of which only the `shown` members are known not to be keys.
fn only(members: &Map<String, Value>, shown: &[&str]) -> Value {
    let copied = members.iter().map(|(name, value)| {
        let value = if shown.contains(&name.as_str()) { copy(value) } else { hide(value) };
        (copy_text(name), value)
    });
    Value::Object(copied.collect::<Map<_, _>>())
}

/// A text with keys hidden, also those in URLs.
fn copy_text(text: &str) -> String {
    redact_text(&hide_in_urls(text, HIDDEN)).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(sent: Value, expect: Value) {
        assert_eq!(Echo::new(&sent).into_body(), expect);
    }

    #[test]
    fn a_body_without_keys_is_shown_as_it_was_sent() {
        let sent = json!({
            "name": "q", "target": {"type": "agent", "name": "a"}, "sessionId": "s-1", "maxTokens": 5,
            "parameters": [{"name": "who", "value": "Ada"}], "stream": true, "memory": null,
        });
        check(sent.clone(), sent);
    }

    #[test]
    fn keys_are_hidden_wherever_they_are() {
        let key = "k-9";
        check(json!({"apiKey": key}), json!({"apiKey": HIDDEN}));
        check(json!({"api_key": [key, {"value": key}]}), json!({"api_key": [HIDDEN, {"value": HIDDEN}]}));
        check(json!({"password": 12345}), json!({"password": HIDDEN}));
        check(json!({"config": key}), json!({"config": HIDDEN}));
        check(
            json!({"config": {"openai": {"baseUrl": "https://x/v1", "key": key, "properties": {"user": {"value": key}}}}}),
            json!({"config": {"openai": {"baseUrl": "https://x/v1", "key": HIDDEN, "properties": {"user": {"value": HIDDEN}}}}}),
        );
        check(
            json!({"headers": [{"name": "x-auth", "value": key}, key, {"x-auth": key}]}),
            json!({"headers": [{"name": "x-auth", "value": HIDDEN}, HIDDEN, {"x-auth": HIDDEN}]}),
        );
        check(json!({"headers": {"x-auth": key}}), json!({"headers": {"x-auth": HIDDEN}}));
        check(
            json!({"parameters": [{"name": "api_token", "value": {"deep": key}}]}),
            json!({"parameters": [{"name": "api_token", "value": {"deep": HIDDEN}}]}),
        );
        check(json!({"address": format!("https://x/mcp?t={key}")}), json!({"address": "https://x/mcp?t=[hidden]"}));
        check(json!({"address": format!("https://u:{key}@x/mcp")}), json!({"address": "https://[hidden]@x/mcp"}));
        check(json!({"input": format!("with Bearer {key}")}), json!({"input": "with Bearer [redacted]"}));
        check(json!({"secretKeyRef": key}), json!({"secretKeyRef": HIDDEN}));
        check(
            json!({"config": {"openai": {"apiKey": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "value": key}}}}}}),
            json!({"config": {"openai": {"apiKey": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "value": HIDDEN}}}}}}),
        );
    }

    #[test]
    fn a_part_is_the_value_at_a_path_or_the_one_that_encloses_it() {
        let mut echo = Echo::new(&json!({"tools": [{"name": "a"}, 5]}));
        assert_eq!(echo.part(&[json!("tools"), json!(1)]), json!(5));
        assert_eq!(echo.part(&[json!("tools"), json!(0), json!("type")]), json!({"name": "a"}));
        assert_eq!(echo.part(&[json!("tools"), json!("name")]), json!([{"name": "a"}, 5]));
        assert_eq!(echo.part(&[]), json!({"tools": [{"name": "a"}, 5]}));
    }

    #[test]
    fn an_echo_is_short() {
        let items: Vec<_> = (0..MOST_BYTES).collect();
        let mut echo = Echo::new(&json!(items));
        let size = json!(items).to_string().len();
        assert_eq!(echo.part(&[json!(3)]), json!(format!("[{size} bytes]")));
        assert_eq!(echo.into_body(), json!(format!("[{size} bytes]")));
        // Many faults may point at one large part.
        let mut echo = Echo::new(&json!({"a": vec![1; 4_000]}));
        let shown: usize = (0..1_000).map(|_| echo.part(&[json!("a")]).to_string().len()).sum();
        assert!(shown < 2 * MOST_BYTES, "{shown}");
    }
}
