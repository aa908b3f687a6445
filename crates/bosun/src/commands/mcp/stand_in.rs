//! `bosun mcp stand-in`: for tests, an MCP server that misbehaves in one way.

use std::{path::PathBuf, process::ExitCode};

/// Serve as a misbehaving MCP server over standard input and output.
#[derive(Debug, clap::Args)]
pub(super) struct StandIn {
    behaviour: String,
    /// A file that the first process leaves for the next
    #[arg(long, value_name = "FILE")]
    marker: Option<PathBuf>,
}

impl StandIn {
    #[cfg(feature = "standin")]
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if !bosun_standin::mcp::is_behaviour(&self.behaviour) {
            return Err(crate::commands::Usage(format!("there is no behaviour `{}`", self.behaviour)).into());
        }
        let code = bosun_standin::mcp::stdio::serve(&self.behaviour, self.marker.as_deref())?;
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
    }

    #[cfg(not(feature = "standin"))]
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let _ = (self.behaviour, self.marker);
        Err(crate::features::not_built("stand-in for MCP servers", "standin").into())
    }
}
