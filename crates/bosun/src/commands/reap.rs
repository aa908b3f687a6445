//! `bosun reap`: ends programs of MCP servers after the server that started them, for the server, which starts it.

use std::{ffi::OsString, fs::File, io::Write as _, os::fd::AsFd as _, process::ExitCode};

/// The exit code of shells for a program that cannot be executed.
const NOT_RUN: u8 = 127;

/// End the programs of MCP servers when standard input ends, for the server.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Reap {
    /// Become this program instead, after a line on standard input.
    #[arg(last = true)]
    command: Vec<OsString>,
}

impl Reap {
    pub(crate) fn run(self) -> ExitCode {
        let Some((program, arguments)) = self.command.split_first() else {
            bosun_mcp::reap(std::io::stdin().lock());
            return ExitCode::SUCCESS;
        };
        // Not through `std::io::stdin`, which reads ahead: what follows the line is for the program.
        let input = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let result = input.and_then(|input| bosun_mcp::run_released(input, program, arguments));
        let Err(error) = result;
        // The server shows what its programs write to standard error; there is no other way to report a failure of it.
        let _ = writeln!(std::io::stderr(), "{}: {error}", program.display());
        ExitCode::from(NOT_RUN)
    }
}
