//! `bosun tools cache`: the cached results of a running server.

use std::{io::Write as _, process::ExitCode};

use anstream::stdout;

use crate::commands::{block_on, report::count, server_options::ServerOptions};

/// Drop cached results of tools, so that their next calls run.
#[derive(Debug, clap::Args)]
pub(super) struct Cache {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Clear(Clear),
}

/// Drop the cached results of one tool, or of all tools of the namespace.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun tools cache clear
  bosun tools cache clear weather --namespace team-a

Results that queries have recorded stay in their journals.")]
struct Clear {
    /// The name of a tool; all of them where absent
    tool: Option<String>,
    #[command(flatten)]
    server: ServerOptions,
}

impl Cache {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let Command::Clear(Clear { tool, server }) = self.command;
        let client = server.open()?;
        let wanted = tool.as_deref().map(|tool| ("tool", tool));
        let answer = block_on(async { Ok(client.delete_at(&["tool-cache"], wanted.as_slice()).await?) })?;
        let cleared = answer["cleared"].as_u64().unwrap_or_default();
        writeln!(stdout(), "dropped {}", count(usize::try_from(cleared).unwrap_or(usize::MAX), "cached result"))?;
        Ok(ExitCode::SUCCESS)
    }
}
