//! The body of a request: JSON, a form, a form in parts, or one text.

use std::collections::VecDeque;

use bosun_core::tool::{NamedValue, ValueSource};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{
    OpenApiDocument,
    operation::{OperationDraft, described, is_slot_name},
    schema::is_read_only,
    style::{ParameterStyle, ValueShape, resolved},
};
use crate::{Warning, document::Path, format::clip, found::Report};

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &str = "multipart/form-data";

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
    // APIs that list several kinds of JSON take plain JSON as well; `json-patch+json` and its like have another shape.
    let chosen = find(|media| media == JSON)
        .or_else(|| find(is_json))
        .or_else(|| find(|media| media == FORM))
        .or_else(|| find(|media| media == MULTIPART))
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
    if body.get("required") != Some(&Value::Bool(true)) && written.is_some_and(|schema| has_no_fields(api, schema)) {
        return;
    }
    if content.len() > 1 {
        let message = format!("of {} kinds of body, `{}` is used", content.len(), clip(media));
        report.warn(&path.key("content"), "body_chosen", message);
    }
    let required = body.get("required") == Some(&Value::Bool(true));
    let property = draft.property("body", "request", described(schema, body), required, path, report);
    let kind = essence(media);
    let shape = written.map_or(ValueShape::Any, |schema| ValueShape::of(api, schema));
    let is_text = kind.starts_with("text/") && !matches!(shape, ValueShape::Object | ValueShape::List);
    let template = if is_json(&kind) || is_text {
        Ok(format!("{{{{.input.{property}}}}}"))
    } else if kind == FORM {
        form(api, written, value.get("encoding"), &property)
    } else if kind == MULTIPART {
        multipart(api, written, value.get("encoding"), &property).map(|(template, notes)| {
            let warning = |(code, message)| Warning { path: schema_path.to_string(), code, message };
            draft.losses.extend(notes.into_iter().map(warning));
            template
        })
    } else {
        Err(format!("it sends its body as {}", clip(media)))
    };
    match template {
        Ok(template) => {
            draft.body = Some(template);
            draft.body_property = Some(property);
            let value = ValueSource::Literal(sent_as(media, &kind).to_owned());
            draft.headers.push(NamedValue { name: "Content-Type".to_owned(), value });
        }
        Err(obstacle) => draft.obstacles.push(obstacle),
    }
}

