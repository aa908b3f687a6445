//! A spool of audit records from commands that run outside the server.
//!
//! Only the server writes to the audit log. A command that works on the files, such as a backup, appends a line to a
//! file next to the database; the running server, or the next one, records it. Lines are removed after they have been
//! recorded, so a crash in between records them twice and never loses them. The file proves nothing by itself: any user
//! who can write to the directory can write to it.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use bosun_core::audit::AuditRecord;

use crate::{file_ownership, store::sqlite::open::DATABASE};

/// The spool's name in the directory of a store.
pub const ACTS_FILE: &str = "audit.acts";

/// Whether there is a store in `dir`, whose server records what is spooled.
#[must_use]
pub fn has_store(dir: &Path) -> bool {
    dir.join(DATABASE).is_file()
}

/// Appends a record to the spool.
///
/// # Errors
/// If the file cannot be written.
pub fn append(dir: &Path, record: &AuditRecord) -> io::Result<()> {
    let mut line = serde_json::to_string(record)?;
    line.push('\n');
    let mut file = File::options().create(true).append(true).mode(0o600).open(dir.join(ACTS_FILE))?;
    file_ownership::chown_like_directory(&file, &fs::metadata(dir)?)?;
    // The server holds the lock while it records the lines and removes them.
    file.lock()?;
    file.write_all(line.as_bytes())?;
    file.sync_all()
}

/// Spooled records; the spool is locked until they are dropped.
#[derive(Debug)]
pub struct Spooled {
    file: File,
    pub records: Vec<AuditRecord>,
}

impl Spooled {
    /// Removes them from the spool after they have been recorded.
    ///
    /// # Errors
    /// If they cannot be removed: then they are recorded once more.
    pub fn clear(mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.sync_all()
    }
}

/// Takes the spooled records; `None` if there are none.
///
/// # Errors
/// If the file cannot be read.
pub fn take(dir: &Path) -> io::Result<Option<Spooled>> {
    let mut file = match File::options().read(true).write(true).open(dir.join(ACTS_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let read = |line: &str| {
        // An incomplete line is from a process that was killed: its act did not complete either.
        let record = serde_json::from_str(line);
        record.inspect_err(|error| tracing::error!(%error, "a spooled audit record is not readable")).ok()
    };
    Ok(Some(Spooled { records: text.lines().filter_map(read).collect(), file }))
}

#[cfg(test)]
mod tests {
    use bosun_core::{Timestamp, audit::Action};

    use super::*;

    #[test]
    fn spooled_records_are_taken_until_they_are_cleared() {
        let dir = tempfile::tempdir().unwrap();
        assert!(take(dir.path()).unwrap().is_none());
        let act = |at| AuditRecord::of_act(Timestamp(at), Action::StoreBackedUp, None, Some("there".into()));
        append(dir.path(), &act(1)).unwrap();
        append(dir.path(), &act(2)).unwrap();
        let both = [act(1), act(2)];
        assert_eq!(take(dir.path()).unwrap().unwrap().records, both);
        let again = take(dir.path()).unwrap().unwrap();
        assert_eq!(again.records, both, "they have not been cleared");
        again.clear().unwrap();
        assert!(take(dir.path()).unwrap().is_none());
        append(dir.path(), &act(3)).unwrap();
        assert_eq!(take(dir.path()).unwrap().unwrap().records, [act(3)]);
    }

    #[test]
    fn an_incomplete_line_does_not_hide_the_others() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(ACTS_FILE), "{\"at\":\n").unwrap();
        let act = AuditRecord::of_act(Timestamp(1), Action::StoreBackedUp, None, None);
        append(dir.path(), &act).unwrap();
        assert_eq!(take(dir.path()).unwrap().unwrap().records, [act]);
    }
}
