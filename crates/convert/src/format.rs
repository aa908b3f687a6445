//! The formats, and how each is recognised by its content.

use std::{fmt, str::FromStr};

use serde_json::{Map, Value};

use crate::document::{Document, skip_comments};

/// A format of tool definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// TypeScript or JavaScript source with Zod schemas.
    Zod,
    /// The export of an n8n workflow.
    N8n,
    /// LangChain tools as JSON.
    Langchain,
    /// Tools of OpenAI's chat completions.
    OpenAi,
    /// Tools of OpenAI's Responses.
    OpenAiResponses,
    /// Tools of Anthropic's messages.
    Anthropic,
    /// Function declarations of Gemini.
    Gemini,
    /// The answer to MCP's `tools/list`.
    Mcp,
    /// A list of `ArkToolSpec`.
    Ark,
    /// YAML resources of `kind: Tool`.
    ArkManifest,
    /// A `tool-config.json`.
    ToolConfig,
    /// An OpenAPI description, 3.0 or 3.1, or one of Swagger 2.0.
    OpenApi,
    /// A plain list of tools that a client runs.
    ExternalTools,
    /// Tools of OpenAI's chat completions, with strict schemas where that loses nothing; only written.
    OpenAiStrict,
    /// Tools of Anthropic's messages, likewise.
    AnthropicStrict,
    /// Gemini's function declarations in its older schema language; only written.
    GeminiOpenApi,
}

impl Format {
    /// The formats that tools can be read from.
    pub const ALL: [Self; 13] = [
        Self::Zod,
        Self::N8n,
        Self::Langchain,
        Self::OpenAi,
        Self::OpenAiResponses,
        Self::Anthropic,
        Self::Gemini,
        Self::Mcp,
        Self::Ark,
        Self::ArkManifest,
        Self::ToolConfig,
        Self::OpenApi,
        Self::ExternalTools,
    ];

