//! Tools in the format of a model API: the same that Bosun itself would send.
//!
//! A dialect reports what it had to omit, and omits a few keywords silently because
//! they do not constrain arguments. A user who converts a file wants to know of those too, so what was
//! sent is compared with what was written.

use std::collections::{HashMap, HashSet};

use bosun_core::{Tool, Toolset, schema::dialect::Dialect, tool::toolset::ToolSources};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::warn_of_losses;
use crate::{
    ConvertError, Format, Warning,
    dialect::AnyDialect,
    document::{LazyPath, Path},
    found::Found,
};

pub(super) fn tools(
    tools: &[Found],
    target: Format,
    dialect: AnyDialect,
    warnings: &mut Vec<Warning>,
) -> Result<Value, ConvertError> {
    warn_of_losses(tools, target, warnings);
    let origins: HashMap<&str, &Found> = tools.iter().map(|found| (found.tool.name.as_str(), found)).collect();
    let mut warn = |tool: &str, inside: &str, code, message| {
        let path = origins.get(tool).map(|found| found.origin.place_of(inside).to_string()).unwrap_or_default();
        warnings.push(Warning { path, code, message });
    };
    let toolset =
        Toolset::merge(ToolSources::Catalog, tools.iter().map(|found| found.tool.clone()).collect(), Vec::new());
    let declarations = dialect.declare_toolset(&toolset);
    for loss in &declarations.losses {
        let inside = format!("parameters.{}", loss.path);
        warn(&loss.tool, &inside, "keyword_dropped", format!("in {target}, {}: {}", loss.path, loss.message));
    }
    for quarantined in &declarations.quarantined {
        let message = format!("`{}` cannot be written as {target}: {}", quarantined.tool, quarantined.reason);
        warn(&quarantined.tool, "", "cannot_move", message);
    }
    let mut written: Value =
        serde_json::from_str(&declarations.json).map_err(|error| ConvertError::NotWritten(error.to_string()))?;
    let left_out: HashSet<&str> = declarations.quarantined.iter().map(|tool| tool.tool.as_str()).collect();
    let reported = declarations.losses.iter().map(|loss| (loss.tool.as_str(), loss.path.as_str()));
    let mut silent = SilentLosses { reported: reported.collect(), lost: IndexMap::new() };
    let declared = || tools.iter().filter(|found| !left_out.contains(found.tool.name.as_str()));
    if target == Format::Mcp {
        keep_entries(&mut written, declared());
    }
    for (found, entry) in declared().zip(entries(&written, dialect)) {
        let tool = &found.tool;
        if let Some(schema) = entry.schema {
            silent.compare(tool, &tool.parameters, schema, &LazyPath::At(&Path::root()));
        }
        if let Some(name) = entry.name.filter(|name| *name != tool.name) {
            let message = format!("`{}` is called `{name}`: {target} does not accept its name", tool.name);
            warn(&tool.name, "", "renamed", message);
        }
    }
    for (keyword, LostDeclaration { tool, path, more }) in silent.lost {
        let of = if more == 0 { format!("`{tool}`") } else { format!("`{tool}` and {more} more") };
        let message = format!("`{keyword}` in the parameters of {of} is not part of {target}");
        warn(tool, &format!("parameters.{path}"), "keyword_dropped", message);
    }
    Ok(written)
}

/// Tools that were read from MCP are written as they were, by the names that their server knows.
fn keep_entries<'a>(written: &mut Value, declared: impl Iterator<Item = &'a Found>) {
    for (found, entry) in declared.zip(written.as_array_mut().into_iter().flatten()) {
        if let Some(original) = &found.entry {
            entry.clone_from(original);
        }
    }
}

/// What is sent of one tool.
struct DeclaredEntry<'a> {
    name: Option<&'a str>,
    schema: Option<&'a Value>,
}

fn entries(written: &Value, dialect: AnyDialect) -> impl Iterator<Item = DeclaredEntry<'_>> {
    let (list, name, schema) = match dialect {
        AnyDialect::Gemini => ("/0/functionDeclarations", "/name", "/parametersJsonSchema"),
        AnyDialect::Served(Dialect::OpenAiResponses) => ("", "/name", "/parameters"),
        AnyDialect::GeminiOpenApi => ("/0/functionDeclarations", "/name", "/parameters"),
        AnyDialect::Served(Dialect::Anthropic | Dialect::AnthropicStrict) => ("", "/name", "/input_schema"),
        AnyDialect::Mcp => ("", "/name", "/inputSchema"),
        _ => ("", "/function/name", "/function/parameters"),
    };
    let list = written.pointer(list).and_then(Value::as_array).into_iter().flatten();
    list.map(move |entry| DeclaredEntry {
        name: entry.pointer(name).and_then(Value::as_str),
        schema: entry.pointer(schema),
    })
}

