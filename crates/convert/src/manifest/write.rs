//! Writes tools as resources.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use bosun_core::{
    Binding, Tool, duration,
    tool::{HttpRequest, ValueSource},
};
use bosun_reading::tool::{DEPRECATED, written_deprecation};
use serde_json::{Map, Value, json};

use super::{API_VERSION, CATEGORY, VERSION};
use crate::{
    Warning,
    fields::write_cache,
    found::{Found, InsideTool},
    names::slug,
};

/// One resource for each tool that can be run inside, and warnings for the others.
pub(crate) fn write(tools: &[Found], warnings: &mut Vec<Warning>) -> Vec<Value> {
    let mut names = ManifestNames::default();
    let mut secrets = HashSet::new();
    let mut documents = Vec::new();
    for found in tools {
        let mut tool = found.tool.clone();
        match &found.inside {
            InsideTool::AsBound => {}
            InsideTool::AsRequest(request) => {
                // Many tools may need one secret, and one remark about it is enough.
                let is_new = |loss: &&Warning| loss.code != "secret_needed" || secrets.insert(loss.message.clone());
                warnings.extend(request.losses.iter().filter(is_new).cloned());
                tool.binding = Binding::Http(Box::new(request.http.clone()));
                tool.timeout = tool.timeout.or(request.timeout);
                if let Some(takes) = &request.takes {
                    tool.description.clone_from(&takes.description);
                    tool.parameters = takes.parameters.clone().into();
                }
            }
            InsideTool::Never(reason) => {
                let message = format!("`{}` cannot move: {reason}", tool.name);
                warnings.push(Warning { path: found.origin.path.to_string(), code: "cannot_move", message });
                continue;
            }
        }
        let Some(spec) = write_spec(&tool, found, warnings) else { continue };
        let name = names.free(&tool.name);
        if name != tool.name {
            let message = format!("`{}` is named `{name}`: the name of a resource is a DNS name", tool.name);
            warnings.push(Warning { path: found.origin.path.to_string(), code: "renamed", message });
        }
        documents.push(json!({
            "apiVersion": API_VERSION, "kind": "Tool", "metadata": write_metadata(&tool, name), "spec": spec,
        }));
    }
    documents
}

/// Used names, each with the number of the next duplicate.
#[derive(Default)]
struct ManifestNames(HashMap<String, usize>);

impl ManifestNames {
    fn free(&mut self, tool: &str) -> String {
        let plain = slug(tool, "tool");
        let mut name = plain.clone();
        while self.0.contains_key(&name) {
            let number = self.0.entry(plain.clone()).or_default();
            *number += 1;
            name = format!("{plain}-{number}");
        }
        self.0.insert(name.clone(), 1);
        name
    }
}

fn write_metadata(tool: &Tool, name: String) -> Value {
    let mut metadata = json!({"name": name});
    if !tool.labels.is_empty() {
        metadata["labels"] = json!(tool.labels);
    }
    let mut annotations: Map<String, Value> = [(CATEGORY, &tool.category), (VERSION, &tool.version)]
        .into_iter()
        .filter_map(|(key, value)| value.as_ref().map(|value| (key.to_owned(), value.as_str().into())))
        .collect();
    annotations.extend(tool.deprecated.iter().map(|one| (DEPRECATED.to_owned(), written_deprecation(one).into())));
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    metadata
}

