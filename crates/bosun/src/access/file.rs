//! `keys.toml`: keys and identity providers with their rights, as an operator writes them.
//!
//! Only digests of secrets are stored here. Every fault of the file is reported, with its line and column, and a file
//! with faults is not used at all: half a policy would be another policy.

use std::{path::Path, time::Duration};

use bosun_core::{Actor, Timestamp, audit::Action};
use bosun_edges::auth::{
    EndUsers, Grant, Namespaces, Right, Rights,
    jwt::{Issuer, Jwks},
    keys::{ApiKey, Digest},
};
use bosun_reading::{Fault, Faults, Fields, Report, SourcePlace, Syntax, Text, toml};

const DEFAULT_LEEWAY: Duration = Duration::from_secs(60);

/// The content of the file.
#[derive(Debug)]
pub(crate) struct KeyFile {
    pub(crate) keys: Vec<Listed>,
    pub(crate) issuers: Vec<Provider>,
}

/// A key, with the fields that only its operator needs.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) key: ApiKey,
    pub(crate) created: Option<Timestamp>,
    pub(crate) revoked: Option<Timestamp>,
    /// Where its id is in the file.
    pub(crate) id_place: SourcePlace,
}

/// An identity provider, and the source of its keys.
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

/// The changes of keys and issuers, which share one space of ids: added, changed or revoked. An entry that was removed
/// from the file counts as revoked.
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

/// The rights of a token come from its issuer's entry, so an issuer is treated like a key.
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
    let root = toml::parse(file, text)?;
    let report = Report::of_file(file, Syntax::Toml);
    let Some(root) = report.fields(&root, "") else { return Err(unusable(file, "is not a table".into(), None)) };
    let keys: Vec<_> = root.entries("key").iter().map(read_key).collect();
    let issuers: Vec<_> = root.entries("issuer").iter().map(|fields| read_issuer(fields, file)).collect();
    root.finish();
    let ids = keys.iter().map(|key| (key.id.as_str(), key.id_place, "id"));
    let ids = ids.chain(issuers.iter().map(|(provider, place)| (provider.issuer.id.as_str(), *place, "id")));
    let publics = keys.iter().map(|key| (key.key.public.as_str(), key.id_place, "public"));
    refuse_twice(ids, &root);
    refuse_twice(publics, &root);
    drop(root);
    let file = KeyFile { keys, issuers: issuers.into_iter().map(|(provider, _)| provider).collect() };
    Faults::none_or(report.into_faults(), file)
}

/// Two keys with the same name could not be distinguished in a journal.
fn refuse_twice<'k>(names: impl Iterator<Item = (&'k str, SourcePlace, &'k str)>, root: &Fields<'_>) {
    let mut seen = std::collections::BTreeSet::new();
    for (name, place, what) in names {
        if !name.is_empty() && !seen.insert(name) {
            root.fault(place, "duplicate_key", format!("another entry has the {what} `{name}` already"), "");
        }
    }
}

/// A required text. The empty placeholder of a missing one is never used, since the file then has a fault.
fn required<'n>(fields: &Fields<'n>, name: &str) -> Text<'n> {
    fields.required_text(name, "").unwrap_or(Text { value: "", place: fields.place() })
}

fn read_key(fields: &Fields<'_>) -> Listed {
    let id = required(fields, "id");
    let actor = read_actor(id, fields);
    let public = required(fields, "public");
    if public.value.contains(':') {
        let message = "`public` must not contain a colon, which separates it from the secret in `Basic`";
        fields.fault_of("public", "invalid_key", message, "");
    }
    let digest = Digest::parse(required(fields, "sha256").value).unwrap_or_else(|| {
        let hint = "`bosun keys create` writes it; a secret itself must not be in this file";
        fields.fault_of("sha256", "invalid_key", "`sha256` must have 64 hexadecimal digits", hint);
        Digest::of("")
    });
    fields.require("namespaces", "[\"*\"] means all");
    let namespaces = read_namespaces(fields);
    fields.require("rights", &known_rights());
    let rights = read_rights(fields);
    let may_act_for = match fields.text_list("may_act_for") {
        Some(users) if users.iter().any(|user| user.value == "*") => EndUsers::Any,
        users => EndUsers::Listed(users.unwrap_or_default().iter().map(|user| user.value.to_owned()).collect()),
    };
    let created = fields.moment("created");
    let expires = fields.moment("expires");
    let revoked = fields.moment("revoked");
    fields.finish();
    let grant = Grant {
        actor,
        namespaces: namespaces.unwrap_or(Namespaces::Listed(Vec::new())),
        rights: rights.unwrap_or_default(),
        may_act_for,
        expires,
    };
    let key = ApiKey { public: public.value.to_owned(), digest, revoked: revoked.is_some(), grant };
    Listed { id: id.value.to_owned(), key, created, revoked, id_place: id.place }
}

fn read_actor(id: Text<'_>, fields: &Fields<'_>) -> Actor {
    Actor::of_key(id.value).unwrap_or_else(|error| {
        fields.fault(id.place, "invalid_key", error.to_string(), "");
        Actor::local()
    })
}

fn read_namespaces(fields: &Fields<'_>) -> Option<Namespaces> {
    let listed = fields.text_list("namespaces")?;
    if listed.iter().any(|name| name.value == "*") {
        return Some(Namespaces::All);
    }
    let mut namespaces = Vec::new();
    for name in &listed {
        match name.value.parse() {
            Ok(namespace) => namespaces.push(namespace),
            Err(error) => {
                let error: bosun_core::id::IdError = error;
                fields.fault(name.place, "invalid_key", error.to_string(), "");
            }
        }
    }
    Some(Namespaces::Listed(namespaces))
}

