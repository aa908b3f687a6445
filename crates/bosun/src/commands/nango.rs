//! `bosun nango serve`: a stand-in for Nango, to try tools of its integrations without an account.
//!
//! The stand-in is a crate of its own, which is linked with the feature `standin` only.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Try tools of Nango integrations without an account.
#[derive(Debug, clap::Args)]
pub(crate) struct NangoCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Serve(Serve),
}

/// Serve Nango's API from a file: integrations, connections, records and actions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun nango serve --state examples/nango/state.json
  bosun serve --tools examples/nango/tool-config.json --nango-url http://127.0.0.1:3003")]
struct Serve {
    /// The state; docs/nango.md describes it
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3003")]
    listen: SocketAddr,
}

impl NangoCommand {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let Command::Serve(Serve { state, listen }) = self.command;
        serve(&state, listen).await?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(feature = "standin")]
async fn serve(file: &Path, listen: SocketAddr) -> anyhow::Result<()> {
    use anyhow::Context as _;
    use bosun_standin::nango::{NangoStandIn, NangoState};

    use super::stand_in;

    let text = stand_in::read(file)?;
    let state: NangoState =
        serde_json::from_str(&text).with_context(|| format!("{} is not a state", file.display()))?;
    let server = NangoStandIn::serving(stand_in::listen(listen).await?, state)?;
    stand_in::announce(&server.url(), file)?;
    server.join().await.context("the stand-in failed")
}

#[cfg(not(feature = "standin"))]
async fn serve(_: &Path, _: SocketAddr) -> anyhow::Result<()> {
    Err(crate::features::not_built("stand-in for Nango", "standin").into())
}
