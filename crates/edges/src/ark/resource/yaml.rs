//! JSON written as YAML, for people.
//!
//! Mappings and lists are in block style. Texts are in double quotes, with JSON's escapes, which YAML reads
//! the same; so nothing is ever read as a number or a date.

use std::fmt::Write as _;

use serde_json::Value;

pub(super) fn write(value: &Value) -> String {
    let mut text = String::new();
    block(&mut text, value, 0);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// A value at the beginning of a line, or behind `- `.
fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (index, (name, value)) in members.iter().enumerate() {
                if index > 0 {
                    indent(text, depth);
                }
                text.push_str(&key(name));
                text.push(':');
                nested(text, value, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    indent(text, depth);
                }
                text.push_str("- ");
                block(text, item, depth + 1);
                end_line(text);
            }
        }
        // What JSON writes on one line is YAML too.
        scalar => drop(write!(text, "{scalar}")),
    }
}

/// A value behind a key.
fn nested(text: &mut String, value: &Value, depth: usize) {
    let is_block = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        indent(text, depth);
    } else {
        text.push(' ');
    }
    block(text, value, depth);
    end_line(text);
}

fn end_line(text: &mut String) {
    if !text.ends_with('\n') {
        text.push('\n');
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

/// A name that cannot be mistaken for another scalar is not quoted.
fn key(name: &str) -> String {
    let is_plain = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter))
        && !matches!(
            name.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if is_plain { name.to_owned() } else { Value::from(name).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_in_blocks_and_texts_in_quotes() {
        let value = json!({
            "kind": "Agent",
            "spec": {"prompt": "a: b\n#c", "tools": [{"name": "x", "on": [1, []]}, ["y", {}]], "none": null},
            "null": {"5": true},
        });
        let expect = "kind: \"Agent\"\nspec:\n  prompt: \"a: b\\n#c\"\n  tools:\n    - name: \"x\"\n      \"on\":\n        - 1\n        - []\n    - - \"y\"\n      - {}\n  none: null\n\"null\":\n  \"5\": true\n";
        assert_eq!(write(&value), expect);
        assert_eq!(write(&json!([])), "[]\n");
    }
}
