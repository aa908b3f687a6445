//! `bosun audit`: verify the log, export it, rotate its key. Works on the files, also next to a running server.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use bosun_adapters::store::sqlite::audit::{self, Audit, AuditKeys};
use bosun_core::Namespace;

use super::report::count;

/// Verify or export the audit log, or change its key.
#[derive(Debug, clap::Args)]
pub(crate) struct AuditCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Verify(Verify),
    Export(Export),
    Rotate(Rotate),
}

/// Verify that the log was not tampered with
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The seal of every record is computed again and compared. Exit code 1 means that a record is not as it was written; \
the first bad record of each namespace is named. docs/audit.md says what can be detected and what cannot."
)]
struct Verify {
    #[command(flatten)]
    place: Place,
    /// Verify this file, written by `bosun audit export`, instead of the store
    #[arg(long, value_name = "FILE", conflicts_with = "heads")]
    file: Option<PathBuf>,
    /// File of heads that the server exported; default: next to the store
    #[arg(long, value_name = "FILE")]
    heads: Option<PathBuf>,
}

/// Write all records as JSON lines, oldest first
#[derive(Debug, clap::Args)]
struct Export {
    #[command(flatten)]
    place: Place,
    /// Only this namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// File to write; standard output without it
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Add a new key below the old ones; the server uses it after a restart
#[derive(Debug, clap::Args)]
struct Rotate {
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct Place {
    /// Directory of the store
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data: PathBuf,
    /// File of the log's keys; default: next to the store
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl AuditCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.action {
            Action::Verify(verify) => verify.run(),
            Action::Export(export) => export.run(),
            Action::Rotate(rotate) => rotate.run(),
        }
    }
}

impl Verify {
    fn run(self) -> anyhow::Result<ExitCode> {
        let audit = Audit { key_file: self.place.key_file, heads_file: self.heads, ..Audit::default() };
        let verified = match &self.file {
            Some(file) => {
                let keys = AuditKeys::load(&audit.key_file(&self.place.data));
                audit::verify_file(file, &keys.context("the export cannot be verified")?)
            }
            None => audit::verify(&self.place.data, &audit),
        };
        let verified = verified.context("the audit log cannot be verified")?;
        for fault in &verified.faults {
            anstream::eprintln!("{fault}");
        }
        let records = count(usize::try_from(verified.records).unwrap_or(usize::MAX), "record");
        let namespaces = count(usize::try_from(verified.namespaces).unwrap_or(usize::MAX), "namespace");
        let heads = count(usize::try_from(verified.heads).unwrap_or(usize::MAX), "exported head");
        if verified.faults.is_empty() {
            anstream::println!("{records} of {namespaces}, {heads}: ok");
            return Ok(ExitCode::SUCCESS);
        }
        anstream::println!("{records} of {namespaces}, {heads}: {}", count(verified.faults.len(), "fault"));
        Ok(ExitCode::FAILURE)
    }
}

impl Export {
    fn run(self) -> anyhow::Result<ExitCode> {
        let namespace = self.namespace.as_ref().map(Namespace::as_str);
        let audit = Audit { key_file: self.place.key_file, ..Audit::default() };
        let (data, key_file) = (&self.place.data, audit.key_file(&self.place.data));
        // The user who exports need not hold the key.
        let keys = if key_file.exists() { Some(AuditKeys::load(&key_file)?) } else { None };
        let exported = match &self.output {
            Some(path) => {
                let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
                let mut lines = BufWriter::new(file);
                let exported = audit::export(data, keys.as_ref(), namespace, &mut lines)?;
                lines.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
                exported
            }
            None => {
                let mut lines = BufWriter::new(std::io::stdout().lock());
                let exported = audit::export(data, keys.as_ref(), namespace, &mut lines)?;
                lines.flush()?;
                exported
            }
        };
        if !exported.is_sealed {
            let key_file = key_file.display();
            anstream::eprintln!(
                "the end of the export is not sealed: there is no key in {key_file}; --key-file names it"
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Rotate {
    fn run(self) -> anyhow::Result<ExitCode> {
        let audit = Audit { key_file: self.place.key_file, ..Audit::default() };
        let path = audit.key_file(&self.place.data);
        let id = audit::rotate(&path)?;
        anstream::println!("key {id} is in {}; restart the server to use it", path.display());
        Ok(ExitCode::SUCCESS)
    }
}
