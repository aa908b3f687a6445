//! Fields that only the API behind a model knows.
//!
//! Some want back what they said beside text and calls: signed thoughts, reasoning. Nothing here
//! understands it. It is collected as it streams in, kept with the turn, and given back to the wire
//! format that wrote it, and to no other.

use std::sync::Arc;

use bosun_core::json;
use serde_json::{Map, Value};

/// Adds a piece of a streamed value to what came before: texts and lists grow, members of objects are
/// added one by one, and of anything else the last one counts.
pub(super) fn grow(so_far: &mut Value, piece: Value) {
    match (so_far, piece) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(more)) => text.push_str(&more),
        (Value::Array(items), Value::Array(more)) => items.extend(more),
        (Value::Object(members), Value::Object(more)) => grow_members(members, more),
        (so_far, piece) => *so_far = piece,
    }
}

/// Adds pieces of streamed members.
pub(super) fn grow_members(so_far: &mut Map<String, Value>, pieces: Map<String, Value>) {
    for (name, piece) in pieces {
        if !piece.is_null() {
            grow(so_far.entry(name).or_insert(Value::Null), piece);
        }
    }
}

/// How many bytes these members have, about; a piece that says nothing has none.
pub(super) fn size(members: &Map<String, Value>) -> usize {
    let said = members.iter().filter(|(_, value)| !value.is_null());
    said.map(|(name, value)| name.len() + 4 + json::compact_size(value)).sum()
}

/// What a turn keeps for the wire format `wire`.
pub(super) fn seal(wire: &str, value: Value) -> Arc<Value> {
    Arc::new(Value::Object(Map::from_iter([(wire.to_owned(), value)])))
}

/// What the wire format `wire` kept with a turn, if it was the one that answered it.
pub(super) fn open<'a>(wire: &str, kept: Option<&'a Arc<Value>>) -> Option<&'a Value> {
    kept?.get(wire)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(pieces: Vec<Value>, expect: Value) {
        let mut whole = Value::Null;
        pieces.into_iter().for_each(|piece| grow(&mut whole, piece));
        assert_eq!(whole, expect);
    }

    #[test]
    fn pieces_grow_into_a_whole() {
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
    fn only_the_wire_that_wrote_it_reads_it() {
        let kept = seal("anthropic", json!({"content": []}));
        assert_eq!(open("anthropic", Some(&kept)), Some(&json!({"content": []})));
        assert_eq!(open("openai", Some(&kept)), None);
        assert_eq!(open("openai", None), None);
    }
}
