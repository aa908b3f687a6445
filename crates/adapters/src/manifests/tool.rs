//! Tools: a name, a description and annotations for something that can be run.
//!
//! All of ARK's types are read and checked, and two of ours: `external`, a tool of the catalogue that clients run, and
//! `nango`. Of those that run inside, this version runs all but `inline`: a call of such a tool fails with
//! `no_runner`, and a selection of one is warned about.

use std::collections::BTreeMap;

use bosun_core::{
    Binding, Namespace, Tool, schema,
    tool::{Annotations, BindingKind, Deprecation, ToolOrigin, routing::ToolRoute},
};
use bosun_reading::{
    Data, Fault, Fields, Node, SourcePlace,
    tool::{
        CATEGORY, DEPRECATED, LC_NAME, ToolSpec, VERSION, default_description, default_parameters, parse_deprecation,
    },
};

use super::{
    config_map::ConfigMap,
    document::{Document, LocatedManifest, ManifestMetadata},
    http_tool,
    reference::{Reference, Referrer},
};
use crate::runner::builtin::Builtins;

/// A reserved name: `GET …/tools/usage` is another route. A tool in a file may still have it: agents find it, and so
/// does `GET …/resources/…`.
const USAGE: &str = "usage";
/// What to do about a stored tool that waives approvals.
const WAIVED: &str = "leave it out, or ask the operator for the tool";

/// A tool, and what it refers to.
#[derive(Debug)]
pub(super) struct ToolDraft {
    pub(super) namespace: Namespace,
    pub(super) tool: Tool,
    pub(super) references: Vec<Reference>,
}

pub(super) fn read(
    metadata: &ManifestMetadata,
    fields: &Fields<'_>,
    builtins: &Builtins,
) -> Option<LocatedManifest<ToolDraft>> {
    let spec = bosun_reading::tool::read(fields)?;
    if metadata.name == USAGE && fields.report().is_of_client() {
        let message =
            format!("a stored tool cannot be called `{USAGE}`: `GET …/tools/{USAGE}` returns the usage of tools");
        fields.fault(metadata.place, "reserved_name", message, "give it another name");
    }
    if let Some(schema @ Node { data: Data::Map(_), .. }) = spec.input_schema {
        for fault in schema::faults(&schema.to_json()) {
            fields.fault(schema.place, "bad_schema", fault.to_string(), "");
        }
    }
    let references = reference(&spec).into_iter().collect();
    let mut tool = bare(&spec, fields, builtins)?;
    tool.name = metadata.name.clone();
    tool.labels = metadata.labels.clone();
    tool.description = spec
        .description
        .or_else(|| Some(tool.description).filter(|own| !own.is_empty()))
        .or_else(|| metadata.annotations.get("description").cloned())
        .unwrap_or_else(|| default_description(&metadata.name, &tool.binding));
    // The operator's annotations take precedence over those of the builtin tool itself.
    let (declared, own) = (spec.annotations, tool.annotations);
    tool.annotations = Annotations {
        read_only_hint: declared.read_only_hint.or(own.read_only_hint),
        destructive_hint: declared.destructive_hint.or(own.destructive_hint),
        idempotent_hint: declared.idempotent_hint.or(own.idempotent_hint),
        open_world_hint: declared.open_world_hint.or(own.open_world_hint),
    };
    // A client cannot vouch for effects; for a builtin tool that it does not annotate, the program does.
    if fields.report().is_of_client() && (tool.origin != ToolOrigin::Operator || !declared.is_empty()) {
        tool.origin = ToolOrigin::Client;
    } else {
        tool.origin = ToolOrigin::Operator;
    }
    tool.display_name = spec.title;
    let annotated = |name: &str| metadata.annotations.get(name).cloned();
    (tool.category, tool.version, tool.lc_name) = (annotated(CATEGORY), annotated(VERSION), annotated(LC_NAME));
    tool.deprecated = read_deprecation(metadata, fields).or(tool.deprecated);
    tool.timeout = spec.timeout.or(tool.timeout);
    tool.on_expired = spec.on_expired;
    if let Some(approval) = spec.approval {
        if fields.report().is_of_client() && !approval.required {
            let message = "only the operator waives the approval of a tool's calls";
            fields.fault(place(fields, "approval"), "approval_required", message, WAIVED);
        }
        approval.apply(&mut tool);
    }
    tool.set_cache(spec.cache.or(tool.written_cache()));
    if let Some(schema) = spec.input_schema {
        tool.parameters = schema.to_json().into();
    }
    if let Binding::Http(request) = &mut tool.binding {
        request.follow_redirects = http_tool::follows_redirects(metadata, fields);
        http_tool::check(fields, request, spec.input_schema.map(|_| &*tool.parameters));
    }
    check_nango(&tool, fields);
    Some(metadata.located(fields, ToolDraft { namespace: metadata.namespace.clone(), tool, references }))
}

