//! One operation as a tool.

use bosun_core::{
    Binding, Tool,
    tool::{Deprecation, HttpRequest, Method, NamedValue, ValueSource},
};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{OpenApiDocument, reference, schema::Definitions, security, server};
use crate::{
    Warning,
    document::Path,
    format::clip,
    found::{ConversionRequest, Found, InsideTool, Report, ToolOrigin},
    names::percent_encode,
};

/// Maximum number of parameters; no model could fill more.
const MOST_PARAMETERS: usize = 1_000;

/// The position of an operation in the document.
pub(super) struct ParameterPlace<'a> {
    pub(super) url: &'a str,
    pub(super) method: &'a str,
    pub(super) item: &'a Map<String, Value>,
    pub(super) item_path: &'a Path,
    pub(super) path: &'a Path,
}

pub(super) fn read(
    api: &mut OpenApiDocument<'_>,
    operation: &Map<String, Value>,
    place: &ParameterPlace<'_>,
    report: &Report,
) -> Option<Found> {
    let name = name(operation, place, report);
    let mut draft = OperationDraft::new(api, place);
    let faults = report.fault_count();
    for (parameter, path) in parameters(api, operation, place, report) {
        draft.parameter(parameter, &path, report);
    }
    draft.slots_without_parameter(report);
    if let Some(body) = operation.get("requestBody") {
        let path = place.path.key("requestBody");
        if let Some(body) = reference::follow(api.root, body, &path, report) {
            draft.body(body, &path, report);
        }
    }
    if report.fault_count() != faults {
        return None;
    }
    let inside = draft.request(api, operation);
    let mut parameters = json!({"type": "object", "properties": draft.properties});
    if !draft.required.is_empty() {
        parameters["required"] = draft.required.into();
    }
    let (parameters, budget) = draft.definitions.finish(parameters, place.path, report)?;
    api.budget = budget;

    let mut tool = Tool::new(name, description(operation, place, report), parameters, Binding::External);
    tool.category = operation.get("tags").and_then(|tags| tags.get(0)).and_then(Value::as_str).map(str::to_owned);
    if operation.get("deprecated") == Some(&Value::Bool(true)) {
        tool.deprecated = Some(Deprecation::default());
    }
    Some(Found { tool, origin: ToolOrigin { path: place.path.clone(), parameters: None }, inside })
}

fn name(operation: &Map<String, Value>, place: &ParameterPlace<'_>, report: &Report) -> String {
    if let Some(name) = operation.get("operationId").and_then(Value::as_str).filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let mut name = place.method.to_owned();
    for word in place.url.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        name.push('_');
        name.push_str(word);
    }
    report.warn(
        place.path,
        "name_assumed",
        format!("the operation has no `operationId`; it is named `{}`", clip(&name)),
    );
    name
}

fn description(operation: &Map<String, Value>, place: &ParameterPlace<'_>, report: &Report) -> String {
    let text = |key: &str| operation.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    match (text("summary"), text("description")) {
        (Some(summary), Some(description)) if description.starts_with(summary) => description.to_owned(),
        (Some(summary), Some(description)) => format!("{summary}\n\n{description}"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) => {
            let assumed = format!("{} {}", place.method.to_ascii_uppercase(), place.url);
            let message = format!("the operation has no description; `{}` is used", clip(&assumed));
            report.warn(place.path, "description_assumed", message);
            assumed
        }
    }
}

