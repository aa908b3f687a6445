//! Normalisation of schemas in tool files to clean JSON Schema.
//!
//! Four keywords are extensions: `optional`, `nullable`, `prompt` and `hint`. The clean copy expresses the same without
//! them, since validators and model APIs fail on unknown keywords. Whether a parameter is required is decided by its
//! parent's `required` alone; a contradicting `optional: true` is an error, never a guess. A *property named*
//! `optional` is left alone. The source is kept next to the copy. Forms of older drafts are rewritten to the newer ones
//! (`draft.rs`), so that a check sees one form.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use super::{
    draft,
    error::{SchemaError, SchemaFault},
    inspect, keyword, path,
};
use crate::text::clip;

/// A schema without extensions, and what they said.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalized {
    /// Clean JSON Schema; the source itself if it was clean already.
    pub clean: Arc<Value>,
    /// Guidance for users about a parameter, by its path in the schema.
    pub guidance: BTreeMap<String, Guidance>,
    /// Parts that are probably not meant as they are written.
    pub warnings: Vec<SchemaWarning>,
}

/// Guidance from the owner of a tool to the user who fills in a parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guidance {
    /// The question to ask for it.
    pub prompt: Option<String>,
    /// How to answer.
    pub hint: Option<String>,
    /// The owner wrote `optional: true` instead of leaving it to `required`.
    pub explicitly_optional: bool,
}

/// A part of a schema that works, but perhaps not as intended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaWarning {
    pub path: String,
    pub message: String,
}

/// Translates the extensions of a schema.
///
/// ```
/// use bosun_core::schema::normalize;
/// use serde_json::json;
///
/// let source = json!({"type": "object", "properties": {
///     "to": {"type": "string", "prompt": "To whom?"},
///     "cc": {"type": "string", "optional": true, "nullable": true},
/// }, "required": ["to"]});
/// let normalized = normalize(&source.into()).unwrap();
/// assert_eq!(normalized.clean["properties"]["cc"], json!({"type": ["string", "null"]}));
/// assert_eq!(normalized.guidance["properties.to"].prompt.as_deref(), Some("To whom?"));
///
/// let contradiction = json!({"properties": {"to": {"optional": true}}, "required": ["to"]});
/// assert!(normalize(&contradiction.into()).is_err());
/// ```
///
/// # Errors
/// Every contradiction and every extension with an invalid value.
pub fn normalize(source: &Arc<Value>) -> Result<Normalized, Vec<SchemaError>> {
    let (clean, cleaner) = normalize_value(source)?;
    let clean = if cleaner.changed { Arc::new(clean) } else { Arc::clone(source) };
    Ok(Normalized { clean, guidance: cleaner.guidance, warnings: cleaner.warnings })
}

pub(super) fn normalize_value(source: &Value) -> Result<(Value, Cleaner), Vec<SchemaError>> {
    inspect::measure(source).map_err(|fault| vec![SchemaError { path: String::new(), fault }])?;
    // An unknown draft is a fault, which the inspection of the schema reports.
    let settled = draft::of(source).ok().and_then(|draft| draft::settled(source, draft));
    let mut cleaner = Cleaner { changed: settled.is_some(), ..Cleaner::default() };
    let mut clean = settled.unwrap_or_else(|| source.clone());
    cleaner.clean(&mut clean, "", Parent::Other);
    if cleaner.faults.is_empty() { Ok((clean, cleaner)) } else { Err(cleaner.faults) }
}

#[derive(Default)]
pub(super) struct Cleaner {
    changed: bool,
    guidance: BTreeMap<String, Guidance>,
    warnings: Vec<SchemaWarning>,
    faults: Vec<SchemaError>,
}

/// The position of a schema in its parent.
#[derive(Clone, Copy)]
enum Parent<'a> {
    /// In a `properties` map; whether the property is required, and the path of that `required`.
    Properties {
        required: bool,
        at: &'a str,
    },
    Other,
}

