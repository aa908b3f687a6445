//! Foreign tool formats: text in, tools and warnings out.
//!
//! Every converter is a pure function. It reads no file, runs no code and never guesses silently:
//! a part that it cannot carry over is a [`Warning`], one that it cannot read is an error with its position.
//!
//! **From one format to another.** The format of a text is recognised by its content.
//!
//! ```
//! use bosun_convert::{Format, ConvertOptions, read, write};
//!
//! let text = r#"[{"type": "function", "function": {
//!     "name": "calculator", "description": "Evaluates an expression",
//!     "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}}
//! }}]"#;
//! let conversion = read(text, ConvertOptions::default())?;
//! assert_eq!(conversion.format, Format::OpenAi);
//! assert_eq!(conversion.tools[0].tool.name, "calculator");
//!
//! let written = write(&conversion.tools, Format::ArkManifest)?;
//! assert!(written.warnings[0].message.contains("cannot move"));
//! # Ok::<(), bosun_convert::ConvertError>(())
//! ```
//!
//! **Tools in source code**, read without running it; [`zod`] has more.
//!
//! ```
//! # use bosun_convert::{Format, ConvertOptions, read, write};
//! let source = r#"
//!     import { z } from "zod";
//!     export const calculator = {
//!         name: "calculator",
//!         description: "Perform mathematical calculations",
//!         schema: z.object({ expression: z.string().describe("Mathematical expression to evaluate") }),
//!         call: async (input) => evaluate(input),
//!     };
//! "#;
//! let conversion = read(source, ConvertOptions::default())?;
//! assert!(conversion.tools[0].tool.is_external());
//! assert!(write(&conversion.tools, Format::Ark)?.documents.to_json().contains(r#""executionMode": "external""#));
//! # Ok::<(), bosun_convert::ConvertError>(())
//! ```
//!
//! **A workflow of n8n.** Every node with an `ai_tool` connection is a tool, and the `$fromAI` calls in its
//! parameters are what the model fills in. A request that it makes can move into the server.
//!
//! ```
//! # use bosun_convert::{Format, ConvertOptions, read, write};
//! let workflow = r#"{
//!     "nodes": [{
//!         "name": "Find Customer", "type": "n8n-nodes-base.httpRequestTool", "typeVersion": 4.2,
//!         "parameters": {
//!             "toolDescription": "Finds a customer by email",
//!             "url": "=https://crm.example.com/customers?email={{ $fromAI('email', 'Whose?') }}"
//!         }
//!     }],
//!     "connections": {"Find Customer": {"ai_tool": [[{"node": "Agent", "type": "ai_tool", "index": 0}]]}}
//! }"#;
//! let conversion = read(workflow, ConvertOptions::default())?;
//! assert_eq!(conversion.tools[0].tool.name, "Find_Customer");
//! assert_eq!(conversion.tools[0].tool.parameters["required"][0], "email");
//!
//! let manifest = write(&conversion.tools, Format::ArkManifest)?.documents.to_yaml()?;
//! assert!(manifest.contains("https://crm.example.com/customers?email={email}"), "{manifest}");
//! # Ok::<(), bosun_convert::ConvertError>(())
//! ```
//!
//! **An API.** Each operation of an OpenAPI description is a tool.
//!
//! ```
//! # use bosun_convert::{Format, ConvertOptions, read, write};
//! let api = "
//! openapi: 3.1.0
//! info: {title: Kennel, version: '1'}
//! servers: [{url: https://kennel.example.com}]
//! paths:
//!   /dogs/{dogId}:
//!     get:
//!       operationId: getDog
//!       summary: One dog
//!       parameters: [{name: dogId, in: path, required: true, schema: {type: string}}]
//! ";
//! let conversion = read(api, ConvertOptions::default())?;
//! assert_eq!(conversion.format, Format::OpenApi);
//! assert_eq!(conversion.tools[0].tool.name, "getDog");
//! # Ok::<(), bosun_convert::ConvertError>(())
//! ```
//!
//! **Tools as configuration**, checked: every fault at once, with its position.
//!
//! ```
//! use bosun_convert::{ConvertOptions, check};
//!
//! let config = r#"// config/tool-config.json
//! {"tools": [
//!     {"name": "fetch_emails", "description": "Fetch emails", "providerConfigKey": "google-mail", "source": "cache"},
//!     {"name": "send_email", "description": "Send an email", "providerConfigKey": "google-mail", "colour": "red"}
//! ]}"#;
//! let checked = check(config, ConvertOptions::default());
//! let codes: Vec<_> = checked.problems.iter().map(|problem| (problem.place.line, problem.code)).collect();
//! assert_eq!(codes, [(3, "cache_model_missing"), (4, "unknown_field")]);
//! ```

