//! Asking an agent of a running server: what `bosun query` and `bosun chat` have in common.
//!
//! [`AgentOptions`] names the agent, its server, and the tools of this client; [`Asker`] is built from it before
//! anything is sent; [`Session`] follows one query to its end and serves its calls on the way.

mod screen;
mod session;
mod tools;

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::client::{Client, Key};
pub(super) use screen::{Detail, Screen, progress_line};
use session::Session;
use tools::{LocalTools, Run};

/// The options of every command that asks an agent.
#[derive(Debug, clap::Args)]
pub(super) struct AgentOptions {
    /// The agent to ask
    #[arg(long)]
    agent: String,
    /// JSON file with the definitions of your tools: name, description, parameters
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// The command that runs a tool: arguments as JSON on stdin, the result on stdout
    #[arg(long = "run", value_name = "TOOL=COMMAND")]
    runs: Vec<Run>,
    /// Which tools the agent may use: its own (ark), yours (n8n), or both (hybrid)
    #[arg(long, value_name = "SOURCE", value_parser = ["ark", "n8n", "hybrid"])]
    tool_source: Option<String>,
    /// Where the server is
    #[arg(long, value_name = "URL", env = "BOSUN_SERVER", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// Key of the server: its secret, both its halves as pk-…:sk-…, or a token
    #[arg(long, value_name = "KEY", env = "BOSUN_KEY", hide_env_values = true)]
    key: Option<Key>,
    /// Where the agent is, and its queries will be; the key's own namespace where absent
    #[arg(long)]
    namespace: Option<String>,
    /// Running time that a query may use, for instance 30s or 2m; waiting for your tools does not count
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

impl AgentOptions {
    /// Checks tools and commands against each other; nothing is sent.
    pub(super) fn open(self) -> anyhow::Result<Asker> {
        Ok(Asker {
            tools: LocalTools::read(self.tools.as_deref(), self.runs)?,
            client: Client::new(&self.server, self.namespace, self.key.as_ref())?,
            agent: self.agent,
            tool_source: self.tool_source,
            timeout: self.timeout,
        })
    }
}

/// An agent to ask, and the tools of this client.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) client: Client,
    pub(super) agent: String,
    tools: LocalTools,
    tool_source: Option<String>,
    timeout: Option<String>,
}

impl Asker {
    /// The query that asks the agent.
    pub(super) fn query(&self, name: &str, input: &str) -> Value {
        let mut query = json!({
            "name": name,
            "input": input,
            "target": { "type": "agent", "name": self.agent },
            "externalTools": self.tools.definitions,
        });
        if let Some(source) = &self.tool_source {
            query["toolSource"] = source.as_str().into();
        }
        if let Some(timeout) = &self.timeout {
            query["timeout"] = timeout.as_str().into();
        }
        query
    }

    pub(super) fn session<'a>(&'a self, name: &'a str) -> Session<'a> {
        Session { client: &self.client, name, tools: &self.tools }
    }
}

/// Names sort by time and do not collide, so that a post may be repeated.
pub(super) fn made_up_name(prefix: &str) -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    format!("{prefix}-{:x}-{:x}", since_epoch.as_nanos(), std::process::id())
}
