//! Gemini's function declarations, in both of their schema languages.

use serde_json::{Map, Value, json};

use super::{NOT_SAID, described};
use crate::{
    document::LazyPath,
    fields::Fields,
    found::{Found, Report},
};

/// The member that holds declarations, in JSON's and in Python's spelling.
const DECLARATIONS: [&str; 2] = ["functionDeclarations", "function_declarations"];

pub(super) fn read(fields: Fields<'_>, tools: &mut Vec<Found>, report: &Report) {
    if let Some((key, list)) = fields.get_any(&DECLARATIONS) {
        let path = fields.path_of(key);
        for (provided, _) in fields.unknown() {
            let message = format!("`{provided}` is run by Gemini itself and is left out");
            report.warn(&fields.path_of(provided), "provider_tool", message);
        }
        for (index, declaration) in list.as_array().into_iter().flatten().enumerate() {
            if let Some(fields) = report.fields_at(declaration, path.index(index), "a declaration") {
                tools.extend(declaration_of(fields, report));
            }
        }
        return;
    }
    if fields.get("name").is_none() {
        let names: Vec<_> = fields.unknown().into_iter().map(|(name, _)| format!("`{name}`")).collect();
        let message = format!("{} is run by Gemini itself and is left out", names.join(", "));
        report.warn(fields.path(), "provider_tool", message);
        return;
    }
    tools.extend(declaration_of(fields, report));
}

fn declaration_of(fields: Fields<'_>, report: &Report) -> Option<Found> {
    let mut described = described(&fields, &["parametersJsonSchema", "parameters_json_schema", "parameters"], report)?;
    let path = described.origin.parameters.clone();
    if let Some(path) = path.filter(|path| path.as_str().ends_with("parameters")) {
        described.parameters = json_schema(&described.parameters, &LazyPath::At(&path), report);
    }
    fields.drop_unknown();
    Some(described.external(NOT_SAID))
}

/// Gemini's own schema language is OpenAPI 3.0's, with upper-case types.
fn json_schema(schema: &Value, trail: &LazyPath<'_>, report: &Report) -> Value {
    let Value::Object(schema) = schema else { return schema.clone() };
    let mut copy = Map::new();
    for (key, value) in schema {
        let here = LazyPath::Key(trail, key);
        let value = match (key.as_str(), value) {
            ("type", Value::String(kind)) => kind.to_ascii_lowercase().into(),
            ("items", schema) => json_schema(schema, &here, report),
            ("anyOf", Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(index, item)| json_schema(item, &LazyPath::Index(&here, index), report))
                .collect(),
            ("properties", Value::Object(members)) => Value::Object(
                members
                    .iter()
                    .map(|(name, member)| (name.clone(), json_schema(member, &LazyPath::Key(&here, name), report)))
                    .collect(),
            ),
            (
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties",
                Value::String(number),
            ) => {
                // This API writes 64-bit numbers as strings.
                number.parse::<u64>().map_or_else(|_| value.clone(), Value::from)
            }
            ("nullable", _) => continue,
            ("example", example) => {
                copy.insert("examples".to_owned(), json!([example]));
                continue;
            }
            ("propertyOrdering", _) => {
                report.warn_on_trail(
                    &here,
                    "keyword_dropped",
                    "`propertyOrdering` means nothing outside of Gemini and is left out",
                );
                continue;
            }
            _ => value.clone(),
        };
        copy.insert(key.clone(), value);
    }
    if schema.get("nullable") == Some(&Value::Bool(true))
        && let Some(kind @ Value::String(_)) = copy.get_mut("type")
    {
        *kind = json!([kind.take(), "null"]);
    }
    Value::Object(copy)
}
