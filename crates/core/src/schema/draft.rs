//! Detection of the JSON Schema draft that a schema follows.
//!
//! `$schema` decides if present. Otherwise the schema is draft 2020-12 unless it has the shape of draft 7, as
//! `zod-to-json-schema` writes every tuple: a list of `items`, `dependencies`, `definitions` without `$defs`, anchors
//! in `$id`. The guess must not ignore a constraint, so such a schema is read as 2019-09, the last draft with both
//! vocabularies, if it also has something that draft 7 would skip: a newer keyword, or a constraint next to `$ref`.
//!
//! [`settled`] rewrites forms that generators produce and the meta-schemas reject, where the meaning is clear: boolean
//! bounds of draft 4 and OpenAPI 3.0, and corner cases of the two Zod converters, such as an empty list of items for
//! `z.tuple([])`.

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::{error::SchemaFault, keyword, reference};

/// Keywords that came with draft 2019-09.
const OF_2019: &[&str] = &[
    "$anchor",
    "$defs",
    "$recursiveAnchor",
    "$recursiveRef",
    "contentSchema",
    "dependentRequired",
    "dependentSchemas",
    "maxContains",
    "minContains",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords that came with draft 2020-12.
const OF_2020: &[&str] = &["$dynamicAnchor", "$dynamicRef", "prefixItems"];
/// Keywords that constrain no value and may be next to `$ref`.
const ANNOTATIONS: &[&str] = &[
    "$comment",
    "$defs",
    "$id",
    "$ref",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "examples",
    "id",
    "readOnly",
    "title",
    "writeOnly",
];
/// A boolean that makes a bound exclusive, and the bound.
pub(super) const BOUNDS: [(&str, &str); 2] = [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")];

/// The draft that a schema is read as. Its depth must be bounded.
pub(super) fn of(source: &Value) -> Result<Draft, SchemaFault> {
    if let Some(uri) = source.get("$schema").and_then(Value::as_str) {
        return named(uri);
    }
    let mut shape = DraftShape::default();
    shape.look(source);
    Ok(match shape {
        DraftShape { of_2020: true, .. } | DraftShape { of_7: false, .. } => Draft::Draft202012,
        DraftShape { beyond_7: true, .. } => Draft::Draft201909,
        _ => Draft::Draft7,
    })
}

fn named(uri: &str) -> Result<Draft, SchemaFault> {
    let name = uri.trim_end_matches('#').trim_start_matches("https://").trim_start_matches("http://");
    match name.trim_start_matches("json-schema.org/") {
        "draft-04/schema" => Ok(Draft::Draft4),
        "draft-06/schema" => Ok(Draft::Draft6),
        "draft-07/schema" => Ok(Draft::Draft7),
        "draft/2019-09/schema" => Ok(Draft::Draft201909),
        // `schema` alone has always meant the newest one.
        "draft/2020-12/schema" | "schema" => Ok(Draft::Draft202012),
        _ => Err(SchemaFault::UnknownDraft(crate::text::clip(uri, 120))),
    }
}

/// The features that distinguish the drafts.
#[derive(Default)]
struct DraftShape {
    of_7: bool,
    /// Something that draft 7 would ignore.
    beyond_7: bool,
    of_2020: bool,
}

impl DraftShape {
    fn look(&mut self, schema: &Value) {
        let Value::Object(fields) = schema else { return };
        let has = |keywords: &[&str]| keywords.iter().any(|keyword| fields.contains_key(*keyword));
        self.of_7 |= fields.get("items").is_some_and(Value::is_array)
            || fields.contains_key("dependencies")
            || (fields.contains_key("definitions") && !fields.contains_key("$defs"))
            || fields.get("$id").and_then(Value::as_str).is_some_and(|id| id.len() > 1 && id.starts_with('#'));
        self.of_2020 |= has(OF_2020);
        let constrains = |key: &String| keyword::KNOWN.contains(&key.as_str()) && !ANNOTATIONS.contains(&key.as_str());
        self.beyond_7 |= has(OF_2019) || (fields.contains_key("$ref") && fields.keys().any(constrains));
        for (_, _, subschema) in keyword::subschemas(fields) {
            self.look(subschema);
        }
    }
}

/// The schema in forms that the meta-schema of `draft` accepts; `None` if it already is.
pub(super) fn settled(source: &Value, draft: Draft) -> Option<Value> {
    let forms = Forms {
        // A named draft itself defines what a boolean bound means.
        bounds: source.get("$schema").is_none(),
        empty_items: draft != Draft::Draft202012,
    };
    if !forms.are_in(source) {
        return None;
    }
    let mut settled = source.clone();
    reference::follow_moves(&mut settled, |fields, name, _| {
        (forms.empty_items && name == "additionalItems" && is_empty_list(fields, "items")).then_some("items")
    });
    forms.rewrite(&mut settled);
    Some(settled)
}

/// The forms that depend on the draft; the others are rewritten in every one.
#[derive(Clone, Copy)]
struct Forms {
    bounds: bool,
    empty_items: bool,
}

impl Forms {
    fn are_in(self, schema: &Value) -> bool {
        let Value::Object(fields) = schema else { return false };
        let bounds = || BOUNDS.iter().any(|(exclusive, _)| fields.get(*exclusive).is_some_and(Value::is_boolean));
        (self.bounds && bounds())
            || (self.empty_items && is_empty_list(fields, "items"))
            || is_empty_list(fields, "prefixItems")
            || LIMITS.iter().any(|limit| fields.get(*limit).is_some_and(Value::is_null))
            || fields.get("multipleOf").and_then(positive).is_some()
            || fields.get("type").and_then(distinct).is_some()
            || fields.get("pattern").and_then(plain_escapes).is_some()
            || keyword::subschemas(fields).into_iter().any(|(_, _, subschema)| self.are_in(subschema))
    }

    fn rewrite(self, schema: &mut Value) {
        let Value::Object(fields) = schema else { return };
        if self.bounds {
            numeric_bounds(fields);
        }
        if self.empty_items {
            without_empty_items(fields);
        }
        if is_empty_list(fields, "prefixItems") {
            fields.shift_remove("prefixItems");
        }
        // JSON has no infinity, and JavaScript writes null for it: a bound without effect.
        for limit in LIMITS {
            if fields.get(limit).is_some_and(Value::is_null) {
                fields.shift_remove(limit);
            }
        }
        for (keyword, form) in
            [("multipleOf", positive as fn(&Value) -> Option<Value>), ("type", distinct), ("pattern", plain_escapes)]
        {
            if let Some(value) = fields.get_mut(keyword)
                && let Some(settled) = form(value)
            {
                *value = settled;
            }
        }
        keyword::for_each_subschema_mut(fields, &mut |_, subschema| self.rewrite(subschema));
    }
}

const LIMITS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];

fn is_empty_list(fields: &Map<String, Value>, keyword: &str) -> bool {
    fields.get(keyword).and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// A multiple of -4 is a multiple of 4.
fn positive(divisor: &Value) -> Option<Value> {
    let negative = divisor.as_number().filter(|number| number.as_f64().is_some_and(|value| value < 0.0))?;
    serde_json::from_str(negative.to_string().trim_start_matches('-')).ok()
}

/// A type that is listed twice, as `z.null().nullable()` has it, is listed once.
fn distinct(types: &Value) -> Option<Value> {
    let Value::Array(types) = types else { return None };
    // Lists longer than the number of types are rejected as they are.
    let is_repeated = |index: usize| types[..index].contains(&types[index]);
    if types.len() > 16 || !(0..types.len()).any(is_repeated) {
        return None;
    }
    Some((0..types.len()).filter(|index| !is_repeated(*index)).map(|index| types[index].clone()).collect())
}

/// The pattern without backslashes before non-ASCII characters, which are literal; they are an error only in the
/// Unicode mode of ECMAScript.
fn plain_escapes(pattern: &Value) -> Option<Value> {
    let pattern = pattern.as_str()?;
    let mut plain = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some(escaped) if escaped.is_ascii() => plain.extend([letter, escaped]),
            Some(escaped) => plain.push(escaped),
            None => plain.push(letter),
        }
    }
    (plain.len() < pattern.len()).then(|| plain.into())
}

