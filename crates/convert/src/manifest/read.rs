//! Resources as tools.

use std::{collections::BTreeMap, time::Duration};

use bosun_core::{
    Binding, Tool,
    tool::{Annotations, ConfigRef, HttpRequest, Method, NamedValue, SecretRef, ValueSource, parse_duration},
};
use serde_json::{Value, json};

use super::{API_VERSION, CATEGORY, VERSION};
use crate::{
    document::{Document, Path},
    fields::Fields,
    format::clip,
    found::{Found, Origin, Report},
};

/// What Kubernetes writes into the metadata of a resource, or needs to place it.
const OF_THE_CLUSTER: [&str; 8] = [
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
    "finalizers",
];

pub(crate) fn read(document: &Document<'_>, report: &mut Report) -> Vec<Found> {
    let mut tools = Vec::new();
    for (path, value) in document.parts() {
        let Some(fields) = Fields::of(value, path, "a resource", report) else { continue };
        tools.extend(resource(fields, report));
    }
    tools
}

fn resource(mut fields: Fields<'_>, report: &mut Report) -> Option<Found> {
    let kind = fields.required_text("kind", report)?;
    if kind != "Tool" {
        report.warn(
            fields.path(),
            "not_a_tool",
            format!("a resource of kind `{}` is no tool and is left out", clip(kind)),
        );
        return None;
    }
    if let Some(version) = fields.text("apiVersion", report).filter(|version| *version != API_VERSION) {
        report.fault(
            &fields.path_of("apiVersion"),
            "version_unknown",
            format!("`{}` is not `{API_VERSION}`", clip(version)),
        );
    }
    fields.skip(&["status"]);
    let metadata_path = fields.path_of("metadata");
    let spec_path = fields.path_of("spec");
    let metadata = fields.object("metadata", report);
    let spec = fields.object("spec", report);
    fields.refuse_the_rest(report);
    for (name, object) in [("metadata", metadata), ("spec", spec)] {
        if object.is_none() {
            report.fault(fields.path(), "field_missing", format!("`{name}` is missing"));
        }
    }
    let faults = report.fault_count();
    let mut labels = BTreeMap::new();
    let mut annotations = BTreeMap::new();
    let name = metadata.and_then(|metadata| {
        let mut metadata = Fields::new(metadata, metadata_path);
        let name = metadata.required_text("name", report);
        labels = metadata.texts("labels", report);
        annotations = metadata.texts("annotations", report);
        metadata.skip(&OF_THE_CLUSTER);
        metadata.refuse_the_rest(report);
        name
    });
    // A resource without a name is still read, so that all of its faults are told at once.
    let spec = Fields::new(spec?, spec_path);
    let found = specification(name.unwrap_or_default(), spec, annotations.remove("description"), report);
    if name.is_none() || report.fault_count() != faults {
        return None;
    }
    let mut found = found?;
    found.origin.path = fields.path().clone();
    found.tool.labels = labels;
    found.tool.category = annotations.remove(CATEGORY);
    found.tool.version = annotations.remove(VERSION);
    Some(found)
}

