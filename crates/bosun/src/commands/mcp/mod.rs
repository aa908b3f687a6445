//! `bosun mcp`: MCP servers as sources of tools.
//!
//! `add` writes a manifest and needs no server; the others ask a running one.

mod add;
mod show;
mod stand_in;

use std::process::ExitCode;

/// Add MCP servers, see their state, and approve definitions that have changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun mcp add files -- npx -y @modelcontextprotocol/server-filesystem ./docs
  bosun mcp add search --url https://mcp.example.com/mcp --bearer search/token
  bosun mcp list
  bosun mcp show files
  bosun mcp approve files")]
pub(crate) struct Mcp {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Add(add::Add),
    List(show::List),
    Show(show::Show),
    Approve(show::Approve),
    #[command(hide = true)]
    StandIn(stand_in::StandIn),
}

impl Mcp {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Add(add) => add.run(),
            Command::List(list) => list.run().await,
            Command::Show(show) => show.run().await,
            Command::Approve(approve) => approve.run().await,
            Command::StandIn(stand_in) => stand_in.run(),
        }
    }
}
