//! `bosun mcp`: MCP servers as sources of tools.
//!
//! `add` writes a manifest and needs no server; the others ask a running one.

mod add;
mod show;
mod stand_in;

use std::process::ExitCode;

use crate::client::{Client, Key};

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

/// The running server that is asked.
#[derive(Debug, clap::Args)]
struct ServerOptions {
    /// Where the server is
    #[arg(long, value_name = "URL", env = "BOSUN_SERVER", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// Key of the server: its secret, both its halves as pk-…:sk-…, or a token
    #[arg(long, value_name = "KEY", env = "BOSUN_KEY", hide_env_values = true)]
    key: Option<Key>,
    /// Where the MCP servers are; the key's own namespace where absent
    #[arg(long)]
    namespace: Option<String>,
}

impl ServerOptions {
    fn open(self) -> anyhow::Result<Client> {
        Client::new(&self.server, self.namespace, self.key.as_ref())
    }
}
