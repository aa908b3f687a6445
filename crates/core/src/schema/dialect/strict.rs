//! OpenAI's strict subset, which constrains the model's output.
//!
//! Every object is closed and every property required, so an optional one becomes nullable; the null that the model
//! then writes is dropped when the arguments are validated. A schema is declared strict only if none of its constraints
//! would be lost; else the tool is declared without `strict`.

use serde_json::{Map, Value, json};

use super::LostKeyword;
use crate::schema::{keyword, path, pattern};

/// Why a schema cannot be strict, and where.
pub(super) struct StrictRefusal {
    pub(super) path: String,
    pub(super) reason: String,
}

const MAX_PROPERTIES: usize = 5_000;
const MAX_LEVELS: usize = 10;
const MAX_ENUM_VALUES: usize = 1_000;
const MAX_TEXT: usize = 120_000;

/// Keywords that constrain the value and that the subset supports.
const SUPPORTED: &[&str] = &[
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "definitions",
    "description",
    "title",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
];
/// Keywords that do not affect which values are valid.
const SILENT: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "minContains",
    "maxContains",
];
const FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

#[derive(Default)]
struct Totals {
    properties: usize,
    enum_values: usize,
    text: usize,
}

/// The strict copy of a root schema.
pub(super) fn convert(root: &Map<String, Value>, lost: &mut LostKeyword) -> Result<Value, StrictRefusal> {
    if root.contains_key("anyOf") || root.contains_key("oneOf") {
        return Err(refuse("", "the root must not be a choice"));
    }
    let mut noted = LostKeyword::default();
    let converted = schema(&Value::Object(root.clone()), "", 1, &mut Totals::default(), &mut noted)?;
    // Only a schema that really is declared strict has lost something by it.
    lost.0.extend(noted.0);
    Ok(converted)
}

fn refuse(path: &str, reason: impl Into<String>) -> StrictRefusal {
    StrictRefusal { path: path.to_owned(), reason: reason.into() }
}

fn schema(
    source: &Value,
    here: &str,
    level: usize,
    totals: &mut Totals,
    lost: &mut LostKeyword,
) -> Result<Value, StrictRefusal> {
    let Value::Object(fields) = source else {
        return Err(refuse(here, "a schema that takes anything or nothing cannot be expressed"));
    };
    if level > MAX_LEVELS {
        return Err(refuse(here, format!("nested deeper than {MAX_LEVELS} levels")));
    }
    let mut strict = Map::new();
    for (name, value) in fields {
        let at = path::with_key(here, name);
        match name.as_str() {
            "properties" | "required" | "additionalProperties" => {}
            "items" => {
                strict.insert(name.clone(), schema(value, &at, level + 1, totals, lost)?);
            }
            "anyOf" | "oneOf" => {
                if name == "oneOf" {
                    lost.keyword(here, "oneOf", "became `anyOf`: the model does not know that only one may match");
                }
                let alternatives = value.as_array().into_iter().flatten().enumerate();
                let alternatives: Result<Vec<Value>, StrictRefusal> = alternatives
                    .map(|(index, value)| schema(value, &path::with_index(&at, index), level, totals, lost))
                    .collect();
                strict.insert("anyOf".to_owned(), Value::Array(alternatives?));
            }
            "allOf" => match value.as_array().map(Vec::as_slice) {
                // Generators write this to add annotations to a reference.
                Some([only])
                    if fields.keys().all(|key| {
                        key == "allOf" || SILENT.contains(&key.as_str()) || key == "description" || key == "title"
                    }) =>
                {
                    let inner = schema(only, &path::with_index(&at, 0), level, totals, lost)?;
                    strict.extend(inner.as_object().cloned().unwrap_or_default());
                }
                _ => return Err(refuse(&at, "`allOf` cannot be expressed")),
            },
            "$defs" | "definitions" => {
                let mut definitions = Map::new();
                for (key, definition) in value.as_object().into_iter().flatten() {
                    let definition = schema(definition, &path::with_key(&at, key), level, totals, lost)?;
                    definitions.insert(key.clone(), definition);
                }
                strict.insert(name.clone(), Value::Object(definitions));
            }
            "enum" => {
                totals.enum_values += value.as_array().map_or(0, Vec::len);
                totals.text += value.to_string().len();
                strict.insert(name.clone(), value.clone());
            }
            "pattern" if value.as_str().is_some_and(pattern::needs_backtracking) => {
                lost.keyword(here, "pattern", "has look-around and is not supported; the model does not see it");
            }
            "format" if !value.as_str().is_some_and(|format| FORMATS.contains(&format)) => {
                lost.keyword(here, "format", "is not supported; the description states it instead");
                let note = format!("Format: {}.", value.as_str().unwrap_or_default());
                let description = fields.get("description").and_then(Value::as_str);
                let description = description.map_or_else(|| note.clone(), |text| format!("{text} {note}"));
                strict.insert("description".to_owned(), json!(description));
            }
            "description" if strict.contains_key("description") => {}
            silent if SILENT.contains(&silent) => {}
            supported if SUPPORTED.contains(&supported) => _ = strict.insert(name.clone(), value.clone()),
            // An unknown keyword has no effect either.
            unknown if !keyword::KNOWN.contains(&unknown) => {}
            _ => return Err(refuse(&at, format!("`{name}` cannot be expressed"))),
        }
    }
    let types = type_names(fields);
    if types.contains(&"array") && !fields.contains_key("items") {
        return Err(refuse(here, "an array must say what its items are"));
    }
    if types.contains(&"object") || fields.contains_key("properties") {
        object(fields, here, level, totals, lost, &mut strict)?;
    }
    let says_something = ["type", "enum", "const", "anyOf", "$ref"].iter().any(|keyword| strict.contains_key(*keyword));
    if !says_something {
        return Err(refuse(here, "a schema that takes anything cannot be expressed"));
    }
    if totals.properties > MAX_PROPERTIES || totals.enum_values > MAX_ENUM_VALUES || totals.text > MAX_TEXT {
        return Err(refuse(here, "the schema is too large"));
    }
    Ok(Value::Object(strict))
}

