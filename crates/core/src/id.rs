//! Names and ids.
//!
//! Ids are made from parts that the caller passes in (time, random bytes, a parent), so that this crate needs neither a
//! clock nor a source of randomness and every id is reproducible in a test.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    ContentHash, Timestamp,
    id_serde::{self, serde_as_string},
};

/// Why a name or an id is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("namespace `{0}` must be 1 to 63 characters of a-z, 0-9 and `-`, and begin and end with a letter or digit")]
    Namespace(String),
    #[error(
        "name `{0}` must be 1 to 253 characters of a-z, 0-9, `-` and `.`, and begin and end with a letter or digit"
    )]
    QueryName(String),
    #[error("`{0}` is not a query id")]
    QueryUid(String),
    #[error("`{0}` is not a call id")]
    CallId(String),
}

/// The tenant that a query, agent or tool belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(Arc<str>);

/// The name of a query, chosen by its client; unique among the live queries of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryName(Arc<str>);

/// DNS-1123, the rule for names in Kubernetes and therefore in ARK. The same set is safe in paths and in SQL.
fn is_dns_name(text: &str, longest: usize, dots: bool) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    bytes.len() <= longest
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-' || (dots && *byte == b'.'))
}

macro_rules! text_name {
    ($type:ident, $longest:expr, $dots:expr) => {
        impl $type {
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                if is_dns_name(text, $longest, $dots) { Ok(Self(text.into())) } else { Err(IdError::$type(clip(text))) }
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                id_serde::deserialize(deserializer)
            }
        }

        impl TryFrom<String> for $type {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

text_name!(Namespace, 63, false);
text_name!(QueryName, 253, true);

impl Default for Namespace {
    fn default() -> Self {
        Self("default".into())
    }
}

impl Namespace {
    /// The namespace of audit records that concern the server and no tenant.
    #[must_use]
    pub fn of_server() -> Self {
        Self("bosun-server".into())
    }
}

impl QueryName {
    /// The name of a query whose client did not choose one.
    #[must_use]
    pub fn for_uid(uid: QueryUid) -> Self {
        Self(format!("query-{}", uid.0.simple()).into())
    }

    /// The name of a query whose client chose none, but sent an idempotency key: a retry then finds it under the same
    /// name.
    #[must_use]
    pub fn for_request(request: ContentHash) -> Self {
        let mut text = request.to_string();
        text.truncate(32);
        Self(format!("query-{text}").into())
    }
}

/// The permanent identity of a query. A UUIDv7, so ids sort by creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueryUid(Uuid);

impl QueryUid {
    /// A version 7 UUID from a time in milliseconds and ten random bytes.
    #[must_use]
    pub fn new(millis: u64, random: [u8; 10]) -> Self {
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// The id of the query that answers a call of `parent`. It is derived from both, so that a creation that is repeated
    /// after a crash finds the query of the first one. It sorts right after its parent.
    #[must_use]
    pub fn for_child(parent: Self, call: CallId) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"bosun.child.1");
        hash.update(parent.as_bytes());
        hash.update(call.0);
        let digest = hash.finalize();
        let (mut millis, mut random) = ([0; 8], [0; 10]);
        millis[2..].copy_from_slice(&parent.as_bytes()[..6]);
        random.copy_from_slice(&digest[..10]);
        Self::new(u64::from_be_bytes(millis), random)
    }

    /// The smallest one of this time or later: what was created before is smaller.
    #[must_use]
    pub fn first_at(time: Timestamp) -> Self {
        Self::new(u64::try_from(time.0).unwrap_or(0), [0; 10])
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for QueryUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(formatter)
    }
}

impl fmt::Debug for QueryUid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for QueryUid {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        Uuid::try_parse(text).map(Self).map_err(|_| IdError::QueryUid(clip(text)))
    }
}

const CALL_PREFIX: &str = "call_";
const CALL_DIGITS: usize = 26;
const CALL_LENGTH: usize = CALL_PREFIX.len() + CALL_DIGITS;
/// Crockford's base 32: no letter that could be mistaken for a digit.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'h' | b'j' | b'k' | b'm' | b'n' | b'p'..=b't' | b'v'..=b'z')
}

