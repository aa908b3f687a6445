//! Content hashes: the identity of a toolset, an argument list or a result, in 32 bytes.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};

use crate::{hex, id_serde::serde_as_string};

/// Hexadecimal digits of a hash.
const DIGITS: usize = 64;

/// The SHA-256 of some bytes; of JSON, always of its canonical form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of several parts, each with its length, so that no two lists of parts have the same input.
    #[must_use]
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn encode<'a>(&self, text: &'a mut [u8; DIGITS]) -> &'a str {
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&hex::digits(byte));
        }
        str::from_utf8(text).unwrap_or_default()
    }
}

serde_as_string!(ContentHash, DIGITS);

/// An incremental hash.
#[derive(Clone, Default)]
pub struct Hashing(Sha256);

impl Hashing {
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The same as [`ContentHash::of`] all bytes that were pushed.
    #[must_use]
    pub fn finish(self) -> ContentHash {
        ContentHash(self.0.finalize().into())
    }
}

impl fmt::Debug for Hashing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hashing").finish_non_exhaustive()
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.encode(&mut [0; DIGITS]))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The text was not 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a content hash has 64 hexadecimal digits")]
pub struct NotAHash;

impl FromStr for ContentHash {
    type Err = NotAHash;
    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let mut bytes = [0; 32];
        if text.len() != DIGITS {
            return Err(NotAHash);
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = hex::byte(pair[0], pair[1]).ok_or(NotAHash)?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for ContentHash {
    type Error = NotAHash;
    fn try_from(text: String) -> Result<Self, NotAHash> {
        text.parse()
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> Self {
        hash.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_survives_its_text() {
        let hash = ContentHash::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse(), Ok(hash));
        assert_eq!(text.to_uppercase().parse(), Ok(hash));
    }

    #[test]
    fn chunks_hash_as_the_whole() {
        let mut hashing = Hashing::default();
        [&b"a"[..], b"", b"bc"].iter().for_each(|piece| hashing.push(piece));
        assert_eq!(hashing.finish(), ContentHash::of(b"abc"));
    }

    #[test]
    fn other_text_is_not_a_hash() {
        for text in ["", "0", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32), &" 0".repeat(32)] {
            assert_eq!(text.parse::<ContentHash>(), Err(NotAHash), "{text}");
        }
    }
}
