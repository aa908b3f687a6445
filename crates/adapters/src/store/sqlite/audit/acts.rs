//! Acts that are done beside the server, on their way into its audit log.
//!
//! Only the server writes to the log. A command that works on the files, such as a backup, leaves a line in a file
//! beside the database; the server that runs, or the next one, takes it over. A line is removed when it is on
//! record, so a crash in between records it twice and never loses it. The file proves nothing by itself: whoever
//! can write to the directory can write to it.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use bosun_core::audit::Record;

use crate::ownership;

/// Where the lines lie in the directory of a store.
pub const ACTS_FILE: &str = "audit.acts";

/// Leaves word of an act.
///
/// # Errors
/// If the file cannot be written.
pub fn leave(dir: &Path, record: &Record) -> io::Result<()> {
    let mut line = serde_json::to_string(record)?;
    line.push('\n');
    let mut file = File::options().create(true).append(true).mode(0o600).open(dir.join(ACTS_FILE))?;
    ownership::settle(&file, &fs::metadata(dir)?)?;
    // Whoever takes the lines over holds the lock until they are gone.
    file.lock()?;
    file.write_all(line.as_bytes())?;
    file.sync_all()
}

/// Lines that are being taken over; nobody adds to them meanwhile.
#[derive(Debug)]
pub struct Taken {
    file: File,
    pub records: Vec<Record>,
}

impl Taken {
    /// They are on record.
    ///
    /// # Errors
    /// If they cannot be removed: then they are recorded once more.
    pub fn forget(mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.sync_all()
    }
}

/// Takes over what was left; `None` if there is nothing.
///
/// # Errors
/// If the file cannot be read.
pub fn take(dir: &Path) -> io::Result<Option<Taken>> {
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
        // Half a line is what a process left that was killed: its act did not end either.
        let record = serde_json::from_str(line);
        record.inspect_err(|error| tracing::error!(%error, "an act beside the server is not readable")).ok()
    };
    Ok(Some(Taken { records: text.lines().filter_map(read).collect(), file }))
}

#[cfg(test)]
mod tests {
    use bosun_core::{Timestamp, audit::Action};

    use super::*;

    #[test]
    fn what_was_left_is_taken_until_it_is_on_record() {
        let dir = tempfile::tempdir().unwrap();
        assert!(take(dir.path()).unwrap().is_none());
        let act = |at| Record::of_act(Timestamp(at), Action::StoreBackedUp, None, Some("there".into()));
        leave(dir.path(), &act(1)).unwrap();
        leave(dir.path(), &act(2)).unwrap();
        let both = [act(1), act(2)];
        assert_eq!(take(dir.path()).unwrap().unwrap().records, both);
        let again = take(dir.path()).unwrap().unwrap();
        assert_eq!(again.records, both, "nobody has said that they are on record");
        again.forget().unwrap();
        assert!(take(dir.path()).unwrap().is_none());
        leave(dir.path(), &act(3)).unwrap();
        assert_eq!(take(dir.path()).unwrap().unwrap().records, [act(3)]);
    }

    #[test]
    fn half_a_line_does_not_hide_the_others() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(ACTS_FILE), "{\"at\":\n").unwrap();
        let act = Record::of_act(Timestamp(1), Action::StoreBackedUp, None, None);
        leave(dir.path(), &act).unwrap();
        assert_eq!(take(dir.path()).unwrap().unwrap().records, [act]);
    }
}
