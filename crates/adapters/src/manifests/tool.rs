//! Tools: a name, a description and effects of one's own for something that can be run.
//!
//! All of ARK's types are read and checked, and `external`, which is ours: a tool of the catalogue that
//! clients run. Of those that run inside, this version runs `builtin`; a call of another fails with
//! `no_runner`, and whoever selects one is warned.

use std::time::Duration;

use bosun_core::{
    Binding, Namespace, Tool, schema,
    tool::{Annotations, HttpRequest, Method},
};
use serde_json::json;

use super::{
    document::{Document, Located, Metadata},
    reference::{Reference, Referrer},
    source,
};
use crate::{
    runner::builtin::Builtins,
    yaml::{Data, Fields, Text},
};

/// The types, and the block that each needs.
const TYPES: &[&str] = &["builtin", "http", "mcp", "agent", "team", "inline", "external"];
const KNOWN: &str =
    "types are `builtin`, `http`, `mcp`, `agent`, `team`, `inline`, and `external` for tools of clients";
const LANGUAGES: &[&str] = &["bash", "python", "node", "ts"];
/// The longest script that ARK takes.
const LARGEST_SCRIPT: usize = 64 * 1024;

/// The name that means something else where tools are read by their names. A file may still give it to a tool: agents
/// find it, and so does `GET …/resources/…`.
const USAGE: &str = "usage";

/// A tool, and what it refers to.
#[derive(Debug)]
pub(super) struct ToolDraft {
    pub(super) namespace: Namespace,
    pub(super) tool: Tool,
    pub(super) references: Vec<Reference>,
}

pub(super) fn read(metadata: &Metadata, fields: &Fields<'_>, builtins: &Builtins) -> Option<Located<ToolDraft>> {
    let spec = fields.required_fields("spec", "a tool has at least a `type`")?;
    let kind = spec.required_text("type", KNOWN)?;
    if !TYPES.contains(&kind.value) {
        let message = format!("there is no type of tools `{}`", kind.value);
        spec.fault(kind.place, "unsupported_kind", message, KNOWN);
        return None;
    }
    if metadata.name == USAGE && spec.reading().is_of_client() {
        let message =
            format!("a stored tool cannot be called `{USAGE}`: `GET …/tools/{USAGE}` tells how tools are used");
        spec.fault(metadata.place, "reserved_name", message, "give it another name");
    }
    let mut references = Vec::new();
    let tool = binding(kind, &spec, builtins, &mut references);
    let description = spec.text("description").map(|text| text.value.to_owned());
    let (annotations, title) = annotations(&spec, tool.as_ref());
    let parameters = parameters(&spec);
    let others: Vec<_> = TYPES.iter().copied().filter(|other| *other != kind.value).collect();
    spec.unserved(&others, &format!("the tool is of type `{}`; leave it out", kind.value));
    spec.unserved(&["approval"], "leave it out");
    spec.finish();

    let mut tool = tool?;
    tool.name = metadata.name.clone();
    tool.labels = metadata.labels.clone();
    tool.description = description
        .or_else(|| Some(tool.description).filter(|own| !own.is_empty()))
        .or_else(|| metadata.annotations.get("description").cloned())
        .unwrap_or_else(|| match &tool.binding {
            Binding::Http(request) => format!("HTTP request to {}", request.url),
            _ => format!("Custom tool: {}", metadata.name),
        });
    tool.annotations = annotations;
    tool.display_name = title;
    if let Some(parameters) = parameters {
        tool.parameters = parameters.into();
    }
    Some(metadata.located(fields, ToolDraft { namespace: metadata.namespace.clone(), tool, references }))
}

impl ToolDraft {
    pub(super) fn referrer(&self) -> Referrer {
        let (namespace, name) = (self.namespace.clone(), self.tool.name.clone());
        Referrer { kind: Document::Tool, namespace, name, references: self.references.clone() }
    }
}

