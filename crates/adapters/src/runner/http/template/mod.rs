//! The template of a request: an [`HttpRequest`] whose slots are parsed.
//!
//! A value is encoded for the place of its slot and can only be a value there: for any arguments, a request has the
//! method, scheme, host, port, path segments, header names and JSON structure of its template. That is the property in
//! `tests`. Nothing is sent or looked up here.

mod body;
mod form;
mod header;
mod json;
mod slot;
mod style;
#[cfg(test)]
mod tests;
mod url;

use ::url::Url;
use bosun_core::tool::{HttpRequest, Method, ValueSource};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;

use self::{
    body::BodyTemplate,
    header::{HeaderSource, HeaderTemplate},
    slot::Slot,
    url::UrlTemplate,
};

pub(crate) use slot::SlotValues;

/// A request with slots.
#[derive(Clone, Debug)]
pub(crate) struct RequestTemplate {
    method: Method,
    url: UrlTemplate,
    headers: Vec<HeaderTemplate>,
    body: Option<BodyTemplate>,
}

/// A request of one call, but for the headers that are looked up.
#[derive(Debug)]
pub(crate) struct RenderedRequest {
    pub(crate) method: Method,
    pub(crate) path_and_query: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Option<String>,
}

/// Why arguments cannot be put into a request. The model reads it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RenderError {
    #[error("{0} is missing, and the request needs it")]
    Missing(String),
    #[error("{0} must be a text, a number or a boolean: it becomes part of the address or of a header")]
    NotScalar(String),
    #[error("{0} must be an object: its members are the fields of the request")]
    NotObject(String),
    #[error("{0} must not have a member `{1}`: the request has a parameter of that name")]
    NameTaken(String, String),
    #[error("{0} must not be empty: it is a part of the path")]
    Empty(String),
    #[error("{0} must not have `.` or `..` between slashes: it would lead to another path")]
    DotSegment(String),
    #[error("{0} has a line break or another control character, which a header cannot carry")]
    ControlCharacter(String),
    #[error("with these arguments, the address would be longer than {0} bytes")]
    AddressTooLong(usize),
    #[error("with these arguments, the request would be larger than {0} bytes")]
    TooLarge(usize),
}

/// The field of ARK's `http` block that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateField {
    Url,
    Body,
    /// By its index.
    Header(usize),
}

impl std::fmt::Display for TemplateField {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url => formatter.write_str("url"),
            Self::Body => formatter.write_str("body"),
            Self::Header(index) => write!(formatter, "headers[{index}]"),
        }
    }
}

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFault {
    pub field: TemplateField,
    pub code: &'static str,
    pub message: String,
    pub hint: &'static str,
}

const SLOT_HINT: &str = "an argument is `{{.input.name}}`, and a parameter of `bodyParameters` is `{{.name}}`";

impl TemplateFault {
    fn new(field: TemplateField, message: String) -> Self {
        let hint = if message.contains("{{") { SLOT_HINT } else { "" };
        Self { field, code: "bad_template", message, hint }
    }
}

impl RequestTemplate {
    /// Parses the request of a tool. `parameters` is the schema of its arguments, if its manifest has one.
    ///
    /// # Errors
    /// With everything that is wrong.
    pub(crate) fn parse(request: &HttpRequest, parameters: Option<&Value>) -> Result<Self, Vec<TemplateFault>> {
        let mut faults = Vec::new();
        let url = UrlTemplate::parse(&request.url)
            .map_err(|problem| faults.push(TemplateFault::new(TemplateField::Url, format!("the address {problem}"))));
        let mut headers = Vec::with_capacity(request.headers.len());
        for (index, header) in request.headers.iter().enumerate() {
            match HeaderTemplate::parse(header) {
                Ok(template) => headers.push((index, template)),
                Err(message) => faults.push(TemplateFault::new(TemplateField::Header(index), message)),
            }
        }
        let body = body(request).map_err(|message| faults.push(TemplateFault::new(TemplateField::Body, message)));
        let mut check = |field, slot: &Slot| {
            faults.extend(unknown(slot, request, parameters).map(|(message, hint)| TemplateFault {
                code: "unknown_parameter",
                hint,
                ..TemplateFault::new(field, message)
            }));
        };
        url.iter().flat_map(UrlTemplate::slots).for_each(|slot| check(TemplateField::Url, slot));
        for (index, header) in &headers {
            header.slots().for_each(|slot| check(TemplateField::Header(*index), slot));
        }
        let of_body = body.iter().flatten().flat_map(BodyTemplate::slots);
        of_body.for_each(|slot| check(TemplateField::Body, slot));
        match (url, body) {
            (Ok(url), Ok(body)) if faults.is_empty() => {
                let headers = headers.into_iter().map(|(_, header)| header).collect();
                Ok(Self { method: request.method, url, headers, body })
            }
            _ => Err(faults),
        }
    }

