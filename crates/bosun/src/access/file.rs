//! `keys.toml`: who may do what, as an operator writes it.
//!
//! Only digests of secrets stand here. Every fault of the file is found, with its line and column, and a
//! file with faults is not used at all: half a policy would be another policy.

use std::{ops::Range, path::Path, time::Duration};

use bosun_adapters::fault::{Fault, Faults};
use bosun_core::{Actor, Timestamp, audit::Action, tool::parse_duration};
use bosun_edges::auth::{
    EndUsers, Grant, Namespaces, Right, Rights,
    jwt::{Issuer, Jwks},
    keys::{ApiKey, Digest},
};

use crate::toml_file::{Reader, Table};

const KEY_FIELDS: &[&str] =
    &["id", "public", "sha256", "namespaces", "rights", "may_act_for", "created", "expires", "revoked"];
const ISSUER_FIELDS: &[&str] = &[
    "id",
    "issuer",
    "audience",
    "jwks",
    "user_claim",
    "namespaces_claim",
    "rights_claim",
    "namespaces",
    "rights",
    "leeway",
];
const DEFAULT_LEEWAY: Duration = Duration::from_secs(60);

/// What the file says.
#[derive(Debug)]
pub(crate) struct KeyFile {
    pub(crate) keys: Vec<Listed>,
    pub(crate) issuers: Vec<Provider>,
}

/// A key, and what only its operator wants to know.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) key: ApiKey,
    pub(crate) created: Option<Timestamp>,
    pub(crate) revoked: Option<Timestamp>,
    /// Where its id stands in the file.
    pub(crate) id_span: Range<usize>,
}

/// An identity provider, and where its keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provider {
    /// Without keys.
    pub(crate) issuer: Issuer,
    pub(crate) source: KeySource,
}

/// Where an identity provider publishes its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    File(std::path::PathBuf),
    Url(String),
}

/// What has become of each key and each issuer, which have their ids in common: added, changed or revoked. One that is
/// gone from the file is revoked.
pub(crate) fn changes(before: &KeyFile, after: &KeyFile) -> Vec<(Action, String)> {
    fn find<'f>(file: &'f KeyFile, id: &str) -> Option<&'f ApiKey> {
        file.keys.iter().find(|listed| listed.id == id).map(|listed| &listed.key)
    }
    let of_each = after.keys.iter().filter_map(|Listed { id, key, .. }| {
        let action = match find(before, id) {
            Some(known) if known == key => None,
            None if key.revoked => None,
            Some(known) if known.revoked && key.revoked => None,
            Some(known) if !known.revoked && key.revoked => Some(Action::KeyRevoked),
            Some(known) if !known.revoked => Some(Action::KeyChanged),
            Some(_) | None => Some(Action::KeyAdded),
        };
        Some((action?, id.clone()))
    });
    let gone = before.keys.iter().filter(|listed| !listed.key.revoked && find(after, &listed.id).is_none());
    let of_keys = of_each.chain(gone.map(|listed| (Action::KeyRevoked, listed.id.clone())));
    of_keys.chain(changed_issuers(&before.issuers, &after.issuers)).collect()
}

/// A token is worth what its issuer's entry says, so that is as good as a key.
fn changed_issuers<'f>(before: &'f [Provider], after: &'f [Provider]) -> impl Iterator<Item = (Action, String)> + 'f {
    fn find<'f>(providers: &'f [Provider], id: &str) -> Option<&'f Provider> {
        providers.iter().find(|provider| provider.issuer.id == id)
    }
    let of_each = after.iter().filter_map(|provider| {
        let action = match find(before, &provider.issuer.id) {
            Some(known) if known == provider => return None,
            Some(_) => Action::KeyChanged,
            None => Action::KeyAdded,
        };
        Some((action, provider.issuer.id.clone()))
    });
    let gone = before.iter().filter(|provider| find(after, &provider.issuer.id).is_none());
    of_each.chain(gone.map(|provider| (Action::KeyRevoked, provider.issuer.id.clone())))
}