/// How the tool is run, as a tool that has nothing else yet.
fn binding(kind: Text<'_>, spec: &Fields<'_>, builtins: &Builtins, references: &mut Vec<Reference>) -> Option<Tool> {
    let bare = |binding| Tool::new("", "", json!({"type": "object", "properties": {}}), binding);
    // What another agent does with it is one text.
    let asking = |binding| {
        let parameters = json!({"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]});
        Tool::new("", "", parameters, binding)
    };
    match kind.value {
        "builtin" => builtin(spec, builtins),
        "http" => http(spec).map(|(request, timeout)| {
            let mut tool = bare(Binding::Http(Box::new(request)));
            tool.timeout = timeout;
            tool
        }),
        "mcp" => mcp(spec, references).map(bare),
        "agent" => named(spec, "agent", Document::Agent, references).map(|name| asking(Binding::Agent { name })),
        "team" => named(spec, "team", Document::Team, references).map(|name| asking(Binding::Team { name })),
        "inline" => inline(spec).map(bare),
        _ => {
            let timeout = spec.fields("external").and_then(|external| {
                let timeout = external.duration("timeout");
                external.finish();
                timeout
            });
            let mut tool = bare(Binding::External);
            tool.timeout = timeout;
            Some(tool)
        }
    }
}

fn builtin(spec: &Fields<'_>, builtins: &Builtins) -> Option<Tool> {
    let builtin = spec.required_fields("builtin", "write `builtin: {name: …}`")?;
    let name = builtin.required_text("name", &format!("builtin are {}", builtins.names()));
    builtin.finish();
    let name = name?;
    let definition = builtins.tool(name.value);
    if definition.is_none() {
        let message = format!("there is no builtin tool `{}`", name.value);
        spec.fault(name.place, "unknown_tool", message, format!("builtin are {}", builtins.names()));
    }
    definition
}

fn http(spec: &Fields<'_>) -> Option<(HttpRequest, Option<Duration>)> {
    let fields = spec.required_fields("http", "write `http: {url: …}`")?;
    let url = fields.required_text("url", "for instance https://api.example.com/items/{id}");
    if let Some(url) = url.filter(|url| !url.value.starts_with("http://") && !url.value.starts_with("https://")) {
        let message = format!("`{}` must begin with http:// or https://", url.value);
        fields.fault(url.place, "bad_value", message, "");
    }
    let method = fields.text("method").map_or(Some(Method::default()), |text| {
        let method = Method::parse(text.value);
        if method.is_none() {
            let message = format!("an HTTP tool cannot use the method `{}`", text.value);
            fields.fault(text.place, "bad_value", message, "methods are GET, POST, PUT, PATCH and DELETE");
        }
        method
    });
    let timeout = fields.duration("timeout");
    let body = fields.text("body").map(|text| text.value.to_owned());
    let headers = source::named(&fields, "headers");
    let body_parameters = source::named(&fields, "bodyParameters");
    fields.finish();
    let request = HttpRequest { url: url?.value.to_owned(), method: method?, headers, body, body_parameters };
    Some((request, timeout))
}

fn mcp(spec: &Fields<'_>, references: &mut Vec<Reference>) -> Option<Binding> {
    let fields = spec.required_fields("mcp", "write `mcp: {mcpServerRef: {name: …}, toolName: …}`")?;
    let tool = fields.required_text("toolName", "the tool's name at the server");
    let server = fields.required_fields("mcpServerRef", "write `mcpServerRef: {name: …}`");
    let server = server.and_then(|server| {
        let name = server.required_text("name", "the name of an MCPServer");
        server.unserved(&["namespace"], "a tool uses servers of its own namespace");
        server.finish();
        name
    });
    fields.finish();
    let (server, tool) = (server?, tool?);
    references.push(Reference::new(Document::McpServer, server));
    Some(Binding::Mcp { server: server.value.to_owned(), tool: tool.value.to_owned() })
}

/// `{name: …}`, or the name itself, which is an older form.
fn named(spec: &Fields<'_>, field: &'static str, kind: Document, references: &mut Vec<Reference>) -> Option<String> {
    let hint = format!("write `{field}: {{name: …}}`");
    let node = spec.require(field, &hint)?;
    let name = if let Data::Text(_) = node.data {
        spec.text(field)
    } else {
        let fields = spec.required_fields(field, &hint)?;
        let name = fields.required_text("name", &hint);
        fields.finish();
        name
    }?;
    references.push(Reference::new(kind, name));
    Some(name.value.to_owned())
}

fn inline(spec: &Fields<'_>) -> Option<Binding> {
    let fields = spec.required_fields("inline", "write `inline: {language: …, source: …}`")?;
    let language = fields.required_text("language", "languages are bash, python, node and ts");
    let source = fields.required_text("source", "the script");
    fields.finish();
    if let Some(language) = language.filter(|language| !LANGUAGES.contains(&language.value)) {
        let message = format!("scripts are not written in `{}`", language.value);
        fields.fault(language.place, "bad_value", message, "languages are bash, python, node and ts");
    }
    if let Some(source) = source.filter(|source| source.value.len() > LARGEST_SCRIPT) {
        let message = format!("the script has {} bytes, more than {LARGEST_SCRIPT}", source.value.len());
        fields.fault(source.place, "bad_value", message, "");
    }
    Some(Binding::Inline { language: language?.value.to_owned(), source: source?.value.to_owned() })
}

fn parameters(spec: &Fields<'_>) -> Option<serde_json::Value> {
    let node = spec.get("inputSchema")?;
    let source = node.to_json();
    if matches!(node.data, Data::Map(_)) {
        for fault in schema::faults(&source) {
            spec.fault(node.place, "bad_schema", fault.to_string(), "");
        }
    } else {
        spec.fields("inputSchema");
    }
    Some(source)
}

/// What the operator says about effects goes before what the builtin tool says of itself.
fn annotations(spec: &Fields<'_>, builtin: Option<&Tool>) -> (Annotations, Option<String>) {
    let own = builtin.map(|tool| tool.annotations).unwrap_or_default();
    let Some(fields) = spec.fields("annotations") else { return (own, None) };
    let annotations = Annotations {
        read_only_hint: fields.bool("readOnlyHint").or(own.read_only_hint),
        destructive_hint: fields.bool("destructiveHint").or(own.destructive_hint),
        idempotent_hint: fields.bool("idempotentHint").or(own.idempotent_hint),
        open_world_hint: fields.bool("openWorldHint").or(own.open_world_hint),
    };
    let title = fields.text("title").map(|text| text.value.to_owned());
    fields.finish();
    (annotations, title)
}
