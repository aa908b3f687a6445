//! Serde for ids and hashes as strings, without an allocation.
//!
//! A head consists of little else. A `String` for each would be most of the cost of reading and writing one.

use std::{fmt, marker::PhantomData, str::FromStr};

use serde::de::{Deserializer, Error, Visitor};

/// Deserializes a value from its string.
pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_str(StringVisitor(PhantomData))
}

struct StringVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for StringVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Implements serde's two traits for a type with `FromStr` and `encode`, which writes its text into a buffer.
macro_rules! serde_as_string {
    ($type:ident, $length:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.encode(&mut [0; $length]))
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::id_serde::deserialize(deserializer)
            }
        }
    };
}

pub(crate) use serde_as_string;
