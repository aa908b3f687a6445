//! The result of a tool, from MCP's content blocks to an outcome.
//!
//! One text is a text; structured content that the texts only repeat is itself; everything else is kept as the blocks that
//! were sent, which the core renders for models as far as their APIs accept them. Nothing is left out: a failure has its
//! texts in the message, and everything else as its content.

use std::collections::HashSet;

use bosun_core::{
    Outcome,
    content::{Blocks, Content},
    json::canonical,
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
        // Some servers write every field that there is.
        let structured = structured.filter(|value| !value.is_null() || content.is_empty());
        Some(Self { content, structured, is_error: is_error.unwrap_or_default() })
    }

    /// The outcome of the call, which must match the schema of results if there is one.
    pub(crate) fn into_outcome(self, schema: Option<&Schema>, redactor: &Redactor) -> Outcome {
        if self.is_error {
            return self.into_failure(redactor);
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

    /// The texts are the message; what is not in them is the content.
    fn into_failure(self, redactor: &Redactor) -> Outcome {
        let Self { content, mut structured, .. } = self;
        let (texts, mut others): (Vec<Value>, Vec<Value>) =
            content.into_iter().partition(|block| text(block).is_some());
        let texts: Vec<&str> = texts.iter().filter_map(text).collect();
        let message = match texts.join("\n") {
            message if message.trim().is_empty() => "the tool failed and did not say why".to_owned(),
            message => shorten(redactor.clean_to(&message, usize::MAX)),
        };
        let is_in_message = |value: &Value| value.is_null() || texts.iter().any(|text| is_json_of(text, value));
        structured = structured.filter(|value| !is_in_message(value));
        others.iter_mut().chain(structured.as_mut()).for_each(|value| redactor.scrub(value));
        let content = match (others.is_empty(), structured) {
            (true, None) => None,
            (true, Some(structured)) => Some(Content::Inline(structured)),
            (false, structured) => Some(Content::Blocks(Blocks::new(others, structured))),
        };
        Outcome::Failure { code: outcome_code::TOOL_FAILED.to_owned(), message, content }
    }

    fn into_content(self, redactor: &Redactor) -> Content {
        let Self { mut content, mut structured, .. } = self;
        content.iter_mut().chain(structured.as_mut()).for_each(|value| redactor.scrub(value));
        let is_text = |block: &Value| text(block).is_some();
        match structured {
            // As MCP recommends for the sake of older clients.
            Some(structured) if repeat(&content, &structured) => Content::Inline(structured),
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

/// Whether all blocks are texts that say nothing more than the structured content: it as JSON, or a part of it.
fn repeat(content: &[Value], structured: &Value) -> bool {
    let written: Vec<&str> = content.iter().filter_map(text).collect();
    if written.is_empty() || written.len() < content.len() {
        return content.is_empty();
    }
    let (mut parts, mut texts) = (HashSet::new(), HashSet::new());
    collect_parts(structured, 0, &mut parts, &mut texts);
    let is_part = |text: &str| serde_json::from_str(text).is_ok_and(|value: Value| parts.contains(&canonical(&value)));
    written.into_iter().all(|text| text.trim().is_empty() || texts.contains(text) || is_part(text))
}

/// The texts in a value, and as JSON the value itself and its parts, two levels deep: servers wrap a list as
/// `{"result": […]}`, and send a block for each item of it.
fn collect_parts<'a>(value: &'a Value, depth: usize, parts: &mut HashSet<String>, texts: &mut HashSet<&'a str>) {
    const DEEPEST: usize = 2;
    if depth <= DEEPEST {
        parts.insert(canonical(value));
    }
    match value {
        Value::String(text) => _ = texts.insert(text),
        Value::Array(items) => items.iter().for_each(|item| collect_parts(item, depth + 1, parts, texts)),
        Value::Object(members) => members.values().for_each(|member| collect_parts(member, depth + 1, parts, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_json_of(text: &str, value: &Value) -> bool {
    serde_json::from_str(text).is_ok_and(|parsed: Value| canonical(&parsed) == canonical(value))
}

/// A message of bounded size, with a mark if it was cut.
fn shorten(mut message: String) -> String {
    let size = message.len();
    if size > LONGEST_MESSAGE {
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        message.push_str(&format!("\n[truncated: the first {} of {size} bytes are shown]", message.len()));
    }
    message
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
            json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "structuredContent": {"a": 1}}),
            inline(json!({"a": 1})),
        );
        check(json!({"structuredContent": null}), inline(Value::Null));
        check(json!({"content": [], "structuredContent": null}), inline(Value::Null));
        check(json!({"content": [{"type": "text", "text": "hi"}], "structuredContent": null}), inline(json!("hi")));
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
    fn texts_are_left_out_only_if_the_structured_content_says_the_same() {
        let rows = json!({"rows": 3});
        for (texts, structured, is_repeated) in [
            (&[r#"{"rows": 3}"#][..], rows.clone(), true),
            (&[r#"{"rows": 3.0}"#], rows.clone(), true),
            (&["3"], rows.clone(), true),
            (&[" \n"], rows.clone(), true),
            // As server-filesystem and the Python SDK have it.
            (&["The answer is 42.\n"], json!({"content": "The answer is 42.\n"}), true),
            (&["a", "b"], json!({"result": ["a", "b"]}), true),
            (&["{\n  \"a\": 1\n}", r#"{"a": 2}"#], json!({"result": [{"a": 1}, {"a": 2}]}), true),
            (&["Warning: the data is stale"], rows.clone(), false),
            (&["Warning: the data is stale", r#"{"rows": 3}"#], rows.clone(), false),
            (&[r#"{"rows": 4}"#], rows, false),
            (&["The answer is"], json!({"content": "The answer is 42."}), false),
        ] {
            let content: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
            let expect = if is_repeated {
                Content::Inline(structured.clone())
            } else {
                Content::Blocks(Blocks::new(content.clone(), Some(structured.clone())))
            };
            check(json!({"content": content, "structuredContent": structured}), expect);
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
    fn what_a_failure_has_besides_texts_is_its_content() {
        let (words, image) = (
            json!({"type": "text", "text": "it looks like this"}),
            json!({"type": "image", "data": "QUJD", "mimeType": "image/png"}),
        );
        let blocks = |content: &[&Value], structured: Option<Value>| {
            let content = content.iter().map(|block| (*block).clone()).collect();
            Some(Content::Blocks(Blocks::new(content, structured)))
        };
        let same = json!({"type": "text", "text": r#"{"line": 7}"#});
        for (content, structured, expect) in [
            (vec![&words], json!(null), None),
            (vec![&words, &image], json!(null), blocks(&[&image], None)),
            (vec![&image], json!({"line": 7}), blocks(&[&image], Some(json!({"line": 7})))),
            (vec![&words], json!({"line": 7}), Some(Content::Inline(json!({"line": 7})))),
            (vec![&same], json!({"line": 7}), None),
        ] {
            let result = json!({"content": content, "structuredContent": structured, "isError": true});
            let outcome = ToolResult::read(result.clone()).unwrap().into_outcome(None, &Redactor::default());
            let Outcome::Failure { content, .. } = outcome else { panic!("{result}: no failure") };
            assert_eq!(content, expect, "{result}");
        }
    }

    #[test]
    fn a_long_error_is_cut_with_a_mark() {
        let long = format!("{}é", "x".repeat(LONGEST_MESSAGE - 1));
        let result = json!({"content": [{"type": "text", "text": long}], "isError": true});
        let outcome = ToolResult::read(result).unwrap().into_outcome(None, &Redactor::default());
        let Outcome::Failure { message, .. } = outcome else { panic!("no failure") };
        assert!(
            message.ends_with("x\n[truncated: the first 8191 of 8193 bytes are shown]"),
            "{:.200}",
            &message[8100..]
        );
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
