//! The program: reads the command line, runs one command, and reports the result as an exit code.
//!
//! 0 is success, 1 a failure, 2 an invalid command line. Nothing else is decided here; each command is a
//! module under `commands`. It is a library only so that tests can enable features of the program that they start; it
//! is not a public API.

mod access;
mod app;
mod commands;
mod config;
mod features;
mod mcp;
mod process;
mod reload;
mod settings;
mod telemetry;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use commands::{Command, Usage};

/// A tool runtime for AI agents: tools are data, and every call runs where it belongs.
#[derive(Debug, Parser)]
#[command(name = "bosun", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        // The reader of our output has closed the pipe, as `head` does: not a failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let style = anstyle::AnsiColor::Red.on_default().bold();
            anstream::eprintln!("{style}error{style:#}: {error:#}");
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Reads the command line, over the environment, over `bosun.toml`, and runs the command.
fn run() -> anyhow::Result<ExitCode> {
    let (matches, layers) = settings::parse_layered(Arguments::command())?;
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    arguments.command.run(&layers)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_broken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_broken))
}