mod address;
mod check;
mod fields;
mod format;
mod found;
mod lists;
mod manifest;
mod n8n;
mod names;
mod openapi;
mod secrets;
mod tool_config;
mod write;

pub mod client;
pub mod dialect;
pub mod document;
#[cfg(feature = "zod")]
pub mod zod;

use std::collections::HashSet;

use bosun_reading::Report;
use document::{Document, ReadError};

pub use bosun_reading::{Fault, Warning};
pub use check::{CheckedDocument, Severity, ToolProblem, check};
pub use format::{Format, NoSuchFormat};
pub use found::{Conversion, ConversionRequest, Found, InsideTool, RequestTool, ToolOrigin};
pub use n8n::NodeTypes;
pub use write::{Documents, WrittenFile, write};

/// Why a whole text could not be read, or tools could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("this is {looks_like}, which is none of the formats that can be read: {list}", list = format::names(&Format::ALL))]
    UnknownFormat { looks_like: String },
    #[error("this build has no reader of {0}: it was built without the feature `{0}`")]
    NotBuilt(Format),
    #[error("tools cannot be written as {0}, only as {list}", list = format::names(&Format::TARGETS))]
    NotATarget(Format),
    #[error("the result could not be written: {0}")]
    NotWritten(String),
}

impl ConvertError {
    /// A stable name for the fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read(error) => error.code(),
            Self::UnknownFormat { .. } => "unknown_format",
            Self::NotBuilt(_) => "not_built",
            Self::NotATarget(_) => "not_a_target",
            Self::NotWritten(_) => "not_written",
        }
    }
}

/// How to read a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConvertOptions<'a> {
    /// Its format; recognised by its content where absent.
    pub from: Option<Format>,
    /// The version of Zod that source code is written for; recognised by its imports where absent.
    pub zod: Option<ZodVersion>,
    /// The version that `import … from "zod"` means, by what is installed.
    pub zod_installed: Option<ZodVersion>,
    /// What is asked for in place of a version, such as `latest`: what `import … from "zod"` means is then assumed.
    pub zod_unclear: Option<&'a str>,
    /// The side of a Zod schema that is described.
    pub io: ZodIo,
    /// The agent of an n8n workflow whose tools are read; all of them where absent.
    pub agent: Option<&'a str>,
    /// The node types of the n8n that a workflow is from.
    pub n8n_nodes: Option<&'a NodeTypes>,
    /// The server of an OpenAPI description, in place of its own.
    pub server: Option<&'a str>,
    /// The files that relative references and imports may name, and the settings of providers beside a tool-config;
    /// without them, none is followed.
    pub files: Option<&'a dyn FolderFiles>,
}

/// The files of the folder that a text is from.
pub trait FolderFiles: std::fmt::Debug + Sync {
    /// The text of a file, by its path from the directory of the text, with `/` between its parts. The path may begin
    /// with `..`; an implementation must refuse what is outside of its folder, however it is reached.
    ///
    /// # Errors
    /// Why it cannot be read, in words: it does not exist, is outside of the folder, or is too large.
    fn read(&self, path: &str) -> Result<String, String>;
}

/// What a Zod schema describes: the values that it accepts, or what it makes of them. They differ in defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZodIo {
    #[default]
    Input,
    Output,
}

