//! Lists that keep schemas as their owners wrote them.

use bosun_core::{Binding, Tool, duration};
use serde_json::{Value, json};

use super::warn_of_losses;
use crate::{Format, Warning, fields::write_cache, found::Found};

pub(super) fn tools(tools: &[Found], target: Format, write: fn(&Tool) -> Value, warnings: &mut Vec<Warning>) -> Value {
    warn_of_losses(tools, target, warnings);
    tools.iter().map(|found| write(&found.tool)).collect()
}

pub(super) fn langchain(tool: &Tool) -> Value {
    let mut entry = json!({"name": tool.name});
    if let Some(lc_name) = &tool.lc_name {
        entry["lc_name"] = lc_name.as_str().into();
    }
    entry["description"] = tool.description.as_str().into();
    entry["schema"] = tool.parameters.as_ref().clone();
    entry
}

pub(super) fn ark(tool: &Tool) -> Value {
    let kind = if matches!(tool.binding, Binding::Builtin { .. }) { "builtin" } else { "custom" };
    let mut entry = json!({
        "type": kind, "name": tool.name, "description": tool.description, "parameters": tool.parameters,
    });
    if tool.is_external() {
        entry["executionMode"] = "external".into();
    }
    put_policy(&mut entry, tool);
    entry
}

pub(super) fn external(tool: &Tool) -> Value {
    let mut entry = json!({
        "name": tool.name, "description": tool.description, "parameters": tool.parameters, "executionMode": "external",
    });
    put_policy(&mut entry, tool);
    entry
}

/// Adds the policy fields that a client may set in addition to the three mandatory ones.
fn put_policy(entry: &mut Value, tool: &Tool) {
    for (key, text) in [
        ("displayName", tool.display_name.clone()),
        ("version", tool.version.clone()),
        ("timeout", tool.timeout.map(duration::format)),
    ] {
        if let Some(text) = text {
            entry[key] = text.into();
        }
    }
    if let Some(cache) = write_cache(tool) {
        entry["cache"] = cache;
    }
    if let Some(deprecated) = &tool.deprecated {
        entry["deprecated"] = json!(deprecated);
    }
    put_annotations(entry, tool);
}

fn put_annotations(entry: &mut Value, tool: &Tool) {
    if !tool.annotations.is_empty() {
        entry["annotations"] = json!(tool.annotations);
    }
}
