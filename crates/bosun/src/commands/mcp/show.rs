//! `bosun mcp list`, `show` and `approve`: the MCP servers of a running server.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anstream::stdout;
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::ServerOptions;
use crate::commands::report::printable;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const OLD: Style = AnsiColor::Red.on_default();
const NEW: Style = AnsiColor::Green.on_default();

/// List the MCP servers, with their state and the number of their tools.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    server: ServerOptions,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Show an MCP server: its state, its tools, and definitions that have changed.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    name: String,
    #[command(flatten)]
    server: ServerOptions,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Approve the changed definitions of an MCP server's tools.
#[derive(Debug, clap::Args)]
pub(super) struct Approve {
    name: String,
    /// Only these tools; all that have changed where absent
    tools: Vec<String>,
    #[command(flatten)]
    server: ServerOptions,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl List {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let answer = self.server.open()?.get_at("mcp-servers").await?;
        let mut out = stdout();
        if self.json {
            writeln!(out, "{answer:#}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let servers = list(&answer, "/items");
        if servers.is_empty() {
            writeln!(out, "there are no MCP servers; `bosun mcp add` writes the manifest of one")?;
        }
        let width = servers.iter().map(|server| text(server, "/name").len()).max().unwrap_or_default();
        for server in servers {
            let (name, phase) = (text(server, "/name"), text(server, "/discovery/phase"));
            let message = text(server, "/status_message").lines().next().unwrap_or_default();
            let phase = if phase.is_empty() { "not served" } else { phase };
            writeln!(out, "{BOLD}{name:width$}{BOLD:#}  {phase:11}  {}", printable(message))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Show {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let answer = self.server.open()?.get_at(&format!("mcp-servers/{}", self.name)).await?;
        let mut out = stdout();
        if self.json {
            writeln!(out, "{answer:#}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let (phase, since) = (text(&answer, "/discovery/phase"), text(&answer, "/discovery/since"));
        writeln!(out, "{BOLD}{}{BOLD:#}  {phase} {DIM}since {since}{DIM:#}", text(&answer, "/name"))?;
        let peer = text(&answer, "/discovery/peer");
        if !peer.is_empty() {
            writeln!(out, "{DIM}{}{DIM:#}", printable(peer))?;
        }
        writeln!(out, "{}", printable(text(&answer, "/status_message")))?;
        for tool in list(&answer, "/discovery/tools") {
            let description = text(tool, "/description").lines().next().unwrap_or_default();
            writeln!(out, "\n{BOLD}{}{BOLD:#}  {}", text(tool, "/name"), printable(description))?;
            write_changes(&mut out, list(tool, "/changes"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn write_changes(out: &mut impl Write, changes: &[Value]) -> io::Result<()> {
    for change in changes {
        writeln!(out, "  changed: {}", text(change, "/field"))?;
        for (style, sign, side) in [(OLD, '-', "/approved"), (NEW, '+', "/announced")] {
            let value = text(change, side);
            if !value.is_empty() {
                writeln!(out, "  {style}{sign} {}{style:#}", printable(value))?;
            }
        }
    }
    Ok(())
}

impl Approve {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let client = self.server.open()?;
        let path = format!("mcp-servers/{}/approve", self.name);
        let answer = client.post_to(&path, &json!({"tools": self.tools})).await?;
        let approved: Vec<&str> = list(&answer, "/approved").iter().filter_map(Value::as_str).collect();
        let said = if approved.is_empty() {
            "nothing has changed that was not approved".to_owned()
        } else {
            format!("approved: {}", approved.join(", "))
        };
        writeln!(stdout(), "{said}")?;
        Ok(ExitCode::SUCCESS)
    }
}
