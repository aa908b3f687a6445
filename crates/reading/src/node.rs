//! Trees of values: [`Node`]s, which know their places, and JSON values, which do not.

use bosun_core::schema::path::{PathStep, steps};
use serde_json::{Map, Number, Value};

use crate::SourcePlace;

/// A value that [`Fields`](crate::Fields) can read.
pub trait Tree: Sized {
    fn shape(&self) -> Shape<'_, Self>;

    /// The value of a key, if this is a mapping that has it.
    fn member(&self, name: &str) -> Option<&Self>;

    /// The keys of a mapping with their places and values, in the order of the text.
    fn members(&self) -> impl Iterator<Item = (&str, SourcePlace, &Self)>;

    /// The keys of a mapping with their places, in the order of the text.
    fn keys(&self) -> impl Iterator<Item = (&str, SourcePlace)> {
        self.members().map(|(name, place, _)| (name, place))
    }

    /// Where the value begins; [`SourcePlace::START`] for values without places.
    fn place(&self) -> SourcePlace;

    fn is_null(&self) -> bool {
        matches!(self.shape(), Shape::Null)
    }
}

/// What a value is.
#[derive(Debug)]
pub enum Shape<'t, T> {
    Null,
    Bool(bool),
    Number(&'t Number),
    Text(&'t str),
    /// A date with a time, which TOML has a type for.
    Moment(&'t str),
    List(&'t [T]),
    Map,
}

/// What a text is written in: error messages use its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Json,
    Toml,
    Yaml,
}

impl Syntax {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Json | Self::Toml => "a string",
            Self::Yaml => "text",
        }
    }

    pub(crate) fn map(self) -> &'static str {
        match self {
            Self::Json => "an object",
            Self::Toml => "a table",
            Self::Yaml => "a mapping",
        }
    }

    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Json => "an array",
            Self::Toml | Self::Yaml => "a list",
        }
    }

    /// What a value is, in a sentence about what it should have been.
    #[must_use]
    pub fn kind_of(self, value: &impl Tree) -> &'static str {
        match value.shape() {
            Shape::Null if self == Self::Yaml => "nothing",
            Shape::Null => "null",
            Shape::Bool(_) => "a boolean",
            Shape::Number(_) => "a number",
            Shape::Text(_) => self.text(),
            Shape::Moment(_) => "a date",
            Shape::List(_) => self.list(),
            Shape::Map => self.map(),
        }
    }
}

/// One value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub data: Data,
    pub place: SourcePlace,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Moment(String),
    List(Vec<Node>),
    Map(Vec<Member>),
}

/// One entry of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub name: String,
    pub place: SourcePlace,
    pub value: Node,
}

impl Node {
    /// The value at the end of a path of keys.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, name| node.member(name))
    }

    /// Where the value at `path` begins, or the last one on the way to it.
    #[must_use]
    pub fn place_at(&self, path: &str) -> SourcePlace {
        let mut node = self;
        for step in steps(path) {
            let next = match (&step, &node.data) {
                (PathStep::Key(name), _) => node.member(name),
                (PathStep::Index(index), Data::List(items)) => items.get(*index),
                (PathStep::Index(_), _) => None,
            };
            let Some(next) = next else { break };
            node = next;
        }
        node.place
    }

    /// The same value as JSON; keys keep their order.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Bool(value) => Value::Bool(*value),
            Data::Number(value) => Value::Number(value.clone()),
            Data::Text(value) | Data::Moment(value) => Value::String(value.clone()),
            Data::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Data::Map(members) => Value::Object(
                members.iter().map(|member| (member.name.clone(), member.value.to_json())).collect::<Map<_, _>>(),
            ),
        }
    }
}

impl Tree for Node {
    fn shape(&self) -> Shape<'_, Self> {
        match &self.data {
            Data::Null => Shape::Null,
            Data::Bool(value) => Shape::Bool(*value),
            Data::Number(number) => Shape::Number(number),
            Data::Text(text) => Shape::Text(text),
            Data::Moment(text) => Shape::Moment(text),
            Data::List(items) => Shape::List(items),
            Data::Map(_) => Shape::Map,
        }
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let Data::Map(members) = &self.data else { return None };
        members.iter().find(|member| member.name == name).map(|member| &member.value)
    }

    fn members(&self) -> impl Iterator<Item = (&str, SourcePlace, &Self)> {
        let members = if let Data::Map(members) = &self.data { members.as_slice() } else { &[] };
        members.iter().map(|member| (member.name.as_str(), member.place, &member.value))
    }

    fn place(&self) -> SourcePlace {
        self.place
    }
}

impl Tree for Value {
    fn shape(&self) -> Shape<'_, Self> {
        match self {
            Self::Null => Shape::Null,
            Self::Bool(value) => Shape::Bool(*value),
            Self::Number(number) => Shape::Number(number),
            Self::String(text) => Shape::Text(text),
            Self::Array(items) => Shape::List(items),
            Self::Object(_) => Shape::Map,
        }
    }

    fn member(&self, name: &str) -> Option<&Self> {
        self.as_object()?.get(name)
    }

    fn members(&self) -> impl Iterator<Item = (&str, SourcePlace, &Self)> {
        self.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), SourcePlace::START, value))
    }

    fn place(&self) -> SourcePlace {
        SourcePlace::START
    }
}

impl From<&Value> for Node {
    fn from(value: &Value) -> Self {
        let place = SourcePlace::START;
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
