//! `bosun query`: asks an agent, shows the run as it happens, and serves its outside tools with
//! commands of this machine.
//!
//! The run belongs to the server: this program may lose its connection, the server may restart, and
//! the stream goes on from the last event that was seen. Calls of one turn run at the same time.

mod screen;
mod tools;

use std::{
    collections::HashSet,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bosun_core::content::INLINE_BYTES;
use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use serde_json::{Value, json};

use crate::client::{Client, ClientError, Following, Key, Seen, pause};
use screen::Screen;
use tools::{LocalTools, Run, result_body};

/// How often a result is posted before this client gives up: with the pauses, almost a minute.
const MAX_POSTS: u32 = 30;

/// Ask an agent; local commands serve the tools that you bring.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  bosun query --agent math-assistant 'What is 25% of 8,432?' \\
      --tools tools.json --run calculator='jq -r .expression | bc -l'")]
pub(crate) struct Query {
    /// What to ask
    input: String,
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
    /// Where the agent is, and the query will be; the key's own namespace where absent
    #[arg(long)]
    namespace: Option<String>,
    /// Name of the query; made up where absent
    #[arg(long)]
    name: Option<String>,
    /// Running time that the query may use, for instance 30s or 2m; waiting for your tools does not count
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Print the events as JSON, one on each line
    #[arg(long)]
    json: bool,
}

impl Query {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let tools = LocalTools::read(self.tools.as_deref(), self.runs)?;
        let client = Client::new(&self.server, self.namespace, self.key.as_ref())?;
        let name = self.name.unwrap_or_else(made_up_name);
        let mut body = json!({
            "name": name,
            "input": self.input,
            "target": { "type": "agent", "name": self.agent },
            "externalTools": tools.definitions,
        });
        if let Some(source) = self.tool_source {
            body["toolSource"] = source.into();
        }
        if let Some(timeout) = self.timeout {
            body["timeout"] = timeout.into();
        }
        let mut screen = Screen::new(self.json);
        screen.asking(&self.agent, &self.input)?;
        let session = Session { client: &client, name: &name, tools: &tools };
        tokio::select! {
            code = session.play(&body, &mut screen) => code,
            _ = tokio::signal::ctrl_c() => {
                screen.left_behind(&client.queries_url(&format!("/{name}")))?;
                Ok(ExitCode::from(130))
            }
        }
    }
}

/// Names sort by time and do not collide, so that a post may be repeated.
fn made_up_name() -> String {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    format!("cli-{:x}-{:x}", since_epoch.as_nanos(), std::process::id())
}

struct Session<'a> {
    client: &'a Client,
    name: &'a str,
    tools: &'a LocalTools,
}

/// How far a call has come on this side.
enum Progress {
    /// Its command has ended.
    Ran { call: String, tool: String, outcome: Result<String, String> },
    /// The server has answered to its result.
    Posted { tool: String, answer: Result<(), ClientError> },
}

impl Session<'_> {
    /// Follows the query to its end and serves its calls on the way.
    async fn play(&self, body: &Value, screen: &mut Screen) -> anyhow::Result<ExitCode> {
        let mut following = Following::create(self.client, self.name, body).await?;
        for warning in following.warnings() {
            screen.warning(&warning)?;
        }
        let mut serving: FuturesUnordered<LocalBoxFuture<'_, Progress>> = FuturesUnordered::new();
        let mut taken = HashSet::new();
        loop {
            let seen = tokio::select! {
                biased;
                Some(progress) = serving.next() => {
                    match progress {
                        Progress::Ran { call, tool, outcome } => {
                            screen.served(&tool, &outcome)?;
                            serving.push(self.bring(call, tool, outcome).boxed_local());
                        }
                        Progress::Posted { tool, answer: Err(error) } if is_overtaken(&error) => {
                            screen.not_needed(&tool, &error)?;
                        }
                        Progress::Posted { answer, .. } => answer?,
                    }
                    continue;
                }
                seen = following.next() => seen?,
            };
            let event = match seen {
                Seen::Event(event) => event,
                Seen::Lost(error) => {
                    screen.lost(&error)?;
                    continue;
                }
                Seen::Back => {
                    screen.back()?;
                    continue;
                }
            };
            let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
            screen.event(&event, &data)?;
            match event.name.as_str() {
                "tool_call" if taken.insert(data["id"].to_string()) => serving.push(self.run(data).boxed_local()),
                "complete" if data["status"] == "completed" => return Ok(ExitCode::SUCCESS),
                "complete" => return Ok(ExitCode::FAILURE),
                _ => {}
            }
        }
    }

    /// Runs the command of a call.
    async fn run(&self, call: Value) -> Progress {
        let text = |field: &str| call[field].as_str().unwrap_or_default().to_owned();
        let outcome = self.tools.run(&text("name"), &call["arguments"]).await;
        Progress::Ran { call: text("id"), tool: text("name"), outcome }
    }

    /// Sends the result until the server has it: it is recorded once, however often it arrives.
    async fn bring(&self, call: String, tool: String, outcome: Result<String, String>) -> Progress {
        let mut failures = 0;
        loop {
            let brought = match &outcome {
                // As JSON it might be too long for a post.
                Ok(text) if text.len() > INLINE_BYTES => self.client.deliver_text(self.name, &call, text).await,
                outcome => self.client.deliver(self.name, &result_body(&call, &tool, outcome)).await,
            };
            match brought {
                Err(error) if error.is_passing() && failures < MAX_POSTS => failures += 1,
                answer => return Progress::Posted { tool, answer: answer.map(|_| ()) },
            }
            tokio::time::sleep(pause(failures)).await;
        }
    }
}

/// The call has its outcome already, or the query has ended: the stream tells the rest.
fn is_overtaken(error: &ClientError) -> bool {
    matches!(error.code(), Some("already_resolved" | "call_expired" | "call_cancelled" | "call_not_waiting"))
}
