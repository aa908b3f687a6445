//! YAML as [`Node`]s.
//!
//! Anchors and aliases work, within a budget: a small file cannot become a large tree.

use std::{collections::HashSet, fmt, path::Path};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::{Error, Location, Spanned, budget, options};

use crate::{Data, Fault, Faults, Member, Node, SourcePlace, Tree as _};

/// The largest file that is read: all operations of a large API, as `bosun convert` writes them, fit into one.
pub const LARGEST_FILE: usize = 16 * 1024 * 1024;

/// The most nodes of a small file, and of any file. In between it is one for each [`BYTES_OF_A_NODE`], which manifests
/// stay far below and a file of aliases or brackets does not.
const NODES_OF_SMALL: usize = 50_000;
const NODES_OF_ANY: usize = 1_000_000;
const BYTES_OF_A_NODE: usize = 8;

/// Reads all documents of a file; empty ones are left out.
///
/// # Errors
/// With the first fault of the syntax: what follows it cannot be trusted.
pub fn parse(file: &Path, text: &str) -> Result<Vec<Node>, Faults> {
    if text.len() > LARGEST_FILE {
        let message = format!("file has {} bytes, more than the {LARGEST_FILE} that are read", text.len());
        return Err(Fault::of_file(file, "file_too_large", message).hint("split it into several files").into());
    }
    let nodes = (text.len() / BYTES_OF_A_NODE).clamp(NODES_OF_SMALL, NODES_OF_ANY);
    let options = options! {
        // `no` and `on` are strings, as in YAML 1.2.
        strict_booleans: true,
        budget: budget! {
            max_nodes: nodes,
            max_events: 4 * nodes,
            max_documents: 10_000,
            max_depth: 64,
            max_anchors: 1_000,
            max_aliases: 1_000,
            max_recorded_anchor_events: 100_000,
        },
    };
    match serde_saphyr::from_multiple_with_options::<Spanned<Data>>(text, options) {
        Ok(documents) => Ok(documents.into_iter().map(Node::from).filter(|node| !node.is_null()).collect()),
        Err(error) => Err(syntax_fault(file, &error).into()),
    }
}

fn syntax_fault(file: &Path, error: &Error) -> Fault {
    let mut innermost = error.without_snippet();
    while let Error::AliasError { error, .. } = innermost {
        innermost = error.without_snippet();
    }
    let message = match innermost {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("key `{key}` appears twice in one mapping"),
        Error::DuplicateMappingKey { key: None, .. } => "a key appears twice in one mapping".to_owned(),
        Error::Budget { .. } => "file expands to more than a manifest may hold".to_owned(),
        other => {
            let text = other.to_string();
            // The place has fields of its own.
            text.find(" at line ").map_or(text.clone(), |end| text[..end].to_owned())
        }
    };
    Fault { place: error.location().map(place_of), ..Fault::of_file(file, "yaml_syntax", message) }
}

fn place_of(location: Location) -> SourcePlace {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    SourcePlace { line: count(location.line()), column: count(location.column()) }
}

impl From<Spanned<Data>> for Node {
    fn from(spanned: Spanned<Data>) -> Self {
        Self { data: spanned.value, place: place_of(spanned.referenced) }
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DataVisitor)
    }
}

struct DataVisitor;

impl<'de> Visitor<'de> for DataVisitor {
    type Value = Data;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_none<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Data, D::Error> {
        Data::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Data, E> {
        Ok(Data::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Data, E> {
        Ok(Data::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Data, E> {
        Ok(Data::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Data, E> {
        Number::from_f64(value).map(Data::Number).ok_or_else(|| E::custom("number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Data, E> {
        Ok(Data::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Data, E> {
        Ok(Data::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Data, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Spanned<Data>>()? {
            items.push(item.into());
        }
        Ok(Data::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Data, A::Error> {
        let mut members: Vec<Member> = Vec::new();
        let mut names: HashSet<String> = HashSet::new();
        while let Some(name) = access.next_key::<Spanned<String>>()? {
            let value = access.next_value::<Spanned<Data>>()?.into();
            // The parser has compared the keys as YAML; as texts, `1` and `"1"` are the same.
            if !names.insert(name.value.clone()) {
                return Err(A::Error::custom(format_args!("key `{}` appears twice in one mapping", name.value)));
            }
            members.push(Member { name: name.value, place: place_of(name.referenced), value });
        }
        Ok(Data::Map(members))
    }
}

#[cfg(test)]
mod tests;
