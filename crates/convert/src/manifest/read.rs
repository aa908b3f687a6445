//! Reads resources as tools.

use bosun_core::Tool;
use bosun_reading::tool::{self, DEPRECATED, default_description, default_parameters, parse_deprecation};
use serde_json::Value;

use super::{API_VERSION, CATEGORY, VERSION};
use crate::{
    document::Document,
    fields::{Fields, owned, text},
    format::clip,
    found::{Found, Report, ToolOrigin},
};

/// The metadata that Kubernetes itself writes, or needs to place a resource.
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

pub(crate) fn read(document: &Document<'_>, report: &Report) -> Vec<Found> {
    let mut tools = Vec::new();
    for (path, value) in document.parts() {
        let Some(fields) = report.fields_at(value, path, "a resource") else { continue };
        tools.extend(resource(fields, report));
    }
    tools
}

fn resource(mut fields: Fields<'_>, report: &Report) -> Option<Found> {
    let kind = fields.required_text("kind", "")?.value;
    if kind != "Tool" {
        report.warn(
            fields.path(),
            "not_a_tool",
            format!("a resource of kind `{}` is not a tool and is left out", clip(kind)),
        );
        return None;
    }
    let faults = report.fault_count();
    if let Some(version) = text(&fields, "apiVersion").filter(|version| *version != API_VERSION) {
        let message = format!("`{}` is not `{API_VERSION}`", clip(version));
        fields.fault_of("apiVersion", "version_unknown", message, "");
    }
    fields.ignore(&["status"]);
    let metadata = fields.required_fields("metadata", "");
    let name = metadata.as_ref().and_then(|metadata| Some(metadata.required_text("name", "")?.value));
    let (mut labels, mut annotations) = Default::default();
    if let Some(metadata) = metadata {
        labels = owned(metadata.texts("labels"));
        annotations = owned(metadata.texts("annotations"));
        metadata.ignore(&OF_THE_CLUSTER);
        metadata.finish();
    }
    fields.rename(&name.map_or_else(|| "Tool".to_owned(), |name| format!("Tool `{}`", clip(name))));
    // A resource without a name is still read, so that all of its faults are reported at once.
    let spec = tool::read(&fields);
    fields.finish();
    let (name, spec) = (name?, spec?);
    let binding = spec.binding.filter(|_| report.fault_count() == faults)?;
    let description = spec.description.or_else(|| annotations.remove("description")).unwrap_or_else(|| {
        let assumed = default_description(name, &binding);
        let message = format!("`{}` has no description; ARK's own is used: {assumed:?}", clip(name));
        report.warn(&fields.path_of("spec"), "description_assumed", message);
        assumed
    });
    let parameters = spec.input_schema.map_or_else(|| default_parameters(&binding), Value::clone);
    let mut tool = Tool::new(name, description, parameters, binding);
    tool.timeout = spec.timeout;
    tool.set_cache(spec.cache);
    tool.display_name = spec.title;
    tool.annotations = spec.annotations;
    tool.labels = labels;
    tool.category = annotations.remove(CATEGORY);
    tool.version = annotations.remove(VERSION);
    if let Some(written) = annotations.remove(DEPRECATED) {
        match parse_deprecation(&written) {
            Ok(deprecated) => tool.deprecated = deprecated,
            Err(expected) => {
                report.fault(fields.path_of("metadata"), "bad_value", format!("`{DEPRECATED}` {expected}"));
                return None;
            }
        }
    }
    let parameters = spec.input_schema.map(|_| fields.path_of("spec").key("inputSchema"));
    Some(Found::new(tool, ToolOrigin { path: fields.path().clone(), parameters }))
}
