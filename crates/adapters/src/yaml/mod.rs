//! YAML in which every value knows its place.
//!
//! A derived `Deserialize` stops at the first fault; a person who writes a file wants to see all of
//! them. So a text becomes a tree of [`Node`]s first, and [`read`] takes the tree apart, noting
//! faults as it goes. Anchors and aliases work, within a budget: a small file cannot become a large
//! tree.

pub(crate) mod duration;
mod read;

use std::{collections::HashSet, fmt, path::Path};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Error, Location, Spanned, budget, options};

pub(crate) use read::{Fields, Reading, Text};

use crate::fault::{Fault, Place};

/// The largest file that is read.
pub(crate) const LARGEST_FILE: usize = 1024 * 1024;

/// One value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) data: Data,
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Member>),
}

/// One entry of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) value: Node,
}

impl Node {
    /// What it is, in the words of an error message.
    pub(crate) fn kind(&self) -> &'static str {
        match self.data {
            Data::Null => "nothing",
            Data::Bool(_) => "a boolean",
            Data::Number(_) => "a number",
            Data::Text(_) => "text",
            Data::List(_) => "a list",
            Data::Map(_) => "a mapping",
        }
    }

    /// The value at the end of a path of keys.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, name| match &node.data {
            Data::Map(members) => members.iter().find(|member| member.name == *name).map(|member| &member.value),
            _ => None,
        })
    }

    pub(crate) fn is_null(&self) -> bool {
        self.data == Data::Null
    }

    /// The same value as JSON; keys keep their order.
    pub(crate) fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(value) => Value::Number(value.clone()),
            Data::Text(value) => Value::String(value.clone()),
            Data::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Data::Map(members) => Value::Object(
                members.iter().map(|member| (member.name.clone(), member.value.to_json())).collect::<Map<_, _>>(),
            ),
        }
    }
}

/// Reads all documents of a file; empty ones are left out.
///
/// # Errors
/// With the first fault of the syntax: what follows it cannot be trusted.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Vec<Node>, Fault> {
    let options = options! {
        // `no` and `on` are words, as YAML 1.2 has it.
        strict_booleans: true,
        budget: budget! {
            max_nodes: 50_000,
            max_events: 200_000,
            max_depth: 64,
            max_anchors: 1_000,
            max_aliases: 1_000,
            max_recorded_anchor_events: 100_000,
        },
    };
    if text.len() > LARGEST_FILE {
        return Err(Fault {
            file: file.to_owned(),
            place: None,
            code: "file_too_large",
            message: format!("file has {} bytes, more than the {LARGEST_FILE} that are read", text.len()),
            hint: Some("split it into several files".into()),
        });
    }
    match serde_saphyr::from_multiple_with_options::<Spanned<Data>>(text, options) {
        Ok(documents) => Ok(documents.into_iter().map(Node::from).filter(|node| !node.is_null()).collect()),
        Err(error) => Err(syntax_fault(file, &error)),
    }
}

fn syntax_fault(file: &Path, error: &Error) -> Fault {
    let mut innermost = error.without_snippet();
    while let Error::AliasError { error, .. } = innermost {
        innermost = error.without_snippet();
    }
    let message = match innermost {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("key `{key}` stands twice in one mapping"),
        Error::DuplicateMappingKey { key: None, .. } => "a key stands twice in one mapping".to_owned(),
        Error::Budget { .. } => "file unfolds to more than a manifest may hold".to_owned(),
        other => {
            let text = other.to_string();
            // The place has fields of its own.
            text.find(" at line ").map_or(text.clone(), |end| text[..end].to_owned())
        }
    };
    Fault { file: file.to_owned(), place: error.location().map(Place::from), code: "yaml_syntax", message, hint: None }
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

impl From<Spanned<Data>> for Node {
    fn from(spanned: Spanned<Data>) -> Self {
        Self { data: spanned.value, place: spanned.referenced.into() }
    }
}

/// A value that came as JSON. It has no place of its own: whoever reports a fault of it leaves the place out.
impl From<&Value> for Node {
    fn from(value: &Value) -> Self {
        let place = Place { line: 1, column: 1 };
        let data = match value {
            Value::Null => Data::Null,
            Value::Bool(value) => Data::Bool(*value),
            Value::Number(number) => Data::Number(number.clone()),
            Value::String(text) => Data::Text(text.clone()),
            Value::Array(items) => Data::List(items.iter().map(Self::from).collect()),
            Value::Object(members) => {
                let member =
                    |(name, value): (&String, &Value)| Member { name: name.clone(), place, value: value.into() };
                Data::Map(members.iter().map(member).collect())
            }
        };
        Self { data, place }
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
                return Err(A::Error::custom(format_args!("key `{}` stands twice in one mapping", name.value)));
            }
            members.push(Member { name: name.value, place: name.referenced.into(), value });
        }
        Ok(Data::Map(members))
    }
}

#[cfg(test)]
mod tests;