impl Cleaner {
    fn warn(&mut self, path: String, message: impl Into<String>) {
        self.warnings.push(SchemaWarning { path, message: message.into() });
    }

    fn fault(&mut self, path: String, message: impl Into<String>) {
        self.faults.push(SchemaError { path, fault: SchemaFault::Extension(message.into()) });
    }

    fn clean(&mut self, schema: &mut Value, here: &str, parent: Parent<'_>) {
        let Value::Object(fields) = schema else { return };
        self.optional(fields, here, parent);
        self.guidance(fields, here);
        self.unknown_keywords(fields, here);
        let required: Vec<String> = fields
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default();
        let required_at = path::with_key(here, "required");
        keyword::for_each_subschema_mut(fields, &mut |place, subschema| {
            let parent = match place {
                keyword::SchemaPlace::Member("properties", name) => {
                    Parent::Properties { required: required.iter().any(|required| required == name), at: &required_at }
                }
                _ => Parent::Other,
            };
            self.clean(subschema, &place.below(here), parent);
        });
        // Last, since it may nest the schema one level deeper.
        match fields.shift_remove("nullable") {
            None => {}
            Some(Value::Bool(nullable)) => {
                self.changed = true;
                if nullable {
                    allow_null(fields);
                }
            }
            Some(other) => {
                let message = format!("`nullable` must be true or false, got: {}", clip(&other.to_string(), 40));
                self.fault(path::with_key(here, "nullable"), message);
            }
        }
    }

    fn optional(&mut self, fields: &mut Map<String, Value>, here: &str, parent: Parent<'_>) {
        let Some(value) = fields.shift_remove("optional") else { return };
        self.changed = true;
        let at = path::with_key(here, "optional");
        match (value, parent) {
            (Value::Bool(true), Parent::Properties { required: true, at: required }) => {
                self.fault(at, format!("parameter is `optional: true` here and required in `{required}`"));
            }
            (Value::Bool(true), Parent::Properties { required: false, .. }) => {
                self.guidance.entry(here.to_owned()).or_default().explicitly_optional = true;
            }
            (Value::Bool(false), Parent::Properties { required: false, at: required }) => {
                self.warn(at, format!("`optional: false` has no effect; name the parameter in `{required}`"));
            }
            (Value::Bool(false), Parent::Properties { required: true, .. }) => {}
            (Value::Bool(_), Parent::Other) => {
                self.warn(at, "`optional` has no effect here; it belongs to a parameter in `properties`");
            }
            (other, _) => {
                let message = format!("`optional` must be true or false, got: {}", clip(&other.to_string(), 40));
                self.fault(at, message);
            }
        }
    }

    fn guidance(&mut self, fields: &mut Map<String, Value>, here: &str) {
        for keyword in ["prompt", "hint"] {
            match fields.shift_remove(keyword) {
                None => {}
                Some(Value::String(text)) => {
                    self.changed = true;
                    let guidance = self.guidance.entry(here.to_owned()).or_default();
                    *(if keyword == "prompt" { &mut guidance.prompt } else { &mut guidance.hint }) = Some(text);
                }
                Some(other) => {
                    let message = format!("`{keyword}` must be a text, got: {}", clip(&other.to_string(), 40));
                    self.fault(path::with_key(here, keyword), message);
                }
            }
        }
    }

    fn unknown_keywords(&mut self, fields: &Map<String, Value>, here: &str) {
        for name in fields.keys() {
            let ours = name.starts_with("x-") || name == "nullable";
            if ours || keyword::KNOWN.contains(&name.as_str()) {
                continue;
            }
            let shown = clip(name, 40);
            let message = match keyword::closest(name) {
                Some(known) => format!("`{shown}` is not a keyword of JSON Schema; did you mean `{known}`?"),
                None => format!("`{shown}` is not a keyword of JSON Schema; it is kept and has no effect"),
            };
            self.warn(path::with_key(here, name), message);
        }
    }
}

