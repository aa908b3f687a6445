//! What the program can do, one module for each command.

mod query;

use std::{future::Future, process::ExitCode};

use anyhow::Context;

/// The commands, in the order in which a newcomer meets them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Query(query::Query),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Query(query) => block_on(query.run()),
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
