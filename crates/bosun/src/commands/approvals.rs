//! `bosun approvals`: the calls of a running server that wait for a person.

use std::{io::Write, process::ExitCode};

use anstream::stdout;
use anstyle::Style;
use serde_json::{Value, json};

use super::{Usage, report::printable, server_options::ServerOptions};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// List the tool calls that wait for a person, and approve or reject them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun approvals list
  bosun approvals approve my-query
  bosun approvals approve my-query call_4ahenxf1kxqfd04e2sx9gq8r4k --arguments '{\"to\": \"ada@example.com\"}'
  bosun approvals reject my-query --reason 'wrong address'")]
pub(crate) struct Approvals {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(List),
    Approve(Approve),
    Reject(Reject),
}

/// List the calls that wait for approval.
#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    server: ServerOptions,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// The call that a decision is about.
#[derive(Debug, clap::Args)]
struct CallOptions {
    /// The query that the call belongs to
    query: String,
    /// The call; not needed if only one waits
    call: Option<String>,
    #[command(flatten)]
    server: ServerOptions,
}

/// Approve a call: it runs once, with the arguments that are listed.
#[derive(Debug, clap::Args)]
struct Approve {
    #[command(flatten)]
    call: CallOptions,
    /// Other arguments to run it with, as a JSON object; they are validated like those of the model
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
}

/// Reject a call: it is not run, and the model reads the reason.
#[derive(Debug, clap::Args)]
struct Reject {
    #[command(flatten)]
    call: CallOptions,
    /// Why, for the model
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Approvals {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::List(list) => list.run().await,
            Command::Approve(approve) => approve.run().await,
            Command::Reject(reject) => {
                let mut decision = json!({"decision": "rejected"});
                if let Some(reason) = reject.reason {
                    decision["reason"] = reason.into();
                }
                decide(reject.call, decision).await
            }
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let client = self.server.open()?;
        let mut out = stdout();
        let (mut next, mut listed) = (None::<String>, 0);
        loop {
            let page: Vec<_> = next.iter().map(|token| ("continue", token.as_str())).collect();
            let answer = client.get_at(&["approvals"], &page).await?;
            if self.json {
                writeln!(out, "{answer:#}")?;
            } else {
                for approval in answer["items"].as_array().into_iter().flatten() {
                    listed += 1;
                    write_approval(&mut out, approval)?;
                }
            }
            match answer["continue_token"].as_str() {
                Some(token) => next = Some(token.to_owned()),
                None => break,
            }
        }
        if listed == 0 && !self.json {
            writeln!(out, "no call waits for approval")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn write_approval(out: &mut impl Write, approval: &Value) -> std::io::Result<()> {
    let text = |name: &str| printable(approval[name].as_str().unwrap_or_default());
    writeln!(out, "{BOLD}{}{BOLD:#} {} {DIM}until {}{DIM:#}", text("query"), text("id"), text("deadline"))?;
    writeln!(out, "  {BOLD}{}{BOLD:#} {}", text("name"), printable(&approval["arguments"].to_string()))
}

impl Approve {
    async fn run(self) -> anyhow::Result<ExitCode> {
        let mut decision = json!({"decision": "approved"});
        if let Some(arguments) = &self.arguments {
            decision["arguments"] = serde_json::from_str(arguments)
                .map_err(|error| Usage(format!("`--arguments` is not valid JSON: {error}")))?;
        }
        decide(self.call, decision).await
    }
}

async fn decide(call: CallOptions, mut decision: Value) -> anyhow::Result<ExitCode> {
    let CallOptions { query, call, server } = call;
    if let Some(call) = call {
        decision["toolCallId"] = call.into();
    }
    let answer = server.open()?.post_to(&["queries", &query, "approval"], &[("wait", "0")], &decision).await?;
    let word = decision["decision"].as_str().unwrap_or_default();
    writeln!(stdout(), "{word}; query `{query}` is {}", answer["state"].as_str().unwrap_or("unknown"))?;
    Ok(ExitCode::SUCCESS)
}