/// The identity of one tool call: `call_` and 26 characters, since OpenAI caps ids at 40.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId([u8; CALL_DIGITS]);

impl CallId {
    /// The id of the `index`th call of a turn. It is derived from the query alone, so a turn that is run again after a
    /// crash uses the same ids, and no client can guess one.
    #[must_use]
    pub fn derive(query: QueryUid, turn: u32, index: u32) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"bosun.call.1");
        hash.update(query.as_bytes());
        hash.update(turn.to_be_bytes());
        hash.update(index.to_be_bytes());
        let digest = hash.finalize();
        let mut digits = [0; CALL_DIGITS];
        for (index, digit) in digits.iter_mut().enumerate() {
            let bit = index * 5;
            let pair = u16::from_be_bytes([digest[bit / 8], digest[bit / 8 + 1]]);
            *digit = ALPHABET[usize::from(pair >> (11 - bit % 8) & 31)];
        }
        Self(digits)
    }

    fn encode<'a>(&self, text: &'a mut [u8; CALL_LENGTH]) -> &'a str {
        let (prefix, digits) = text.split_at_mut(CALL_PREFIX.len());
        prefix.copy_from_slice(CALL_PREFIX.as_bytes());
        digits.copy_from_slice(&self.0);
        // Only `derive` and `from_str` make one, and both write ASCII.
        str::from_utf8(text).unwrap_or_default()
    }
}

serde_as_string!(CallId, CALL_LENGTH);

impl fmt::Display for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.encode(&mut [0; CALL_LENGTH]))
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for CallId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        text.strip_prefix(CALL_PREFIX)
            .and_then(|digits| <[u8; CALL_DIGITS]>::try_from(digits.as_bytes()).ok())
            .filter(|digits| digits.iter().all(|digit| is_digit(*digit)))
            .map(Self)
            .ok_or_else(|| IdError::CallId(clip(text)))
    }
}

impl TryFrom<String> for CallId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<CallId> for String {
    fn from(id: CallId) -> Self {
        id.to_string()
    }
}

/// Shortens and sanitises a name for an error: not a megabyte of it, and no control characters.
fn clip(text: &str) -> String {
    crate::text::clip(text, 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_names() {
        for good in ["a", "default", "a-b", "0", &"a".repeat(63)] {
            assert_eq!(good.parse::<Namespace>().unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", "a/b", "ä", "a b", "a\n", &"a".repeat(64)] {
            assert!(bad.parse::<Namespace>().is_err(), "{bad:?}");
        }
        assert!("my.query".parse::<QueryName>().is_ok());
        assert!(".query".parse::<QueryName>().is_err());
    }

    #[test]
    fn a_call_id_follows_from_query_turn_and_index() {
        let query = QueryUid::new(1_700_000_000_000, [7; 10]);
        let id = CallId::derive(query, 1, 0);
        assert_eq!(id, CallId::derive(query, 1, 0));
        assert_ne!(id, CallId::derive(query, 1, 1));
        assert_ne!(id, CallId::derive(query, 2, 0));
        assert_eq!(id.to_string().len(), 31);
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn the_digits_of_a_call_id_are_its_alphabet() {
        let digits: Vec<u8> = (0..=u8::MAX).filter(|byte| is_digit(*byte)).collect();
        assert_eq!(digits, ALPHABET);
    }

    #[test]
    fn ids_are_texts_in_json() {
        let id = CallId::derive(QueryUid::new(1_700_000_000_000, [7; 10]), 1, 0);
        assert_eq!(serde_json::to_value(id).unwrap(), id.to_string());
        assert_eq!(serde_json::from_value::<CallId>(id.to_string().into()).unwrap(), id);
        assert_eq!(serde_json::from_str::<Namespace>("\"a\\u002db\"").unwrap().as_str(), "a-b");
        let refused = serde_json::from_str::<QueryName>("\"A\"").unwrap_err().to_string();
        assert!(refused.starts_with("name `A` must be"), "{refused}");
        assert!(serde_json::from_str::<CallId>("7").is_err());
    }

    #[test]
    fn a_foreign_call_id_is_refused() {
        for bad in ["", "call_", "call_1", "toolu_01", &format!("call_{}", "u".repeat(26))] {
            assert!(bad.parse::<CallId>().is_err(), "{bad:?}");
        }
    }
}
