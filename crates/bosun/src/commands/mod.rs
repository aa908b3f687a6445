//! What the program can do, one module for each command.

mod audit;
mod backup;
mod check;
mod convert;
mod demo;
mod input;
mod query;
mod report;
mod serve;
mod tools;

use std::{future::Future, process::ExitCode};

use anyhow::Context;

/// The commands, in the order in which a newcomer meets them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Demo(demo::Demo),
    Serve(serve::Serve),
    Query(query::Query),
    Check(check::Check),
    Backup(backup::Backup),
    Audit(audit::AuditCommand),
    Convert(convert::Convert),
    Tools(tools::Tools),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Demo(demo) => block_on(demo.run()),
            Self::Serve(serve) => block_on_all_cores(serve.run()),
            Self::Query(query) => block_on(query.run()),
            Self::Check(check) => check.run(),
            Self::Backup(backup) => backup.run(),
            Self::Audit(audit) => audit.run(),
            Self::Convert(convert) => convert.run(),
            Self::Tools(tools) => tools.run(),
        }
    }
}

/// The command line can be read, but what it asks for makes no sense. Ends the program with 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Runs a command that needs one thread and no more.
fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the runtime does not start")?.block_on(command)
}

/// Runs a server. What is still running when it ends is dropped, not waited for.
fn block_on_all_cores<T>(server: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("the runtime does not start")?;
    let ended = runtime.block_on(server);
    runtime.shutdown_background();
    ended
}
