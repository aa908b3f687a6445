//! Tools written in another format.

use std::collections::{HashMap, HashSet};

use bosun_core::{
    Binding, Tool, Toolset,
    schema::dialect::{Declarations, Dialect},
    tool::toolset::Mode,
};
use indexmap::IndexMap;
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
        Format::OpenAi => declare(tools, target, Dialect::OpenAiChat, &mut warnings),
        Format::OpenAiResponses => declare(tools, target, Dialect::OpenAiResponses, &mut warnings),
        Format::Anthropic => declare(tools, target, Dialect::Anthropic, &mut warnings),
        Format::Gemini => declare(tools, target, Dialect::Gemini, &mut warnings),
        Format::Mcp => match declare(tools, target, Dialect::Mcp, &mut warnings) {
            Documents::One(list) => Documents::One(json!({"tools": list})),
            stream => stream,
        },
        Format::Langchain => list(tools, target, write_langchain, &mut warnings),
        Format::Ark => list(tools, target, write_ark, &mut warnings),
        Format::ExternalTools => list(tools, target, write_external, &mut warnings),
        Format::Zod | Format::N8n | Format::OpenApi => return Err(ConvertError::NotATarget(target)),
    };
    Ok(Written { documents, warnings })
}

/// Tools as a model API takes them: the same that Bosun itself would send.
fn declare(tools: &[Found], target: Format, dialect: Dialect, warnings: &mut Vec<Warning>) -> Documents {
    warn_of_losses(tools, target, warnings);
    let origins: HashMap<&str, &Found> = tools.iter().map(|found| (found.tool.name.as_str(), found)).collect();
    let mut warn = |tool: &str, inside: &str, code, message| {
        let path = origins.get(tool).map(|found| found.origin.place_of(inside).to_string()).unwrap_or_default();
        warnings.push(Warning { path, code, message });
    };
    let toolset = Toolset::merge(Mode::Ark, tools.iter().map(|found| found.tool.clone()).collect(), Vec::new());
    let declarations = toolset.declarations(dialect);
    for loss in &declarations.losses {
        let inside = format!("parameters.{}", loss.path);
        warn(&loss.tool, &inside, "keyword_dropped", format!("in {target}, {}: {}", loss.path, loss.message));
    }
    for quarantined in &declarations.quarantined {
        let message = format!("`{}` cannot be written as {target}: {}", quarantined.tool, quarantined.reason);
        warn(&quarantined.tool, "", "cannot_move", message);
    }
    let written: Value = serde_json::from_str(&declarations.json).unwrap_or_default();
    let told: HashSet<(&str, &str)> =
        declarations.losses.iter().map(|loss| (loss.tool.as_str(), loss.path.as_str())).collect();
    let mut untold = Untold::default();
    for (found, schema) in sent(tools, &declarations, &written, dialect) {
        untold.compare(&found.tool, &found.tool.parameters, schema, "", &told);
    }
    for (keyword, (tool, path, more)) in untold.0 {
        let of = if more == 0 { format!("`{tool}`") } else { format!("`{tool}` and {more} more") };
        let inside = format!("parameters.{path}");
        warn(
            tool,
            &inside,
            "keyword_dropped",
            format!("`{keyword}` in the parameters of {of} is not part of {target}"),
        );
    }
    for member in toolset.tools().iter().filter(|member| member.alias != member.tool.name) {
        // MCP takes more names than the models do.
        if declarations.json.contains(&format!("\"name\":\"{}\"", member.alias)) {
            let message =
                format!("`{}` is called `{}`: {target} does not take its name", member.tool.name, member.alias);
            warn(&member.tool.name, "", "renamed", message);
        }
    }
    Documents::One(written)
}

