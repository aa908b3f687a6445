//! One operation as a tool.

use bosun_core::{
    Binding, Tool, percent,
    tool::{Deprecation, HttpRequest, Method, NamedValue, ValueSource, header::is_closed_to_arguments},
};
use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{
    OpenApiDocument, body, reference,
    schema::Definitions,
    security, server,
    style::{ParameterStyle, ValueShape},
};
use crate::{
    Warning, address,
    document::Path,
    format::clip,
    found::{ConversionRequest, Found, InsideTool, Report, RequestTool, ToolOrigin},
    names::slug,
    secrets::{SecretParameters, hide_in_address, is_secret_parameter, secret_needed},
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
    api: &OpenApiDocument<'_>,
    operation: &Map<String, Value>,
    place: &ParameterPlace<'_>,
    report: &Report,
) -> Option<Found> {
    let name = name(operation, place, report);
    let mut draft = OperationDraft::new(api, place);
    let faults = report.fault_count();
    for (parameter, path) in parameters(api, operation, place, report) {
        draft.parameter(api, parameter, &path, report);
    }
    draft.slots_without_parameter(report);
    if let Some(body) = operation.get("requestBody") {
        let path = place.path.key("requestBody");
        if let Some(body) = reference::follow(api.root, body, &path, report) {
            body::read(api, &mut draft, body, &path, report);
        }
    }
    if report.fault_count() != faults {
        return None;
    }
    let mut inside = draft.request(api, operation, &name);
    let mut parameters = json!({"type": "object", "properties": draft.properties});
    if !draft.required.is_empty() {
        parameters["required"] = draft.required.into();
    }
    let parameters = draft.definitions.finish(parameters, place.path, report)?;
    let description = description(operation, place, report);
    // A client can send what an http tool cannot.
    if let InsideTool::AsRequest(request) = &mut inside
        && !draft.unsent.is_empty()
    {
        let mut parameters = parameters.clone();
        if let Some(properties) = parameters.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, _| !draft.unsent.contains(name));
        }
        if let Some(Value::Array(required)) = parameters.get_mut("required") {
            required.retain(|name| !draft.unsent.iter().any(|unsent| name == unsent.as_str()));
        }
        request.takes = Some(Box::new(RequestTool { description: description.clone(), parameters }));
    }

    let mut tool = Tool::new(name, description, parameters, Binding::External);
    tool.category = operation.get("tags").and_then(|tags| tags.get(0)).and_then(Value::as_str).map(str::to_owned);
    if operation.get("deprecated") == Some(&Value::Bool(true)) {
        tool.deprecated = Some(Deprecation::default());
    }
    Some(Found { inside, ..Found::new(tool, ToolOrigin { path: place.path.clone(), parameters: None }) })
}