/// The major version of Zod that a source is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum ZodVersion {
    #[serde(rename = "3")]
    V3,
    #[serde(rename = "4")]
    V4,
}

/// Reads the tools of a text.
///
/// # Errors
/// When the text cannot be read at all. A tool that is wrong is a [`Fault`] of the result.
pub fn read(text: &str, options: ConvertOptions<'_>) -> Result<Conversion, ConvertError> {
    match OutputText::read(text, options)? {
        OutputText::Source => read_source(text, options),
        OutputText::Data(document, format) => Ok(read_document(&document, format, options)),
    }
}

/// The kind of a text, before its tools are read.
enum OutputText<'a> {
    Source,
    Data(Document<'a>, Format),
}

impl<'a> OutputText<'a> {
    fn read(text: &'a str, options: ConvertOptions<'_>) -> Result<Self, ConvertError> {
        if text.len() > document::MAX_SIZE {
            return Err(ReadError::TooLarge.into());
        }
        let is_source = options.from.map_or_else(|| format::is_source(text), |from| from == Format::Zod);
        if is_source {
            return Ok(Self::Source);
        }
        let document = Document::read(text)?;
        let format = match options.from {
            Some(format) => format,
            None => format::recognise(&document).map_err(|looks_like| ConvertError::UnknownFormat { looks_like })?,
        };
        Ok(Self::Data(document, format))
    }
}

#[cfg(not(feature = "zod"))]
fn read_source(_: &str, _: ConvertOptions<'_>) -> Result<Conversion, ConvertError> {
    Err(ConvertError::NotBuilt(Format::Zod))
}

#[cfg(feature = "zod")]
fn read_source(text: &str, options: ConvertOptions<'_>) -> Result<Conversion, ConvertError> {
    use bosun_reading::SourcePlace;

    use crate::document::Path;

    let report = Report::of_conversion();
    let mut tools = Vec::new();
    let zod_options = zod::ZodOptions {
        version: options.zod,
        installed: options.zod_installed,
        unclear: options.zod_unclear,
        io: options.io,
        files: options.files,
    };
    let mut add_fault = |fault: zod::ZodFault| {
        let path = Path::of_source(SourcePlace { line: fault.line, column: fault.column });
        report.fault_with_hint(&path, fault.code, fault.message, fault.hint.unwrap_or_default());
    };
    match zod::convert(text, "", zod_options) {
        Ok(converted) => {
            converted.warnings.into_iter().for_each(|warning| report.push_warning(warning));
            converted.faults.into_iter().for_each(&mut add_fault);
            tools.extend(converted.tools.into_iter().map(|found| {
                let path = Path::of_source(SourcePlace { line: found.line, column: found.column });
                let inside = InsideTool::Never("it is code".to_owned());
                Found { inside, ..Found::new(found.tool, ToolOrigin { path, parameters: None }) }
            }));
        }
        Err(faults) => faults.into_iter().for_each(add_fault),
    }
    refuse_duplicates(&mut tools, &report);
    Ok(found::conclude(report, Format::Zod, tools))
}

/// Reads the tools of a document in a format.
fn read_document(document: &Document<'_>, format: Format, options: ConvertOptions<'_>) -> Conversion {
    let report = Report::of_conversion();
    let mut tools = match format {
        Format::N8n => n8n::read(document, options, &report),
        Format::OpenApi => openapi::read(document, options, &report),
        Format::ArkManifest => manifest::read(document, &report),
        Format::ToolConfig => tool_config::read(document, options.files, &report),
        list => lists::read(document, list, &report),
    };
    refuse_duplicates(&mut tools, &report);
    found::conclude(report, format, tools)
}

/// Rejects duplicate names, which would be ambiguous. The first tool is kept.
fn refuse_duplicates(tools: &mut Vec<Found>, report: &Report) {
    let mut names = HashSet::new();
    tools.retain(|found| {
        let is_new = names.insert(found.tool.name.clone());
        if !is_new {
            let message = format!("there are two tools named `{}`", format::clip(&found.tool.name));
            report.fault(&found.origin.path, "duplicate_name", message);
        }
        is_new
    });
}
