//! Asking an agent of a running server: what `bosun query` and `bosun chat` have in common.
//!
//! [`AgentOptions`] names the agent, its server, and the tools of this client; [`AgentClient`] is built from it before
//! anything is sent. The client library asks and runs the tools; [`Screen`] observes it.

mod prompt;
mod screen;
mod tools;

use std::path::PathBuf;

use bosun_client::{A2aAgent, Client, ClientError, ClientTools, FinalAnswer, Key, Question};

use serde_json::json;

use super::server_options::ServerOptions;
pub(super) use prompt::TerminalPrompt;
pub(super) use screen::{Detail, Screen, progress_line};
pub(super) use tools::{Run, run_command};

/// Who is asked. A command may add further ways to the group.
#[derive(Debug, clap::Args)]
#[group(id = "target", required = true, multiple = false)]
struct Target {
    /// The agent to ask
    #[arg(long)]
    agent: Option<String>,
    /// The team to ask
    #[arg(long)]
    team: Option<String>,
}

/// The options of every command that asks an agent.
#[derive(Debug, clap::Args)]
pub(super) struct AgentOptions {
    #[command(flatten)]
    target: Target,
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
        let Target { agent, team } = self.target;
        Ok(AgentClient {
            tools: tools::load(self.tools.as_deref(), self.runs)?,
            key: self.server.key.clone(),
            client: self.server.open()?,
            kind: if team.is_some() { "team" } else { "agent" },
            target: team.or(agent).unwrap_or_default(),
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
    key: Option<Key>,
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
    pub(super) fn question<'a>(&'a self, name: &str, input: &str) -> Question<'a> {
        let target = json!({ "type": self.kind, "name": self.target });
        self.with_options(self.client.ask(&self.target, input).set("target", target), name)
    }

    /// The same to an agent of A2A, as the message of this id. Options that the protocol lacks are errors there.
    pub(super) fn question_to<'a>(&'a self, agent: &'a A2aAgent, name: &str, input: &str) -> Question<'a> {
        self.with_options(agent.ask(input), name)
    }

    /// Reads the card of an agent of A2A.
    pub(super) async fn find(&self, url: &str) -> Result<A2aAgent, ClientError> {
        A2aAgent::open(url, self.key.as_ref()).await
    }

    fn with_options<'a>(&'a self, question: Question<'a>, name: &str) -> Question<'a> {
        let mut question = question.named(name).tools(&self.tools).decided_by(&self.prompt);
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
