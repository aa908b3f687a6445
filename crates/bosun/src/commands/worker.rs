//! `bosun worker`: runs tools of a server's catalogue with commands of this machine.
//!
//! It claims calls of tools that are declared with `type: external`, whichever client asked for them, and delivers the
//! results. It holds a call until its lease expires; heartbeats extend the lease while the command runs. If the lease
//! is lost nevertheless, the command is killed: another worker may have the call.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use anstream::eprintln;
use bosun_client::{Client, ClientError, backoff, retrying};
use bosun_core::ceiling::LEASE_SECONDS;
use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use serde_json::{Value, json};

use super::{
    Usage,
    ask::{Run, run_command},
    report::printable,
    server_options::ServerOptions,
};
use crate::config::duration;

/// How long one request waits for a call.
const WAIT: &str = "20s";
/// Heartbeats in the time of one lease: two may be lost.
const BEATS: u32 = 3;
/// A shorter lease would be lost to the time that its heartbeats take.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);
/// The longest lease that a server grants. Heartbeats in the time of a longer one would come after the granted one.
const LONGEST_LEASE: Duration = Duration::from_secs(LEASE_SECONDS as u64);

/// Run tools of the catalogue (`type: external`) with local commands.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  bosun worker --run resize-image='./resize.sh' --run ocr='tesseract stdin stdout'

The command gets the arguments as JSON on its standard input; its standard output is the result. Ctrl-C stops claiming
calls and waits for those that run; a second one stops them.")]
pub(crate) struct Worker {
    /// The command that runs a tool: arguments as JSON on stdin, the result on stdout
    #[arg(long = "run", value_name = "TOOL=COMMAND", required = true)]
    runs: Vec<Run>,
    /// How many calls run at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    parallel: u16,
    /// After this time, a call is given to another worker if this one is lost; at most 10 minutes
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = lease)]
    lease: Duration,
    #[command(flatten)]
    server: ServerOptions,
}

fn lease(text: &str) -> Result<Duration, String> {
    let lease = duration(text)?;
    if (SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
        return Ok(lease);
    }
    Err(format!("a lease is from 1s to {LEASE_SECONDS}s"))
}

/// The future, if there is one; otherwise one that never resolves.
async fn if_any<T>(future: &mut Option<LocalBoxFuture<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// What a worker runs, and where.
struct Service {
    client: Client,
    commands: BTreeMap<String, String>,
    lease: Duration,
}

impl Worker {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let Self { runs, parallel, lease, server } = self;
        let mut commands = BTreeMap::new();
        for Run { tool, command } in runs {
            if commands.insert(tool.clone(), command).is_some() {
                return Err(Usage(format!("tool `{tool}` has two commands")).into());
            }
        }
        let service = Service { client: server.open()?, commands, lease };
        let names: Vec<&str> = service.commands.keys().map(String::as_str).collect();
        eprintln!("waiting for calls of {} at {}", names.join(", "), service.client.server());
        service.serve(usize::from(parallel)).await
    }
}

impl Service {
    async fn serve(&self, parallel: usize) -> anyhow::Result<ExitCode> {
        let mut running: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        // Kept between iterations: a request that is dropped half-way could lose a call that it has claimed.
        let mut claiming: Option<LocalBoxFuture<'_, Result<Vec<Value>, ClientError>>> = None;
        let mut failures = 0;
        loop {
            let free = parallel.saturating_sub(running.len());
            if claiming.is_none() && free > 0 {
                claiming = Some(self.claim(free, failures).boxed_local());
            }
            tokio::select! {
                Some(()) = running.next() => {}
                claimed = if_any(&mut claiming) => {
                    claiming = None;
                    match claimed {
                        Ok(calls) => {
                            failures = 0;
                            running.extend(calls.into_iter().map(|call| self.run(call).boxed_local()));
                        }
                        Err(error) if error.is_passing() => {
                            eprintln!("{error}; trying again");
                            failures += 1;
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                _ = tokio::signal::ctrl_c() => break,
            }
        }
        drop(claiming);
        tokio::select! {
            () = async { while running.next().await.is_some() {} } => Ok(ExitCode::SUCCESS),
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(130)),
        }
    }

    /// Waits for calls and claims them.
    async fn claim(&self, limit: usize, failures: u32) -> Result<Vec<Value>, ClientError> {
        if failures > 0 {
            tokio::time::sleep(backoff(failures)).await;
        }
        let tools = self.commands.keys().map(String::as_str).collect::<Vec<_>>().join(",");
        let (limit, lease) = (limit.to_string(), self.lease_text());
        let wanted = [("tools", tools.as_str()), ("limit", &limit), ("lease", &lease), ("wait", WAIT)];
        let mut answer = self.client.get_at(&["tool-calls"], &wanted).await?;
        Ok(match answer["items"].take() {
            Value::Array(calls) => calls,
            _ => Vec::new(),
        })
    }

    /// Runs one call, and delivers its result.
    async fn run(&self, call: Value) {
        let text = |field: &str| call[field].as_str().unwrap_or_default();
        let (id, tool, query, lease) = (text("id"), text("name"), text("queryName"), text("lease"));
        let shown = printable(tool);
        let Some(command) = self.commands.get(tool) else {
            return eprintln!("{shown}: the server has handed out a call of a tool that was not asked for");
        };
        eprintln!("→ {shown} {}", printable(&call["arguments"].to_string().chars().take(100).collect::<String>()));
        let outcome = tokio::select! {
            outcome = run_command(command, &call["arguments"]) => outcome.map(Value::from),
            lost = self.keep(id, lease) => return eprintln!("✗ {shown}: {lost}; the command was stopped"),
        };
        // Delivered until the server has it: it is recorded once, however often it arrives.
        let delivered = retrying(|| self.client.deliver_claimed(query, id, lease, &outcome)).await;
        match (delivered, outcome) {
            (Ok(()), Ok(_)) => eprintln!("✓ {shown}"),
            (Ok(()), Err(reason)) => eprintln!("✗ {shown}: {}", printable(&reason)),
            (Err(error), _) => eprintln!("✗ {shown}: the result was not accepted: {error}"),
        }
    }

    /// Extends the lease until it is lost; returns why.
    async fn keep(&self, id: &str, lease: &str) -> ClientError {
        let body = json!({"lease": lease, "for": self.lease_text()});
        let mut failures = 0;
        loop {
            let rest = if failures == 0 { self.lease / BEATS } else { backoff(failures).min(self.lease / BEATS) };
            tokio::time::sleep(rest).await;
            match self.client.post_to(&["tool-calls", id, "heartbeat"], &[], &body).await {
                Ok(_) => failures = 0,
                // The lease may still be held: the server decides when it answers again.
                Err(error) if error.is_passing() => failures += 1,
                Err(error) => return error,
            }
        }
    }

    fn lease_text(&self) -> String {
        format!("{}ms", self.lease.as_millis())
    }
}