/// The parameters of an operation and of its path; the operation's own take precedence.
fn parameters<'a>(
    api: &OpenApiDocument<'a>,
    operation: &'a Map<String, Value>,
    place: &ParameterPlace<'a>,
    report: &Report,
) -> Vec<(&'a Value, Path)> {
    let mut parameters: IndexMap<(String, String), (&Value, Path)> = IndexMap::new();
    for (owner, owner_path) in [(place.item, place.item_path), (operation, place.path)] {
        let list = owner.get("parameters").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if list.len() > MOST_PARAMETERS {
            let message = format!("{} parameters are more than {MOST_PARAMETERS}", list.len());
            report.fault(owner_path.key("parameters"), "too_large", message);
            continue;
        }
        for (index, parameter) in list.iter().enumerate() {
            let path = owner_path.key("parameters").index(index);
            let Some(parameter) = reference::follow(api.root, parameter, &path, report) else { continue };
            let text = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            parameters.insert((text("name"), text("in")), (parameter, path));
        }
    }
    parameters.into_values().collect()
}

/// A tool under construction, and its request.
struct OperationDraft<'a> {
    place: &'a ParameterPlace<'a>,
    definitions: Definitions<'a>,
    properties: Map<String, Value>,
    required: Vec<String>,
    url: String,
    query: Vec<String>,
    headers: Vec<NamedValue>,
    body: Option<String>,
    obstacles: Vec<String>,
}

impl<'a> OperationDraft<'a> {
    fn new(api: &OpenApiDocument<'a>, place: &'a ParameterPlace<'a>) -> Self {
        Self {
            place,
            definitions: Definitions::new(api),
            properties: Map::new(),
            required: Vec::new(),
            url: place.url.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            obstacles: Vec::new(),
        }
    }

    fn parameter(&mut self, parameter: &Value, path: &Path, report: &Report) {
        let text = |key: &str| parameter.get(key).and_then(Value::as_str);
        let (Some(name), Some(location)) = (text("name"), text("in")) else {
            return report.fault(path, "parameter_unreadable", "a parameter has a `name` and an `in`");
        };
        let required = location == "path" || parameter.get("required") == Some(&Value::Bool(true));
        // OpenAPI defines that these three are described elsewhere.
        let is_described_elsewhere = location == "header"
            && ["accept", "content-type", "authorization"].contains(&name.to_ascii_lowercase().as_str());
        if is_described_elsewhere {
            return;
        }
        let written = parameter.get("schema").map(|schema| (schema, path.key("schema"))).or_else(|| {
            let (media, content) = parameter.get("content")?.as_object()?.iter().next()?;
            Some((content.get("schema")?, path.key("content").key(media).key("schema")))
        });
        let schema = match written {
            Some((schema, path)) => match self.definitions.copy(schema, &path, report) {
                Some(schema) => schema,
                None => return,
            },
            None => json!({}),
        };
        let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
        let obstacle = match location {
            "path" => None,
            "query" if is_object || text("style") == Some("deepObject") => {
                Some(format!("the query parameter `{}` is an object", clip(name)))
            }
            "query" => None,
            "header" | "cookie" => Some(format!("the model fills the {location} parameter `{}`", clip(name))),
            other => {
                return report.fault(
                    path.key("in"),
                    "parameter_unreadable",
                    format!("`{}` is no place of a parameter", clip(other)),
                );
            }
        };
        if let Some(obstacle) = obstacle {
            if !required {
                let message = format!(
                    "the optional {location} parameter `{}` cannot be sent by a tool and is left out",
                    clip(name)
                );
                return report.warn(path, "parameter_dropped", message);
            }
            self.obstacles.push(obstacle);
        }
        let property = self.property(name, location, described(schema, parameter), required, path, report);
        match location {
            "path" => self.url = self.url.replace(&format!("{{{name}}}"), &format!("{{{property}}}")),
            "query" => self.query.push(format!("{}={{{property}}}", percent_encode(name))),
            _ => {}
        }
    }

    /// Adds a property, renamed if two parts of a request share a name.
    fn property(
        &mut self,
        name: &str,
        location: &str,
        schema: Value,
        required: bool,
        path: &Path,
        report: &Report,
    ) -> String {
        let mut property = name.to_owned();
        while self.properties.contains_key(&property) {
            property = format!("{location}_{property}");
        }
        if property != name {
            let message = format!(
                "the {location} parameter `{}` is named `{}`: another one has its name",
                clip(name),
                clip(&property)
            );
            report.warn(path, "parameter_renamed", message);
        }
        self.properties.insert(property.clone(), schema);
        if required {
            self.required.push(property.clone());
        }
        property
    }

