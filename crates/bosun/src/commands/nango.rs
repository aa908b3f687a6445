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
    /// Where to listen; port 0 takes a free one
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
    use std::io::Write as _;

    use anyhow::Context as _;
    use bosun_standin::nango::{NangoStandIn, NangoState};

    let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let state: NangoState =
        serde_json::from_str(&text).with_context(|| format!("{} is not a state", file.display()))?;
    let listener = tokio::net::TcpListener::bind(listen).await;
    let stand_in = NangoStandIn::serving(listener.with_context(|| format!("cannot listen on {listen}"))?, state)?;
    writeln!(std::io::stdout(), "listening on {} with {}", stand_in.url(), file.display())?;
    stand_in.join().await.context("the stand-in broke")
}

#[cfg(not(feature = "standin"))]
async fn serve(_: &Path, _: SocketAddr) -> anyhow::Result<()> {
    Err(crate::features::not_built("stand-in for Nango", "standin").into())
}