fn read_deprecation(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Option<Deprecation> {
    let written = metadata.annotations.get(DEPRECATED)?;
    parse_deprecation(written).unwrap_or_else(|expected| {
        let node = fields.node().at(&["metadata", "annotations", DEPRECATED]);
        let place = node.map_or_else(|| fields.place(), |node| node.place);
        fields.fault(place, "bad_value", format!("the annotation `{DEPRECATED}` {expected}"), "");
        None
    })
}

/// Reports a model that does not follow from the arguments.
fn check_nango(tool: &Tool, fields: &Fields<'_>) {
    if let Err(fault) = ToolRoute::of(tool) {
        fields.fault(place(fields, "nango"), fault.code(), fault.to_string(), "");
    }
}

/// Where a field of the `spec` is.
fn place(fields: &Fields<'_>, name: &str) -> SourcePlace {
    fields.node().at(&["spec", name]).map_or_else(|| fields.place(), |node| node.place)
}

/// Resolves the settings of the tool; those without a value are faults.
pub(super) fn resolve_settings(
    draft: &mut LocatedManifest<ToolDraft>,
    config_maps: &BTreeMap<(Namespace, String), ConfigMap>,
) -> Vec<Fault> {
    let ToolDraft { namespace, tool, .. } = &mut draft.value;
    let unresolved = http_tool::resolve_settings(namespace, tool, config_maps).into_iter();
    let hint = "add a ConfigMap manifest with this key, or mark the reference `optional: true`";
    let fault = |message| Fault::of_file(&draft.file, "unknown_config_map", message).at(draft.place).hint(hint);
    unresolved.map(fault).collect()
}

/// A tool with only its binding; for a builtin tool, its own definition.
fn bare(spec: &ToolSpec<'_, Node>, fields: &Fields<'_>, builtins: &Builtins) -> Option<Tool> {
    let binding = spec.binding.clone()?;
    let (Binding::Builtin { name }, Some(written)) = (&binding, spec.refers_to) else {
        return Some(Tool::new("", "", default_parameters(&binding), binding));
    };
    let tool = builtins.tool(name);
    if tool.is_none() {
        let hint = format!("the builtin tools are {}", builtins.names());
        fields.fault(written.place, "unknown_tool", format!("there is no builtin tool `{name}`"), hint);
    }
    tool
}

/// The resource of the same namespace that the tool needs.
fn reference(spec: &ToolSpec<'_, Node>) -> Option<Reference> {
    let kind = match spec.kind {
        BindingKind::Mcp => Document::McpServer,
        BindingKind::Agent => Document::Agent,
        BindingKind::Team => Document::Team,
        _ => return None,
    };
    Some(Reference::new(kind, spec.refers_to?))
}

impl ToolDraft {
    pub(super) fn referrer(&self) -> Referrer {
        let (namespace, name) = (self.namespace.clone(), self.tool.name.clone());
        Referrer { kind: Document::Tool, namespace, name, references: self.references.clone() }
    }
}
