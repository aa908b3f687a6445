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

impl ValueShape {
    pub(super) fn of(api: &OpenApiDocument<'_>, schema: &Value) -> Self {
        let mut schema = schema;
        for _ in 0..LONGEST_CHAIN {
            let Some(target) = reference::of(schema).and_then(|target| reference::resolve(api.root, target).ok())
            else {
                break;
            };
            schema = target;
        }
        let of_type = |name: &str| match name {
            "array" => Self::List,
            "object" => Self::Object,
            _ => Self::Scalar,
        };
        match schema.get("type") {
            Some(Value::String(name)) => of_type(name),
            Some(Value::Array(names)) => {
                let mut shapes = names.iter().filter_map(Value::as_str).filter(|name| *name != "null").map(of_type);
                let first = shapes.next().unwrap_or(Self::Scalar);
                if shapes.all(|shape| shape == first) { first } else { Self::Any }
            }
            _ if schema.get("properties").is_some() => Self::Object,
            _ if schema.get("items").is_some() => Self::List,
            _ if schema.get("enum").is_some() || schema.get("const").is_some() => Self::Scalar,
            _ => Self::Any,
        }
    }
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