/// Keywords that a dialect omitted silently.
struct SilentLosses<'a> {
    reported: HashSet<(&'a str, &'a str)>,
    lost: IndexMap<&'a str, LostDeclaration<'a>>,
}

/// What became of a keyword, under the name that draft 2020-12 has for it.
fn translated<'v>(source: &Map<String, Value>, sent: &'v Map<String, Value>, keyword: &str) -> Option<&'v Value> {
    let is_tuple = source.get("items").is_some_and(Value::is_array);
    let excludes = |keyword: &str| source.get(keyword).is_some_and(Value::is_boolean);
    let keyword = match keyword {
        "items" if is_tuple => "prefixItems",
        "additionalItems" if is_tuple => "items",
        // The bound takes the position of its boolean.
        "minimum" if excludes("exclusiveMinimum") && !sent.contains_key(keyword) => "exclusiveMinimum",
        "maximum" if excludes("exclusiveMaximum") && !sent.contains_key(keyword) => "exclusiveMaximum",
        keyword => keyword,
    };
    sent.get(keyword)
}

/// A strict dialect takes an optional property as one that may be null: `{"anyOf": [schema, {"type": "null"}]}`.
fn without_null<'v>(source: &Map<String, Value>, sent: &'v Map<String, Value>) -> &'v Map<String, Value> {
    match sent.get("anyOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([Value::Object(schema), null])
            if !source.contains_key("anyOf") && null.get("type").is_some_and(|kind| kind == "null") =>
        {
            schema
        }
        _ => sent,
    }
}

/// The first tool that loses a keyword, where, and how many others do.
struct LostDeclaration<'a> {
    tool: &'a str,
    path: Path,
    more: usize,
}

impl<'a> SilentLosses<'a> {
    fn compare(&mut self, tool: &'a Tool, source: &'a Value, sent: &Value, trail: &LazyPath<'_>) {
        match (source, sent) {
            (Value::Object(source), Value::Object(sent)) => {
                let sent = without_null(source, sent);
                for (key, value) in source {
                    let here = LazyPath::Key(trail, key);
                    if let Some(definitions) =
                        value.as_object().filter(|_| matches!(key.as_str(), "$defs" | "definitions"))
                    {
                        // Definitions that nothing refers to are left out, and nothing is lost with them.
                        let kept = sent.get(key).and_then(Value::as_object);
                        for (name, definition) in definitions {
                            if let Some(sent) = kept.and_then(|kept| kept.get(name)) {
                                self.compare(tool, definition, sent, &LazyPath::Key(&here, name));
                            }
                        }
                        continue;
                    }
                    match translated(source, sent, key) {
                        Some(sent) => self.compare(tool, value, sent, &here),
                        None => self.lose(tool, key, value, &here),
                    }
                }
            }
            (Value::Array(source), Value::Array(sent)) => {
                for (index, (source, sent)) in source.iter().zip(sent).enumerate() {
                    self.compare(tool, source, sent, &LazyPath::Index(trail, index));
                }
            }
            _ => {}
        }
    }

    fn lose(&mut self, tool: &'a Tool, keyword: &'a str, value: &Value, trail: &LazyPath<'_>) {
        /// Expressed in another form, and so not lost.
        const TRANSLATED: [&str; 6] = ["optional", "nullable", "items", "additionalItems", "dependencies", "$ref"];
        let says_nothing = matches!(keyword, "exclusiveMinimum" | "exclusiveMaximum") && *value == Value::Bool(false);
        if TRANSLATED.contains(&keyword) || says_nothing {
            return;
        }
        if let Some(lost) = self.lost.get_mut(keyword) {
            lost.more += usize::from(lost.tool != tool.name);
            return;
        }
        let path = trail.to_path();
        if !self.reported.contains(&(tool.name.as_str(), path.as_str())) {
            self.lost.insert(keyword, LostDeclaration { tool: &tool.name, path, more: 0 });
        }
    }
}
