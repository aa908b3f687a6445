//! Which keywords of JSON Schema hold schemas, and which hold data.
//!
//! Everything that walks a schema uses [`subschemas`], so that a property *named* `optional`, or an `enum` value that
//! looks like a schema, is never mistaken for one.

use serde_json::{Map, Value};

/// The position of a subschema in its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaPlace<'a> {
    /// Under a keyword: `not`, `items`.
    Keyword(&'a str),
    /// In the list of a keyword: `anyOf[1]`.
    Item(&'a str, usize),
    /// In the map of a keyword: `properties.name`.
    Member(&'a str, &'a str),
}

/// The part of the value that a subschema applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reach<'a> {
    /// The same value as its parent.
    Same,
    /// One member of the object.
    Property(&'a str),
    /// Any member of the object.
    AnyProperty,
    /// Any item of the array.
    AnyItem,
    /// None, unless a reference leads there.
    Nothing,
}

const SINGLE: &[(&str, Reach<'static>)] = &[
    ("not", Reach::Same),
    ("if", Reach::Same),
    ("then", Reach::Same),
    ("else", Reach::Same),
    ("additionalProperties", Reach::AnyProperty),
    ("unevaluatedProperties", Reach::AnyProperty),
    // The names are strings, not values of the object; each is as deep as a member.
    ("propertyNames", Reach::AnyProperty),
    ("items", Reach::AnyItem),
    ("additionalItems", Reach::AnyItem),
    ("unevaluatedItems", Reach::AnyItem),
    ("contains", Reach::AnyItem),
    ("contentSchema", Reach::Same),
];

const LISTS: &[(&str, Reach<'static>)] = &[
    ("allOf", Reach::Same),
    ("anyOf", Reach::Same),
    ("oneOf", Reach::Same),
    ("prefixItems", Reach::AnyItem),
    // Draft 7: one schema for each item.
    ("items", Reach::AnyItem),
];

const MAPS: &[(&str, Reach<'static>)] = &[
    ("patternProperties", Reach::AnyProperty),
    ("dependentSchemas", Reach::Same),
    // Draft 7; a list of names is not a schema and is skipped.
    ("dependencies", Reach::Same),
    ("$defs", Reach::Nothing),
    ("definitions", Reach::Nothing),
];

/// The schemas directly below `schema`, in a fixed order.
pub(crate) fn subschemas(schema: &Map<String, Value>) -> Vec<(SchemaPlace<'_>, Reach<'_>, &Value)> {
    let mut found = Vec::new();
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, value) in properties {
            found.push((SchemaPlace::Member("properties", name), Reach::Property(name), value));
        }
    }
    for &(keyword, reach) in SINGLE {
        if let Some(value @ (Value::Object(_) | Value::Bool(_))) = schema.get(keyword) {
            found.push((SchemaPlace::Keyword(keyword), reach, value));
        }
    }
    for &(keyword, reach) in LISTS {
        if let Some(Value::Array(items)) = schema.get(keyword) {
            for (index, value) in items.iter().enumerate() {
                found.push((SchemaPlace::Item(keyword, index), reach, value));
            }
        }
    }
    for &(keyword, reach) in MAPS {
        if let Some(Value::Object(members)) = schema.get(keyword) {
            for (name, value) in members {
                if !value.is_array() {
                    found.push((SchemaPlace::Member(keyword, name), reach, value));
                }
            }
        }
    }
    found
}

/// The kind of content of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeywordContent {
    Schema,
    /// A list or a map of schemas.
    Schemas,
    Data,
}

/// The content of `keyword` in a schema where it has this value.
pub(crate) fn holds(keyword: &str, value: Option<&Value>) -> KeywordContent {
    let is_in = |table: &[(&str, Reach<'_>)]| table.iter().any(|(name, _)| *name == keyword);
    match value {
        Some(Value::Array(_)) if is_in(LISTS) => KeywordContent::Schemas,
        Some(Value::Object(_)) if keyword == "properties" || is_in(MAPS) => KeywordContent::Schemas,
        Some(Value::Object(_) | Value::Bool(_)) if is_in(SINGLE) => KeywordContent::Schema,
        _ => KeywordContent::Data,
    }
}

impl SchemaPlace<'_> {
    /// The JSON pointer of the subschema, relative to its parent.
    pub(crate) fn pointer(self) -> String {
        let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
        match self {
            Self::Keyword(keyword) => format!("/{keyword}"),
            Self::Item(keyword, index) => format!("/{keyword}/{index}"),
            Self::Member(keyword, name) => format!("/{keyword}/{}", escaped(name)),
        }
    }

    /// The path of the subschema, below the path of its parent.
    pub(crate) fn below(self, parent: &str) -> String {
        match self {
            Self::Keyword(keyword) => super::path::with_key(parent, keyword),
            Self::Item(keyword, index) => super::path::with_index(&super::path::with_key(parent, keyword), index),
            Self::Member(keyword, name) => super::path::with_key(&super::path::with_key(parent, keyword), name),
        }
    }
}

/// Calls `visit` with every schema directly below `schema`, in the order of [`subschemas`].
pub(crate) fn for_each_subschema_mut(
    schema: &mut Map<String, Value>,
    visit: &mut dyn FnMut(SchemaPlace<'_>, &mut Value),
) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, value) in properties {
            visit(SchemaPlace::Member("properties", name), value);
        }
    }
    for (keyword, _) in SINGLE {
        if let Some(value @ (Value::Object(_) | Value::Bool(_))) = schema.get_mut(*keyword) {
            visit(SchemaPlace::Keyword(keyword), value);
        }
    }
    for (keyword, _) in LISTS {
        if let Some(Value::Array(items)) = schema.get_mut(*keyword) {
            for (index, value) in items.iter_mut().enumerate() {
                visit(SchemaPlace::Item(keyword, index), value);
            }
        }
    }
    for (keyword, _) in MAPS {
        if let Some(Value::Object(members)) = schema.get_mut(*keyword) {
            for (name, value) in members.iter_mut().filter(|(_, value)| !value.is_array()) {
                visit(SchemaPlace::Member(keyword, name), value);
            }
        }
    }
}

/// The keywords of the supported drafts.
pub(crate) const KNOWN: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "id",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
];

/// The keyword that was probably meant.
pub(crate) fn closest(name: &str) -> Option<&'static str> {
    crate::text::closest(name, KNOWN.iter().copied())
}
