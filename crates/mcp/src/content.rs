//! The result of a tool, from MCP's content blocks to an outcome.
//!
//! One text is a text; structured content is itself; everything else is kept as the blocks that were sent, which the
//! core renders for models as far as their APIs accept them. Nothing is left out.

use bosun_core::{
    Outcome,
    content::{Blocks, Content},
    machine::outcome_code,
    schema::Schema,
};
use serde_json::Value;

use crate::redact::Redactor;

/// The longest message of a failure.
const LONGEST_MESSAGE: usize = 8 * 1024;
/// How many violations of a schema are listed.
const VIOLATIONS: usize = 5;

/// The result of `tools/call`, as the protocol defines it.
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
            // A single block instead of a list.
            Some(block @ Value::Object(_)) => vec![block],
            _ => Vec::new(),
        };
        Some(Self { content, structured, is_error: is_error.unwrap_or_default() })
    }

    /// The outcome of the call, which must match the schema of results if there is one.
    pub(crate) fn into_outcome(self, schema: Option<&Schema>, redactor: &Redactor) -> Outcome {
        if self.is_error {
            let texts: Vec<&str> = self.content.iter().filter_map(text).collect();
            let message = match texts.join("\n") {
                message if message.trim().is_empty() => "the tool failed and did not say why".to_owned(),
                message => redactor.clean_to(&message, LONGEST_MESSAGE),
            };
            return Outcome::failure(outcome_code::TOOL_FAILED, message);
        }
        if let Some((schema, structured)) = schema.zip(self.structured.as_ref())
            && let violations = schema.validate(structured)
            && !violations.is_empty()
        {
            let listed: Vec<String> = violations.iter().take(VIOLATIONS).map(ToString::to_string).collect();
            let mut message = format!("the result does not match the tool's `outputSchema`: {}", listed.join("; "));
            message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
            return Outcome::failure(outcome_code::TOOL_FAILED, message);
        }
        Outcome::Success { content: self.into_content(redactor) }
    }

    fn into_content(self, redactor: &Redactor) -> Content {
        let Self { mut content, mut structured, .. } = self;
        content.iter_mut().chain(structured.as_mut()).for_each(|value| redactor.scrub(value));
        let is_text = |block: &Value| text(block).is_some();
        match structured {
            // The texts repeat it as JSON, for older clients.
            Some(structured) if content.iter().all(is_text) => Content::Inline(structured),
            Some(structured) => Content::Blocks(Blocks::new(content, Some(structured))),
            None => match &content[..] {
                [] => Content::Inline(Value::from("")),
                [only] if is_text(only) => Content::Inline(Value::from(text(only).unwrap_or_default())),
                _ => Content::Blocks(Blocks::new(content, None)),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(result: Value, expect: Content) {
        let outcome = ToolResult::read(result).unwrap().into_outcome(None, &Redactor::default());
        assert_eq!(outcome, Outcome::Success { content: expect });
    }

    #[test]
    fn a_result_keeps_what_it_is() {
        let inline = |value: Value| Content::Inline(value);
        check(json!({"content": [{"type": "text", "text": "ok"}]}), inline(json!("ok")));
        check(json!({"content": []}), inline(json!("")));
        check(json!({"content": {"type": "text", "text": "not a list"}}), inline(json!("not a list")));
        check(
            json!({"content": [{"type": "text", "text": "{}"}], "structuredContent": {"a": 1}}),
            inline(json!({"a": 1})),
        );
        check(json!({"structuredContent": null}), inline(Value::Null));
        for block in [
            json!({"type": "image", "data": "QUJD", "mimeType": "image/png"}),
            json!({"type": "resource_link", "uri": "file:///a", "name": "a"}),
            json!({"type": "resource", "resource": {"uri": "a", "blob": "QUI="}}),
            json!({"type": "hologram", "voxels": 7}),
        ] {
            let content = vec![json!({"type": "text", "text": "a"}), block];
            check(json!({"content": content}), Content::Blocks(Blocks::new(content.clone(), None)));
            let both = Blocks::new(content.clone(), Some(json!([1])));
            check(json!({"content": content, "structuredContent": [1]}), Content::Blocks(both));
        }
    }

    #[test]
    fn a_secret_is_removed_from_every_block() {
        let redactor = Redactor::new([bosun_adapters::secret::Secret::new("cnry-of-block".into())]);
        let content = json!([{"type": "text", "text": "cnry-of-block"}, {"type": "text", "text": "b"}]);
        let outcome = ToolResult::read(json!({"content": content})).unwrap().into_outcome(None, &redactor);
        assert!(!format!("{outcome:?}").contains("cnry"), "{outcome:?}");
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
