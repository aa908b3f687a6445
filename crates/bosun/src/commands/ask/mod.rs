//! Asking an agent of a running server: what `bosun query` and `bosun chat` have in common.
//!
//! [`AgentOptions`] names the agent, its server, and the tools of this client; [`AgentClient`] is built from it before
//! anything is sent. The client library asks and runs the tools; [`Screen`] observes it.

mod prompt;
mod screen;
mod tools;

use std::path::PathBuf;

use bosun_client::{Client, ClientError, ClientTools, FinalAnswer, Question};

use serde_json::json;

use super::server_options::ServerOptions;
pub(super) use prompt::TerminalPrompt;
pub(super) use screen::{Detail, Screen, progress_line};
pub(super) use tools::{Run, run_command};

/// The options of every command that asks an agent.
#[derive(Debug, clap::Args)]
pub(super) struct AgentOptions {
    /// The agent to ask
    #[arg(long, required_unless_present = "team", conflicts_with = "team")]
    agent: Option<String>,
    /// The team to ask
    #[arg(long)]
    team: Option<String>,
    /// JSON file with the definitions of your tools: name, description, parameters
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// The command that runs a tool: arguments as JSON on stdin, the result on stdout
    #[arg(long = "run", value_name = "TOOL=COMMAND")]
    runs: Vec<Run>,
    /// Which tools the agent may use: its own (ark), yours (n8n), or both (hybrid)
    #[arg(long, value_name = "SOURCE", value_parser = ["ark", "n8n", "hybrid"])]
    tool_source: Option<String>,
    #[command(flatten)]
    server: ServerOptions,
    /// Running time that a query may use, for instance 30s or 2m; waiting for your tools does not count
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

impl AgentOptions {
    /// Checks tools and commands against each other; nothing is sent.
    pub(super) fn open(self) -> anyhow::Result<AgentClient> {
        Ok(AgentClient {
            tools: tools::load(self.tools.as_deref(), self.runs)?,
            client: self.server.open()?,
            kind: if self.team.is_some() { "team" } else { "agent" },
            target: self.team.or(self.agent).unwrap_or_default(),
            tool_source: self.tool_source,
            timeout: self.timeout,
            prompt: TerminalPrompt::default(),
        })
    }
}

/// An agent or a team to ask, and the tools of this client.
#[derive(Debug)]
pub(super) struct AgentClient {
    pub(super) client: Client,
    /// `agent` or `team`.
    pub(super) kind: &'static str,
    pub(super) target: String,
    tools: ClientTools,
    tool_source: Option<String>,
    timeout: Option<String>,
    prompt: TerminalPrompt,
}

impl AgentClient {
    /// The question to the agent, as the query of this name. The person at the terminal decides what the agent cannot.
    pub(super) fn question(&self, name: &str, input: &str) -> Question<'_> {
        let mut question = self.client.ask(&self.target, input).named(name).tools(&self.tools).decided_by(&self.prompt);
        question = question.set("target", json!({ "type": self.kind, "name": self.target }));
        if let Some(source) = &self.tool_source {
            question = question.set("toolSource", source.as_str());
        }
        if let Some(timeout) = &self.timeout {
            question = question.set("timeout", timeout.as_str());
        }
        question
    }
}

/// Whether the query completed. How one that did not has ended is on the screen already.
pub(super) fn has_completed(answered: Result<FinalAnswer, ClientError>) -> Result<bool, ClientError> {
    match answered {
        Ok(_) => Ok(true),
        Err(ClientError::QueryFailed { .. } | ClientError::QueryCancelled { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
