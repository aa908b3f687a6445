//! The commands of the program, one module each.

mod approvals;
mod ask;
mod audit;
mod backup;
mod chat;
pub(crate) mod check;
mod config;
mod convert;
mod demo;
pub(crate) mod folder;
mod init;
pub(crate) mod input;
mod jq;
mod keys;
mod mcp;
mod models;
mod nango;
mod query;
#[cfg(feature = "mcp")]
mod reap;
mod report;
mod serve;
mod server_options;
#[cfg(feature = "standin")]
mod stand_in;
mod tools;
mod worker;

use std::{future::Future, process::ExitCode};

use anyhow::Context;

use crate::{process, settings::Layers};

/// The commands, in the order in which a newcomer needs them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Demo(demo::Demo),
    Init(init::Init),
    Serve(serve::Serve),
    Query(query::Query),
    Chat(chat::Chat),
    Approvals(approvals::Approvals),
    Config(config::Show),
    Keys(keys::Keys),
    Check(check::Check),
    Backup(backup::Backup),
    Audit(audit::AuditCommand),
    Convert(convert::Convert),
    Tools(tools::Tools),
    Worker(worker::Worker),
    Mcp(mcp::Mcp),
    Models(models::Models),
    Nango(nango::NangoCommand),
    Jq(jq::Jq),
    #[cfg(feature = "mcp")]
    Reap(reap::Reap),
}

impl Command {
    pub(crate) fn run(self, layers: &Layers) -> anyhow::Result<ExitCode> {
        // The files that these write hold clients' data, or credentials.
        if matches!(self, Self::Serve(_) | Self::Keys(_) | Self::Backup(_) | Self::Audit(_)) {
            process::keep_files_private();
        }
        match self {
            Self::Demo(demo) => block_on(demo.run()),
            Self::Init(init) => init.run(),
            Self::Serve(serve) => serve_on_all_cpus(serve.run()),
            Self::Query(query) => block_on(query.run()),
            Self::Chat(chat) => block_on(chat.run()),
            Self::Approvals(approvals) => block_on(approvals.run()),
            Self::Config(show) => show.run(layers),
            Self::Keys(keys) => keys.run(),
            Self::Check(check) => check.run(),
            Self::Backup(backup) => backup.run(),
            Self::Audit(audit) => audit.run(),
            Self::Convert(convert) => convert.run(),
            Self::Tools(tools) => tools.run(),
            Self::Worker(worker) => block_on(worker.run()),
            Self::Mcp(mcp) => block_on(mcp.run()),
            Self::Models(models) => serve_on_all_cpus(models.run()),
            Self::Nango(nango) => serve_on_all_cpus(nango.run()),
            Self::Jq(jq) => jq.run(),
            #[cfg(feature = "mcp")]
            Self::Reap(reap) => Ok(reap.run()),
        }
    }
}

/// The command line can be parsed, but is not valid. Ends the program with 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Runs a command on one thread.
fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the runtime cannot be started")?.block_on(command)
}

/// Runs a server on one worker thread per CPU. Tasks that still run when it returns are dropped, not awaited.
fn serve_on_all_cpus<T>(server: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("the runtime cannot be started")?;
    let ended = runtime.block_on(server);
    runtime.shutdown_background();
    ended
}
