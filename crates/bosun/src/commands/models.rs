//! `bosun models serve`: a stand-in for the APIs of paid models.
//!
//! It serves a script over HTTP, in the formats of OpenAI's chat completions and of Anthropic's messages, with the
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

/// Serve a script as OpenAI's chat completions and Anthropic's messages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun models serve --script examples/stand-in.yaml
  OPENAI_BASE_URL=http://127.0.0.1:8090/v1 OPENAI_API_KEY=none  your-program
  ANTHROPIC_BASE_URL=http://127.0.0.1:8090 ANTHROPIC_API_KEY=none  your-program")]
struct Serve {
    /// The script: scenes, answers and faults; docs/models.md describes it
    #[arg(long, value_name = "FILE")]
    script: PathBuf,
    /// Where to listen; port 0 picks a free one
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
    use anyhow::Context as _;
    use bosun_standin::{StandIn, StandInAnswers};

    use super::stand_in;

    let text = stand_in::read(script)?;
    let answers = StandInAnswers::parse(script, &text).map_err(|faults| anyhow::anyhow!("{faults}"))?;
    let server = StandIn::serving(stand_in::listen(listen).await?, answers)?;
    stand_in::announce(&server.url(), script)?;
    server.join().await.context("the stand-in failed")
}

#[cfg(not(feature = "standin"))]
async fn serve(_: &Path, _: SocketAddr) -> anyhow::Result<()> {
    Err(crate::features::not_built("stand-in for model APIs", "standin").into())
}