pub(crate) fn parse(file: &Path, text: &str) -> Result<KeyFile, Faults> {
    let mut reader = Reader::new(file, text);
    let mut root = reader.root();
    let keys: Vec<_> = root.tables("key", &mut reader).into_iter().map(|key| read_key(key, &mut reader)).collect();
    let issuers: Vec<_> =
        root.tables("issuer", &mut reader).into_iter().map(|table| read_issuer(table, file, &mut reader)).collect();
    root.finish(&["key", "issuer"], &mut reader);
    let ids = keys.iter().map(|key| (key.id.as_str(), &key.id_span, "id"));
    let ids = ids.chain(issuers.iter().map(|(provider, span)| (provider.issuer.id.as_str(), span, "id")));
    let publics = keys.iter().map(|key| (key.key.public.as_str(), &key.id_span, "public"));
    refuse_twice(ids, &mut reader);
    refuse_twice(publics, &mut reader);
    let file = KeyFile { keys, issuers: issuers.into_iter().map(|(provider, _)| provider).collect() };
    Faults::none_or(reader.faults, file)
}

/// Two keys of one name could not be told apart in a journal.
fn refuse_twice<'k>(names: impl Iterator<Item = (&'k str, &'k Range<usize>, &'k str)>, reader: &mut Reader<'_>) {
    let mut seen = std::collections::BTreeSet::new();
    for (name, span, what) in names {
        if !name.is_empty() && !seen.insert(name) {
            reader.fault(span, "duplicate_key", format!("another entry has the {what} `{name}` already"), None);
        }
    }
}

fn read_key<'t>(mut table: Table<'t>, reader: &mut Reader<'t>) -> Listed {
    let (id, id_span) = table.required("id", reader);
    let actor = read_actor(&id, &id_span, reader);
    let (public, public_span) = table.required("public", reader);
    if public.contains(':') {
        reader.fault(
            &public_span,
            "invalid_key",
            "`public` may have no colon: `Basic` sends one after it".into(),
            None,
        );
    }
    let (digest, digest_span) = table.required("sha256", reader);
    let digest = Digest::parse(&digest).unwrap_or_else(|| {
        let hint = Some("`bosun keys create` writes it; a secret itself must not stand in this file".into());
        reader.fault(&digest_span, "invalid_key", "`sha256` must have 64 hexadecimal digits".into(), hint);
        Digest::of("")
    });
    let namespaces = read_namespaces(&mut table, reader);
    if namespaces.is_none() {
        reader.fault(table.span(), "missing_key", "`namespaces` is missing".into(), Some("[\"*\"] means all".into()));
    }
    let rights = read_rights(&mut table, reader);
    if rights.is_none() {
        reader.fault(table.span(), "missing_key", "`rights` is missing".into(), Some(known_rights()));
    }
    let may_act_for = match table.texts("may_act_for", reader) {
        Some(users) if users.iter().any(|(user, _)| user == "*") => EndUsers::Anybody,
        users => EndUsers::Listed(users.unwrap_or_default().into_iter().map(|(user, _)| user).collect()),
    };
    let created = table.moment("created", reader);
    let expires = table.moment("expires", reader);
    let revoked = table.moment("revoked", reader);
    table.finish(KEY_FIELDS, reader);
    let grant = Grant {
        actor,
        namespaces: namespaces.unwrap_or(Namespaces::Listed(Vec::new())),
        rights: rights.unwrap_or_default(),
        may_act_for,
        expires,
    };
    let key = ApiKey { public, digest, revoked: revoked.is_some(), grant };
    Listed { id, key, created, revoked, id_span }
}

fn read_actor(id: &str, span: &Range<usize>, reader: &mut Reader<'_>) -> Actor {
    Actor::of_key(id).unwrap_or_else(|error| {
        reader.fault(span, "invalid_key", error.to_string(), None);
        Actor::local()
    })
}

