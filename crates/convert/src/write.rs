//! Tools written in another format.

use bosun_core::{Binding, Tool};
use serde_json::{Value, json};

use crate::{ConvertError, Format, Warning, fields::duration_text, found::Found, manifest, tool_config};

/// Tools as data of another format.
#[derive(Clone, Debug)]
pub struct Written {
    /// One document, or a stream of them where the format is one.
    pub documents: Documents,
    /// What has no place in the format, and what became of it.
    pub warnings: Vec<Warning>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Documents {
    One(Value),
    Stream(Vec<Value>),
}

impl Documents {
    /// As JSON; a stream as a list.
    #[must_use]
    pub fn to_json(&self) -> String {
        let value = match self {
            Self::One(value) => value.clone(),
            Self::Stream(documents) => Value::Array(documents.clone()),
        };
        format!("{value:#}\n")
    }

    /// As YAML.
    ///
    /// # Errors
    /// When the YAML writer fails, which plain data gives it no reason to.
    pub fn to_yaml(&self) -> Result<String, ConvertError> {
        let write =
            |value: &Value| serde_saphyr::to_string(value).map_err(|error| ConvertError::Yaml(error.to_string()));
        match self {
            Self::One(value) => write(value),
            Self::Stream(documents) => {
                let texts = documents.iter().map(write).collect::<Result<Vec<_>, _>>()?;
                Ok(texts.join("---\n"))
            }
        }
    }
}

/// Writes tools in a format.
///
/// # Errors
/// When the format is one that tools cannot be written in.
pub fn write(tools: &[Found], target: Format) -> Result<Written, ConvertError> {
    let mut warnings = Vec::new();
    let documents = match target {
        Format::ArkManifest => Documents::Stream(manifest::write(tools, &mut warnings)),
        Format::ToolConfig => Documents::One(tool_config::write(tools, &mut warnings)),
        Format::Zod | Format::N8n | Format::OpenApi => return Err(ConvertError::NotATarget(target)),
        list => Documents::One(write_list(tools, list, &mut warnings)),
    };
    Ok(Written { documents, warnings })
}

fn write_list(tools: &[Found], format: Format, warnings: &mut Vec<Warning>) -> Value {
    warn_of_losses(tools, format, warnings);
    let entries = tools.iter().map(|found| {
        let Tool { name, description, parameters, .. } = &found.tool;
        match format {
            Format::OpenAi => {
                json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
            }
            Format::OpenAiResponses => {
                json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
            }
            Format::Anthropic => json!({"name": name, "description": description, "input_schema": parameters}),
            Format::Gemini => json!({"name": name, "description": description, "parametersJsonSchema": parameters}),
            Format::Mcp => write_mcp(&found.tool),
            Format::Langchain => write_langchain(&found.tool),
            Format::Ark => write_ark(&found.tool),
            _ => write_external(&found.tool),
        }
    });
    let entries: Vec<Value> = entries.collect();
    match format {
        Format::Gemini => json!([{"functionDeclarations": entries}]),
        Format::Mcp => json!({"tools": entries}),
        _ => entries.into(),
    }
}

fn write_mcp(tool: &Tool) -> Value {
    let mut entry = json!({"name": tool.name});
    if let Some(title) = &tool.display_name {
        entry["title"] = title.as_str().into();
    }
    entry["description"] = tool.description.as_str().into();
    entry["inputSchema"] = tool.parameters.as_ref().clone();
    put_annotations(&mut entry, tool);
    entry
}

fn write_langchain(tool: &Tool) -> Value {
    let mut entry = json!({"name": tool.name});
    if let Some(lc_name) = &tool.lc_name {
        entry["lc_name"] = lc_name.as_str().into();
    }
    entry["description"] = tool.description.as_str().into();
    entry["schema"] = tool.parameters.as_ref().clone();
    entry
}

fn write_ark(tool: &Tool) -> Value {
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

fn write_external(tool: &Tool) -> Value {
    let mut entry = json!({
        "name": tool.name, "description": tool.description, "parameters": tool.parameters, "executionMode": "external",
    });
    put_policy(&mut entry, tool);
    entry
}

/// What a client may say of its tools beside the three fields.
fn put_policy(entry: &mut Value, tool: &Tool) {
    for (key, text) in [
        ("displayName", tool.display_name.clone()),
        ("version", tool.version.clone()),
        ("timeout", tool.timeout.map(duration_text)),
        ("cache", tool.cache_for.map(duration_text)),
    ] {
        if let Some(text) = text {
            entry[key] = text.into();
        }
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

/// Says once for each field which tools lose it.
fn warn_of_losses(tools: &[Found], format: Format, warnings: &mut Vec<Warning>) {
    let keeps_policy = matches!(format, Format::Ark | Format::ExternalTools);
    let keeps_title = keeps_policy || format == Format::Mcp;
    let keeps_hints = keeps_policy || format == Format::Mcp;
    let keeps_lc_name = format == Format::Langchain;
    let is_bound = |tool: &Tool| match tool.binding {
        Binding::External => false,
        Binding::Builtin { .. } => format != Format::Ark,
        _ => true,
    };
    let checks: [(&str, &dyn Fn(&Tool) -> bool); 10] = [
        ("binding", &is_bound),
        ("display_name", &|tool| tool.display_name.is_some() && !keeps_title),
        ("lc_name", &|tool| tool.lc_name.is_some() && !keeps_lc_name),
        ("category", &|tool| tool.category.is_some()),
        ("labels", &|tool| !tool.labels.is_empty()),
        ("version", &|tool| tool.version.is_some() && !keeps_policy),
        ("deprecated", &|tool| tool.deprecated.is_some() && !keeps_policy),
        ("annotations", &|tool| !tool.annotations.is_empty() && !keeps_hints),
        ("timeout", &|tool| tool.timeout.is_some() && !keeps_policy),
        ("cache", &|tool| tool.cache_for.is_some() && !keeps_policy),
    ];
    for (field, is_lost) in checks {
        let losers: Vec<&Found> = tools.iter().filter(|found| is_lost(&found.tool)).collect();
        let Some(first) = losers.first() else { continue };
        let of = match losers.len() {
            1 => format!("`{}`", first.tool.name),
            count => format!("`{}` and {} more", first.tool.name, count - 1),
        };
        let message = format!("`{field}` of {of} has no place in {format} and is left out");
        warnings.push(Warning { path: first.origin.path.to_string(), code: "field_dropped", message });
    }
}
