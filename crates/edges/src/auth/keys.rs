//! Keys: random secrets of which only the digest is known here.
//!
//! A secret has 256 random bits, so a fast hash of it is as safe as a slow one: there is nothing to
//! guess. A key is looked up by its digest or its public half and then compared in constant time, so
//! the time that a refusal takes reveals nothing about how much of a secret was right.

use std::{collections::HashMap, fmt};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bosun_core::{ContentHash, Timestamp, hex};
use subtle::ConstantTimeEq as _;

use super::{Grant, Namespaces};

/// The prefixes by which ARK's clients distinguish the two halves of a key.
const PUBLIC_PREFIX: &str = "pk-ark-";
const SECRET_PREFIX: &str = "sk-ark-";

/// SHA-256 of a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(*ContentHash::of(secret.as_bytes()).as_bytes())
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<ContentHash>().ok().map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(formatter, &self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// One key, as a server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// What `Basic` sends before the colon.
    pub public: String,
    pub digest: Digest,
    pub revoked: bool,
    pub grant: Grant,
}

/// The two halves of a new key. The secret is shown once, to the operator who created the key.
pub struct NewKey {
    pub public: String,
    pub secret: String,
}

impl NewKey {
    /// Makes the halves from the caller's random bytes.
    #[must_use]
    pub fn from_random(public: [u8; 12], secret: [u8; 32]) -> Self {
        let text = |prefix: &str, bytes: &[u8]| format!("{prefix}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
        Self { public: text(PUBLIC_PREFIX, &public), secret: text(SECRET_PREFIX, &secret) }
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NewKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// All keys of a server, found by either half.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    keys: Vec<ApiKey>,
    by_digest: HashMap<Digest, usize>,
    by_public: HashMap<String, usize>,
}

impl Keyring {
    #[must_use]
    pub fn new(keys: Vec<ApiKey>) -> Self {
        let by_digest = keys.iter().enumerate().map(|(index, key)| (key.digest, index)).collect();
        let by_public = keys.iter().enumerate().map(|(index, key)| (key.public.clone(), index)).collect();
        Self { keys, by_digest, by_public }
    }

    /// What the holder of `secret` may do at `now`.
    pub(super) fn verify(&self, public: Option<&str>, secret: &str, now: Timestamp) -> Option<(Digest, &Grant)> {
        let shown = Digest::of(secret);
        let found = match public {
            Some(public) => self.by_public.get(public),
            None => self.by_digest.get(&shown),
        };
        let key = self.keys.get(*found?)?;
        let same: bool = key.digest.0.ct_eq(&shown.0).into();
        (same && !key.revoked && key.grant.holds_at(now)).then_some((key.digest, &key.grant))
    }

    /// Whether a key is not revoked.
    pub(super) fn has_active(&self) -> bool {
        self.keys.iter().any(|key| !key.revoked)
    }

    /// The namespaces of each key that is not revoked.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Namespaces> {
        self.keys.iter().filter(|key| !key.revoked).map(|key| &key.grant.namespaces)
    }

    /// What a key that was verified before may still do.
    pub(super) fn revalidate(&self, digest: Digest, now: Timestamp) -> Option<&Grant> {
        let key = self.keys.get(*self.by_digest.get(&digest)?)?;
        (!key.revoked && key.grant.holds_at(now)).then_some(&key.grant)
    }
}

#[cfg(test)]
mod tests {
    use bosun_core::Actor;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn key(id: &str, secret: &str) -> ApiKey {
        let grant = Grant { actor: Actor::of_key(id).unwrap(), ..Grant::everything() };
        ApiKey { public: format!("pk-ark-{id}"), digest: Digest::of(secret), revoked: false, grant }
    }

    #[track_caller]
    fn check(ring: &Keyring, public: Option<&str>, secret: &str, expect: Option<&str>) {
        let found = ring.verify(public, secret, NOW).map(|(_, grant)| grant.actor.key().unwrap());
        assert_eq!(found, expect, "{public:?} {secret}");
    }

    #[test]
    fn a_key_is_found_by_either_half_and_only_with_its_secret() {
        let ring = Keyring::new(vec![key("a", "sk-a"), key("b", "sk-b")]);
        check(&ring, None, "sk-a", Some("a"));
        check(&ring, None, "sk-b", Some("b"));
        check(&ring, Some("pk-ark-b"), "sk-b", Some("b"));
        check(&ring, Some("pk-ark-b"), "sk-a", None);
        check(&ring, Some("pk-ark-c"), "sk-a", None);
        check(&ring, None, "sk-c", None);
        check(&ring, None, "", None);
        check(&ring, None, "pk-ark-a", None);
        check(&ring, None, &Digest::of("sk-a").to_string(), None);
    }

    #[test]
    fn a_revoked_or_expired_key_is_as_good_as_none() {
        let mut revoked = key("a", "sk-a");
        revoked.revoked = true;
        let (mut over, mut lasting) = (key("b", "sk-b"), key("c", "sk-c"));
        over.grant.expires = Some(NOW);
        lasting.grant.expires = Some(Timestamp(NOW.0 + 1));
        let digest = revoked.digest;
        let ring = Keyring::new(vec![revoked, over, lasting]);
        check(&ring, None, "sk-a", None);
        check(&ring, Some("pk-ark-a"), "sk-a", None);
        check(&ring, None, "sk-b", None);
        check(&ring, None, "sk-c", Some("c"));
        assert_eq!(ring.revalidate(digest, NOW), None);
        assert!(ring.revalidate(Digest::of("sk-c"), NOW).is_some());
        assert_eq!(ring.revalidate(Digest::of("sk-c"), Timestamp(NOW.0 + 1)), None);
    }

    #[test]
    fn a_new_key_looks_like_one_of_arks() {
        let key = NewKey::from_random([7; 12], [8; 32]);
        assert_eq!(key.public, "pk-ark-BwcHBwcHBwcHBwcH");
        assert_eq!(key.secret.len(), "sk-ark-".len() + 43);
        assert!(!format!("{key:?}").contains(&key.secret));
        let digest = Digest::of(&key.secret);
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
    }
}
