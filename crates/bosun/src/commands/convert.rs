//! `bosun convert`: tools from one format into another.

use std::{path::PathBuf, process::ExitCode};

use bosun_convert::{CheckedDocument, ConvertOptions, Format, ZodVersion, write};
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{
    check,
    input::Source,
    report::{self, printable},
};

/// Convert tools from one format into another.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun convert tools.ts --to ark                      Zod and LangChain tools in TypeScript, without Node
  bosun convert workflow.json --to external-tools      the AI tools of an n8n workflow, for a client that runs them
  bosun convert workflow.json --to ark-manifest        its HTTP requests as tools that Bosun runs itself
  bosun convert petstore.yaml --to ark-manifest        the operations of an OpenAPI description
  curl -s localhost:3000/tools | bosun convert - --to openai

The result goes to standard output, what was left out or assumed to standard error. Exit code 1 means that something in
the file is wrong; the tools that are right are written all the same.")]
pub(crate) struct Convert {
    /// The file to read; `-` is standard input
    file: PathBuf,
    /// The format to write
    #[arg(long, value_name = "FORMAT", value_parser = format_parser(&Format::TARGETS))]
    to: Format,
    /// The format of the file, where its content does not tell
    #[arg(long, value_name = "FORMAT", value_parser = format_parser(&Format::ALL))]
    from: Option<Format>,
    /// The version of Zod that source code is written for, where its imports do not tell
    #[arg(long, value_name = "VERSION", value_enum)]
    zod: Option<Zod>,
    /// How to write it: YAML for ark-manifest and JSON for all others, unless you say otherwise
    #[arg(long, value_name = "SYNTAX", value_enum)]
    format: Option<Syntax>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Syntax {
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Zod {
    #[value(name = "3")]
    Three,
    #[value(name = "4")]
    Four,
}

impl From<Zod> for ZodVersion {
    fn from(version: Zod) -> Self {
        match version {
            Zod::Three => Self::V3,
            Zod::Four => Self::V4,
        }
    }
}

/// A parser that lists the names of formats, so that `--help` and shells can show them.
fn format_parser(formats: &[Format]) -> impl TypedValueParser<Value = Format> + use<> {
    let names: Vec<&'static str> = formats.iter().map(|format| format.name()).collect();
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Format>())
}

impl Convert {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let source = Source::named(&self.file);
        let shown = source.shown();
        let bytes = source.read()?;
        let zod = self.zod.map(ZodVersion::from);
        let checked = check::read(&bytes, ConvertOptions { from: self.from, zod });
        for problem in &checked.problems {
            report::print(&shown, problem);
        }
        if checked.format.is_none() {
            return Ok(ExitCode::FAILURE);
        }
        self.write(&shown, &checked)?;
        Ok(if checked.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn write(&self, shown: &str, checked: &CheckedDocument<'_>) -> anyhow::Result<()> {
        let written = write(&checked.tools, self.to)?;
        for warning in written.warnings {
            report::print(shown, &checked.placed(warning));
        }
        let is_yaml = match self.format {
            Some(syntax) => syntax == Syntax::Yaml,
            None => self.to == Format::ArkManifest,
        };
        let text = if is_yaml { written.documents.to_yaml()? } else { written.documents.to_json() };
        // JSON escapes control characters of a terminal, YAML need not.
        anstream::print!("{}", if is_yaml { printable(&text) } else { text });
        Ok(())
    }
}
