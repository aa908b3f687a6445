//! `bosun tools`: the content of a catalogue, without a server, and a call of one tool.

mod cache;
mod call;
mod list;
mod show;
mod validate;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::anyhow;
use bosun_convert::Severity;
use bosun_core::{Binding, Tool, tool::Nango, tool::catalog::Catalog};

use super::{Usage, check, folder::SourceFolder, input, report};

/// Browse a catalogue, and call its tools by hand.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun tools list --category Email
  bosun tools search 'send a message'
  bosun tools show send_email --for anthropic
  bosun tools validate send_email '{\"input\": {\"to\": \"ada@example.com\"}}'
  bosun tools call calculator '{\"expression\": \"6 * 7\"}'
  bosun tools cache clear weather")]
pub(crate) struct Tools {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::List),
    Search(list::Search),
    Show(show::Show),
    Validate(validate::Validate),
    Call(Box<call::Call>),
    Cache(cache::Cache),
}

impl Tools {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::List(list) => list.run(),
            Command::Search(search) => search.run(),
            Command::Show(show) => show.run(),
            Command::Validate(validate) => validate.run(),
            Command::Call(call) => call.run(),
            Command::Cache(cache) => cache.run(),
        }
    }
}

/// The files of the catalogue.
#[derive(Debug, clap::Args)]
struct CatalogArguments {
    /// Files and folders of tools; default: ./agents and ./tool-config.json
    #[arg(long, value_name = "FILE|FOLDER")]
    catalog: Vec<PathBuf>,
}

/// The tools of a catalogue, and whether all of its files were valid.
struct Loaded {
    catalog: Catalog,
    is_whole: bool,
}

impl Loaded {
    /// Success only if every file was valid: a partial catalogue is not what was asked for.
    fn exit_code(&self) -> ExitCode {
        if self.is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn tool(&self, name: &str) -> anyhow::Result<&Tool> {
        let selection = bosun_core::tool::catalog::Selection { names: vec![name.to_owned()], ..Default::default() };
        let found = self.catalog.select(&selection).map_err(|error| anyhow!("{error}"))?;
        found.first().copied().ok_or_else(|| anyhow!("no such tool: `{name}`"))
    }
}

impl CatalogArguments {
    /// Reads every file; faults go to standard error, and the rest is the catalogue.
    fn load(&self) -> anyhow::Result<Loaded> {
        let paths = if self.catalog.is_empty() { default_paths()? } else { self.catalog.clone() };
        let mut tools: Vec<Tool> = Vec::new();
        let mut names = std::collections::HashSet::new();
        let mut is_whole = true;
        for source in input::sources(&paths)? {
            let bytes = source.read()?;
            let folder = SourceFolder::of(&source);
            let checked = check::read(&bytes, folder.options());
            if source.is_incidental() && check::is_something_else(&checked) {
                continue;
            }
            for problem in checked.problems.iter().filter(|problem| problem.severity == Severity::Error) {
                report::print(&source.shown(), problem);
                is_whole = false;
            }
            for found in checked.tools {
                if names.insert(found.tool.name.clone()) {
                    tools.push(found.tool);
                } else {
                    anstream::eprintln!(
                        "{}: a second tool named `{}` is left out",
                        source.shown(),
                        report::printable(&found.tool.name)
                    );
                    is_whole = false;
                }
            }
        }
        let catalog = Catalog::new(1, tools).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            anyhow!("these tools cannot form a catalogue: {}", faults.join("; "))
        })?;
        Ok(Loaded { catalog, is_whole })
    }
}

fn default_paths() -> anyhow::Result<Vec<PathBuf>> {
    let paths: Vec<PathBuf> =
        ["agents", "tool-config.json"].into_iter().map(PathBuf::from).filter(|path| Path::exists(path)).collect();
    if paths.is_empty() {
        let message =
            "there is neither ./agents nor ./tool-config.json: name the files or folders of tools with --catalog";
        return Err(Usage(message.to_owned()).into());
    }
    Ok(paths)
}

/// A short description of a tool's binding.
fn run_by(tool: &Tool) -> String {
    match &tool.binding {
        Binding::Builtin { name } => format!("built in: {name}"),
        Binding::Http(request) => format!("{} {}", request.method.as_str(), request.url),
        Binding::Mcp { server, tool } => format!("MCP server {server}: {tool}"),
        Binding::Nango(Nango::Cache { provider, model, .. }) => format!("Nango cache of {provider}: {model}"),
        Binding::Nango(Nango::Action { provider, action }) => format!("Nango action of {provider}: {action}"),
        Binding::Agent { name } => format!("agent {name}"),
        Binding::Team { name } => format!("team {name}"),
        Binding::A2a { server, agent } => format!("A2A server {server}: {agent}"),
        Binding::Inline { language, .. } => format!("a script in {language}"),
        Binding::External => "the client".to_owned(),
    }
}
