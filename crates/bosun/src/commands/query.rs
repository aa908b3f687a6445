//! `bosun query`: asks an agent, shows the run as it happens, and serves its outside tools with
//! commands of this machine.

use std::process::ExitCode;

use bosun_client::Client;

use super::ask::{AgentOptions, Detail, Screen, has_completed};

/// Ask an agent; local commands serve the tools that you bring.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  bosun query --agent math-assistant 'What is 25% of 8,432?' \\
      --tools tools.json --run calculator='jq -r .expression | bc -l'
  bosun query --a2a http://127.0.0.1:8080/a2a 'What is 25% of 8,432?' \\
      --tools tools.json --run calculator='jq -r .expression | bc -l'")]
pub(crate) struct Query {
    /// What to ask
    input: String,
    #[command(flatten)]
    options: AgentOptions,
    /// An agent of A2A: its endpoint, its card, or the base URL of its server
    #[arg(long, value_name = "URL", group = "target", conflicts_with = "namespace")]
    a2a: Option<String>,
    /// Name of the query, over A2A id of the message; generated if absent
    #[arg(long)]
    name: Option<String>,
    /// Print the events as JSON, one per line
    #[arg(long)]
    json: bool,
}

impl Query {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let agent_client = self.options.open()?;
        let name = self.name.unwrap_or_else(|| Client::new_name("cli"));
        let remote = match &self.a2a {
            Some(url) => Some(agent_client.find(url).await?),
            None => None,
        };
        let detail = if self.json { Detail::Events } else { Detail::Steps };
        let mut screen = Screen::of_server(detail, &agent_client.client);
        screen.asking(remote.as_ref().map_or(&agent_client.target, |agent| agent.name()), &self.input)?;
        let mut question = match &remote {
            Some(agent) => agent_client.question_to(agent, &name, &self.input),
            None => agent_client.question(&name, &self.input),
        };
        if self.json {
            // A program reads the events, and decides by another request.
            question = question.undecided();
        }
        tokio::select! {
            answered = question.observed_by(&mut screen) => {
                Ok(if has_completed(answered)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            _ = tokio::signal::ctrl_c() => {
                match &remote {
                    Some(agent) => screen.left_behind_at(agent.endpoint())?,
                    None => screen.left_behind(&agent_client.client.query_url(&name))?,
                }
                Ok(ExitCode::from(130))
            }
        }
    }
}