fn read_namespaces<'t>(table: &mut Table<'t>, reader: &mut Reader<'t>) -> Option<Namespaces> {
    let listed = table.texts("namespaces", reader)?;
    if listed.iter().any(|(name, _)| name == "*") {
        return Some(Namespaces::All);
    }
    let mut namespaces = Vec::new();
    for (name, span) in &listed {
        match name.parse() {
            Ok(namespace) => namespaces.push(namespace),
            Err(error) => {
                let error: bosun_core::id::IdError = error;
                reader.fault(span, "invalid_key", error.to_string(), None);
            }
        }
    }
    Some(Namespaces::Listed(namespaces))
}

fn read_rights<'t>(table: &mut Table<'t>, reader: &mut Reader<'t>) -> Option<Rights> {
    let listed = table.texts("rights", reader)?;
    let mut rights = Vec::new();
    for (word, span) in &listed {
        match parse_right(word) {
            Some(right) => rights.push(right),
            None => reader.fault(span, "invalid_key", format!("there is no right `{word}`"), Some(known_rights())),
        }
    }
    Some(rights.into_iter().collect())
}

pub(crate) fn parse_right(word: &str) -> Option<Right> {
    Right::ALL.iter().copied().find(|right| right.as_str() == word)
}

fn known_rights() -> String {
    let words: Vec<_> = Right::ALL.iter().map(|right| right.as_str()).collect();
    format!("rights are {}", words.join(", "))
}

fn read_issuer<'t>(mut table: Table<'t>, file: &Path, reader: &mut Reader<'t>) -> (Provider, Range<usize>) {
    let (id, id_span) = table.required("id", reader);
    read_actor(&id, &id_span, reader);
    let (issuer, _) = table.required("issuer", reader);
    let (audience, _) = table.required("audience", reader);
    let (jwks, jwks_span) = table.required("jwks", reader);
    let source = read_source(&jwks, &jwks_span, file, reader);
    let text =
        |table: &mut Table<'t>, name: &str, reader: &mut Reader<'t>| table.text(name, reader).map(|(text, _)| text);
    let user_claim = text(&mut table, "user_claim", reader).unwrap_or_else(|| "sub".into());
    let namespaces_claim = text(&mut table, "namespaces_claim", reader);
    let rights_claim = text(&mut table, "rights_claim", reader);
    let namespaces = read_namespaces(&mut table, reader).unwrap_or(Namespaces::Listed(Vec::new()));
    let rights = read_rights(&mut table, reader).unwrap_or_default();
    let leeway = table.text("leeway", reader).map_or(DEFAULT_LEEWAY, |(text, span)| {
        parse_duration(&text).unwrap_or_else(|| {
            reader.fault(&span, "invalid_key", format!("`{text}` is not a duration such as `60s`"), None);
            DEFAULT_LEEWAY
        })
    });
    table.finish(ISSUER_FIELDS, reader);
    let keys = Jwks::default();
    let issuer =
        Issuer { id, issuer, audience, user_claim, namespaces_claim, rights_claim, namespaces, rights, leeway, keys };
    (Provider { issuer, source }, id_span)
}

/// A URL, or a file beside this one. Keys that somebody on the way could exchange are worth nothing.
fn read_source(text: &str, span: &Range<usize>, file: &Path, reader: &mut Reader<'_>) -> KeySource {
    if !text.contains("://") {
        return KeySource::File(file.parent().unwrap_or(Path::new("")).join(text));
    }
    let url = reqwest::Url::parse(text).ok();
    let is_safe = url.is_some_and(|url| {
        let host = url.host_str().unwrap_or_default();
        let loopback = host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        url.scheme() == "https" || (url.scheme() == "http" && loopback)
    });
    if !is_safe {
        reader.fault(span, "invalid_key", format!("`{text}` is not an https URL"), None);
    }
    KeySource::Url(text.to_owned())
}

