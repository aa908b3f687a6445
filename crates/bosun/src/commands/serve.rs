//! `bosun serve`: runs a server until it is stopped.
//!
//! The first SIGTERM or SIGINT stops it gracefully: no new connections, pending requests are answered, inside calls get
//! a grace period, the last commit is made. The second one stops it at once, and so does a timeout, which loses nothing
//! that was acknowledged to a client. Waiting queries are not affected either way.

use std::{
    io::{Read, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    app::{App, GRACE},
    config::Config,
    process, telemetry,
};

use super::Usage;

/// The timeout of a graceful stop: the grace period for work in progress, and a commit.
const LONGEST_END: Duration = Duration::from_secs(GRACE.as_secs() + 8);

/// Run a server.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// File of settings; default: `bosun.toml` in this directory, if it exists
    #[arg(long = "config", value_name = "FILE", env = "BOSUN_CONFIG")]
    _file: Option<PathBuf>,
    #[command(flatten)]
    config: Config,
}

impl Serve {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let mut config = self.config;
        config.check()?;
        let telemetry = telemetry::start(config.log)?;
        let max_running = config.settings().max_running;
        config.max_connections =
            process::connections_within(process::raise_file_limit(), config.max_connections, max_running);
        if let Some(fault) = &config.fault {
            bosun_engine::fault::plan(fault).map_err(|error| Usage(error.to_string()))?;
        }
        let stopping = CancellationToken::new();
        // A task of its own: signals are handled whatever the server is doing, even while it opens its store.
        TaskTracker::new().spawn(stop_by_signal(Signals::listen()?, stopping.clone()));
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("cannot listen on {}; `--listen 127.0.0.1:0` takes a free port", config.listen))?;
        let grpc = match config.grpc_listen {
            Some(address) => {
                Some(TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} for gRPC"))?)
            }
            None => None,
        };
        let app = App::open(&config, telemetry.exports_spans()).await?;
        let over_grpc = match &grpc {
            Some(grpc) => format!("gRPC on {}\n", grpc.local_addr()?),
            None => String::new(),
        };
        let started = format!(
            "listening on http://{} with {}, data in {}\n{over_grpc}",
            listener.local_addr()?,
            agents(&app.agents),
            config.data.display()
        );
        // In one piece: a supervisor may read the first line and close the pipe.
        std::io::stdout().write_all(started.as_bytes())?;
        if config.until_stdin_ends {
            stop_with_stdin(stopping.clone());
        }
        let served = app.serve(listener, grpc, &stopping).await;
        telemetry.finish();
        served?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The first signal requests a graceful stop. The second one ends the process, and so does a timeout: a disk that does
/// not answer, for instance, would keep the process forever.
async fn stop_by_signal(mut signals: Signals, stopping: CancellationToken) {
    signals.next().await;
    tracing::info!("stopping; a second signal stops at once");
    stopping.cancel();
    let code = tokio::select! {
        () = signals.next() => 130,
        () = tokio::time::sleep(LONGEST_END) => {
            tracing::error!(seconds = LONGEST_END.as_secs(), "the graceful stop timed out");
            1
        }
    };
    std::process::exit(code);
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

/// The signals that stop the server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// A thread of its own: a blocking read of standard input cannot be cancelled.
fn stop_with_stdin(stopping: CancellationToken) {
    std::thread::spawn(move || {
        let mut buffer = [0; 256];
        while std::io::stdin().read(&mut buffer).is_ok_and(|length| length > 0) {}
        stopping.cancel();
    });
}