fn read_rights(fields: &Fields<'_>) -> Option<Rights> {
    let listed = fields.text_list("rights")?;
    let mut rights = Vec::new();
    for word in &listed {
        match parse_right(word.value) {
            Some(right) => rights.push(right),
            None => {
                let message = format!("there is no right `{}`", word.value);
                fields.fault(word.place, "invalid_key", message, known_rights());
            }
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

fn read_issuer(fields: &Fields<'_>, file: &Path) -> (Provider, SourcePlace) {
    let id = required(fields, "id");
    read_actor(id, fields);
    let text = |name: &str| fields.text(name).map(|text| text.value.to_owned());
    let issuer = required(fields, "issuer").value.to_owned();
    let audience = required(fields, "audience").value.to_owned();
    let source = read_source(required(fields, "jwks").value, file, fields);
    let user_claim = text("user_claim").unwrap_or_else(|| "sub".into());
    let namespaces_claim = text("namespaces_claim");
    let rights_claim = text("rights_claim");
    let namespaces = read_namespaces(fields).unwrap_or(Namespaces::Listed(Vec::new()));
    let rights = read_rights(fields).unwrap_or_default();
    let leeway = fields.positive_duration("leeway").unwrap_or(DEFAULT_LEEWAY);
    fields.finish();
    let keys = Jwks::default();
    let issuer = Issuer {
        id: id.value.to_owned(),
        issuer,
        audience,
        user_claim,
        namespaces_claim,
        rights_claim,
        namespaces,
        rights,
        leeway,
        keys,
    };
    (Provider { issuer, source }, id.place)
}

/// A URL, or a file next to this one. Keys that could be replaced in transit are refused.
fn read_source(text: &str, file: &Path, fields: &Fields<'_>) -> KeySource {
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
        fields.fault_of("jwks", "invalid_key", format!("`{text}` is not an https URL"), "");
    }
    KeySource::Url(text.to_owned())
}

/// The whole file as a fault.
pub(crate) fn unusable(file: &Path, message: String, hint: Option<String>) -> Faults {
    Fault::of_file(file, "keys_unusable", message).hint(hint.unwrap_or_default()).into()
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
        assert_eq!(key.grant.may_act_for, EndUsers::Any);
        assert_eq!(key.grant.expires.unwrap().to_rfc3339(), "2027-01-31T12:00:00.000Z");
        let Provider { issuer, source } = &file.issuers[0];
        assert_eq!(*source, KeySource::File("/etc/bosun/keys/corp.json".into()));
        assert_eq!((issuer.leeway.as_secs(), issuer.user_claim.as_str()), (10, "sub"));
    }

    #[track_caller]
    fn check(from: &str, to: &str, expect: &[&str]) {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replace(from, to);
        let message = parse(Path::new("keys.toml"), &text).unwrap_err().to_string();
        for sentence in expect {
            assert!(message.contains(sentence), "`{sentence}` is not in:\n{message}");
        }
    }

    #[test]
    fn every_fault_has_its_place() {
        check("id = \"ci\"", "id = \"a b\"", &["keys.toml:3:14: a key must have an id", "[invalid_key]"]);
        check("id = \"ci\"", "", &["keys.toml:2:9: `id` is missing [missing_field]"]);
        check("sha256 = \"e3b0", "sha256 = \"sk-ark-", &["keys.toml:5:18:", "a secret itself must not be"]);
        check("\"team-a\"", "\"Team\"", &["keys.toml:6:23: namespace `Team` must be"]);
        check(
            "\"run\"",
            "\"write\"",
            &["keys.toml:7:27: there is no right `write`", "read, run, deliver, approve, manage, audit"],
        );
        check(
            "rights = [\"read\", \"run\"]",
            "rights = \"read\"",
            &["keys.toml:7:18: `rights` must be a list of strings"],
        );
        check(
            "rights = [\"read\", \"run\"]",
            "rigths = []",
            &["has no field `rigths`", "did you mean `rights`?", "`rights` is missing"],
        );
        check("2027-01-31T12:00:00Z", "\"soon\"", &["keys.toml:9:19: `expires` must be a date"]);
        check("2027-01-31T12:00:00Z", "2027-01-31", &["`expires` must be a date with a time and an offset"]);
        check("\"pk-ark-1\"", "\"pk:1\"", &["`public` must not contain a colon"]);
        check("\"corp\"", "\"ci\"", &["another entry has the id `ci` already [duplicate_key]"]);
        check("\"keys/corp.json\"", "\"http://id.example.org/jwks\"", &["is not an https URL"]);
        check("\"10s\"", "\"soon\"", &["`leeway` is `soon`, which is not a duration above zero"]);
        check("[[issuer]]", "[issuer]", &["`issuer` must be a list"]);
        check("[[issuer]]", "[[issuers]]", &["unknown field `issuers`", "did you mean `issuer`?"]);
        check("[[key]]", "[[key", &["keys.toml:2:", "[invalid_toml]"]);
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let text =
            GOOD.replace("\"run\"", "\"write\"").replace("\"team-a\"", "\"Team\"").replace("\"10s\"", "\"soon\"");
        assert_eq!(parse(Path::new("keys.toml"), &text).unwrap_err().iter().count(), 3);
    }
}
