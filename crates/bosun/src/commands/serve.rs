//! `bosun serve`: runs a server until it is told to stop.
//!
//! The first SIGTERM or SIGINT stops it in order: no new connections, requests in hand are answered,
//! the last commit is made. The second one stops it at once, which costs nothing that anybody was
//! told of. A query that waits is not concerned either way.

use std::{
    io::{Read, Write},
    process::ExitCode,
};

use anyhow::Context;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use crate::{app::App, config::Config, telemetry};

use super::Usage;

/// Run a server.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    config: Config,
}

impl Serve {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let config = self.config;
        telemetry::start(config.log)?;
        if let Some(fault) = &config.fault {
            bosun_engine::fault::plan(fault).map_err(|error| Usage(error.to_string()))?;
        }
        let mut signals = Signals::listen()?;
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("cannot listen on {}; `--listen 127.0.0.1:0` takes a free port", config.listen))?;
        let app = App::open(&config).await?;
        writeln!(
            std::io::stdout(),
            "listening on http://{} with {}, data in {}",
            listener.local_addr()?,
            agents(&app.agents),
            config.data.display()
        )?;
        let stopping = CancellationToken::new();
        if config.until_stdin_ends {
            stop_with_stdin(stopping.clone());
        }
        tokio::select! {
            closed = app.serve(listener, &stopping) => closed.map(|()| ExitCode::SUCCESS),
            () = async {
                signals.next().await;
                tracing::info!("stopping; a second signal stops at once");
                stopping.cancel();
                signals.next().await;
            } => Ok(ExitCode::from(130)),
        }
    }
}

fn agents(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let list = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let rest = if names.len() > SHOWN { ", …" } else { "" };
    match names.len() {
        1 => format!("1 agent ({list})"),
        count => format!("{count} agents ({list}{rest})"),
    }
}

/// The signals that ask for an end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("signals cannot be listened for");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// A thread of its own: a read of standard input cannot be taken back.
fn stop_with_stdin(stopping: CancellationToken) {
    std::thread::spawn(move || {
        let mut buffer = [0; 256];
        while std::io::stdin().read(&mut buffer).is_ok_and(|length| length > 0) {}
        stopping.cancel();
    });
}