fn essence(media: &str) -> String {
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a body is JSON. A media range that includes JSON is sent as JSON: the schema says no more.
fn is_json(media: &str) -> bool {
    matches!(media, JSON | "text/json" | "*/*" | "application/*") || media.ends_with("+json")
}

/// The `Content-Type` of a request: a range is none, and a boundary belongs to one body.
fn sent_as<'a>(media: &'a str, essence: &'a str) -> &'a str {
    match essence {
        MULTIPART => MULTIPART,
        "text/*" => "text/plain",
        range if range.contains('*') => JSON,
        _ => media,
    }
}

/// The template of a form. All fields at once, if they have the same style; else a pair for each.
fn form(
    api: &OpenApiDocument<'_>,
    schema: Option<&Value>,
    encoding: Option<&Value>,
    property: &str,
) -> Result<String, String> {
    let fields = fields(api, schema)?;
    let shape = schema.map_or(ValueShape::Any, |schema| ValueShape::of(api, schema));
    if matches!(shape, ValueShape::Scalar | ValueShape::List) {
        return Err("its form is not an object, and only those have fields".to_owned());
    }
    let styled = encoding.and_then(Value::as_object).into_iter().flatten().filter(|(_, own)| has_style(own));
    for (name, _) in styled {
        if !fields.contains_key(name.as_str()) {
            return Err(format!(
                "the field `{}` of its form has a style, and its schema lists no such field",
                clip(name)
            ));
        }
    }
    let mut styles = Vec::new();
    for (name, schema) in fields.into_iter().filter(|(_, schema)| !is_read_only(api.root, schema)) {
        let shape = ValueShape::of(api, schema);
        let own = encoding.and_then(|encoding| encoding.get(name));
        let style = match written_style(own, name, shape)? {
            Some(style) => style,
            // Without a style, an object is JSON.
            None if shape == ValueShape::Object => Some("json"),
            None => None,
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
    for (name, ..) in &styles {
        slot_name(name)?;
    }
    let pair = |(name, shape, style): &(&str, ValueShape, Option<&str>)| {
        let style = match (style, shape) {
            (Some(style), _) => format!(":{style}"),
            (None, ValueShape::Scalar) => String::new(),
            (None, _) => ":multi".to_owned(),
        };
        format!("{name}={{{{.input.{property}.{name}{style}}}}}")
    };
    Ok(styles.iter().map(pair).collect::<Vec<_>>().join("&"))
}

/// Maximum number of schemas whose properties are the fields of one form.
const MOST_PARTS: usize = 256;

/// The fields of a form: the properties of its schema and of all parts of it.
fn fields<'a>(api: &OpenApiDocument<'a>, schema: Option<&'a Value>) -> Result<IndexMap<&'a str, &'a Value>, String> {
    let mut fields = IndexMap::new();
    let mut waiting: VecDeque<&Value> = schema.into_iter().collect();
    let mut seen = 0;
    while let Some(schema) = waiting.pop_front() {
        seen += 1;
        if seen > MOST_PARTS {
            return Err(format!("the schema of its form has more than {MOST_PARTS} parts"));
        }
        let Some(schema) = resolved(api, schema) else { continue };
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            fields.entry(name.as_str()).or_insert(property);
        }
        waiting.extend(schema.get("allOf").and_then(Value::as_array).into_iter().flatten());
    }
    Ok(fields)
}

/// The code and the message of a warning about a form.
type FormWarning = (&'static str, String);

/// The template of a form in parts, a pair for each field, and its warnings.
fn multipart(
    api: &OpenApiDocument<'_>,
    schema: Option<&Value>,
    encoding: Option<&Value>,
    property: &str,
) -> Result<(String, Vec<FormWarning>), String> {
    let fields = fields(api, schema)?;
    if fields.is_empty() {
        return Err("it sends its body in parts (multipart), and their names are not listed".to_owned());
    }
    let mut pairs = Vec::new();
    let mut notes = Vec::new();
    for (name, schema) in fields.into_iter().filter(|(_, schema)| !is_read_only(api.root, schema)) {
        slot_name(name)?;
        let own = encoding.and_then(|encoding| encoding.get(name));
        let media = own.and_then(|own| own.get("contentType")).and_then(Value::as_str).map(essence);
        let schema = resolved(api, schema).unwrap_or(schema);
        let item = schema.get("items").and_then(|items| resolved(api, items));
        let shape = ValueShape::of(api, schema);
        let style = if is_file(item.unwrap_or(schema), media.as_deref()) {
            let message = format!(
                "the file `{}` is sent with the text that the model gives: it cannot be a picture or another file that \
                 is not text",
                clip(name)
            );
            notes.push(("text_file", message));
            Some("file")
        } else if media.as_deref().is_some_and(is_json) {
            Some("json")
        } else if let Some(style) = written_style(own, name, shape)? {
            style
        } else {
            match (shape, item.map(|item| ValueShape::of(api, item))) {
                (ValueShape::Scalar | ValueShape::Any, _) => None,
                (ValueShape::List, None | Some(ValueShape::Scalar | ValueShape::Any)) => Some("multi"),
                (ValueShape::Object, _) => Some("json"),
                (ValueShape::List, Some(_)) => {
                    let name = clip(name);
                    let message = format!("the list `{name}` is sent as one part of JSON, not as a part for each item");
                    notes.push(("list_in_one_part", message));
                    Some("json")
                }
            }
        };
        let style = style.map(|style| format!(":{style}")).unwrap_or_default();
        pairs.push(format!("{name}={{{{.input.{property}.{name}{style}}}}}"));
    }
    Ok((pairs.join("&"), notes))
}

/// Whether a part holds bytes: by its schema, or because its type is neither text nor JSON.
fn is_file(schema: &Value, media: Option<&str>) -> bool {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let own = text("contentMediaType").filter(|_| text("contentEncoding").is_none()).map(essence);
    text("format") == Some("binary")
        || media.or(own.as_deref()).is_some_and(|media| !media.starts_with("text/") && !is_json(media))
}

/// The style that a field of a form is written with, if its encoding names one.
fn written_style(
    encoding: Option<&Value>,
    name: &str,
    shape: ValueShape,
) -> Result<Option<Option<&'static str>>, String> {
    let Some(own) = encoding.filter(|own| has_style(own)) else { return Ok(None) };
    let style = ParameterStyle::read(own, "form").of_pair(shape);
    style.map(Some).map_err(|problem| format!("the field `{}` of its form has the {problem}", clip(name)))
}

fn has_style(encoding: &Value) -> bool {
    encoding.get("style").is_some() || encoding.get("explode").is_some()
}

fn slot_name(name: &str) -> Result<(), String> {
    if is_slot_name(name) {
        return Ok(());
    }
    Err(format!("the name of the field `{}` cannot be that of a slot", clip(name)))
}

/// Whether a schema is that of an object without members: some descriptions give one to every operation.
fn has_no_fields(api: &OpenApiDocument<'_>, schema: &Value) -> bool {
    let Some(schema) = resolved(api, schema).and_then(Value::as_object) else { return false };
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    schema.get("properties").is_some_and(is_empty)
        && schema.iter().all(|(key, value)| match key.as_str() {
            "type" | "properties" | "title" | "description" => true,
            "additionalProperties" => *value == Value::Bool(false),
            _ => false,
        })
}
