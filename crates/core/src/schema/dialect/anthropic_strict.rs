//! Anthropic's strict subset, which is enforced by a grammar.
//!
//! Every object is closed, and every schema has a type. Bounds and patterns are not part of the grammar; they are moved
//! into the description, as the vendor's own SDK does, and reported as a loss. Unlike in OpenAI's subset, a property
//! may be absent. A schema whose shape would be lost is declared without `strict`.

use serde_json::{Map, Value, json};

use super::{LostKeyword, describe_more, strict::StrictRefusal};
use crate::{
    schema::{keyword, path},
    text::clip,
};

const FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];
const COPIED: &[&str] = &["type", "title", "description", "enum", "const", "default", "required", "$ref"];
/// Keywords that do not affect which values are valid.
const SILENT: &[&str] = &["$schema", "$id", "$anchor", "$comment", "examples", "deprecated", "readOnly", "writeOnly"];
/// Keywords that can be moved into the description.
const DESCRIBED: &[&str] = &[
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "format",
];

/// The strict copy of a root schema.
pub(super) fn convert(root: &Map<String, Value>, lost: &mut LostKeyword) -> Result<Value, StrictRefusal> {
    if ["anyOf", "oneOf", "allOf"].iter().any(|keyword| root.contains_key(*keyword)) {
        return Err(refuse("", "the root must not be a choice"));
    }
    let mut noted = LostKeyword::default();
    let converted = schema(&Value::Object(root.clone()), "", &mut noted)?;
    // Only a schema that really is declared strict has lost something by it.
    lost.0.extend(noted.0);
    Ok(converted)
}

fn refuse(path: &str, reason: impl Into<String>) -> StrictRefusal {
    StrictRefusal { path: path.to_owned(), reason: reason.into() }
}

fn schema(source: &Value, here: &str, lost: &mut LostKeyword) -> Result<Value, StrictRefusal> {
    let Value::Object(fields) = source else {
        return Err(refuse(here, "a schema that takes anything or nothing cannot be expressed"));
    };
    let mut strict = Map::new();
    for (name, value) in fields {
        let at = path::with_key(here, name);
        match name.as_str() {
            "items" | "properties" | "$defs" | "definitions" => {
                strict.insert(name.clone(), inside(value, name, &at, lost)?);
            }
            "additionalProperties" if value.is_boolean() => {}
            "anyOf" | "oneOf" | "allOf" => {
                if name == "oneOf" {
                    lost.keyword(here, "oneOf", "became `anyOf`: the model does not know that only one may match");
                }
                let alternatives = value.as_array().into_iter().flatten().enumerate();
                let alternatives: Result<Vec<Value>, StrictRefusal> =
                    alternatives.map(|(index, value)| schema(value, &path::with_index(&at, index), lost)).collect();
                let keyword = if name == "oneOf" { "anyOf" } else { name };
                strict.insert(keyword.to_owned(), Value::Array(alternatives?));
            }
            "format" if value.as_str().is_some_and(|format| FORMATS.contains(&format)) => {
                strict.insert(name.clone(), value.clone());
            }
            "minItems" if matches!(value.as_u64(), Some(0 | 1)) => _ = strict.insert(name.clone(), value.clone()),
            copied if COPIED.contains(&copied) => _ = strict.insert(name.clone(), value.clone()),
            silent if SILENT.contains(&silent) => {}
            keyword if DESCRIBED.contains(&keyword) => {}
            // An unknown keyword has no effect either.
            unknown if !keyword::KNOWN.contains(&unknown) => {}
            _ => return Err(refuse(&at, format!("`{name}` cannot be expressed"))),
        }
    }
    let undescribed: Vec<(&String, &Value)> =
        fields.iter().filter(|(name, _)| DESCRIBED.contains(&name.as_str()) && !strict.contains_key(*name)).collect();
    for (name, value) in undescribed {
        lost.keyword(here, name, "is not supported; the description states it instead");
        describe_more(&mut strict, &format!("{name}: {}", clip(&value.to_string(), 400)));
    }
    let is_object = strict
        .get("type")
        .is_some_and(|kind| kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("object"))));
    if is_object {
        let has_properties =
            strict.get("properties").and_then(Value::as_object).is_some_and(|members| !members.is_empty());
        if !has_properties && !here.is_empty() && fields.get("additionalProperties") != Some(&json!(false)) {
            return Err(refuse(here, "an object with free keys cannot be expressed"));
        }
        strict.insert("additionalProperties".to_owned(), json!(false));
    }
    let says_something =
        ["type", "enum", "const", "anyOf", "allOf", "$ref"].iter().any(|keyword| strict.contains_key(*keyword));
    if says_something {
        Ok(Value::Object(strict))
    } else {
        Err(refuse(here, "a schema that takes anything cannot be expressed"))
    }
}

/// The schemas below a keyword, which is one schema or a map of them.
fn inside(value: &Value, keyword: &str, here: &str, lost: &mut LostKeyword) -> Result<Value, StrictRefusal> {
    if keyword == "items" {
        return schema(value, here, lost);
    }
    let members = value.as_object().into_iter().flatten();
    let members: Result<Map<String, Value>, StrictRefusal> =
        members.map(|(key, member)| Ok((key.clone(), schema(member, &path::with_key(here, key), lost)?))).collect();
    members.map(Value::Object)
}
