//! `bosun query`: asks an agent, shows the run as it happens, and serves its outside tools with
//! commands of this machine.

use std::process::ExitCode;

use super::ask::{AgentOptions, Detail, Screen, made_up_name};

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
    /// Name of the query; made up where absent
    #[arg(long)]
    name: Option<String>,
    /// Print the events as JSON, one on each line
    #[arg(long)]
    json: bool,
}

impl Query {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let asker = self.options.open()?;
        let name = self.name.unwrap_or_else(|| made_up_name("cli"));
        let mut screen = Screen::new(if self.json { Detail::Events } else { Detail::Steps });
        screen.asking(&asker.agent, &self.input)?;
        let (session, query) = (asker.session(&name), asker.query(&name, &self.input));
        tokio::select! {
            completed = session.play(&query, &mut screen) => {
                Ok(if completed? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            _ = tokio::signal::ctrl_c() => {
                screen.left_behind(&asker.client.queries_url(&format!("/{name}")))?;
                Ok(ExitCode::from(130))
            }
        }
    }
}
