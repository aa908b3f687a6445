//! The body of a request: JSON, a form, or one text.

use bosun_core::tool::{NamedValue, ValueSource};
use serde_json::{Map, Value, json};

use super::{
    OpenApiDocument,
    operation::{OperationDraft, described, is_slot_name},
    reference,
    style::{ParameterStyle, ValueShape},
};
use crate::{document::Path, format::clip, found::Report};

const FORM: &str = "application/x-www-form-urlencoded";

/// Reads a `requestBody` as the property `body`.
pub(super) fn read(
    api: &OpenApiDocument<'_>,
    draft: &mut OperationDraft<'_>,
    body: &Value,
    path: &Path,
    report: &Report,
) {
    let Some(content) = body.get("content").and_then(Value::as_object) else { return };
    let find = |is_kind: fn(&str) -> bool| content.iter().find(|(media, _)| is_kind(&essence(media)));
    let chosen = find(is_json)
        .or_else(|| find(|media| media == FORM))
        .or_else(|| find(|media| media.starts_with("text/")))
        .or_else(|| content.iter().next());
    let Some((media, value)) = chosen else { return };
    let schema_path = path.key("content").key(media).key("schema");
    let written = value.get("schema");
    let schema = match written {
        Some(schema) => match draft.definitions.copy(schema, &schema_path, report) {
            Some(schema) => schema,
            None => return,
        },
        None => json!({}),
    };
    if content.len() > 1 {
        let message = format!("of {} kinds of body, `{}` is used", content.len(), clip(media));
        report.warn(&path.key("content"), "body_chosen", message);
    }
    let required = body.get("required") == Some(&Value::Bool(true));
    let property = draft.property("body", "request", described(schema, body), required, path, report);
    let kind = essence(media);
    let template = if is_json(&kind) || kind.starts_with("text/") {
        Ok(format!("{{{{.input.{property}}}}}"))
    } else if kind == FORM {
        form(api, written, value.get("encoding"), &property)
    } else if kind.starts_with("multipart/") {
        Err("it sends its body in parts (multipart), which an http tool cannot".to_owned())
    } else {
        Err(format!("it sends its body as {}", clip(media)))
    };
    match template {
        Ok(template) => {
            draft.body = Some(template);
            let value = ValueSource::Literal(media.clone());
            draft.headers.push(NamedValue { name: "Content-Type".to_owned(), value });
        }
        Err(obstacle) => draft.obstacles.push(obstacle),
    }
}

fn essence(media: &str) -> String {
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_json(media: &str) -> bool {
    media == "application/json" || media.ends_with("+json")
}

/// The template of a form. All fields at once, if they have the same style; else a pair for each.
fn form(
    api: &OpenApiDocument<'_>,
    schema: Option<&Value>,
    encoding: Option<&Value>,
    property: &str,
) -> Result<String, String> {
    let none = Map::new();
    let properties = schema.and_then(|schema| object(api, schema)).and_then(|schema| schema.get("properties"));
    let properties = properties.and_then(Value::as_object).unwrap_or(&none);
    let mut styles = Vec::new();
    for (name, schema) in properties {
        let shape = ValueShape::of(api, schema);
        let own = encoding.and_then(|encoding| encoding.get(name));
        let style = match own {
            Some(own) if own.get("style").is_some() || own.get("explode").is_some() => {
                ParameterStyle::read(own, "form")
                    .of_pair(shape)
                    .map_err(|problem| format!("the field `{}` of its form has the {problem}", clip(name)))?
            }
            // Without a style, an object is JSON.
            _ if shape == ValueShape::Object => Some("json"),
            _ => None,
        };
        styles.push((name, shape, style));
    }
    let complex = || styles.iter().filter(|(_, shape, _)| *shape != ValueShape::Scalar);
    if complex().all(|(_, shape, style)| style.is_none() && *shape == ValueShape::List) {
        return Ok(format!("{{{{.input.{property}}}}}"));
    }
    if complex().all(|(_, _, style)| *style == Some("deepObject")) {
        return Ok(format!("{{{{.input.{property}:deepObject}}}}"));
    }
    if let Some((name, ..)) = styles.iter().find(|(name, ..)| !is_slot_name(name)) {
        return Err(format!("the name of the field `{}` cannot be that of a slot", clip(name)));
    }
    let pair = |(name, shape, style): &(&String, ValueShape, Option<&str>)| {
        let style = match (style, shape) {
            (Some(style), _) => format!(":{style}"),
            (None, ValueShape::Scalar) => String::new(),
            (None, _) => ":multi".to_owned(),
        };
        format!("{name}={{{{.input.{property}.{name}{style}}}}}")
    };
    Ok(styles.iter().map(pair).collect::<Vec<_>>().join("&"))
}

/// The schema behind its references.
fn object<'a>(api: &OpenApiDocument<'a>, schema: &'a Value) -> Option<&'a Value> {
    let mut schema = schema;
    for _ in 0..16 {
        match reference::of(schema) {
            Some(target) => schema = reference::resolve(api.root, target).ok()?,
            None => return Some(schema),
        }
    }
    None
}
