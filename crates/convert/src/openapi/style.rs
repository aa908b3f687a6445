//! How the value of a parameter becomes part of a request: `style` and `explode` as the style of a slot.

use serde_json::Value;

use super::{OpenApiDocument, reference};

/// What a value may be, as far as that matters for its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueShape {
    Scalar,
    List,
    Object,
    /// A choice of several, or anything.
    Any,
}

/// Maximum length of a chain of references.
const LONGEST_CHAIN: usize = 16;

/// Maximum number of parts of a composition that are looked at.
const MOST_PARTS: usize = 4;

/// Maximum depth of compositions that are looked into.
const DEEPEST: usize = 8;

impl ValueShape {
    pub(super) fn of(api: &OpenApiDocument<'_>, schema: &Value) -> Self {
        Self::within(api, schema, DEEPEST)
    }

    fn within(api: &OpenApiDocument<'_>, schema: &Value, depth: usize) -> Self {
        let Some(schema) = resolved(api, schema) else { return Self::Any };
        let of_type = |name: &str| match name {
            "array" => Self::List,
            "object" => Self::Object,
            _ => Self::Scalar,
        };
        match schema.get("type") {
            Some(Value::String(name)) => of_type(name),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
                Self::common(names.map(of_type)).unwrap_or(Self::Scalar)
            }
            _ if schema.get("properties").is_some() => Self::Object,
            _ if schema.get("items").is_some() => Self::List,
            _ if schema.get("enum").is_some() || schema.get("const").is_some() => Self::Scalar,
            _ if depth == 0 => Self::Any,
            _ => {
                let parts = |keyword: &str| {
                    let parts = schema.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                    let parts = parts.iter().take(MOST_PARTS).filter(|part| part.get("type") != Some(&"null".into()));
                    parts.map(|part| Self::within(api, part, depth - 1)).collect::<Vec<_>>()
                };
                // A value fits all of the parts, so one that says what it is suffices; of a choice, all must agree.
                let whole = parts("allOf").into_iter().find(|shape| *shape != Self::Any);
                whole
                    .or_else(|| Self::common(parts("oneOf")))
                    .or_else(|| Self::common(parts("anyOf")))
                    .unwrap_or(Self::Any)
            }
        }
    }

    /// Whether a schema has lists or objects within lists, which only JSON and `deepObject` can write.
    pub(super) fn is_nested(api: &OpenApiDocument<'_>, schema: &Value) -> bool {
        let Some(schema) = resolved(api, schema) else { return false };
        let items = schema.get("items").filter(|_| Self::of(api, schema) == Self::List);
        items.is_some_and(|items| matches!(Self::of(api, items), Self::List | Self::Object))
    }

    /// The shape that all have; `None` without any.
    fn common(shapes: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut shapes = shapes.into_iter();
        let first = shapes.next()?;
        Some(if shapes.all(|shape| shape == first) { first } else { Self::Any })
    }
}

/// The schema behind its references; `None` if they lead nowhere.
pub(super) fn resolved<'a>(api: &OpenApiDocument<'a>, schema: &'a Value) -> Option<&'a Value> {
    let mut schema = schema;
    for _ in 0..LONGEST_CHAIN {
        match reference::of(schema) {
            Some(target) => schema = reference::resolve(api.root, target).ok()?,
            None => return Some(schema),
        }
    }
    None
}

/// `style` and `explode` of a parameter or of a field of a form, with their defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParameterStyle<'a> {
    pub(super) style: &'a str,
    pub(super) explode: bool,
}

impl<'a> ParameterStyle<'a> {
    pub(super) fn read(value: &'a Value, default: &'a str) -> Self {
        let style = value.get("style").and_then(Value::as_str).unwrap_or(default);
        let explode = value.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
        Self { style, explode }
    }

    /// The style of a slot in a query or a form. `None` is the default of a query: a list repeats its pair.
    pub(super) fn of_pair(self, shape: ValueShape) -> Result<Option<&'static str>, String> {
        Ok(match (self.style, self.explode, shape) {
            ("form", true, ValueShape::Object) => Some("explode"),
            ("form" | "spaceDelimited" | "pipeDelimited", true, ValueShape::List) | (_, _, ValueShape::Scalar) => None,
            ("form", true, ValueShape::Any) => None,
            ("form", false, _) => Some("csv"),
            ("spaceDelimited", _, _) => Some("ssv"),
            ("pipeDelimited", _, _) => Some("pipes"),
            // Of Swagger 2.
            ("tabDelimited", _, _) => Some("tsv"),
            ("deepObject", _, _) => Some("deepObject"),
            (other, _, _) => return Err(format!("style `{other}`, which has no meaning there")),
        })
    }

    /// The text of a slot in a path, with its braces.
    pub(super) fn of_path(self, name: &str, property: &str, shape: ValueShape) -> Result<String, String> {
        let is_scalar = shape == ValueShape::Scalar;
        let joined = if is_scalar { format!("{{{property}}}") } else { format!("{{{property}:csv}}") };
        let exploded = |style: &str| format!("{{{property}:{style}}}");
        Ok(match (self.style, self.explode) {
            ("simple", true) if shape == ValueShape::Object => exploded("explode"),
            ("simple", _) => joined,
            ("label", true) if !is_scalar => exploded("label"),
            ("label", _) => format!(".{joined}"),
            ("matrix", true) if !is_scalar && name == property => exploded("matrix"),
            ("matrix", true) if !is_scalar => return Err("style `matrix` under another name".to_owned()),
            ("matrix", _) => format!(";{name}={joined}"),
            (other, _) => return Err(format!("style `{other}`, which has no meaning there")),
        })
    }

    /// The style of a slot in a header.
    pub(super) fn of_header(self, shape: ValueShape) -> Option<&'static str> {
        match shape {
            ValueShape::Scalar => None,
            ValueShape::Object if self.explode => Some("explode"),
            ValueShape::List | ValueShape::Object | ValueShape::Any => Some("csv"),
        }
    }
}
