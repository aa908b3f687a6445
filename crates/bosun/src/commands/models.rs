//! `bosun models serve`: a stand-in for the APIs of paid models.
//!
//! It answers a script over HTTP, in the formats of OpenAI's chat completions and of Anthropic's messages, with the
//! faults that the script asks for, so that a client of these APIs can be tried without a
//! key. It has no state to lose: a signal ends it at once. The stand-in itself is a crate of its own, which is
//! linked with the feature `standin` only.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Try clients of model APIs without a key.
#[derive(Debug, clap::Args)]
pub(crate) struct Models {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Serve(Serve),
}

/// Play a script as OpenAI's chat completions and Anthropic's messages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun models serve --script examples/stand-in.yaml
  OPENAI_BASE_URL=http://127.0.0.1:8090/v1 OPENAI_API_KEY=none  your-program
  ANTHROPIC_BASE_URL=http://127.0.0.1:8090 ANTHROPIC_API_KEY=none  your-program")]
struct Serve {
    /// The script: scenes, what is said in them, and what goes wrong; docs/models.md describes it
    #[arg(long, value_name = "FILE")]
    script: PathBuf,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
}

impl Models {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let Command::Serve(Serve { script, listen }) = self.command;
        serve(&script, listen).await?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(feature = "standin")]
async fn serve(script: &Path, listen: SocketAddr) -> anyhow::Result<()> {
    use std::io::Write as _;

    use anyhow::Context as _;
    use bosun_standin::{StandIn, StandInAnswers};

    let text = std::fs::read_to_string(script).with_context(|| format!("{} cannot be read", script.display()))?;
    let answers = StandInAnswers::parse(script, &text).map_err(|faults| anyhow::anyhow!("{faults}"))?;
    let listener = tokio::net::TcpListener::bind(listen).await;
    let stand_in = StandIn::serving(listener.with_context(|| format!("cannot listen on {listen}"))?, answers)?;
    writeln!(std::io::stdout(), "listening on {} with {}", stand_in.url(), script.display())?;
    stand_in.join().await.context("the stand-in failed")
}

#[cfg(not(feature = "standin"))]
async fn serve(_: &Path, _: SocketAddr) -> anyhow::Result<()> {
    Err(crate::features::not_built("stand-in for model APIs", "standin").into())
}
