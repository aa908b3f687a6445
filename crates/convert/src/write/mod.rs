//! Tools written in another format.

use std::borrow::Cow;

use bosun_core::{Binding, schema::dialect::Dialect};
use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::{ConvertError, Format, Warning, dialect::AnyDialect, format::clip, found::Found, manifest, tool_config};

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
    /// Whether they hold no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::One(value) => value.get("tools").unwrap_or(value).as_array().is_some_and(Vec::is_empty),
            Self::Stream(documents) => documents.is_empty(),
        }
    }

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
    let dialect = match target {
        Format::OpenAi => AnyDialect::Served(Dialect::OpenAiChat),
        Format::OpenAiStrict => AnyDialect::Served(Dialect::OpenAiChatStrict),
        Format::OpenAiResponses => AnyDialect::Served(Dialect::OpenAiResponses),
        Format::Anthropic => AnyDialect::Served(Dialect::Anthropic),
        Format::AnthropicStrict => AnyDialect::Served(Dialect::AnthropicStrict),
        Format::Gemini => AnyDialect::Gemini,
        Format::GeminiOpenApi => AnyDialect::GeminiOpenApi,
        Format::Mcp => AnyDialect::Mcp,
        other => {
            let documents = match other {
                Format::ArkManifest => Documents::Stream(manifest::write(tools, &mut warnings)),
                Format::ToolConfig => Documents::One(tool_config::write(tools, &mut warnings)),
                Format::Langchain => Documents::One(list::tools(tools, target, list::langchain, &mut warnings)),
                Format::Ark => Documents::One(list::tools(tools, target, list::ark, &mut warnings)),
                Format::ExternalTools => Documents::One(list::tools(tools, target, list::external, &mut warnings)),
                _ => return Err(ConvertError::NotATarget(target)),
            };
            return Ok(WrittenFile { documents, warnings });
        }
    };
    let declared = declare::tools(tools, target, dialect, &mut warnings)?;
    let documents = Documents::One(if target == Format::Mcp { json!({"tools": declared}) } else { declared });
    Ok(WrittenFile { documents, warnings })
}

/// Reports once for each field which tools lose it.
fn warn_of_losses(tools: &[Found], format: Format, warnings: &mut Vec<Warning>) {
    let mut lost: IndexMap<Cow<'_, str>, (&Found, usize)> = IndexMap::new();
    for found in tools {
        for field in lost_fields(found, format) {
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
fn lost_fields(found: &Found, format: Format) -> impl Iterator<Item = Cow<'_, str>> {
    let Found { tool, entry, .. } = found;
    let entry = entry.as_ref().filter(|_| format != Format::Mcp);
    let only_in_entry = entry.map(|entry| fields_of_entry(entry)).unwrap_or_default();
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
    let of_tool = fields.into_iter().filter(|(_, is_lost)| *is_lost).map(|(field, _)| Cow::Borrowed(field));
    of_tool.chain(only_in_entry.into_iter().map(Cow::Owned))
}

/// Maximum number of fields that are listed one by one.
const MOST_LISTED: usize = 32;

/// The fields of a tool of MCP that a [`Tool`](bosun_core::Tool) has no place for.
fn fields_of_entry(entry: &Value) -> Vec<String> {
    const KEPT: [&str; 5] = ["name", "description", "inputSchema", "title", "annotations"];
    const KEPT_HINTS: [&str; 5] = ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    let without = |value: Option<&Value>, kept: [&'static str; 5], prefix: &str| -> Vec<String> {
        let members = value.and_then(Value::as_object).into_iter().flatten();
        let other = members.filter(|(name, value)| !value.is_null() && !kept.contains(&name.as_str()));
        other.map(|(name, _)| format!("{prefix}{}", clip(name))).collect()
    };
    let mut fields = without(Some(entry), KEPT, "");
    fields.extend(without(entry.get("annotations"), KEPT_HINTS, "annotations."));
    let more = fields.len().saturating_sub(MOST_LISTED);
    if more > 0 {
        fields.truncate(MOST_LISTED);
        fields.push(format!("{more} more fields"));
    }
    fields
}
