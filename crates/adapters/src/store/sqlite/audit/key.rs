//! The keys that audit records are sealed with.
//!
//! A file has one key per line, the newest last: 64 hexadecimal digits, identified by an id that reveals nothing of
//! them. A new key is added below the old ones, which are still needed to verify what they sealed. The file is created
//! if it is missing, readable by its owner only.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use bosun_core::hex;
use ring::hmac;
use zeroize::Zeroizing;

use crate::file_ownership;

/// The key file's name in the directory of a store, unless it is configured.
pub const KEY_FILE: &str = "audit.key";

const KEY_BYTES: usize = 32;

/// Why the keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the audit keys in `{}` cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the audit keys in `{}` cannot be written", path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("line {line} of `{}` is not a key: one has {} hexadecimal digits", path.display(), KEY_BYTES * 2)]
    Malformed { path: PathBuf, line: usize },
    #[error(
        "`{}` has no key {id}, which the audit log was sealed with: put the old key back, above the new one",
        path.display()
    )]
    Unknown { path: PathBuf, id: KeyId },
    #[error(
        "`{}` is missing, and there is an audit log already: put the file back; without it, the log can neither be \
         verified nor continued. `--audit off` starts without audit",
        path.display()
    )]
    Missing { path: PathBuf },
}

/// The id of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(super) [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(formatter, &self.0)
    }
}

impl std::str::FromStr for KeyId {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = hex::decode(text).ok_or(())?;
        <[u8; 8]>::try_from(bytes.as_slice()).map(Self).map_err(|_| ())
    }
}

/// One key.
#[derive(Clone)]
pub(super) struct AuditKey {
    pub(super) id: KeyId,
    key: hmac::Key,
}

impl fmt::Debug for AuditKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AuditKey({})", self.id)
    }
}

impl AuditKey {
    fn new(bytes: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let name = hmac::sign(&key, b"bosun.audit.key");
        let mut id = [0; 8];
        id.copy_from_slice(&name.as_ref()[..8]);
        Self { id: KeyId(id), key }
    }

    /// Seals bytes given in parts.
    pub(super) fn seal(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        parts.iter().for_each(|part| context.update(part));
        let mut mac = [0; 32];
        mac.copy_from_slice(context.sign().as_ref());
        mac
    }
}

/// All keys of a file, the newest last.
#[derive(Clone, Debug)]
pub struct AuditKeys {
    path: PathBuf,
    keys: Vec<AuditKey>,
}

impl AuditKeys {
    /// Reads the file.
    ///
    /// # Errors
    /// If there is none, or it contains anything but keys.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.into(), source };
        let text = Zeroizing::new(fs::read_to_string(path).map_err(unreadable)?);
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bytes = hex::decode(line).map(Zeroizing::new).filter(|bytes| bytes.len() == KEY_BYTES);
            let bytes = bytes.ok_or_else(|| KeyError::Malformed { path: path.into(), line: index + 1 })?;
            keys.push(AuditKey::new(&bytes));
        }
        if keys.is_empty() {
            return Err(unreadable(io::Error::new(io::ErrorKind::InvalidData, "it contains no key")));
        }
        Ok(Self { path: path.into(), keys })
    }

    /// Reads the file, and creates it if it is missing; but not if there are records, which need the missing one.
    pub(in super::super) fn open(path: &Path, has_records: bool) -> Result<Self, KeyError> {
        match fs::exists(path) {
            Ok(true) => {}
            Ok(false) if has_records => return Err(KeyError::Missing { path: path.into() }),
            Ok(false) => add(path)?,
            Err(source) => return Err(KeyError::Unreadable { path: path.into(), source }),
        }
        warn_if_others_can_read(path);
        Self::load(path)
    }

    pub(super) fn newest(&self) -> Option<&AuditKey> {
        self.keys.last()
    }

    pub(super) fn get(&self, id: KeyId) -> Option<&AuditKey> {
        self.keys.iter().find(|key| key.id == id)
    }

    /// The key with this id.
    ///
    /// # Errors
    /// If the file does not have it.
    pub(super) fn require(&self, id: KeyId) -> Result<&AuditKey, KeyError> {
        self.get(id).ok_or_else(|| KeyError::Unknown { path: self.path.clone(), id })
    }
}

/// Adds a new key to the file, below the existing ones, and returns its id.
///
/// # Errors
/// If the file cannot be read or written.
pub fn rotate(path: &Path) -> Result<KeyId, KeyError> {
    add(path)?;
    let keys = AuditKeys::load(path)?;
    keys.newest().map(|key| key.id).ok_or(KeyError::Missing { path: path.into() })
}

/// Replaces the file by one with an additional key; a concurrent reader sees the old file or the new one.
fn add(path: &Path) -> Result<(), KeyError> {
    let unwritable = |source| KeyError::Unwritable { path: path.into(), source };
    let mut text = match fs::read_to_string(path) {
        Ok(text) => Zeroizing::new(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Zeroizing::new(
            "# The keys that seal the audit log, one per line, the newest last. Keep a copy in another place.\n"
                .to_owned(),
        ),
        Err(source) => return Err(KeyError::Unreadable { path: path.into(), source }),
    };
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    getrandom::fill(&mut *bytes).map_err(|error| unwritable(io::Error::other(error)))?;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    hex::push(&mut text, &*bytes);
    text.push('\n');
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let draft = path.with_file_name(name);
    let file = write_private(&draft, text.as_bytes()).map_err(unwritable)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let given = match fs::metadata(path) {
        Ok(old) => file_ownership::copy_owner_and_mode(&file, &old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::metadata(parent).and_then(|parent| file_ownership::chown_like_directory(&file, &parent))
        }
        Err(error) => Err(error),
    };
    given.map_err(unwritable)?;
    fs::rename(&draft, path).map_err(unwritable)?;
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(unwritable)
}

/// Only a warning: secrets that a container mounts are often readable by every user in it.
fn warn_if_others_can_read(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0) {
        tracing::warn!(file = %path.display(), "other users can read the key of the audit log: chmod 600 it");
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(file)
}
