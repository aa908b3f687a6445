//! Tools: a name, a description and effects of one's own for something that can be run.

use bosun_core::{Namespace, Tool, schema, tool::Annotations};

use super::document::{Located, Metadata};
use crate::{
    runner::builtin::Builtins,
    yaml::{Data, Fields},
};

pub(super) fn read(
    metadata: &Metadata,
    fields: &Fields<'_>,
    builtins: &Builtins,
) -> Option<Located<(Namespace, Tool)>> {
    const SERVED: &str =
        "this version serves tools of type `builtin`; other tools come from the client, with the query";
    let spec = fields.required_fields("spec", "a tool has at least a `type`")?;
    let kind = spec.required_text("type", SERVED)?;
    if kind.value != "builtin" {
        let message = format!("tools of type `{}` are not served by this version", kind.value);
        spec.fault(kind.place, "unsupported_kind", message, SERVED);
        return None;
    }
    let builtin = spec.required_fields("builtin", "write `builtin: {name: …}`").and_then(|builtin| {
        let name = builtin.required_text("name", &format!("builtin are {}", builtins.names()));
        builtin.finish();
        let name = name?;
        let definition = builtins.tool(name.value);
        if definition.is_none() {
            let message = format!("there is no builtin tool `{}`", name.value);
            spec.fault(name.place, "unknown_tool", message, format!("builtin are {}", builtins.names()));
        }
        definition
    });
    let description = spec.text("description").map(|text| text.value.to_owned());
    let title = annotations(&spec, builtin.as_ref());
    let parameters = spec.get("inputSchema").map(|node| {
        let source = node.to_json();
        if matches!(node.data, Data::Map(_)) {
            for fault in schema::faults(&source) {
                spec.fault(node.place, "bad_schema", fault.to_string(), "");
            }
        } else {
            spec.fields("inputSchema");
        }
        source
    });
    spec.unserved(&["http", "mcp", "agent", "team", "inline"], "the tool is of type `builtin`; leave it out");
    spec.unserved(&["approval"], "leave it out");
    spec.finish();

    let mut tool = builtin?;
    tool.name = metadata.name.clone();
    tool.labels = metadata.labels.clone();
    tool.description = description.unwrap_or(tool.description);
    let (annotations, title) = title;
    tool.annotations = annotations;
    tool.display_name = title;
    if let Some(parameters) = parameters {
        tool.parameters = parameters.into();
    }
    Some(metadata.located(fields, (metadata.namespace.clone(), tool)))
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
