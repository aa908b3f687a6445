//! The caller's identity: a key, and the end user that it acts for.
//!
//! An edge derives an actor from the credentials of a request, and every action carries it: journals record who did
//! what, and idempotency keys and caches are scoped to one actor. A server without authentication has one actor, the
//! local one, which is omitted from journals. Permissions are not part of an actor: they are checked before one is
//! made.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const LONGEST_KEY: usize = 64;
const LONGEST_USER: usize = 256;

/// The identity of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(Option<Arc<Identity>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "WrittenActor")]
struct Identity {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// `ci`, `ci/alice`. A key contains no `/`, so everything before the first one is the key.
    #[serde(skip)]
    name: Arc<str>,
}

/// An identity as it is stored in a journal.
#[derive(Deserialize)]
struct WrittenActor {
    key: String,
    #[serde(default)]
    user: Option<String>,
}

impl From<WrittenActor> for Identity {
    fn from(WrittenActor { key, user }: WrittenActor) -> Self {
        let name = user.as_ref().map_or_else(|| key.as_str().into(), |user| format!("{key}/{user}").into());
        Self { key, user, name }
    }
}

/// Why a name is not a valid identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActorError {
    #[error("a key must have an id of 1 to {LONGEST_KEY} characters of A-Z, a-z, 0-9, `.`, `_` and `-`")]
    Key,
    #[error("an end user must have a name of 1 to {LONGEST_USER} bytes without control characters")]
    User,
}

impl Actor {
    /// The caller of a server without authentication: all of them share one identity.
    #[must_use]
    pub fn local() -> Self {
        Self(None)
    }

    /// The holder of a key.
    ///
    /// # Errors
    /// If `id` is too long, or has characters that would make two actors look like one.
    pub fn of_key(id: &str) -> Result<Self, ActorError> {
        let fits = (1..=LONGEST_KEY).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
        if !fits {
            return Err(ActorError::Key);
        }
        Ok(Self(Some(Arc::new(WrittenActor { key: id.to_owned(), user: None }.into()))))
    }

    /// The same key, acting for `user`. The local actor has no key that could vouch for a user, and stays local.
    ///
    /// # Errors
    /// If `user` is empty, too long, or not printable.
    pub fn acting_for(&self, user: &str) -> Result<Self, ActorError> {
        if !(1..=LONGEST_USER).contains(&user.len()) || user.chars().any(char::is_control) {
            return Err(ActorError::User);
        }
        let identity = |known: &Arc<Identity>| WrittenActor { key: known.key.clone(), user: Some(user.to_owned()) };
        Ok(Self(self.0.as_ref().map(|known| Arc::new(identity(known).into()))))
    }

    /// Display name: `local`, `ci`, `ci/alice`.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        static LOCAL: LazyLock<Arc<str>> = LazyLock::new(|| "local".into());
        self.0.as_deref().map_or_else(|| Arc::clone(&LOCAL), |identity| Arc::clone(&identity.name))
    }

    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0.is_none()
    }

    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.as_deref().map(|identity| identity.key.as_str())
    }

    /// The end user, where the key acts for one.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.0.as_deref().and_then(|identity| identity.user.as_deref())
    }

    /// A unique text for each actor, by which rows are looked up. The local actor's is empty, as it was before there
    /// were others.
    #[must_use]
    pub fn id(&self) -> String {
        self.0.as_deref().map(|identity| identity.name.to_string()).unwrap_or_default()
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name())
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_deref().serialize(serializer)
    }
}

/// Accepts whatever was written, also by a version with other rules for names: a journal is trusted.
impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<Identity>::deserialize(deserializer).map(|identity| Self(identity.map(Arc::new)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn actor(key: &str, user: Option<&str>) -> Actor {
        let actor = Actor::of_key(key).unwrap();
        user.map_or(actor.clone(), |user| actor.acting_for(user).unwrap())
    }

    #[test]
    fn two_actors_never_have_the_same_id() {
        let all = [
            Actor::local(),
            actor("ci", None),
            actor("ci", Some("alice")),
            actor("ci", Some("alice/ci")),
            actor("ci", Some("/alice")),
            actor("ci.alice", None),
            actor("alice", Some("ci")),
        ];
        for (index, one) in all.iter().enumerate() {
            for (other_index, other) in all.iter().enumerate() {
                assert_eq!(one.id() == other.id(), index == other_index, "{one} and {other}");
            }
        }
        assert_eq!(Actor::local().id(), "");
        assert_eq!((Actor::local().to_string(), all[2].to_string()), ("local".into(), "ci/alice".into()));
    }

    #[test]
    fn an_ambiguous_name_is_refused() {
        for bad in ["", "a/b", "a b", "ä", "a\n", &"a".repeat(65)] {
            assert_eq!(Actor::of_key(bad), Err(ActorError::Key), "{bad:?}");
        }
        for bad in ["", "alice\n", "\u{0}", &"a".repeat(257)] {
            assert_eq!(actor("ci", None).acting_for(bad), Err(ActorError::User), "{bad:?}");
        }
        assert_eq!(actor("ci", Some("Ünal Öz <u@example.org>")).user(), Some("Ünal Öz <u@example.org>"));
    }

    #[test]
    fn the_local_actor_cannot_vouch_for_a_user() {
        assert_eq!(Actor::local().acting_for("alice"), Ok(Actor::local()));
    }

    #[test]
    fn actors_are_read_back_as_they_were_written() {
        for (one, written) in [
            (Actor::local(), json!(null)),
            (actor("ci", None), json!({"key": "ci"})),
            (actor("ci", Some("alice")), json!({"key": "ci", "user": "alice"})),
        ] {
            assert_eq!(serde_json::to_value(&one).unwrap(), written);
            assert_eq!(serde_json::from_value::<Actor>(written).unwrap(), one);
        }
    }
}
