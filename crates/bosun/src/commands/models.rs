//! `bosun models serve`: a stand-in for the APIs of paid models.
//!
//! It plays a script over HTTP, in the words of OpenAI's chat completions and of Anthropic's messages,
//! and with their faults where the script wants them. Whoever writes a client of these APIs can try it
//! without a key. There is nothing to lose in it: a signal ends it at once.

use std::{io::Write, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context;
use bosun_adapters::model::{
    scripted::Script,
    standin::{Plays, StandIn},
};
use tokio::net::TcpListener;

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
        let Command::Serve(Serve { script: file, listen }) = self.command;
        let text = std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        let script = Script::parse(&file, &text).map_err(|faults| anyhow::anyhow!("{faults}"))?;
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        let stand_in = StandIn::serving(listener, Plays::Script(Arc::new(script)))?;
        writeln!(std::io::stdout(), "listening on {} with {}", stand_in.url(), file.display())?;
        stand_in.join().await.context("the stand-in broke")?;
        Ok(ExitCode::SUCCESS)
    }
}