fn type_names(fields: &Map<String, Value>) -> Vec<&str> {
    match fields.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Closes an object and requires everything in it.
fn object(
    fields: &Map<String, Value>,
    here: &str,
    level: usize,
    totals: &mut Totals,
    lost: &mut LostKeyword,
    strict: &mut Map<String, Value>,
) -> Result<(), StrictRefusal> {
    if fields.get("additionalProperties").is_some_and(Value::is_object) {
        return Err(refuse(here, "an object with free keys cannot be expressed"));
    }
    let Some(Value::Object(properties)) = fields.get("properties") else {
        return Err(refuse(here, "an object must say what its properties are"));
    };
    if properties.is_empty() && fields.get("additionalProperties") != Some(&json!(false)) && level > 1 {
        return Err(refuse(here, "an object with free keys cannot be expressed"));
    }
    let required: Vec<&str> =
        fields.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let below = path::with_key(here, "properties");
    let mut converted = Map::new();
    for (name, property) in properties {
        totals.properties += 1;
        totals.text += name.len();
        let mut property = schema(property, &path::with_key(&below, name), level + 1, totals, lost)?;
        if !required.contains(&name.as_str()) {
            property = nullable(property);
        }
        converted.insert(name.clone(), property);
    }
    let names: Vec<Value> = converted.keys().map(|name| json!(name)).collect();
    strict.insert("properties".to_owned(), Value::Object(converted));
    strict.insert("required".to_owned(), Value::Array(names));
    strict.insert("additionalProperties".to_owned(), json!(false));
    Ok(())
}

/// Expresses "optional" where everything is required.
fn nullable(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return schema };
    if let Some(Value::Array(alternatives)) = fields.get_mut("anyOf") {
        if !alternatives.contains(&json!({"type": "null"})) {
            alternatives.push(json!({"type": "null"}));
        }
        return Value::Object(fields);
    }
    if fields.contains_key("$ref") || fields.contains_key("const") {
        let description = fields.shift_remove("description");
        let mut wrapped = Map::new();
        wrapped.insert("anyOf".to_owned(), json!([fields, {"type": "null"}]));
        if let Some(description) = description {
            wrapped.insert("description".to_owned(), description);
        }
        return Value::Object(wrapped);
    }
    let mut names: Vec<Value> = type_names(&fields).into_iter().map(|name| json!(name)).collect();
    if !names.is_empty() && !names.contains(&json!("null")) {
        names.push(json!("null"));
        fields.insert("type".to_owned(), Value::Array(names));
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    Value::Object(fields)
}
