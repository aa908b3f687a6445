//! Owners and permissions of files.
//!
//! A server usually runs as a user of its own, and its operator is root. What root writes for the server must belong to
//! the server: a key file that it cannot read leaves a revoked key in force, and a key of the audit log that it cannot
//! read prevents it from starting. Only root can change the owner of a file.

use std::{
    fs::{self, DirBuilder, File, Metadata, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, fchown},
    path::Path,
};

const ROOT: u32 = 0;

/// Creates a directory and its missing parents, accessible to the owner only: journals, and keys that clients have
/// written into their models, are private. The permissions of an existing directory are kept.
///
/// # Errors
/// If it cannot be created.
pub fn create_private_dir(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Removes the permissions of other users from a file or directory that is world-readable; an earlier version created
/// such files. One that only a group may read was made so by its owner, and is kept.
pub fn revoke_world_access(path: &Path) {
    let revoked = fs::metadata(path).and_then(|found| {
        let mode = found.mode() & 0o7777;
        if mode & 0o007 == 0 {
            return Ok(());
        }
        fs::set_permissions(path, Permissions::from_mode(mode & !0o077))
    });
    match revoked {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), error = %error, "other users of this machine can read this file");
        }
        _ => {}
    }
}

/// Gives `file` the owner, the group and the mode of the file that it replaces.
///
/// # Errors
/// If it has another owner or group, which may not be changed.
pub fn copy_owner_and_mode(file: &File, predecessor: &Metadata) -> io::Result<()> {
    let (made, wanted) = (file.metadata()?, (predecessor.uid(), predecessor.gid()));
    if (made.uid(), made.gid()) != wanted {
        fchown(file, Some(wanted.0), Some(wanted.1))?;
    }
    file.set_permissions(predecessor.permissions())
}

/// Gives `file`, if it was created by root, to the owner of the directory that it was created in. The owner of any
/// other file is kept.
///
/// # Errors
/// If the owner may not be changed.
pub fn chown_like_directory(file: &File, directory: &Metadata) -> io::Result<()> {
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
    fn a_replacement_has_the_owner_of_the_file_it_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        // If the test is not run as root, it owns both.
        let _ = chown(&old, Some(54_321), Some(54_322));
        let file = File::create(&new).unwrap();
        copy_owner_and_mode(&file, &fs::metadata(&old).unwrap()).unwrap();
        let owner = |path| fs::metadata(path).map(|found| (found.uid(), found.gid(), found.mode())).unwrap();
        assert_eq!(owner(&new), owner(&old));
    }

    #[test]
    fn world_readable_files_are_restricted_and_group_readable_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for (mode, expect) in [(0o644, 0o600), (0o666, 0o600), (0o640, 0o640), (0o600, 0o600), (0o755, 0o700)] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            revoke_world_access(&file);
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, expect, "{mode:o}");
        }
        revoke_world_access(&dir.path().join("missing"));
    }

    #[test]
    fn a_file_belongs_to_the_owner_of_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let _ = chown(dir.path(), Some(54_321), Some(54_322));
        let file = File::create(dir.path().join("new")).unwrap();
        let directory = fs::metadata(dir.path()).unwrap();
        chown_like_directory(&file, &directory).unwrap();
        assert_eq!(file.metadata().unwrap().uid(), directory.uid());
    }
}