fn specification(name: &str, mut spec: Fields<'_>, annotated: Option<String>, report: &mut Report) -> Option<Found> {
    let kind = spec.required_text("type", report)?;
    let description = spec.text("description", report).map(str::to_owned).or(annotated);
    let parameters_path = spec.path_of("inputSchema");
    let parameters = spec.object("inputSchema", report).cloned();
    let hints_path = spec.path_of("annotations");
    let hints = spec.object("annotations", report);
    let mut timeout = None;
    let binding = match kind {
        "http" => block(&mut spec, "http", report).and_then(|fields| http(fields, &mut timeout, report)),
        "mcp" => block(&mut spec, "mcp", report).and_then(|fields| mcp(fields, report)),
        "agent" => named(&mut spec, "agent", report).map(|name| Binding::Agent { name }),
        "team" => named(&mut spec, "team", report).map(|name| Binding::Team { name }),
        "builtin" => named(&mut spec, "builtin", report).map(|name| Binding::Builtin { name }),
        "external" => {
            timeout = external(&mut spec, report);
            Some(Binding::External)
        }
        "inline" => block(&mut spec, "inline", report).and_then(|fields| inline(fields, report)),
        other => {
            let message =
                format!("`{}` is no type of tool: http, mcp, agent, team, builtin, inline or external", clip(other));
            report.fault(&spec.path_of("type"), "type_unknown", message);
            None
        }
    };
    if spec.take("approval").is_some() {
        report.warn(&spec.path_of("approval"), "field_dropped", "`approval` has no place in a tool and is left out");
    }
    spec.refuse_the_rest(report);
    let origin = Origin { path: Path::root(), parameters: parameters.is_some().then_some(parameters_path) };
    let binding = binding?;
    let description = description.unwrap_or_else(|| {
        let assumed = match &binding {
            Binding::Http(request) => format!("HTTP request to {}", request.url),
            _ => format!("Custom tool: {name}"),
        };
        report.warn(
            spec.path(),
            "description_assumed",
            format!("`{}` has no description; ARK's own is used: {assumed:?}", clip(name)),
        );
        assumed
    });
    let parameters = parameters.map_or_else(|| json!({"type": "object", "properties": {}}), Value::Object);
    let mut tool = Tool::new(name, description, parameters, binding);
    tool.timeout = timeout;
    if let Some(hints) = hints {
        let mut hints = Fields::new(hints, hints_path);
        tool.display_name = hints.text("title", report).map(str::to_owned);
        tool.annotations = Annotations {
            read_only_hint: hints.boolean("readOnlyHint", report),
            destructive_hint: hints.boolean("destructiveHint", report),
            idempotent_hint: hints.boolean("idempotentHint", report),
            open_world_hint: hints.boolean("openWorldHint", report),
        };
        hints.refuse_the_rest(report);
    }
    Some(Found::new(tool, origin))
}

/// The block that the type of a tool asks for.
fn block<'a>(spec: &mut Fields<'a>, key: &'static str, report: &mut Report) -> Option<Fields<'a>> {
    let path = spec.path_of(key);
    let block = spec.object(key, report);
    if block.is_none() {
        report.fault(spec.path(), "field_missing", format!("a tool of type `{key}` needs `{key}`"));
    }
    block.map(|block| Fields::new(block, path))
}

fn named(spec: &mut Fields<'_>, key: &'static str, report: &mut Report) -> Option<String> {
    // An earlier form of the resource had the name itself.
    if let Some(Value::String(name)) = spec.take(key) {
        return Some(name.clone());
    }
    let mut fields = block(spec, key, report)?;
    let name = fields.required_text("name", report)?.to_owned();
    fields.refuse_the_rest(report);
    Some(name)
}

fn inline(mut fields: Fields<'_>, report: &mut Report) -> Option<Binding> {
    let language = fields.required_text("language", report).map(str::to_owned);
    let source = fields.required_text("source", report).map(str::to_owned);
    fields.refuse_the_rest(report);
    Some(Binding::Inline { language: language?, source: source? })
}

fn mcp(mut fields: Fields<'_>, report: &mut Report) -> Option<Binding> {
    let tool = fields.required_text("toolName", report).map(str::to_owned);
    let path = fields.path_of("mcpServerRef");
    let server = fields.object("mcpServerRef", report);
    if server.is_none() {
        report.fault(fields.path(), "field_missing", "`mcpServerRef` is missing");
    }
    fields.refuse_the_rest(report);
    let mut server = Fields::new(server?, path);
    let name = server.required_text("name", report).map(str::to_owned);
    server.skip(&["namespace"]);
    server.refuse_the_rest(report);
    Some(Binding::Mcp { server: name?, tool: tool? })
}

fn http(mut fields: Fields<'_>, timeout: &mut Option<Duration>, report: &mut Report) -> Option<Binding> {
    let faults = report.fault_count();
    let url = fields.required_text("url", report);
    if let Some(url) = url.filter(|url| !url.starts_with("http://") && !url.starts_with("https://")) {
        report.fault(
            &fields.path_of("url"),
            "url_unreadable",
            format!("`{}` must begin with http:// or https://", clip(url)),
        );
    }
    let method = match fields.text("method", report) {
        None => Some(Method::default()),
        Some(text) => {
            let method = Method::parse(text);
            if method.is_none() {
                let message = format!("`{}` is none of GET, POST, PUT, PATCH, DELETE", clip(text));
                report.fault(&fields.path_of("method"), "method_unknown", message);
            }
            method
        }
    };
    *timeout = time(&mut fields, report);
    let body = fields.text("body", report).map(str::to_owned);
    let headers = named_values(&mut fields, "headers", report);
    let body_parameters = named_values(&mut fields, "bodyParameters", report);
    fields.refuse_the_rest(report);
    if report.fault_count() != faults {
        return None;
    }
    Some(Binding::Http(Box::new(HttpRequest { url: url?.to_owned(), method: method?, headers, body, body_parameters })))
}

