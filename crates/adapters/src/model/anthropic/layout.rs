//! In which order the blocks of an answer stood.
//!
//! Text and calls are in the journal anyway, so a layout has a mark in their places, and every other
//! block as it came: `[{"type":"thinking",…}, {"text":12}, {"call":0}]` is a thought, the first twelve
//! bytes of the text, and the first call. A mark may carry fields that only the API knows. What a
//! layout does not mention follows behind it: text first, then calls. So an answer of a text and its
//! calls, as most are, has no layout at all.

use serde_json::{Map, Value, json};

/// One place of a layout.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place<'a> {
    /// So many bytes of the text, and what the API adds to them.
    Text(usize, Option<&'a Map<String, Value>>),
    /// The call with this number, likewise.
    Call(usize, Option<&'a Map<String, Value>>),
    /// A block that only the API understands.
    Own(&'a Value),
}

pub(super) fn text(bytes: usize, own: Map<String, Value>) -> Value {
    mark("text", bytes, own)
}

pub(super) fn call(number: usize, own: Map<String, Value>) -> Value {
    mark("call", number, own)
}

fn mark(kind: &str, number: usize, own: Map<String, Value>) -> Value {
    let mut mark = json!({kind: number});
    if !own.is_empty() {
        mark["own"] = Value::Object(own);
    }
    mark
}

/// Whether it says no more than no layout would: a text, and then calls in their order.
pub(super) fn is_plain(layout: &[Value]) -> bool {
    let places: Vec<_> = layout.iter().map(read).collect();
    let calls = match places.split_first() {
        Some((Place::Text(_, None), calls)) => calls,
        _ => &places[..],
    };
    calls.iter().enumerate().all(|(number, place)| *place == Place::Call(number, None))
}

/// Reads one entry.
pub(super) fn read(entry: &Value) -> Place<'_> {
    let number = |name: &str| entry.get(name)?.as_u64().and_then(|number| usize::try_from(number).ok());
    let own = entry.get("own").and_then(Value::as_object);
    // The API's own blocks have a type, marks have none.
    if entry.get("type").is_none() {
        if let Some(bytes) = number("text") {
            return Place::Text(bytes, own);
        }
        if let Some(number) = number("call") {
            return Place::Call(number, own);
        }
    }
    Place::Own(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_a_text_and_its_calls_has_no_layout() {
        let bare = |number| call(number, Map::new());
        let text = |bytes| text(bytes, Map::new());
        assert!(is_plain(&[]));
        assert!(is_plain(&[text(5)]));
        assert!(is_plain(&[text(5), bare(0), bare(1)]));
        assert!(is_plain(&[bare(0), bare(1)]));
        assert!(!is_plain(&[bare(0), text(5)]));
        assert!(!is_plain(&[text(5), text(5)]));
        assert!(!is_plain(&[json!({"type": "thinking"}), text(5)]));
        assert!(!is_plain(&[call(0, Map::from_iter([("caller".to_owned(), json!({}))]))]));
    }

    #[test]
    fn a_block_of_the_api_is_never_taken_for_a_mark() {
        let block = json!({"type": "call_summary", "call": 0});
        assert_eq!(read(&block), Place::Own(&block));
    }
}
