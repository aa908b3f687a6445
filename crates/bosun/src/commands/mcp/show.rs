//! `bosun mcp list`, `show` and `approve`: the MCP servers of a running server.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use anstream::stdout;
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use crate::{
    commands::{report::printable, server_options::ServerOptions},
    config::duration,
};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const OLD: Style = AnsiColor::Red.on_default();
const NEW: Style = AnsiColor::Green.on_default();

/// The phase of a server that has not answered yet.
const DISCOVERING: &str = "discovering";
const POLLED: Duration = Duration::from_millis(200);

/// List the MCP servers, with their state and the number of their tools.
#[derive(Debug, clap::Args)]
pub(super) struct List {
    #[command(flatten)]
    server: ServerOptions,
    /// Wait until every MCP server has answered or failed, at most this long
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,
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
    /// Only these tools; default: all that have changed
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
        let client = self.server.open()?;
        let deadline = Instant::now() + self.wait.unwrap_or_default();
        let (answer, has_answers) = loop {
            let answer = client.get_at(&["mcp-servers"], &[]).await?;
            let is_open = list(&answer, "/items").iter().any(|server| text(server, "/discovery/phase") == DISCOVERING);
            if !is_open || Instant::now() >= deadline {
                break (answer, !is_open);
            }
            tokio::time::sleep(POLLED).await;
        };
        let code = if has_answers || self.wait.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        let mut out = stdout();
        if self.json {
            writeln!(out, "{answer:#}")?;
            return Ok(code);
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
        Ok(code)
    }
}

impl Show {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let answer = self.server.open()?.get_at(&["mcp-servers", &self.name], &[]).await?;
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
        let path = ["mcp-servers", &self.name, "approve"];
        let answer = client.post_to(&path, &[], &json!({"tools": self.tools})).await?;
        let approved: Vec<&str> = list(&answer, "/approved").iter().filter_map(Value::as_str).collect();
        let summary = if approved.is_empty() {
            "there are no changed definitions to approve".to_owned()
        } else {
            format!("approved: {}", approved.join(", "))
        };
        writeln!(stdout(), "{summary}")?;
        Ok(ExitCode::SUCCESS)
    }
}