/// What a tool that clients run says of itself: how long a call of it waits. There need not be anything.
fn external(spec: &mut Fields<'_>, report: &mut Report) -> Option<Duration> {
    let path = spec.path_of("external");
    let mut fields = Fields::new(spec.object("external", report)?, path);
    let timeout = time(&mut fields, report);
    fields.refuse_the_rest(report);
    timeout
}

fn time(fields: &mut Fields<'_>, report: &mut Report) -> Option<Duration> {
    let text = fields.text("timeout", report)?;
    let time = parse_duration(text);
    if time.is_none() {
        let message = format!("`{}` is no time; write 30s, 5m or 1h", clip(text));
        report.fault(&fields.path_of("timeout"), "timeout_unreadable", message);
    }
    time
}

/// Headers, whose source stands in `value`, and parameters, whose source stands beside the name.
fn named_values(fields: &mut Fields<'_>, key: &'static str, report: &mut Report) -> Vec<NamedValue> {
    let path = fields.path_of(key);
    let mut values = Vec::new();
    for (index, value) in fields.list(key, report).unwrap_or_default().iter().enumerate() {
        let Some(mut entry) = Fields::of(value, path.index(index), "an entry", report) else { continue };
        let name = entry.required_text("name", report).map(str::to_owned);
        let source = match entry.take("value") {
            Some(Value::Object(inner)) => {
                let mut inner = Fields::new(inner, entry.path_of("value"));
                let source = source(&mut inner, report);
                inner.refuse_the_rest(report);
                source
            }
            _ => source(&mut entry, report),
        };
        entry.refuse_the_rest(report);
        if let (Some(name), Some(value)) = (name, source) {
            values.push(NamedValue { name, value });
        }
    }
    values
}

fn source(fields: &mut Fields<'_>, report: &mut Report) -> Option<ValueSource> {
    let literal = fields.text("value", report);
    let path = fields.path_of("valueFrom");
    let from = fields.object("valueFrom", report);
    match (literal, from) {
        (Some(literal), None) => Some(ValueSource::Literal(literal.to_owned())),
        (None, Some(from)) => {
            let mut from = Fields::new(from, path);
            let source = value_from(&mut from, report);
            from.refuse_the_rest(report);
            source
        }
        (Some(_), Some(_)) => {
            report.fault(fields.path(), "value_twice", "`value` and `valueFrom` exclude each other");
            None
        }
        (None, None) => {
            report.fault(fields.path(), "field_missing", "`value` or `valueFrom` is missing");
            None
        }
    }
}

fn value_from(from: &mut Fields<'_>, report: &mut Report) -> Option<ValueSource> {
    let mut sources = Vec::new();
    for key in ["secretKeyRef", "configMapKeyRef", "queryParameterRef"] {
        let path = from.path_of(key);
        let Some(object) = from.object(key, report) else { continue };
        let mut inner = Fields::new(object, path);
        let name = inner.required_text("name", report).map(str::to_owned);
        let source = if key == "queryParameterRef" {
            name.map(|name| ValueSource::QueryParameterRef { name })
        } else {
            let entry = inner.required_text("key", report).map(str::to_owned);
            let optional = inner.boolean("optional", report).unwrap_or(false);
            name.zip(entry).map(|(name, entry)| match key {
                "secretKeyRef" => ValueSource::SecretKeyRef(SecretRef { name, key: entry, optional }),
                _ => ValueSource::ConfigMapKeyRef(ConfigRef { name, key: entry, optional }),
            })
        };
        inner.refuse_the_rest(report);
        sources.push(source);
    }
    if sources.len() != 1 {
        report.fault(
            from.path(),
            "value_unreadable",
            "`valueFrom` needs one of secretKeyRef, configMapKeyRef, queryParameterRef",
        );
        return None;
    }
    sources.pop().flatten()
}
