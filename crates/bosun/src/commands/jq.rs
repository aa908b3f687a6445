//! `bosun jq`: applies jq filters to standard input, for the server, which starts it.
//!
//! A process of its own, because jaq cannot be interrupted and a filter may loop or build a huge value. The operating
//! system limits its CPU time and its memory.

use std::{
    io::{Read as _, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use bosun_adapters::runner::functions::{FILTER_FAILED, JqInput};
use bosun_core::ceiling::{JQ_MEMORY_BYTES, JQ_SECONDS};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Apply jq filters to standard input, for the server.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Jq {}

impl Jq {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        for (resource, limit) in
            [(Resource::Data, JQ_MEMORY_BYTES as u64), (Resource::Cpu, JQ_SECONDS as u64), (Resource::Core, 0)]
        {
            let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
            setrlimit(resource, limit).context("the limits of the process cannot be set")?;
        }
        let mut input = Vec::new();
        std::io::stdin().read_to_end(&mut input).context("the input cannot be read")?;
        let input: JqInput = serde_json::from_slice(&input).context("the input is not what the server writes")?;
        match input.apply() {
            Ok(value) => {
                writeln!(std::io::stdout(), "{value}")?;
                Ok(ExitCode::SUCCESS)
            }
            Err(message) => {
                writeln!(std::io::stderr(), "{message}")?;
                Ok(ExitCode::from(FILTER_FAILED))
            }
        }
    }
}
