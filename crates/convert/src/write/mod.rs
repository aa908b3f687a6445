//! Tools written in another format.

use bosun_core::{Binding, Tool, schema::dialect::Dialect};
use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::{ConvertError, Format, Warning, dialect::AnyDialect, found::Found, manifest, tool_config};

mod declare;
mod list;

/// Tools as data of another format.
#[derive(Clone, Debug)]
pub struct WrittenFile {
    /// One document, or a stream of them where the format is one.
    pub documents: Documents,
    /// Parts that the format cannot express, and what they were converted to.
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
            |value: &Value| serde_saphyr::to_string(value).map_err(|error| ConvertError::NotWritten(error.to_string()));
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
pub fn write(tools: &[Found], target: Format) -> Result<WrittenFile, ConvertError> {
    let mut warnings = Vec::new();
    let documents = match target {
        Format::ArkManifest => Documents::Stream(manifest::write(tools, &mut warnings)),
        Format::ToolConfig => Documents::One(tool_config::write(tools, &mut warnings)),
        Format::OpenAi => {
            Documents::One(declare::tools(tools, target, AnyDialect::Served(Dialect::OpenAiChat), &mut warnings)?)
        }
        Format::OpenAiResponses => {
            Documents::One(declare::tools(tools, target, AnyDialect::Served(Dialect::OpenAiResponses), &mut warnings)?)
        }
        Format::Anthropic => {
            Documents::One(declare::tools(tools, target, AnyDialect::Served(Dialect::Anthropic), &mut warnings)?)
        }
        Format::Gemini => Documents::One(declare::tools(tools, target, AnyDialect::Gemini, &mut warnings)?),
        Format::Mcp => Documents::One(json!({"tools": declare::tools(tools, target, AnyDialect::Mcp, &mut warnings)?})),
        Format::Langchain => Documents::One(list::tools(tools, target, list::langchain, &mut warnings)),
        Format::Ark => Documents::One(list::tools(tools, target, list::ark, &mut warnings)),
        Format::ExternalTools => Documents::One(list::tools(tools, target, list::external, &mut warnings)),
        Format::Zod | Format::N8n | Format::OpenApi => return Err(ConvertError::NotATarget(target)),
    };
    Ok(WrittenFile { documents, warnings })
}

/// Reports once for each field which tools lose it.
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
