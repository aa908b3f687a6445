//! Declarations of tools in every dialect: those of the model APIs that a server calls, and of other readers.
//!
//! `bosun tools show` and the converters write them all. The dialects of a server's own APIs are
//! [`bosun_core::schema::dialect`]; the same rules apply here: arguments are validated against the source schema,
//! losses are reported, and a tool that cannot be expressed is quarantined.
//!
//! ```
//! use bosun_convert::dialect::AnyDialect;
//! use bosun_core::{Binding, Tool};
//! use serde_json::json;
//!
//! let tool = Tool::new("send_email", "Sends an email", json!({"properties": {"to": {"type": "string"}}}), Binding::External);
//! assert_eq!(
//!     AnyDialect::Mcp.declare([(&tool, "send_email")].into_iter()).json,
//!     r#"[{"name":"send_email","description":"Sends an email","inputSchema":{"type":"object","properties":{"to":{"type":"string"}}}}]"#,
//! );
//! ```

mod ark;
mod expand;
mod gemini;
mod gemini_openapi;
mod mcp;
mod ollama;

use bosun_core::{
    Tool, Toolset,
    schema::dialect::{self, Declarations, Dialect, LostKeyword, modern},
};
use serde_json::{Map, Value};

/// A reader of tool definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnyDialect {
    /// A model API that a server calls.
    Served(Dialect),
    /// `functionDeclarations` with `parametersJsonSchema`.
    Gemini,
    /// `functionDeclarations` with the older `parameters`.
    GeminiOpenApi,
    /// `/api/chat`: the envelope of chat completions, a fraction of JSON Schema.
    Ollama,
    /// `tools/list`: real names where MCP accepts them.
    Mcp,
    /// ARK's tool specification: real names, the parameters as their owner wrote them.
    Ark,
}

impl AnyDialect {
    pub const ALL: [Self; 10] = [
        Self::Served(Dialect::OpenAiChat),
        Self::Served(Dialect::OpenAiChatStrict),
        Self::Served(Dialect::OpenAiResponses),
        Self::Served(Dialect::Anthropic),
        Self::Served(Dialect::AnthropicStrict),
        Self::Gemini,
        Self::GeminiOpenApi,
        Self::Ollama,
        Self::Mcp,
        Self::Ark,
    ];

    /// Its name in commands.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Served(dialect) => dialect.as_str(),
            Self::Gemini => "gemini",
            Self::GeminiOpenApi => "gemini-openapi",
            Self::Ollama => "ollama",
            Self::Mcp => "mcp",
            Self::Ark => "ark",
        }
    }

    /// The dialect with this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == text)
    }

    /// Declares the tools of a query.
    #[must_use]
    pub fn declare_toolset(self, toolset: &Toolset) -> Declarations {
        self.declare(toolset.tools().iter().map(|member| (&*member.tool, &*member.alias)))
    }

    /// Declares tools, each under the name that the model sees.
    pub fn declare<'a>(self, tools: impl Iterator<Item = (&'a Tool, &'a str)>) -> Declarations {
        type Parameters = Map<String, Value>;
        match self {
            Self::Served(dialect) => dialect::declare(dialect, tools),
            Self::Gemini => {
                let write = |tool: &Tool, alias: &str, root: Parameters, _: &mut LostKeyword| {
                    gemini::function(tool, alias, modern(root))
                };
                dialect::declare_with(tools, write, gemini::envelope)
            }
            Self::GeminiOpenApi => {
                let write = |tool: &Tool, alias: &str, root: Parameters, lost: &mut LostKeyword| {
                    gemini_openapi::function(tool, alias, modern(root), lost)
                };
                dialect::declare_with(tools, write, gemini::envelope)
            }
            Self::Ollama => {
                let write = |tool: &Tool, alias: &str, root: Parameters, lost: &mut LostKeyword| {
                    Ok(ollama::function(tool, alias, modern(root), lost))
                };
                dialect::declare_with(tools, write, Value::Array)
            }
            Self::Mcp => {
                let write = |tool: &Tool, alias: &str, root: Parameters, _: &mut LostKeyword| {
                    // MCP reads the draft that `$schema` names, and 2020-12 where there is none.
                    let root = if root.contains_key("$schema") { root } else { modern(root) };
                    Ok(mcp::tool(tool, alias, root))
                };
                dialect::declare_with(tools, write, Value::Array)
            }
            Self::Ark => {
                let write = |tool: &Tool, _: &str, _: Parameters, _: &mut LostKeyword| Ok(ark::specification(tool));
                dialect::declare_with(tools, write, Value::Array)
            }
        }
    }
}

#[cfg(test)]
mod tests;