/// Each tool that is declared, with the schema that is sent for it.
fn sent<'a>(
    tools: &'a [Found],
    declarations: &Declarations,
    written: &'a Value,
    dialect: Dialect,
) -> impl Iterator<Item = (&'a Found, &'a Value)> {
    let left_out: HashSet<String> = declarations.quarantined.iter().map(|tool| tool.tool.clone()).collect();
    let (list, schema) = match dialect {
        Dialect::Gemini => ("/0/functionDeclarations", "/parametersJsonSchema"),
        Dialect::OpenAiResponses => ("", "/parameters"),
        Dialect::Anthropic => ("", "/input_schema"),
        Dialect::Mcp => ("", "/inputSchema"),
        _ => ("", "/function/parameters"),
    };
    let entries = written.pointer(list).and_then(Value::as_array).into_iter().flatten();
    let declared = tools.iter().filter(move |found| !left_out.contains(&found.tool.name));
    declared.zip(entries).filter_map(move |(found, entry)| Some((found, entry.pointer(schema)?)))
}

/// Keywords that a dialect leaves out without a word, because they say nothing about arguments. Here
/// they are named once: with the first tool that loses one, where, and how many others do.
#[derive(Default)]
struct Untold<'a>(IndexMap<&'a str, (&'a str, String, usize)>);

impl<'a> Untold<'a> {
    fn compare(&mut self, tool: &'a Tool, source: &'a Value, sent: &Value, path: &str, told: &HashSet<(&str, &str)>) {
        /// Said in other words, and so not lost.
        const TRANSLATED: [&str; 5] = ["optional", "nullable", "items", "additionalItems", "dependencies"];
        match (source, sent) {
            (Value::Object(source), Value::Object(sent)) => {
                for (key, value) in source {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    match sent.get(key) {
                        Some(sent) => self.compare(tool, value, sent, &path, told),
                        None if told.contains(&(tool.name.as_str(), path.as_str())) => {}
                        None if TRANSLATED.contains(&key.as_str()) => {}
                        None => {
                            let lost = self.0.entry(key).or_insert((&tool.name, path, 0));
                            lost.2 += usize::from(lost.0 != tool.name);
                        }
                    }
                }
            }
            (Value::Array(source), Value::Array(sent)) => {
                for (index, (source, sent)) in source.iter().zip(sent).enumerate() {
                    self.compare(tool, source, sent, &format!("{path}[{index}]"), told);
                }
            }
            _ => {}
        }
    }
}

fn list(tools: &[Found], target: Format, write: fn(&Tool) -> Value, warnings: &mut Vec<Warning>) -> Documents {
    warn_of_losses(tools, target, warnings);
    Documents::One(tools.iter().map(|found| write(&found.tool)).collect())
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
    let mut lost: IndexMap<&str, (&Found, usize)> = IndexMap::new();
    for found in tools {
        for field in lost_fields(&found.tool, format) {
            lost.entry(field).and_modify(|(_, more)| *more += 1).or_insert((found, 0));
        }
    }
    for (field, (first, more)) in lost {
        let name = &first.tool.name;
        let of = if more == 0 { format!("`{name}`") } else { format!("`{name}` and {more} more") };
        let message = format!("`{field}` of {of} has no place in {format} and is left out");
        warnings.push(Warning { path: first.origin.path.to_string(), code: "field_dropped", message });
    }
}

/// The fields of a tool that a list in this format cannot hold.
fn lost_fields(tool: &Tool, format: Format) -> impl Iterator<Item = &'static str> + use<> {
    let keeps_policy = matches!(format, Format::Ark | Format::ExternalTools);
    let keeps_hints = keeps_policy || format == Format::Mcp;
    let keeps_binding = match tool.binding {
        Binding::External => true,
        Binding::Builtin { .. } => format == Format::Ark,
        _ => false,
    };
    let fields = [
        ("binding", !keeps_binding),
        ("display_name", tool.display_name.is_some() && !keeps_hints),
        ("lc_name", tool.lc_name.is_some() && format != Format::Langchain),
        ("category", tool.category.is_some()),
        ("labels", !tool.labels.is_empty()),
        ("version", tool.version.is_some() && !keeps_policy),
        ("deprecated", tool.deprecated.is_some() && !keeps_policy),
        ("annotations", !tool.annotations.is_empty() && !keeps_hints),
        ("timeout", tool.timeout.is_some() && !keeps_policy),
        ("cache", tool.cache_for.is_some() && !keeps_policy),
    ];
    fields.into_iter().filter(|(_, is_lost)| *is_lost).map(|(field, _)| field)
}
