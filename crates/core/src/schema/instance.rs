//! How the validator looks at a [`Tree`].
//!
//! The validator is generic over what it checks. Names of properties are hashed when the schema is
//! compiled, so finding one in an object compares numbers. A [`serde_json::Value`] is made of a part
//! of the tree only to tell what is wrong with it.

use std::borrow::Cow;

use jsonschema::{
    JsonType,
    json::{Array, Json, Node, NodeIdentity, Object, cmp},
};
use serde_json::{Number, Value};

use crate::json::tree::{Key, Member, Members, Tree};

/// Arguments, as the validator's traits name a representation.
#[derive(Debug)]
pub(super) struct Instance;

impl Json for Instance {
    type Node<'a> = &'a Tree<'a>;
    type PreparedKey = Key;
    type StringBuffer = ();

    fn prepare_key(key: &str) -> Key {
        Key::new(key)
    }

    fn with_string_node<T>(_: &mut (), string: &str, check: impl for<'a> FnOnce(&'a Tree<'a>) -> T) -> T {
        check(&Tree::Text(Cow::Borrowed(string)))
    }
}

impl<'a> Node<'a, Instance> for &'a Tree<'a> {
    type Object = &'a Members<'a>;
    type Array = &'a [Tree<'a>];
    type Number = &'a Number;

    fn as_object(&self) -> Option<&'a Members<'a>> {
        if let Tree::Object(members) = self { Some(members) } else { None }
    }

    fn as_array(&self) -> Option<&'a [Tree<'a>]> {
        if let Tree::Array(items) = self { Some(items) } else { None }
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        if let Tree::Text(text) = self { Some(Cow::Borrowed(text)) } else { None }
    }

    fn as_number(&self) -> Option<&'a Number> {
        if let Tree::Number(number) = self { Some(number) } else { None }
    }

    fn as_boolean(&self) -> Option<bool> {
        if let Tree::Bool(value) = self { Some(*value) } else { None }
    }

    fn is_null(&self) -> bool {
        matches!(self, Tree::Null)
    }

    fn json_type(&self) -> JsonType {
        match self {
            Tree::Null => JsonType::Null,
            Tree::Bool(_) => JsonType::Boolean,
            Tree::Number(_) => JsonType::Number,
            Tree::Text(_) => JsonType::String,
            Tree::Array(_) => JsonType::Array,
            Tree::Object(_) => JsonType::Object,
        }
    }

    fn string_length(&self) -> Option<u64> {
        let Tree::Text(text) = self else { return None };
        Some(if text.is_ascii() { text.len() } else { text.chars().count() } as u64)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self, expected) {
            (Tree::Text(text), Value::String(expected)) => text == expected,
            (Tree::Text(_), _) | (_, Value::String(_)) => false,
            _ => cmp::equal(&self.to_value(), expected),
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(Tree::to_value(self))
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(std::ptr::from_ref::<Tree<'_>>(self) as usize))
    }
}

/// Walks the members of an object.
#[derive(Debug)]
pub(super) struct MembersIter<'a>(std::slice::Iter<'a, Member<'a>>);

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, &'a Tree<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|member| (member.key.as_ref(), &member.value))
    }
}

impl<'a> Object<'a, Instance> for &'a Members<'a> {
    type Node = &'a Tree<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        Members::len(self)
    }

    fn get(&self, key: &Key) -> Option<&'a Tree<'a>> {
        Members::get(self, key)
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter(self.iter())
    }
}

impl<'a> Array<'a, Instance> for &'a [Tree<'a>] {
    type Node = &'a Tree<'a>;
    type ElementsIter = std::slice::Iter<'a, Tree<'a>>;

    fn len(&self) -> usize {
        <[Tree<'_>]>::len(self)
    }

    fn elements(&self) -> std::slice::Iter<'a, Tree<'a>> {
        self.iter()
    }
}
