//! `bosun convert`: tools from one format into another.

use std::{path::PathBuf, process::ExitCode};

use bosun_adapters::runner::http::template_faults;
use bosun_convert::{
    CheckedDocument, ConvertOptions, Format, InsideTool, NodeTypes, Severity, ToolProblem, ZodIo, ZodVersion, document,
    write,
};
use bosun_reading::SourcePlace;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{
    Usage, check,
    folder::SourceFolder,
    input::Source,
    report::{self, printable},
};

/// Convert tools from one format into another.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun convert tools.ts --to ark                      tools in TypeScript with Zod schemas, without Node
  bosun convert workflow.json --to external-tools      the AI tools of an n8n workflow, for a client that runs them
  bosun convert workflow.json --to ark-manifest        its HTTP requests as tools that Bosun runs itself
  bosun convert petstore.yaml --to ark-manifest        the operations of an OpenAPI description
  curl -s localhost:3000/tools | bosun convert - --to openai

Tools in TypeScript are those of LangChain, MCP servers, the Vercel AI SDK and Mastra. References and imports are followed
within the folder of the file. Secrets in clear text are never copied.

The result goes to standard output, what was left out or assumed to standard error. Exit code 1 means that the
file has faults or no tools; its valid tools are written nevertheless.")]
pub(crate) struct Convert {
    /// The file to read; `-` is standard input
    file: PathBuf,
    /// The format to write
    #[arg(long, value_name = "FORMAT", value_parser = format_parser(&Format::TARGETS))]
    to: Format,
    /// The format of the file; default: detected from its content
    #[arg(long, value_name = "FORMAT", value_parser = format_parser(&Format::ALL))]
    from: Option<Format>,
    /// The version of Zod that source code is written for; default: detected from its imports
    #[arg(long, value_name = "VERSION", value_enum)]
    zod: Option<Zod>,
    /// The side of Zod 4's schemas to describe: what they accept, or what they return
    #[arg(long, value_name = "SIDE", value_enum, default_value_t = Io::Input)]
    io: Io,
    /// The agent of an n8n workflow whose tools to convert; all of them without it
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The node types of your n8n (its nodes.json), for the descriptions that it makes itself
    #[arg(long, value_name = "FILE")]
    n8n_nodes: Option<PathBuf>,
    /// The server of an OpenAPI description, in place of its own
    #[arg(long, value_name = "URL", value_parser = parse_server)]
    server: Option<String>,
    /// The syntax of the output; default: YAML for ark-manifest, JSON for all others
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

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Io {
    Input,
    Output,
}

impl From<Io> for ZodIo {
    fn from(io: Io) -> Self {
        match io {
            Io::Input => Self::Input,
            Io::Output => Self::Output,
        }
    }
}

fn parse_server(text: &str) -> Result<String, String> {
    let has_host =
        ["https://", "http://"].iter().any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    if has_host { Ok(text.to_owned()) } else { Err("a server begins with https:// or http://".to_owned()) }
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
        let folder = SourceFolder::of(&source);
        let n8n_nodes = self.node_types()?;
        let options = ConvertOptions {
            from: self.from,
            zod: self.zod.map(ZodVersion::from),
            io: self.io.into(),
            agent: self.agent.as_deref(),
            n8n_nodes: n8n_nodes.as_ref(),
            server: self.server.as_deref(),
            ..folder.options()
        };
        let mut checked = check::read(&bytes, options);
        checked.problems.extend(checked.nothing_found(&shown));
        for problem in &checked.problems {
            report::print(&shown, problem);
        }
        if checked.format.is_none() {
            return Ok(ExitCode::FAILURE);
        }
        keep_what_runs(&mut checked);
        let has_nothing = self.write(&shown, &checked)?;
        Ok(if checked.has_errors() || has_nothing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn node_types(&self) -> anyhow::Result<Option<NodeTypes>> {
        let Some(path) = &self.n8n_nodes else { return Ok(None) };
        let source = Source::named(path);
        let bytes = source.read()?;
        let types = document::decode(&bytes).and_then(NodeTypes::read);
        Ok(Some(types.map_err(|error| Usage(format!("cannot read `{}`: {error}", source.shown())))?))
    }

    /// Writes the tools; whether none of them could be written.
    fn write(&self, shown: &str, checked: &CheckedDocument<'_>) -> anyhow::Result<bool> {
        let written = write(&checked.tools, self.to)?;
        for warning in written.warnings {
            report::print(shown, &checked.placed(warning));
        }
        let has_nothing = written.documents.is_empty() && !checked.tools.is_empty();
        if has_nothing {
            let message = format!("none of the tools of {shown} can be written as {}", self.to);
            report::print(shown, &nothing_written(message));
        }
        let is_yaml = match self.format {
            Some(syntax) => syntax == Syntax::Yaml,
            None => self.to == Format::ArkManifest,
        };
        let text = if is_yaml { written.documents.to_yaml()? } else { written.documents.to_json() };
        // JSON escapes control characters of a terminal, YAML need not.
        anstream::print!("{}", if is_yaml { printable(&text) } else { text });
        Ok(has_nothing)
    }
}

fn nothing_written(message: String) -> ToolProblem {
    let (severity, place) = (Severity::Error, SourcePlace::START);
    ToolProblem { severity, place, path: String::new(), code: "no_tools", message, hint: None }
}

/// Leaves out the requests that Bosun would refuse: one faulty tool makes a whole file of manifests invalid.
fn keep_what_runs(checked: &mut CheckedDocument<'_>) {
    for found in &mut checked.tools {
        let InsideTool::AsRequest(request) = &found.inside else { continue };
        let parameters = request.takes.as_ref().map_or(&*found.tool.parameters, |takes| &takes.parameters);
        let faults = template_faults(&request.http, Some(parameters));
        if !faults.is_empty() {
            let reasons: Vec<String> = faults.into_iter().map(|fault| fault.message).collect();
            found.inside = InsideTool::Never(reasons.join("; "));
        }
    }
}