    /// The formats that tools can be written in. Source code, workflows and API descriptions hold much that a
    /// tool cannot express.
    pub const TARGETS: [Self; 13] = [
        Self::ExternalTools,
        Self::Ark,
        Self::ArkManifest,
        Self::ToolConfig,
        Self::OpenAi,
        Self::OpenAiResponses,
        Self::Anthropic,
        Self::Gemini,
        Self::Mcp,
        Self::Langchain,
        Self::OpenAiStrict,
        Self::AnthropicStrict,
        Self::GeminiOpenApi,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zod => "zod",
            Self::N8n => "n8n",
            Self::Langchain => "langchain",
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Mcp => "mcp",
            Self::Ark => "ark",
            Self::ArkManifest => "ark-manifest",
            Self::ToolConfig => "tool-config",
            Self::OpenApi => "openapi",
            Self::ExternalTools => "external-tools",
            Self::OpenAiStrict => "openai-strict",
            Self::AnthropicStrict => "anthropic-strict",
            Self::GeminiOpenApi => "gemini-openapi",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that is not one of a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format; the formats are {list}", list = names(&Format::ALL))]
pub struct NoSuchFormat(String);

impl FromStr for Format {
    type Err = NoSuchFormat;
    fn from_str(name: &str) -> Result<Self, NoSuchFormat> {
        Self::ALL
            .into_iter()
            .chain(Self::TARGETS)
            .find(|format| format.name() == name)
            .ok_or_else(|| NoSuchFormat(name.to_owned()))
    }
}

/// The names of formats, separated by commas.
pub(crate) fn names(formats: &[Format]) -> String {
    formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}

/// Whether a text is source code. Its first word decides: no YAML document begins with
/// `import x` or `const x`.
pub(crate) fn is_source(text: &str) -> bool {
    const FIRST_WORDS: [&str; 12] = [
        "import",
        "export",
        "const",
        "let",
        "var",
        "function",
        "async",
        "class",
        "type",
        "interface",
        "declare",
        "enum",
    ];
    // A program that can be executed begins with `#!/usr/bin/env node`; the comment of a YAML file is followed by YAML.
    let text = match text.strip_prefix("#!") {
        Some(line) => line.split_once('\n').map_or("", |(_, after)| after),
        None => text,
    };
    let code = skip_comments(text);
    let word = code.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    let after = code[word.len()..].chars().next();
    FIRST_WORDS.contains(&word) && after.is_some_and(|letter| letter != ':' && letter != '-')
}

/// The format of a document, or a description of its content if it has none.
pub(crate) fn recognise(document: &Document<'_>) -> Result<Format, String> {
    let mut seen = None;
    for (_, value) in document.parts() {
        let format = of_document(value)?;
        match seen {
            None => seen = Some(format),
            Some(first) if first == format => {}
            Some(first) => return Err(format!("a stream of documents, one like {first} and another like {format}")),
        }
    }
    seen.ok_or_else(|| "nothing".to_owned())
}

fn of_document(value: &Value) -> Result<Format, String> {
    match value {
        Value::Object(object) => of_object(object),
        Value::Array(items) => of_list(items),
        Value::String(_) => Err("plain text".to_owned()),
        Value::Null | Value::Bool(_) | Value::Number(_) => Err("a single value".to_owned()),
    }
}

fn of_object(object: &Map<String, Value>) -> Result<Format, String> {
    let has = |key: &str| object.contains_key(key);
    if has("nodes") && has("connections") {
        return Ok(Format::N8n);
    }
    if has("openapi") || has("swagger") {
        return Ok(Format::OpenApi);
    }
    if has("kind") && (has("apiVersion") || has("spec")) {
        return Ok(Format::ArkManifest);
    }
    if let Some(format) = of_tool(object) {
        return Ok(format);
    }
    if let Some(Value::Object(result)) = object.get("result").or_else(|| object.get("data")) {
        return of_object(result);
    }
    match object.get("tools") {
        // An empty list does not identify the format; its siblings may.
        Some(Value::Array(tools)) if tools.is_empty() => {
            Ok(if has("providers") || has("beats") { Format::ToolConfig } else { Format::ExternalTools })
        }
        Some(Value::Array(tools)) => of_list(tools).or_else(|looks_like| {
            // A list of named things that is called `tools` is one of tools, with faults.
            let is_named = |tool: &Value| tool.get("name").is_some_and(Value::is_string);
            if tools.iter().all(is_named) { Ok(Format::ToolConfig) } else { Err(looks_like) }
        }),
        _ if is_by_category(object) => Ok(Format::ToolConfig),
        _ => Err(format!("an object with {}", keys(object))),
    }
}

/// The older form of `tool-config.json`: `{Category: [tools]}`.
pub(crate) fn is_by_category(object: &Map<String, Value>) -> bool {
    let is_tool = |value: &Value| value.get("name").is_some_and(Value::is_string);
    !object.is_empty()
        && object.values().all(|tools| tools.as_array().is_some_and(|tools| tools.iter().all(is_tool)))
        && object.values().any(|tools| tools.as_array().is_some_and(|tools| !tools.is_empty()))
}

fn of_list(items: &[Value]) -> Result<Format, String> {
    if items.is_empty() {
        return Ok(Format::ExternalTools);
    }
    let known = items.iter().filter_map(Value::as_object).find_map(|item| {
        let is_workflow = item.contains_key("nodes") && item.contains_key("connections");
        if is_workflow { Some(Format::N8n) } else { of_tool(item) }
    });
    known.ok_or_else(|| match items.iter().find_map(Value::as_object) {
        Some(object) => format!("a list of objects with {}", keys(object)),
        None => "a list without objects".to_owned(),
    })
}

/// The format of one tool, by the names of its most distinctive members.
pub(crate) fn of_tool(tool: &Map<String, Value>) -> Option<Format> {
    let has = |key: &str| tool.contains_key(key);
    let is = |key: &str, text: &str| tool.get(key).and_then(Value::as_str) == Some(text);
    if has("functionDeclarations") || has("function_declarations") {
        return Some(Format::Gemini);
    }
    if is("type", "function") {
        return Some(if has("function") { Format::OpenAi } else { Format::OpenAiResponses });
    }
    if has("lc") && has("kwargs") {
        return Some(Format::Langchain);
    }
    if !has("name") {
        return None;
    }
    if has("input_schema") {
        return Some(Format::Anthropic);
    }
    if has("inputSchema") {
        return Some(Format::Mcp);
    }
    if has("parametersJsonSchema") || has("parameters_json_schema") {
        return Some(Format::Gemini);
    }
    if has("providerConfigKey") || has("cache_model") {
        return Some(Format::ToolConfig);
    }
    if has("schema") || has("args_schema") || has("argsSchema") || has("lc_name") {
        return Some(Format::Langchain);
    }
    if has("source") || has("category") || has("display_name") {
        return Some(Format::ToolConfig);
    }
    if is("type", "custom") || is("type", "builtin") {
        return Some(Format::Ark);
    }
    if has("parameters") || has("executionMode") || has("description") {
        return Some(Format::ExternalTools);
    }
    None
}

fn keys(object: &Map<String, Value>) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = object.keys().take(SHOWN).map(|key| format!("`{}`", clip(key))).collect();
    match object.len().saturating_sub(SHOWN) {
        _ if shown.is_empty() => "no members".to_owned(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Shortens and sanitises input for a message: not a megabyte of it, and no control characters.
pub(crate) fn clip(text: &str) -> String {
    bosun_core::text::clip(text, 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Result<Format, &str>) {
        let document = Document::read(text).unwrap();
        assert_eq!(recognise(&document), expect.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn formats_are_recognised_by_their_content() {
        check(r#"{"nodes": [], "connections": {}}"#, Ok(Format::N8n));
        check(r#"[{"nodes": [], "connections": {}}]"#, Ok(Format::N8n));
        check("openapi: 3.1.0\npaths: {}\n", Ok(Format::OpenApi));
        check("kind: Tool\nspec: {}\n---\nkind: Tool\nspec: {}\n", Ok(Format::ArkManifest));
        check(r#"[{"type": "function", "function": {"name": "a"}}]"#, Ok(Format::OpenAi));
        check(r#"{"model": "m", "tools": [{"type": "function", "name": "a"}]}"#, Ok(Format::OpenAiResponses));
        check(r#"[{"name": "a", "input_schema": {}}]"#, Ok(Format::Anthropic));
        check(r#"{"tools": [{"functionDeclarations": []}]}"#, Ok(Format::Gemini));
        check(r#"[{"name": "a", "parametersJsonSchema": {}}]"#, Ok(Format::Gemini));
        check(
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a", "inputSchema": {}}]}}"#,
            Ok(Format::Mcp),
        );
        check(r#"[{"name": "a", "schema": {}}]"#, Ok(Format::Langchain));
        check(r#"[{"lc": 1, "type": "constructor", "id": [], "kwargs": {}}]"#, Ok(Format::Langchain));
        check(r#"[{"type": "custom", "name": "a", "parameters": {}}]"#, Ok(Format::Ark));
        check(r#"{"tools": [{"name": "a", "source": "cache"}]}"#, Ok(Format::ToolConfig));
        check(r#"{"Email": [{"name": "a"}], "CRM": []}"#, Ok(Format::ToolConfig));
        check(r#"{"tools": [{"name": "a"}]}"#, Ok(Format::ToolConfig));
        check(r#"[{"name": "a", "description": "b", "parameters": {}}]"#, Ok(Format::ExternalTools));
        check("[]", Ok(Format::ExternalTools));
    }

    #[test]
    fn a_document_without_a_format_is_described() {
        check(r#"{"a": 1, "b": 2}"#, Err("an object with `a`, `b`"));
        check("{}", Err("an object with no members"));
        check("[1]", Err("a list without objects"));
        check(r#"[{"x": 1}]"#, Err("a list of objects with `x`"));
        check("hello", Err("plain text"));
        check(
            "openapi: 3.0.0\n---\nkind: Tool\nspec: {}\n",
            Err("a stream of documents, one like openapi and another like ark-manifest"),
        );
    }

    #[test]
    fn source_is_recognised_by_its_first_word() {
        for source in [
            "import { z } from 'zod';",
            "// x\n/* y */ export const a = 1",
            "const x = z.object({})",
            "#!/usr/bin/env node\n// x\nimport a from 'a';",
        ] {
            assert!(is_source(source), "{source}");
        }
        for data in [
            "#!/usr/bin/env yaml\nimport: x",
            "import: x",
            "{\"a\": 1}",
            "// c\n[1]",
            "export-name: 1",
            "openapi: 3.0.0",
            "",
            "constant: 1",
        ] {
            assert!(!is_source(data), "{data}");
        }
    }

    #[test]
    fn every_format_has_one_name() {
        for format in Format::ALL.into_iter().chain(Format::TARGETS) {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("yaml".parse::<Format>().is_err());
    }
}
