//! `bosun reap`: ends programs of MCP servers after the server that started them, for the server, which starts it.

use std::process::ExitCode;

/// End the programs of MCP servers when standard input ends, for the server.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Reap {}

impl Reap {
    pub(crate) fn run(self) -> ExitCode {
        bosun_mcp::reap(std::io::stdin().lock());
        ExitCode::SUCCESS
    }
}
