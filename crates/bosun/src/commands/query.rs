//! `bosun query`: asks an agent, shows the run as it happens, and serves its outside tools with
//! commands of this machine.

use std::process::ExitCode;

use bosun_client::Client;

use super::ask::{AgentOptions, Detail, Screen, has_completed};

/// Ask an agent; local commands serve the tools that you bring.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  bosun query --agent math-assistant 'What is 25% of 8,432?' \\
      --tools tools.json --run calculator='jq -r .expression | bc -l'")]
pub(crate) struct Query {
    /// What to ask
    input: String,
    #[command(flatten)]
    options: AgentOptions,
    /// Name of the query; generated if absent
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
        let detail = if self.json { Detail::Events } else { Detail::Steps };
        let mut screen = Screen::of_server(detail, &agent_client.client);
        screen.asking(&agent_client.target, &self.input)?;
        let mut question = agent_client.question(&name, &self.input);
        if self.json {
            // A program reads the events, and decides by another request.
            question = question.undecided();
        }
        tokio::select! {
            answered = question.observed_by(&mut screen) => {
                Ok(if has_completed(answered)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            _ = tokio::signal::ctrl_c() => {
                screen.left_behind(&agent_client.client.query_url(&name))?;
                Ok(ExitCode::from(130))
            }
        }
    }
}