/// The whole file as a fault.
pub(crate) fn unusable(file: &Path, message: String, hint: Option<String>) -> Faults {
    Fault { file: file.to_owned(), place: None, code: "keys_unusable", message, hint }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        [[key]]
        id = "ci"
        public = "pk-ark-1"
        sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        namespaces = ["team-a", "default"]
        rights = ["read", "run"]
        may_act_for = ["*"]
        expires = 2027-01-31T12:00:00Z

        [[issuer]]
        id = "corp"
        issuer = "https://id.example.org"
        audience = "bosun"
        jwks = "keys/corp.json"
        rights_claim = "scope"
        namespaces = ["*"]
        leeway = "10s"
    "#;

    #[test]
    fn keys_and_issuers_are_read() {
        let file = parse(Path::new("/etc/bosun/keys.toml"), GOOD).unwrap();
        let Listed { id, key, .. } = &file.keys[0];
        assert_eq!((id.as_str(), key.public.as_str(), key.revoked), ("ci", "pk-ark-1", false));
        assert_eq!(key.grant.namespaces.own().as_str(), "team-a");
        assert_eq!(key.grant.rights.iter().collect::<Vec<_>>(), [Right::Read, Right::Run]);
        assert_eq!(key.grant.may_act_for, EndUsers::Anybody);
        assert_eq!(key.grant.expires.unwrap().to_rfc3339(), "2027-01-31T12:00:00.000Z");
        let Provider { issuer, source } = &file.issuers[0];
        assert_eq!(*source, KeySource::File("/etc/bosun/keys/corp.json".into()));
        assert_eq!((issuer.leeway.as_secs(), issuer.user_claim.as_str()), (10, "sub"));
    }

    #[track_caller]
    fn check(from: &str, to: &str, expect: &[&str]) {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replace(from, to);
        let said = parse(Path::new("keys.toml"), &text).unwrap_err().to_string();
        for sentence in expect {
            assert!(said.contains(sentence), "`{sentence}` is not in:\n{said}");
        }
    }

    #[test]
    fn every_fault_has_its_place() {
        check("id = \"ci\"", "id = \"a b\"", &["keys.toml:3:14: a key must have an id", "[invalid_key]"]);
        check("id = \"ci\"", "", &["keys.toml:2:9: `id` is missing [missing_key]"]);
        check("sha256 = \"e3b0", "sha256 = \"sk-ark-", &["keys.toml:5:18:", "a secret itself must not stand"]);
        check("\"team-a\"", "\"Team\"", &["keys.toml:6:23: namespace `Team` must be"]);
        check(
            "\"run\"",
            "\"write\"",
            &["keys.toml:7:27: there is no right `write`", "read, run, deliver, manage, audit"],
        );
        check(
            "rights = [\"read\", \"run\"]",
            "rights = \"read\"",
            &["keys.toml:7:18: `rights` must be a list of strings"],
        );
        check(
            "rights = [\"read\", \"run\"]",
            "rigths = []",
            &["there is no `rigths`", "did you mean `rights`?", "`rights` is missing"],
        );
        check("2027-01-31T12:00:00Z", "\"soon\"", &["keys.toml:9:19: `expires` must be a date"]);
        check("2027-01-31T12:00:00Z", "2027-01-31", &["`expires` must be a date with a time and an offset"]);
        check("\"pk-ark-1\"", "\"pk:1\"", &["`public` may have no colon"]);
        check("\"corp\"", "\"ci\"", &["another entry has the id `ci` already [duplicate_key]"]);
        check("\"keys/corp.json\"", "\"http://id.example.org/jwks\"", &["is not an https URL"]);
        check("\"10s\"", "\"soon\"", &["`soon` is not a duration"]);
        check("[[issuer]]", "[issuer]", &["`issuer` must be a list of tables"]);
        check("[[issuer]]", "[[issuers]]", &["there is no `issuers` here", "did you mean `issuer`?"]);
        check("[[key]]", "[[key", &["keys.toml:2:", "[invalid_toml]"]);
    }

    #[test]
    fn all_faults_are_told_at_once() {
        let text =
            GOOD.replace("\"run\"", "\"write\"").replace("\"team-a\"", "\"Team\"").replace("\"10s\"", "\"soon\"");
        assert_eq!(parse(Path::new("keys.toml"), &text).unwrap_err().iter().count(), 3);
    }
}