/// Expresses "or null" in JSON Schema.
fn allow_null(fields: &mut Map<String, Value>) {
    let null_type = json!({"type": "null"});
    // A nullable constant is an enum of two.
    if let Some(value) = fields.shift_remove("const") {
        fields.insert("enum".to_owned(), json!([value]));
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    match fields.get_mut("type") {
        Some(Value::String(name)) if name != "null" => {
            let name = std::mem::take(name);
            fields.insert("type".to_owned(), json!([name, "null"]));
        }
        Some(Value::Array(names)) if !names.iter().any(|name| name == "null") => names.push(json!("null")),
        _ => {}
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(alternatives)) = fields.get_mut(keyword)
            && !alternatives.contains(&null_type)
        {
            alternatives.push(null_type.clone());
        }
    }
    let elsewhere = ["$ref", "allOf", "not", "if", "$dynamicRef"].iter().any(|keyword| fields.contains_key(*keyword));
    if elsewhere {
        // The constraints of a reference cannot be weakened from outside: it becomes one of two alternatives.
        let description = fields.shift_remove("description");
        let definitions = ["$defs", "definitions"].map(|keyword| (keyword, fields.shift_remove(keyword)));
        let rest = Value::Object(std::mem::take(fields));
        if let Some(description) = description {
            fields.insert("description".to_owned(), description);
        }
        for (keyword, definitions) in definitions {
            if let Some(definitions) = definitions {
                fields.insert(keyword.to_owned(), definitions);
            }
        }
        fields.insert("anyOf".to_owned(), json!([rest, null_type]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without borrows")]
    #[track_caller]
    fn check(source: Value, expect: Value) -> Normalized {
        let source = Arc::new(source);
        let normalized = normalize(&source).unwrap();
        assert_eq!(*normalized.clean, expect);
        assert_eq!(Arc::ptr_eq(&normalized.clean, &source), *source == expect, "a clean source is shared");
        normalized
    }

    #[track_caller]
    fn refuses(source: Value, expect: &[&str]) {
        let faults = normalize(&Arc::new(source)).unwrap_err();
        assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expect);
    }

    #[track_caller]
    fn warns(source: Value, expect: &[&str]) {
        let warnings = normalize(&Arc::new(source)).unwrap().warnings;
        let shown: Vec<_> = warnings.iter().map(|warning| format!("{}: {}", warning.path, warning.message)).collect();
        assert_eq!(shown, expect);
    }

    /// The parameters of the seed's `fetch_emails`.
    #[test]
    fn the_filters_of_fetch_emails_become_clean() {
        let filters = |optional: bool| {
            let property =
                |kind: &str| if optional { json!({"type": kind, "optional": true}) } else { json!({"type": kind}) };
            json!({
                "type": "object",
                "properties": {
                    "input": {
                        "type": "object",
                        "properties": {
                            "operation": {"type": "string", "enum": ["fetch"]},
                            "filters": {
                                "type": "object",
                                "properties": {
                                    "sender": property("string"),
                                    "subject": property("object"),
                                    "dateRange": property("object"),
                                    "hasAttachment": property("boolean"),
                                },
                            },
                        },
                        "required": ["operation"],
                    },
                },
                "required": ["input"],
            })
        };
        let normalized = check(filters(true), filters(false));
        assert_eq!(normalized.guidance.len(), 4);
        assert!(normalized.warnings.is_empty());
    }

    /// The parameters of the seed's `fetch_entity`.
    #[test]
    fn the_identifier_of_fetch_entity_becomes_clean() {
        let parameters = |identifier: Value, filters: Value| {
            json!({"type": "object", "properties": {"input": {
                "type": "object",
                "properties": {
                    "operation": {"type": "string", "enum": ["fetch"]},
                    "entityType": {"type": "string", "enum": ["Account", "Contact", "Lead", "Deal", "Opportunity"]},
                    "identifier": identifier,
                    "filters": filters,
                },
                "required": ["operation", "entityType"],
            }}})
        };
        check(
            parameters(json!({"type": "string", "optional": true}), json!({"type": "object", "optional": true})),
            parameters(json!({"type": "string"}), json!({"type": "object"})),
        );
    }

    #[test]
    fn optional_and_required_contradict_each_other() {
        refuses(
            json!({"properties": {"a": {"properties": {"b": {"optional": true}}, "required": ["b"]}}}),
            &[
                "properties.a.properties.b.optional: parameter is `optional: true` here and required in `properties.a.required`",
            ],
        );
    }

    #[test]
    fn a_property_named_optional_is_left_alone() {
        let schema = json!({
            "type": "object",
            "properties": {"optional": {"type": "boolean"}, "nullable": {"type": "string"}, "prompt": {}, "hint": {}},
            "required": ["optional"],
        });
        check(schema.clone(), schema);
        let data = json!({"properties": {"p": {"default": {"optional": true}, "enum": [{"nullable": true}], "const": {"hint": 1}}}});
        check(data.clone(), data);
    }

    #[test]
    fn optional_must_be_a_boolean() {
        refuses(
            json!({"properties": {"a": {"optional": "yes"}, "b": {"nullable": 1}, "c": {"prompt": {}}}}),
            &[
                "properties.a.optional: `optional` must be true or false, got: \"yes\"",
                "properties.b.nullable: `nullable` must be true or false, got: 1",
                "properties.c.prompt: `prompt` must be a text, got: {}",
            ],
        );
    }

    #[test]
    fn optional_without_effect_is_warned_about() {
        warns(
            json!({"optional": true, "properties": {"a": {"optional": false, "items": {"optional": true}}}}),
            &[
                "optional: `optional` has no effect here; it belongs to a parameter in `properties`",
                "properties.a.optional: `optional: false` has no effect; name the parameter in `required`",
                "properties.a.items.optional: `optional` has no effect here; it belongs to a parameter in `properties`",
            ],
        );
        warns(json!({"properties": {"a": {"optional": false}}, "required": ["a"]}), &[]);
    }

    #[test]
    fn misspelled_keywords_are_warned_about_and_kept() {
        let schema = json!({"requried": ["a"], "x-mine": 1, "colour": 2, "properties": {"a": {"desciption": "x"}}});
        check(schema.clone(), schema.clone());
        warns(
            schema,
            &[
                "requried: `requried` is not a keyword of JSON Schema; did you mean `required`?",
                "colour: `colour` is not a keyword of JSON Schema; it is kept and has no effect",
                "properties.a.desciption: `desciption` is not a keyword of JSON Schema; did you mean `description`?",
            ],
        );
    }

    #[test]
    fn nullable_becomes_a_null_that_is_allowed() {
        for (source, expect) in [
            (json!({"type": "string", "nullable": true}), json!({"type": ["string", "null"]})),
            (json!({"type": ["string", "number"], "nullable": true}), json!({"type": ["string", "number", "null"]})),
            (json!({"type": "string", "nullable": false}), json!({"type": "string"})),
            (
                json!({"type": "string", "enum": ["a"], "nullable": true}),
                json!({"type": ["string", "null"], "enum": ["a", null]}),
            ),
            (json!({"const": 1, "nullable": true}), json!({"enum": [1, null]})),
            (
                json!({"anyOf": [{"type": "string"}], "nullable": true}),
                json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            ),
            (
                json!({"$ref": "#/$defs/a", "description": "x", "nullable": true}),
                json!({"description": "x", "anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}),
            ),
            (json!({"nullable": true}), json!({})),
        ] {
            check(json!({"properties": {"p": source}}), json!({"properties": {"p": expect}}));
        }
    }

    #[test]
    fn prompts_and_hints_are_kept_for_people() {
        let normalized = check(
            json!({"properties": {"to": {"type": "string", "prompt": "To whom?", "hint": "An address"}}}),
            json!({"properties": {"to": {"type": "string"}}}),
        );
        let guidance = &normalized.guidance["properties.to"];
        assert_eq!((guidance.prompt.as_deref(), guidance.hint.as_deref()), (Some("To whom?"), Some("An address")));
    }
}