    /// Adds placeholders of the path that the description does not declare.
    fn slots_without_parameter(&mut self, report: &Report) {
        let url = self.url.clone();
        for slot in url.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(slot, _)| slot) {
            if !self.properties.contains_key(slot) {
                let message = format!(
                    "the path has `{{{}}}` and no parameter of that name; it is taken to be a text",
                    clip(slot)
                );
                report.warn(self.place.path, "parameter_assumed", message);
                self.properties.insert(slot.to_owned(), json!({"type": "string"}));
                self.required.push(slot.to_owned());
            }
        }
    }

    fn body(&mut self, body: &Value, path: &Path, report: &Report) {
        let Some(content) = body.get("content").and_then(Value::as_object) else { return };
        let is_json = |media: &str| {
            let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            media == "application/json" || media.ends_with("+json")
        };
        let chosen = content
            .iter()
            .find(|(media, _)| is_json(media))
            .or_else(|| content.iter().find(|(media, _)| media.starts_with("text/")))
            .or_else(|| content.iter().next());
        let Some((media, value)) = chosen else { return };
        let schema_path = path.key("content").key(media).key("schema");
        let schema = match value.get("schema") {
            Some(schema) => match self.definitions.copy(schema, &schema_path, report) {
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
        let property = self.property("body", "request", described(schema, body), required, path, report);
        if is_json(media) || media.starts_with("text/") {
            self.body = Some(format!("{{{{.input.{property}}}}}"));
            let value = ValueSource::Literal(media.clone());
            self.headers.push(NamedValue { name: "Content-Type".to_owned(), value });
        } else {
            self.obstacles.push(format!("it sends its body as {}", clip(media)));
        }
    }

    /// The request, if Bosun can make it.
    fn request(&mut self, api: &OpenApiDocument<'_>, operation: &Map<String, Value>) -> InsideTool {
        let mut losses: Vec<Warning> = Vec::new();
        let mut headers = std::mem::take(&mut self.headers);
        match security::read(api, operation, self.place.path) {
            Ok(security) => {
                headers.splice(0..0, security.headers);
                losses = security.notes;
            }
            Err(reason) => self.obstacles.push(reason),
        }
        let method = Method::parse(self.place.method);
        match method {
            None => self.obstacles.push(format!("its method is {}", self.place.method.to_ascii_uppercase())),
            Some(method) if self.body.is_some() && !method.has_body() => {
                self.obstacles.push(format!("it sends a body with {}", method.as_str()));
            }
            Some(_) => {}
        }
        let server = server(api, operation, self.place.item).unwrap_or_else(|reason| {
            self.obstacles.push(reason);
            String::new()
        });
        if !self.obstacles.is_empty() {
            return InsideTool::Never(self.obstacles.join("; "));
        }
        let mut url = format!("{server}{}", self.url);
        for (index, pair) in self.query.iter().enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            url.push_str(pair);
        }
        let http = HttpRequest {
            url,
            method: method.unwrap_or_default(),
            headers,
            body: self.body.take(),
            body_parameters: Vec::new(),
            follow_redirects: false,
        };
        InsideTool::AsRequest(Box::new(ConversionRequest { http, timeout: None, losses }))
    }
}

/// The schema with the annotations of its parameter, where it has none itself.
fn described(mut schema: Value, parameter: &Value) -> Value {
    if let Value::Object(schema) = &mut schema {
        for key in ["description", "deprecated"] {
            if let Some(value) = parameter.get(key).filter(|_| !schema.contains_key(key)) {
                schema.insert(key.to_owned(), value.clone());
            }
        }
    }
    schema
}
