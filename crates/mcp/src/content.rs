//! The result of a tool, from MCP's content blocks to an outcome.
//!
//! One text is a text; structured content is itself; everything else is the list of its blocks. Binary data is
//! replaced by a mark with its type and size, and nothing is left out silently.

use bosun_core::{Outcome, machine::outcome_code, schema::Schema};
use serde_json::{Map, Value, json};

use crate::{definition::clip, redact::Redactor};

/// The longest message of a failure.
const LONGEST_MESSAGE: usize = 8 * 1024;
/// How many violations of a schema are listed.
const VIOLATIONS: usize = 5;

/// The result of `tools/call`, in the protocol's words.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToolResult {
    pub(crate) content: Vec<Value>,
    pub(crate) structured: Option<Value>,
    pub(crate) is_error: bool,
}

impl ToolResult {
    /// Reads a result as it was sent; `None` if it has nothing of one.
    pub(crate) fn read(result: Value) -> Option<Self> {
        let Value::Object(mut members) = result else { return None };
        let content = members.shift_remove("content");
        let structured = members.shift_remove("structuredContent");
        let is_error = members.get("isError").and_then(Value::as_bool);
        if content.is_none() && structured.is_none() && is_error.is_none() {
            return None;
        }
        let content = match content {
            Some(Value::Array(blocks)) => blocks,
            // One block in the place of a list.
            Some(block @ Value::Object(_)) => vec![block],
            _ => Vec::new(),
        };
        Some(Self { content, structured, is_error: is_error.unwrap_or_default() })
    }

    /// The outcome of the call, which must match the schema of results if there is one.
    pub(crate) fn into_outcome(self, schema: Option<&Schema>, redactor: &Redactor) -> Outcome {
        if self.is_error {
            let texts: Vec<&str> = self.content.iter().filter_map(text).collect();
            let said = match texts.join("\n") {
                said if said.trim().is_empty() => "the tool failed and did not say why".to_owned(),
                said => redactor.clean_to(&said, LONGEST_MESSAGE),
            };
            return Outcome::failure(outcome_code::TOOL_FAILED, said);
        }
        if let Some((schema, structured)) = schema.zip(self.structured.as_ref())
            && let violations = schema.validate(structured)
            && !violations.is_empty()
        {
            let listed: Vec<String> = violations.iter().take(VIOLATIONS).map(ToString::to_string).collect();
            let mut message = format!("the result does not match the tool's `outputSchema`: {}", listed.join("; "));
            clip(&mut message, LONGEST_MESSAGE);
            return Outcome::failure(outcome_code::TOOL_FAILED, message);
        }
        let mut value = self.into_value();
        redactor.scrub(&mut value);
        Outcome::success(value)
    }

    fn into_value(self) -> Value {
        let Self { content, structured, .. } = self;
        let is_text = |block: &Value| text(block).is_some();
        match structured {
            // The text beside it is the same once more, for older clients.
            Some(structured) if content.iter().all(is_text) => structured,
            Some(structured) => json!({"structuredContent": structured, "content": blocks(content)}),
            None => match &content[..] {
                [] => Value::from(""),
                [only] if is_text(only) => Value::from(text(only).unwrap_or_default()),
                _ => Value::Array(blocks(content)),
            },
        }
    }
}

fn text(block: &Value) -> Option<&str> {
    if block.get("type").and_then(Value::as_str) != Some("text") {
        return None;
    }
    block.get("text").and_then(Value::as_str)
}

fn blocks(content: Vec<Value>) -> Vec<Value> {
    content.into_iter().map(block).collect()
}

/// One block as it is kept: the only place that knows MCP's types of content.
fn block(mut block: Value) -> Value {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match (kind.as_str(), &mut block) {
        ("image" | "audio", Value::Object(members)) => mark(members, "data"),
        ("resource", Value::Object(members)) => {
            if let Some(Value::Object(resource)) = members.get_mut("resource") {
                mark(resource, "blob");
            }
        }
        _ => {}
    }
    block
}

/// Replaces base64 by a mark that says what it was.
fn mark(members: &mut Map<String, Value>, field: &str) {
    let media_type = members.get("mimeType").and_then(Value::as_str).unwrap_or("application/octet-stream").to_owned();
    if let Some(Value::String(data)) = members.get_mut(field) {
        let digits = data.trim_end_matches('=').len();
        *data = format!("[{media_type}, {} bytes, not shown]", digits * 3 / 4);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[track_caller]
    fn check(result: Value, expect: Value) {
        let outcome = ToolResult::read(result).unwrap().into_outcome(None, &Redactor::default());
        assert_eq!(outcome, Outcome::success(expect));
    }

    #[test]
    fn a_result_keeps_what_it_is() {
        check(json!({"content": [{"type": "text", "text": "ok"}]}), json!("ok"));
        check(json!({"content": []}), json!(""));
        check(json!({"content": {"type": "text", "text": "not a list"}}), json!("not a list"));
        let two = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        check(json!({"content": two}), two);
        let link = json!([{"type": "resource_link", "uri": "file:///a", "name": "a"}]);
        check(json!({"content": link}), link);
        let unknown = json!([{"type": "hologram", "data": "x"}]);
        check(json!({"content": unknown}), unknown);
        check(json!({"content": [{"type": "text", "text": "{}"}], "structuredContent": {"a": 1}}), json!({"a": 1}));
        check(json!({"structuredContent": null}), Value::Null);
        check(
            json!({"content": [{"type": "image", "data": "QUJD", "mimeType": "image/png"}], "structuredContent": [1]}),
            json!({"structuredContent": [1],
                   "content": [{"type": "image", "data": "[image/png, 3 bytes, not shown]", "mimeType": "image/png"}]}),
        );
        check(
            json!({"content": [{"type": "resource", "resource": {"uri": "a", "blob": "QUI="}}]}),
            json!([{"type": "resource", "resource": {"uri": "a", "blob": "[application/octet-stream, 2 bytes, not shown]"}}]),
        );
        let embedded = json!([{"type": "resource", "resource": {"uri": "a", "text": "words"}}]);
        check(json!({"content": embedded}), embedded);
    }

    #[test]
    fn an_error_is_a_failure_that_the_model_reads() {
        for (content, expect) in [
            (json!([{"type": "text", "text": "no such file"}]), "no such file"),
            (json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "a\nb"),
            (json!([]), "the tool failed and did not say why"),
        ] {
            let result = ToolResult::read(json!({"content": content, "isError": true})).unwrap();
            let outcome = result.into_outcome(None, &Redactor::default());
            assert_eq!(outcome, Outcome::failure(outcome_code::TOOL_FAILED, expect));
        }
    }

    #[test]
    fn structured_content_must_match_the_schema_of_results() {
        let schema = Arc::new(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}));
        let schema = Schema::compile(&schema).unwrap();
        let outcome = |structured: Value| {
            let result = ToolResult { structured: Some(structured), ..ToolResult::default() };
            result.into_outcome(Some(&schema), &Redactor::default())
        };
        assert!(outcome(json!({"n": 1})).is_success());
        let Outcome::Failure { code, message, .. } = outcome(json!({"n": "one"})) else { panic!("it matched") };
        assert_eq!(code, outcome_code::TOOL_FAILED);
        assert!(message.starts_with("the result does not match the tool's `outputSchema`: "), "{message}");
    }

    #[test]
    fn what_is_no_result_is_none() {
        for result in [json!(null), json!([]), json!({}), json!({"tools": []})] {
            assert_eq!(ToolResult::read(result), None);
        }
    }
}
