//! Provider-specific fields of an answer.
//!
//! Some APIs require what they sent besides text and calls to be sent back: signed thinking blocks, reasoning. Nothing
//! here interprets it. It is accumulated from the stream, stored with the turn, and sent back in the same wire format,
//! and in no other.

use std::sync::Arc;

use bosun_core::json;
use serde_json::{Map, Value};

/// Merges a streamed fragment into the accumulated value: strings and lists are appended to, members of objects are
/// merged, and any other value is replaced.
pub(super) fn merge(so_far: &mut Value, piece: Value) {
    match (so_far, piece) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(more)) => text.push_str(&more),
        (Value::Array(items), Value::Array(more)) => items.extend(more),
        (Value::Object(members), Value::Object(more)) => merge_members(members, more),
        (so_far, piece) => *so_far = piece,
    }
}

/// Merges streamed members.
pub(super) fn merge_members(so_far: &mut Map<String, Value>, pieces: Map<String, Value>) {
    for (name, piece) in pieces {
        if !piece.is_null() {
            merge(so_far.entry(name).or_insert(Value::Null), piece);
        }
    }
}

/// The approximate size of these members in bytes; an empty fragment has none.
pub(super) fn size(members: &Map<String, Value>) -> usize {
    let present = members.iter().filter(|(_, value)| !value.is_null());
    present.map(|(name, value)| name.len() + 4 + json::compact_size(value)).sum()
}

/// Wraps a value for storage with the turn, under the wire format `wire`.
pub(super) fn wrap(wire: &str, value: Value) -> Arc<Value> {
    Arc::new(Value::Object(Map::from_iter([(wire.to_owned(), value)])))
}

/// What the wire format `wire` stored with a turn, if it was the one that answered it.
pub(super) fn of_wire<'a>(wire: &str, kept: Option<&'a Arc<Value>>) -> Option<&'a Value> {
    kept?.get(wire)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(pieces: Vec<Value>, expect: Value) {
        let mut whole = Value::Null;
        pieces.into_iter().for_each(|piece| merge(&mut whole, piece));
        assert_eq!(whole, expect);
    }

    #[test]
    fn fragments_are_merged() {
        check(vec![json!("a"), json!("b"), json!(null), json!("c")], json!("abc"));
        check(vec![json!([1]), json!([2, 3])], json!([1, 2, 3]));
        check(
            vec![json!({"a": {"b": "x"}}), json!({"a": {"b": "y", "c": 1}, "d": null})],
            json!({"a": {"b": "xy", "c": 1}}),
        );
        check(vec![json!(1), json!(2)], json!(2));
        check(vec![json!("a"), json!({"b": 1})], json!({"b": 1}));
    }

    #[test]
    fn only_the_wire_format_that_wrote_fields_reads_them() {
        let kept = wrap("anthropic", json!({"content": []}));
        assert_eq!(of_wire("anthropic", Some(&kept)), Some(&json!({"content": []})));
        assert_eq!(of_wire("openai", Some(&kept)), None);
        assert_eq!(of_wire("openai", None), None);
    }
}