    /// Scheme, host and port, which no argument changes.
    pub(crate) fn origin(&self) -> &Url {
        &self.url.origin
    }

    /// The headers that are looked up at each call.
    pub(crate) fn references(&self) -> impl Iterator<Item = (&HeaderName, &ValueSource)> {
        self.headers.iter().filter_map(|header| match &header.value {
            HeaderSource::Reference(source) => Some((&header.name, source)),
            HeaderSource::Template(_) => None,
        })
    }

    /// The request of one call.
    ///
    /// # Errors
    /// If a value has no place in the request.
    pub(crate) fn render(&self, values: SlotValues<'_>) -> Result<RenderedRequest, RenderError> {
        let path_and_query = self.url.render(values)?;
        let mut headers = Vec::with_capacity(self.headers.len() + 1);
        for HeaderTemplate { name, value } in &self.headers {
            if let HeaderSource::Template(pieces) = value
                && let Some(value) = header::render(pieces, values)?
            {
                headers.push((name.clone(), value));
            }
        }
        let body = match &self.body {
            Some(template) => template.render(values)?.map(|body| (template, body)),
            None => None,
        };
        if self.body.is_some() && body.is_none() {
            headers.retain(|(name, _)| *name != CONTENT_TYPE);
        }
        let body = body.map(|(template, body)| {
            if let Some(content_type) = body.content_type.and_then(|text| HeaderValue::try_from(text).ok()) {
                headers.retain(|(name, _)| *name != CONTENT_TYPE);
                headers.push((CONTENT_TYPE, content_type));
            } else if !self.headers.iter().any(|header| header.name == CONTENT_TYPE) {
                headers.push((CONTENT_TYPE, HeaderValue::from_static(template.default_content_type())));
            }
            body.text
        });
        Ok(RenderedRequest { method: self.method, path_and_query, headers, body })
    }
}

fn body(request: &HttpRequest) -> Result<Option<BodyTemplate>, String> {
    let Some(text) = &request.body else { return Ok(None) };
    if !request.method.has_body() {
        return Err(format!("the body would never be sent: a request with {} has none", request.method.as_str()));
    }
    let header = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(CONTENT_TYPE.as_str()));
    let content_type = match header.map(|header| &header.value) {
        None => None,
        Some(ValueSource::Literal(text)) => Some(text.as_str()),
        // Its format decides how values are encoded.
        Some(_) => return Err("the body needs a `Content-Type` that is written in the manifest".to_owned()),
    };
    BodyTemplate::parse(text, content_type).map(Some).map_err(|problem| format!("the body {problem}"))
}

/// Refuses a member of an argument that would be a second parameter of a name that the template has.
fn free_name(slot: &Slot, name: &str, own: &str, names: &[&str]) -> Result<(), RenderError> {
    if name != own && names.contains(&name) {
        return Err(RenderError::NameTaken(slot.called(), name.chars().take(80).collect()));
    }
    Ok(())
}

/// What is wrong with a slot that nothing fills.
fn unknown(slot: &Slot, request: &HttpRequest, parameters: Option<&Value>) -> Option<(String, &'static str)> {
    match slot {
        Slot::Parameter(name) => {
            let is_known = request.body_parameters.iter().any(|parameter| parameter.name == *name);
            (!is_known).then(|| (format!("`{{{{.{name}}}}}` is not in `bodyParameters`"), SLOT_HINT))
        }
        Slot::Argument(path) => {
            let (name, schema) = (path.first()?, parameters?);
            let is_known = schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
            // Elsewhere in a schema there may be more properties than are listed here.
            let may_have_more = ["$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"]
                .iter()
                .any(|keyword| schema.get(keyword).is_some())
                || schema.get("additionalProperties").is_some_and(|more| *more != Value::Bool(false));
            let message = || format!("`inputSchema` has no property `{name}`, which a slot needs");
            (!is_known && !may_have_more).then(|| (message(), "add it to `inputSchema.properties`"))
        }
    }
}