fn name(operation: &Map<String, Value>, place: &ParameterPlace<'_>, report: &Report) -> String {
    if let Some(name) = operation.get("operationId").and_then(Value::as_str).filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let mut name = place.method.to_owned();
    for word in
        shown_url(place.url).split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
    {
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

/// A path without the secrets that are written in it.
fn shown_url(url: &str) -> String {
    hide_in_address(url, |_, _, _| "…".to_owned()).unwrap_or_else(|_| "…".to_owned())
}

fn description(operation: &Map<String, Value>, place: &ParameterPlace<'_>, report: &Report) -> String {
    let text = |key: &str| operation.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    match (text("summary"), text("description")) {
        (Some(summary), Some(description)) if description.starts_with(summary) => description.to_owned(),
        (Some(summary), Some(description)) => format!("{summary}\n\n{description}"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) => {
            let assumed = format!("{} {}", place.method.to_ascii_uppercase(), shown_url(place.url));
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
pub(super) struct OperationDraft<'a> {
    pub(super) place: &'a ParameterPlace<'a>,
    pub(super) definitions: Definitions<'a>,
    properties: Map<String, Value>,
    required: Vec<String>,
    url: String,
    query: Vec<String>,
    pub(super) headers: Vec<NamedValue>,
    pub(super) body: Option<String>,
    pub(super) body_property: Option<String>,
    pub(super) obstacles: Vec<String>,
    /// Optional properties that the request has no place for.
    unsent: Vec<String>,
    pub(super) losses: Vec<Warning>,
}

impl<'a> OperationDraft<'a> {
    fn new(api: &OpenApiDocument<'a>, place: &'a ParameterPlace<'a>) -> Self {
        Self {
            place,
            definitions: Definitions::new(api),
            properties: Map::new(),
            required: Vec::new(),
            // What follows a `#` only distinguishes operations: it is never sent.
            url: place.url.split('#').next().unwrap_or_default().to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            body_property: None,
            obstacles: Vec::new(),
            unsent: Vec::new(),
            losses: Vec::new(),
        }
    }

    fn parameter(&mut self, api: &OpenApiDocument<'a>, parameter: &Value, path: &Path, report: &Report) {
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
        let content = parameter.get("content").and_then(Value::as_object).and_then(|content| content.iter().next());
        let written = parameter.get("schema").map(|schema| (schema, path.key("schema"))).or_else(|| {
            let (media, content) = content?;
            Some((content.get("schema")?, path.key("content").key(media).key("schema")))
        });
        let shape = written.as_ref().map_or(ValueShape::Any, |(schema, _)| ValueShape::of(api, schema));
        let is_nested = written.as_ref().is_some_and(|(schema, _)| ValueShape::is_nested(api, schema));
        let schema = match written {
            Some((schema, path)) => match self.definitions.copy(schema, &path, report) {
                Some(schema) => schema,
                None => return,
            },
            None => json!({}),
        };
        if !["path", "query", "header", "cookie"].contains(&location) {
            return report.fault(
                path.key("in"),
                "parameter_unreadable",
                format!("`{}` is not a location of a parameter", clip(location)),
            );
        }
        let property = self.property(name, location, described(schema, parameter), required, path, report);
        if location == "query" && self.is_fixed_by_path(name) {
            let message = format!(
                "the query parameter `{}` is left out of the request: the path already gives it a value",
                clip(name)
            );
            self.losses.push(Warning { path: path.to_string(), code: "parameter_dropped", message });
            self.unsent.push(property);
            return;
        }
        let is_json = content.is_some_and(|(media, _)| parameter.get("schema").is_none() && media.contains("json"));
        let placed = if is_nested && !is_json && parameter.get("style") != Some(&"deepObject".into()) {
            Err(format!(
                "the {location} parameter `{}` has lists or objects within a list, and no style for them",
                clip(name)
            ))
        } else {
            self.place_parameter(parameter, name, &property, location, shape, is_json)
        };
        if let Err(obstacle) = placed {
            if required {
                self.obstacles.push(obstacle);
            } else {
                let message = format!(
                    "the optional {location} parameter `{}` is left out of the request: {obstacle}",
                    clip(name)
                );
                self.losses.push(Warning { path: path.to_string(), code: "parameter_dropped", message });
                self.unsent.push(property);
            }
        }
    }

    /// Whether the path's own query has a pair of this name. One that is only a slot for it is left to the parameter.
    fn is_fixed_by_path(&mut self, name: &str) -> bool {
        let slot = format!("{{{name}}}");
        self.retain_own_pairs(|own, value| own != name || value != slot);
        let mut is_fixed = false;
        self.retain_own_pairs(|own, _| {
            is_fixed |= own == name;
            true
        });
        is_fixed
    }

    /// Keeps the pairs of the path's own query whose decoded name and written value are wanted.
    fn retain_own_pairs(&mut self, mut is_wanted: impl FnMut(&str, &str) -> bool) {
        let Some((path, query)) = self.url.split_once('?') else { return };
        let is_wanted = |pair: &&str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            is_wanted(&percent::decode(name).unwrap_or_else(|| name.to_owned()), value)
        };
        let pairs: Vec<&str> = query.split('&').filter(is_wanted).collect();
        self.url = if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) };
    }

    /// Gives a parameter its slot in the request; an error if an http tool cannot send it.
    fn place_parameter(
        &mut self,
        parameter: &Value,
        name: &str,
        property: &str,
        location: &str,
        shape: ValueShape,
        is_json: bool,
    ) -> Result<(), String> {
        let style = ParameterStyle::read(
            parameter,
            if location == "query" || location == "cookie" { "form" } else { "simple" },
        );
        let has = |problem: String| format!("the {location} parameter `{}` has the {problem}", clip(name));
        let styled = |style: Option<&str>| style.map(|style| format!(":{style}")).unwrap_or_default();
        if location != "header" && !is_address_slot_name(property) {
            return Err(format!("the name of the {location} parameter `{}` cannot be that of a slot", clip(name)));
        }
        match location {
            "path" => {
                let written = format!("{{{name}}}");
                if !self.url.contains(&written) {
                    return Err(format!("what is sent of its path has no place for the parameter `{}`", clip(name)));
                }
                self.url = self.url.replace(&written, &style.of_path(name, property, shape).map_err(has)?);
            }
            "query" => {
                let style = if is_json { Some("json") } else { style.of_pair(shape).map_err(has)? };
                self.query.push(format!("{}={{{property}{}}}", percent::encode(name), styled(style)));
            }
            "header" if is_secret_parameter(name, "") || is_closed_to_arguments(name) => {
                return Err(format!("the model would fill the header `{}`", clip(name)));
            }
            "header" => {
                if !is_slot_name(property) {
                    return Err(format!("the name of the header parameter `{}` cannot be that of a slot", clip(name)));
                }
                let style = if is_json { Some("json") } else { style.of_header(shape) };
                let value = ValueSource::Literal(format!("{{{{.input.{property}{}}}}}", styled(style)));
                self.headers.push(NamedValue { name: name.to_owned(), value });
            }
            _ => return Err(format!("the model would fill the cookie `{}`", clip(name))),
        }
        Ok(())
    }

    /// Adds a property, renamed if two parts of a request share a name.
    pub(super) fn property(
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
            let slot = slot.rsplit_once(':').map_or(slot, |(name, _)| name);
            if !self.properties.contains_key(slot) {
                let message = format!(
                    "the path has `{{{}}}` and no parameter of that name; it is assumed to be a text",
                    clip(slot)
                );
                report.warn(self.place.path, "parameter_assumed", message);
                if !is_address_slot_name(slot) {
                    self.obstacles.push(format!("`{{{}}}` in its path cannot be a slot", clip(slot)));
                }
                self.properties.insert(slot.to_owned(), json!({"type": "string"}));
                self.required.push(slot.to_owned());
            }
        }
    }

    /// The request, if Bosun can make it.
    fn request(&mut self, api: &OpenApiDocument<'_>, operation: &Map<String, Value>, tool: &str) -> InsideTool {
        let mut losses = std::mem::take(&mut self.losses);
        let mut headers = std::mem::take(&mut self.headers);
        let mut body_parameters = Vec::new();
        match security::read(api, operation, self.place.path) {
            Ok(security) => {
                // A parameter that the security scheme fills is not the model's.
                let is_taken = |header: &NamedValue| {
                    security.headers.iter().any(|own| own.name.eq_ignore_ascii_case(&header.name))
                };
                self.unsent.extend(headers.iter().filter(|header| is_taken(header)).map(|header| header.name.clone()));
                headers.retain(|header| !is_taken(header));
                headers.splice(0..0, security.headers);
                for (name, parameter) in security.query {
                    let plain = name;
                    let name = percent::encode(&plain);
                    let count = self.query.len();
                    self.query.retain(|pair| !pair.starts_with(&format!("{name}=")));
                    self.retain_own_pairs(|own, _| own != plain);
                    if self.query.len() < count {
                        self.unsent.push(plain);
                    }
                    self.query.push(format!("{name}={{{{.{}}}}}", parameter.name));
                    body_parameters.push(parameter);
                }
                losses.extend(security.notes);
            }
            Err(reason) => self.obstacles.push(reason),
        }
        let method = Method::parse(self.place.method);
        match method {
            None => self.obstacles.push(format!("its method is {}", self.place.method.to_ascii_uppercase())),
            Some(method) if self.body.is_some() && !method.has_body() => {
                match self.body_property.take().filter(|property| !self.required.contains(property)) {
                    Some(property) => {
                        self.body = None;
                        headers.retain(|header| !header.name.eq_ignore_ascii_case("content-type"));
                        let message = format!(
                            "the optional body is left out of the request: a request with {} has none",
                            method.as_str()
                        );
                        let path = self.place.path.key("requestBody").into();
                        losses.push(Warning { path, code: "parameter_dropped", message });
                        self.unsent.push(property);
                    }
                    None => self.obstacles.push(format!("it sends a body with {}", method.as_str())),
                }
            }
            Some(_) => {}
        }
        let server = server(api, operation, self.place.item).unwrap_or_else(|reason| {
            self.obstacles.push(reason);
            String::new()
        });
        let mut secrets = SecretParameters::new(&slug(&format!("{}-{tool}", api.title), "api"));
        let own = hide_in_address(&format!("{server}{}", self.url), |what, name, value| {
            let (parameter, is_new) = secrets.hide(name, value);
            if is_new {
                let secret = secrets.reference(&parameter);
                losses.push(secret_needed(self.place.path, "description", what, name, &secret));
            }
            format!("{{{{.{parameter}}}}}")
        });
        let own = own.unwrap_or_else(|secret| {
            self.obstacles.push(secret.obstacle("part of the address"));
            String::new()
        });
        for secret in secrets.into_values() {
            if body_parameters.iter().any(|known: &NamedValue| known.name == secret.name) {
                self.obstacles.push(format!("it needs two secrets named `{}`", secret.name));
            }
            body_parameters.push(secret);
        }
        if !self.obstacles.is_empty() {
            return InsideTool::Never(self.obstacles.join("; "));
        }
        let mut url = address::encoded(&own);
        for (index, pair) in self.query.iter().enumerate() {
            url.push(if index == 0 && !own.contains('?') { '?' } else { '&' });
            url.push_str(pair);
        }
        let http = HttpRequest {
            url,
            method: method.unwrap_or_default(),
            headers,
            body: self.body.take(),
            body_parameters,
            follow_redirects: false,
        };
        InsideTool::AsRequest(Box::new(ConversionRequest { http, takes: None, timeout: None, losses }))
    }
}

/// Whether a property can be named in a slot of an address.
fn is_address_slot_name(property: &str) -> bool {
    let is_special = |letter: char| letter.is_control() || letter.is_whitespace() || "{}/?&#\\".contains(letter);
    !property.is_empty() && !property.contains(is_special)
}

/// Whether a property can be named in a slot of a header or a body.
pub(super) fn is_slot_name(property: &str) -> bool {
    !property.is_empty() && property.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-'))
}

/// The schema with the annotations of its parameter, where it has none itself.
pub(super) fn described(mut schema: Value, parameter: &Value) -> Value {
    if let Value::Object(schema) = &mut schema {
        for key in ["description", "deprecated"] {
            if let Some(value) = parameter.get(key).filter(|_| !schema.contains_key(key)) {
                schema.insert(key.to_owned(), value.clone());
            }
        }
    }
    schema
}
