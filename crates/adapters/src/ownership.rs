//! Whose files are, and who may read them.
//!
//! A server usually is a user of its own, and whoever looks after it is root. What root writes where the server reads must
//! belong to the server: a file of keys that it cannot read leaves a revoked key in force, and a key of the audit log
//! that it cannot read keeps it from starting. Only root can give a file away.

use std::{
    fs::{self, DirBuilder, File, Metadata, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, fchown},
    path::Path,
};

const ROOT: u32 = 0;

/// Makes a directory, and those above it, where there is none, for its owner only: journals, and keys that clients have
/// written into their models, are nobody else's business. One that is there stays as its owner has made it.
///
/// # Errors
/// If it cannot be made.
pub fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Takes a file or directory that everybody could read from all but its owner; an earlier version made such files. One that
/// only a group may read was made so by its owner, and stays.
pub fn withdraw(path: &Path) {
    let withdrawn = fs::metadata(path).and_then(|found| {
        let mode = found.mode() & 0o7777;
        if mode & 0o007 == 0 {
            return Ok(());
        }
        fs::set_permissions(path, Permissions::from_mode(mode & !0o077))
    });
    match withdrawn {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), error = %error, "other users of this machine can read this file");
        }
        _ => {}
    }
}

/// Gives `file` the owner, the group and the mode of what it takes the place of.
///
/// # Errors
/// If it has another owner or group, and may not be given away.
pub fn succeed(file: &File, predecessor: &Metadata) -> io::Result<()> {
    let (made, wanted) = (file.metadata()?, (predecessor.uid(), predecessor.gid()));
    if (made.uid(), made.gid()) != wanted {
        fchown(file, Some(wanted.0), Some(wanted.1))?;
    }
    file.set_permissions(predecessor.permissions())
}

/// Gives `file`, if root has made it, to the owner of the directory that it was made in. What somebody else has made is
/// theirs.
///
/// # Errors
/// If it may not be given away.
pub fn settle(file: &File, directory: &Metadata) -> io::Result<()> {
    if file.metadata()?.uid() != ROOT || directory.uid() == ROOT {
        return Ok(());
    }
    fchown(file, Some(directory.uid()), Some(directory.gid()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn what_takes_a_files_place_is_whose_that_was() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        // Where the test is not root, both are its own.
        let _ = chown(&old, Some(54_321), Some(54_322));
        let file = File::create(&new).unwrap();
        succeed(&file, &fs::metadata(&old).unwrap()).unwrap();
        let owner = |path| fs::metadata(path).map(|found| (found.uid(), found.gid(), found.mode())).unwrap();
        assert_eq!(owner(&new), owner(&old));
    }

    #[test]
    fn what_everybody_could_read_is_withdrawn_and_what_a_group_may_read_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for (mode, expect) in [(0o644, 0o600), (0o666, 0o600), (0o640, 0o640), (0o600, 0o600), (0o755, 0o700)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            withdraw(&file);
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, expect, "{mode:o}");
        }
        withdraw(&dir.path().join("missing"));
    }

    #[test]
    fn what_is_made_in_a_directory_is_its_owners() {
        let dir = tempfile::tempdir().unwrap();
        let _ = chown(dir.path(), Some(54_321), Some(54_322));
        let file = File::create(dir.path().join("new")).unwrap();
        let directory = fs::metadata(dir.path()).unwrap();
        settle(&file, &directory).unwrap();
        assert_eq!(file.metadata().unwrap().uid(), directory.uid());
    }
}
