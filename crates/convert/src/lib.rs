//! Foreign tool formats: text in, tools and warnings out.
//!
//! Every converter is a pure function. It reads no file, runs no code and never guesses silently:
//! what it could not carry over is a [`Warning`], what it cannot read is an error with its place.
//!
//! ```
//! use bosun_convert::{Format, read, write};
//!
//! let text = r#"[{"type": "function", "function": {
//!     "name": "calculator", "description": "Evaluates an expression",
//!     "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}}
//! }}]"#;
//! let conversion = read(text, None)?;
//! assert_eq!(conversion.format, Format::OpenAi);
//! assert_eq!(conversion.tools[0].tool.name, "calculator");
//!
//! let written = write(&conversion.tools, Format::ArkManifest)?;
//! assert!(written.warnings[0].message.contains("cannot move"));
//! # Ok::<(), bosun_convert::ConvertError>(())
//! ```

mod check;
mod fields;
mod format;
mod found;
mod lists;
mod manifest;
mod n8n;
mod names;
mod openapi;
mod tool_config;
mod warning;
mod write;

pub mod document;
pub mod source;
pub mod zod;

use std::collections::HashSet;

use document::{Document, ReadError};
use found::Report;

pub use check::{Checked, Problem, Severity, check};
pub use format::{Format, NoSuchFormat};
pub use found::{Conversion, Fault, Found, Inside, Origin, Request};
pub use warning::Warning;
pub use write::{Documents, Written, write};

/// Why nothing could be read or written at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("this is {looks_like}, and none of the formats that are read: {list}", list = format::names(&Format::ALL))]
    UnknownFormat { looks_like: String },
    #[error("tools cannot be written as {0}, only as {list}", list = format::names(&Format::TARGETS))]
    NotATarget(Format),
    #[error("this could not be written as YAML: {0}")]
    Yaml(String),
}

impl ConvertError {
    /// A stable name for the fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read(error) => error.code(),
            Self::UnknownFormat { .. } => "unknown_format",
            Self::NotATarget(_) => "not_a_target",
            Self::Yaml(_) => "yaml_not_written",
        }
    }
}

/// Reads the tools of a text, whose format is recognised by its content unless it is given.
///
/// # Errors
/// When the text cannot be read at all. A tool that is wrong is a [`Fault`] of the result.
pub fn read(text: &str, from: Option<Format>) -> Result<Conversion, ConvertError> {
    let document = Document::read(text)?;
    let format = match from {
        Some(format) => format,
        None => recognise(&document)?,
    };
    Ok(read_document(&document, format))
}

/// The format of a document.
///
/// # Errors
/// [`ConvertError::UnknownFormat`], with what the document looks like.
pub fn recognise(document: &Document<'_>) -> Result<Format, ConvertError> {
    format::recognise(document).map_err(|looks_like| ConvertError::UnknownFormat { looks_like })
}

/// Reads the tools of a document in a format.
#[must_use]
pub fn read_document(document: &Document<'_>, format: Format) -> Conversion {
    let mut report = Report::default();
    let mut tools = match format {
        Format::N8n => n8n::read(document, &mut report),
        Format::OpenApi => openapi::read(document, &mut report),
        Format::ArkManifest => manifest::read(document, &mut report),
        Format::ToolConfig => tool_config::read(document, &mut report),
        list => lists::read(document, list, &mut report),
    };
    refuse_duplicates(&mut tools, &mut report);
    Conversion { format, tools, warnings: report.warnings, faults: report.faults }
}

/// Two tools of one name could not be told apart. The first one stays.
fn refuse_duplicates(tools: &mut Vec<Found>, report: &mut Report) {
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