/// An empty list of items leaves every item to `additionalItems`.
pub(super) fn without_empty_items(fields: &mut Map<String, Value>) {
    if is_empty_list(fields, "items") {
        match fields.shift_remove("additionalItems") {
            Some(rest) => _ = fields.insert("items".to_owned(), rest),
            None => _ = fields.shift_remove("items"),
        }
    }
}

/// `minimum: 5, exclusiveMinimum: true` is `exclusiveMinimum: 5` since draft 6. A boolean without its bound is left for
/// the meta-schema to reject, unless it is `false` and has no effect.
pub(super) fn numeric_bounds(fields: &mut Map<String, Value>) {
    for (exclusive, bound) in BOUNDS {
        match fields.get(exclusive) {
            Some(Value::Bool(false)) => _ = fields.shift_remove(exclusive),
            Some(Value::Bool(true)) => {
                if let Some(limit) = fields.shift_remove(bound) {
                    fields.insert(exclusive.to_owned(), limit);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::Schema;

    #[expect(clippy::needless_pass_by_value, reason = "a table of cases reads better without borrows")]
    #[track_caller]
    fn reads(parameter: Value, fits: &[Value], fails: &[Value]) {
        let source = Arc::new(json!({"type": "object", "properties": {"p": parameter}}));
        let schema = Schema::compile(&source).unwrap();
        assert!(Arc::ptr_eq(schema.source(), &source), "the source is kept verbatim");
        for value in fits {
            assert_eq!(schema.validate(&json!({"p": value})), [], "{value}");
        }
        for value in fails {
            assert_ne!(schema.validate(&json!({"p": value})), [], "{value}");
        }
    }

    #[test]
    fn a_list_of_items_is_a_tuple() {
        reads(
            json!({"type": "array", "minItems": 2, "maxItems": 2, "items": [{"type": "string"}, {"type": "number"}]}),
            &[json!(["a", 1])],
            &[json!([1, "a"]), json!(["a"]), json!(["a", 1, 2])],
        );
        reads(
            json!({"items": [{"type": "string"}], "additionalItems": {"type": "number"}}),
            &[json!(["a"]), json!(["a", 1, 2]), json!([])],
            &[json!(["a", "b"]), json!([1])],
        );
        reads(json!({"items": [true], "additionalItems": false}), &[json!([1])], &[json!([1, 2])]);
    }

    /// `z.tuple([])` is an empty list, with `.rest()` next to it.
    #[test]
    fn an_empty_list_of_items_leaves_all_of_them_to_the_rest() {
        reads(json!({"items": [], "maxItems": 0}), &[json!([])], &[json!([1])]);
        reads(
            json!({"items": [], "additionalItems": {"type": "number"}}),
            &[json!([]), json!([1, 2])],
            &[json!(["a"]), json!([1, "a"])],
        );
        reads(
            json!({"properties": {
                "list": {"items": [], "additionalItems": {"type": "number"}},
                "first": {"$ref": "#/properties/p/properties/list/additionalItems"},
            }}),
            &[json!({"list": [1], "first": 1})],
            &[json!({"first": "a"}), json!({"list": ["a"]})],
        );
    }

    #[test]
    fn dependencies_definitions_and_anchors_are_those_of_draft_7() {
        reads(
            json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
            &[json!({"a": 1, "b": 1}), json!({"c": 1, "d": 1})],
            &[json!({"a": 1}), json!({"c": 1})],
        );
        reads(
            json!({"definitions": {"name": {"$id": "#name", "type": "string"}}, "items": {"$ref": "#name"}}),
            &[json!(["a"])],
            &[json!([1])],
        );
    }

    #[test]
    fn boolean_bounds_exclude_their_bound() {
        let bounded = |exclusive: bool| json!({"minimum": 0, "exclusiveMinimum": exclusive, "maximum": 9, "exclusiveMaximum": exclusive});
        reads(bounded(true), &[json!(1), json!(8.5)], &[json!(0), json!(9), json!(-1)]);
        reads(bounded(false), &[json!(0), json!(9)], &[json!(-1), json!(10)]);
        reads(json!({"exclusiveMinimum": false}), &[json!(-1)], &[]);
        // Keywords of newer drafts keep their meaning next to them.
        reads(
            json!({"anyOf": [{"minimum": 0, "exclusiveMinimum": true}, {"const": -5}], "prefixItems": [{"type": "string"}]}),
            &[json!(1), json!(-5)],
            &[json!(0), json!([0])],
        );
    }

    /// What the converters of Zod write for an empty tuple, a nullable null, a negative divisor, an infinite bound and
    /// a text with accents.
    #[test]
    fn corner_cases_of_generators_are_read_by_their_meaning() {
        reads(json!({"prefixItems": [], "items": {"type": "number"}}), &[json!([1])], &[json!(["a"])]);
        reads(json!({"type": ["null", "null"]}), &[json!(null)], &[json!(1)]);
        reads(json!({"multipleOf": -4}), &[json!(8), json!(-4)], &[json!(2)]);
        reads(json!({"type": "number", "maximum": null, "minimum": 0}), &[json!(1e300)], &[json!(-1)]);
        reads(json!({"pattern": "^\\é\\.\\\\$"}), &[json!("é.\\")], &[json!("éx\\"), json!("\\é.\\")]);
        let source = Arc::new(json!({"multipleOf": 0}));
        assert_eq!(Schema::compile(&source).unwrap_err().fault.code(), "schema_invalid");
    }

    #[test]
    fn no_constraint_is_lost_by_the_guess() {
        let list = |beside: Value| json!({"definitions": {"s": {"type": "string"}}, "items": [beside]});
        let parameters =
            |p: Value| json!({"type": "object", "properties": {"p": p}, "definitions": {"s": {"type": "string"}}});
        for (beside, expect) in [
            (json!({"$ref": "#/definitions/s", "description": "x"}), Draft::Draft7),
            (json!({"$ref": "#/definitions/s", "maxLength": 3}), Draft::Draft201909),
            (json!({"dependentRequired": {"a": ["b"]}}), Draft::Draft201909),
            (json!({"prefixItems": [true]}), Draft::Draft202012),
        ] {
            assert_eq!(of(&parameters(list(beside.clone()))), Ok(expect), "{beside}");
        }
        let schema = Arc::new(parameters(list(json!({"$ref": "#/definitions/s", "maxLength": 3}))));
        let schema = Schema::compile(&schema).unwrap();
        assert_eq!(schema.validate(&json!({"p": ["abc"]})), []);
        assert_ne!(schema.validate(&json!({"p": ["abcd"]})), []);
        assert_eq!(
            of(&json!({"type": "object", "properties": {"p": {"items": {"$ref": "#"}}}})),
            Ok(Draft::Draft202012)
        );
    }

    #[test]
    fn a_named_draft_is_followed() {
        let refuses = |source: Value| Schema::compile(&Arc::new(source)).unwrap_err().fault.code();
        let newest = "https://json-schema.org/draft/2020-12/schema";
        let seventh = "http://json-schema.org/draft-07/schema#";
        assert_eq!(refuses(json!({"$schema": newest, "items": [{"type": "string"}]})), "schema_invalid");
        assert_eq!(refuses(json!({"$schema": newest, "items": []})), "schema_invalid");
        assert_eq!(refuses(json!({"$schema": seventh, "minimum": 1, "exclusiveMinimum": true})), "schema_invalid");
        assert_eq!(refuses(json!({"exclusiveMinimum": true})), "schema_invalid");
        assert_eq!(refuses(json!({"items": [{"type": "string"}], "prefixItems": [true]})), "schema_invalid");
        let fourth = "http://json-schema.org/draft-04/schema#";
        let schema = Schema::compile(&Arc::new(json!({"$schema": fourth, "minimum": 1, "exclusiveMinimum": true})));
        assert_ne!(schema.unwrap().validate(&json!(1)), []);
    }
}
