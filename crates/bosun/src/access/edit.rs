//! Changes of `keys.toml` that preserve the rest of the file.
//!
//! The file is replaced atomically, by a rename, with a lock on its directory: a server that reads it sees the old one
//! or the new one, and concurrent changes are serialized. The result is parsed before it replaces the file.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context, ensure};
use bosun_adapters::file_ownership;
use bosun_core::Timestamp;
use bosun_edges::auth::keys::{Digest, NewKey};

use super::file::{self, KeyFile};

const PREAMBLE: &str = "\
# Who may use the server: `bosun serve --auth <this file>`. Changes take effect within seconds, without a restart.
# `bosun keys` writes it, and it may be edited by hand. It has only hashes of secrets; see docs/security.md.
";

/// The permissions of a new key.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) id: String,
    pub(crate) namespaces: Vec<String>,
    pub(crate) rights: Vec<String>,
    pub(crate) may_act_for: Vec<String>,
    pub(crate) expires: Option<Timestamp>,
}

/// Adds a key and returns both its halves; the secret is stored nowhere else.
pub(crate) fn create(path: &Path, wanted: &Wanted, now: Timestamp) -> anyhow::Result<NewKey> {
    let (mut public, mut secret) = ([0; 12], [0; 32]);
    for bytes in [public.as_mut_slice(), secret.as_mut_slice()] {
        getrandom::fill(bytes).context("the operating system has no randomness for a new key")?;
    }
    let key = NewKey::from_random(public, secret);
    change(path, |text, known| {
        let taken = known.keys.iter().any(|key| key.id == wanted.id)
            || known.issuers.iter().any(|provider| provider.issuer.id == wanted.id);
        ensure!(!taken, "there is already a key `{}`; journals name keys by their id, so each is used once", wanted.id);
        let separator = if text.is_empty() { PREAMBLE } else { "" };
        Ok(format!("{text}{separator}{}", block(wanted, &key, now)))
    })?;
    Ok(key)
}

/// Marks a key as revoked. It stays in the file, so that its id is not used again.
pub(crate) fn revoke(path: &Path, id: &str, now: Timestamp) -> anyhow::Result<()> {
    change(path, |text, known| {
        let key = known.keys.iter().find(|key| key.id == id);
        let key = key.with_context(|| format!("there is no key `{id}`; `bosun keys list` lists the existing keys"))?;
        ensure!(key.revoked.is_none(), "key `{id}` has been revoked already");
        let end: usize = text.split_inclusive('\n').take(key.id_place.line).map(str::len).sum();
        let end = text[..end].strip_suffix('\n').map_or(end, str::len);
        Ok(format!("{}\nrevoked = {}{}", &text[..end], seconds(now), &text[end..]))
    })?;
    let changed = file::parse(path, &fs::read_to_string(path)?)?;
    let revoked = changed.keys.iter().any(|key| key.id == id && key.revoked.is_some());
    ensure!(revoked, "key `{id}` is not revoked: add `revoked = {}` to it by hand", seconds(now));
    Ok(())
}

fn block(wanted: &Wanted, key: &NewKey, now: Timestamp) -> String {
    let Wanted { id, namespaces, rights, may_act_for, expires } = wanted;
    let mut block = format!(
        "\n[[key]]\nid = {}\npublic = {}\nsha256 = {}\nnamespaces = {}\nrights = {}\n",
        quoted(id),
        quoted(&key.public),
        quoted(&Digest::of(&key.secret).to_string()),
        list(namespaces),
        list(rights)
    );
    // Writing to a string cannot fail.
    if !may_act_for.is_empty() {
        let _ = writeln!(block, "may_act_for = {}", list(may_act_for));
    }
    let _ = writeln!(block, "created = {}", seconds(now));
    if let Some(expires) = expires {
        let _ = writeln!(block, "expires = {}", seconds(*expires));
    }
    block
}

fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// JSON strings are TOML strings, except for the delete character.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn seconds(moment: Timestamp) -> String {
    let text = moment.to_rfc3339();
    format!("{}Z", text.split('.').next().unwrap_or(&text))
}

/// Replaces the file by the result of `edit`.
fn change(path: &Path, edit: impl FnOnce(&str, &KeyFile) -> anyhow::Result<String>) -> anyhow::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = || format!("{} cannot be written", path.display());
    let lock = File::open(directory).with_context(place)?;
    lock.lock().with_context(place)?;
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
    };
    let changed = edit(&text, &file::parse(path, &text)?)?;
    file::parse(path, &changed)?;
    // Readable by its owner only, from its creation on.
    let mut new = tempfile::NamedTempFile::new_in(directory).with_context(place)?;
    match fs::metadata(path) {
        Ok(old) => file_ownership::copy_owner_and_mode(new.as_file(), &old).with_context(|| {
            let path = path.display();
            format!(
                "{path} is not changed: the new file cannot be given to the owner of the old one; run this as that user"
            )
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(place),
    }
    new.write_all(changed.as_bytes()).and_then(|()| new.as_file().sync_all()).with_context(place)?;
    new.persist(path).with_context(place)?;
    lock.sync_all().with_context(place)
}
