//! `bosun backup`: a backup of a store, also while a server uses it.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use bosun_adapters::store::sqlite::{self, BackupError, BackupProgress, audit::spool};
use bosun_core::audit::{Action, AuditRecord};
use bosun_engine::{Clock, SystemClock};

use super::check;
use crate::process;

/// Copy a store while a server uses it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bosun backup --data ./data /backups/bosun-$(date +%F)
  bosun backup --data ./data /backups/bosun --force

The copy is a store of its own, as it was at one moment: complete, verified, and flushed to the disk before it is renamed
into place. To restore one, stop the server and copy it to where the store was. docs/operations.md has more.")]
pub(crate) struct Backup {
    /// Directory of the store
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data: PathBuf,
    /// Directory that the copy becomes
    to: PathBuf,
    /// Replace an earlier copy
    #[arg(long)]
    force: bool,
}

impl Backup {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut line = Line { shown: std::io::stderr().is_terminal() };
        let copied = sqlite::backup(&self.data, &self.to, self.force, |progress| line.show(progress));
        line.clear();
        let inspection = copied.map_err(|error| self.explain(error))?;
        if let Err(error) = self.spool_record() {
            anstream::eprintln!("the copy is good, but it cannot be recorded in the audit log: {error}");
        }
        anstream::println!("{}, ok: {}", check::contents(&inspection), self.to.display());
        Ok(ExitCode::SUCCESS)
    }

    /// Spools a record for the server, which alone writes to the audit log: the running one, or the next.
    fn spool_record(&self) -> std::io::Result<()> {
        let to = std::path::absolute(&self.to)?;
        let record =
            AuditRecord::of_act(SystemClock.now(), Action::StoreBackedUp, None, Some(to.display().to_string()));
        spool::append(&self.data, &AuditRecord { actor: process::user_id().map(Into::into), ..record })
    }

    /// Adds what to do where the command line can be changed.
    fn explain(&self, error: BackupError) -> anyhow::Error {
        let hint = match &error {
            BackupError::Exists(_) => Some("`--force` replaces it".to_owned()),
            BackupError::Faulty(_) | BackupError::Source { .. } => {
                Some(format!("`bosun check --data {}` reports every fault", self.data.display()))
            }
            _ => None,
        };
        let error = anyhow::Error::new(error);
        match hint {
            Some(hint) => anyhow::anyhow!("{error:#}\n\n{hint}"),
            None => error,
        }
    }
}

/// One line of a terminal that shows the progress.
struct Line {
    shown: bool,
}

impl Line {
    fn show(&mut self, progress: BackupProgress) {
        let text = match progress {
            BackupProgress::Blobs { copied } => format!("{copied} blobs copied"),
            BackupProgress::Pages { copied, of } => format!("{copied} of {of} pages copied"),
            BackupProgress::Checking => "checking the copy".into(),
        };
        self.write(&text);
    }

    fn clear(&mut self) {
        self.write("");
    }

    fn write(&mut self, text: &str) {
        // A terminal that cannot be written to shows nothing; the copy is not affected.
        self.shown = self.shown && write!(std::io::stderr(), "\r\x1b[2K{text}").is_ok();
    }
}