fn write_spec(tool: &Tool, found: &Found, warnings: &mut Vec<Warning>) -> Option<Value> {
    let mut lost = |code, message: String| {
        warnings.push(Warning { path: found.origin.path.to_string(), code, message });
    };
    let (kind, block) = match &tool.binding {
        Binding::Http(request) => ("http", Some(write_http(request, tool.timeout))),
        Binding::Mcp { server, tool: original } => ("mcp", Some(write_mcp(server, original, tool.timeout))),
        Binding::Agent { name } => ("agent", Some(json!({"name": name}))),
        Binding::Team { name } => ("team", Some(json!({"name": name}))),
        Binding::Builtin { name } => ("builtin", Some(json!({"name": name}))),
        Binding::Inline { language, source } => ("inline", Some(json!({"language": language, "source": source}))),
        Binding::External => ("external", tool.timeout.map(|timeout| json!({"timeout": seconds(timeout)}))),
        Binding::Nango(_) => {
            lost(
                "cannot_move",
                format!("`{}` cannot move: ARK has no tools of Nango; it belongs in a tool-config.json", tool.name),
            );
            return None;
        }
        Binding::A2a { .. } => {
            lost(
                "cannot_move",
                format!("`{}` cannot move: ARK supports agents of A2A servers, but not their tools", tool.name),
            );
            return None;
        }
    };
    let mut spec = Map::new();
    spec.insert("type".to_owned(), kind.into());
    spec.insert("description".to_owned(), tool.description.as_str().into());
    spec.insert("inputSchema".to_owned(), tool.parameters.as_ref().clone());
    let mut annotations = serde_json::to_value(tool.annotations).unwrap_or_default();
    if let Some(title) = &tool.display_name {
        annotations["title"] = title.as_str().into();
    }
    if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
        spec.insert("annotations".to_owned(), annotations);
    }
    if let Some(cache) = write_cache(tool) {
        spec.insert("cache".to_owned(), cache);
    }
    if let Some(block) = block {
        spec.insert(kind.to_owned(), block);
    }
    let mut nowhere = Vec::new();
    if tool.timeout.is_some() && !matches!(kind, "http" | "mcp" | "external") {
        nowhere.push("timeout");
    }
    if tool.lc_name.is_some() {
        nowhere.push("lc_name");
    }
    if !nowhere.is_empty() {
        lost("field_dropped", format!("`{}` of `{}` has no place in a resource", nowhere.join("`, `"), tool.name));
    }
    Some(spec.into())
}

fn write_mcp(server: &str, original: &str, timeout: Option<Duration>) -> Value {
    let mut mcp = json!({"mcpServerRef": {"name": server}, "toolName": original});
    if let Some(timeout) = timeout {
        mcp["timeout"] = seconds(timeout).into();
    }
    mcp
}

fn write_http(request: &HttpRequest, timeout: Option<Duration>) -> Value {
    let mut http = json!({"url": request.url, "method": request.method.as_str()});
    if let Some(timeout) = timeout {
        http["timeout"] = seconds(timeout).into();
    }
    if !request.headers.is_empty() {
        let headers =
            request.headers.iter().map(|header| json!({"name": header.name, "value": write_source(&header.value)}));
        http["headers"] = headers.collect();
    }
    if let Some(body) = &request.body {
        http["body"] = body.as_str().into();
    }
    if !request.body_parameters.is_empty() {
        let parameters = request.body_parameters.iter().map(|parameter| {
            let mut written = json!({"name": parameter.name});
            if let (Value::Object(written), Value::Object(source)) = (&mut written, write_source(&parameter.value)) {
                written.extend(source);
            }
            written
        });
        http["bodyParameters"] = parameters.collect();
    }
    http
}

/// Whole seconds, rounded up.
fn seconds(timeout: Duration) -> String {
    let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
    duration::format(Duration::from_secs(seconds.max(1)))
}

fn write_source(source: &ValueSource) -> Value {
    let reference = |name: &str, key: &str, optional: bool| {
        let mut reference = json!({"name": name, "key": key});
        if optional {
            reference["optional"] = true.into();
        }
        reference
    };
    match source {
        ValueSource::Literal(text) => json!({"value": text}),
        ValueSource::SecretKeyRef(secret) => {
            json!({"valueFrom": {"secretKeyRef": reference(&secret.name, &secret.key, secret.optional)}})
        }
        ValueSource::ConfigMapKeyRef(config) => {
            json!({"valueFrom": {"configMapKeyRef": reference(&config.name, &config.key, config.optional)}})
        }
        ValueSource::QueryParameterRef { name } => json!({"valueFrom": {"queryParameterRef": {"name": name}}}),
    }
}
