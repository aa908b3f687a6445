//! The order of the blocks of an answer.
//!
//! Text and calls are in the journal anyway, so a layout has placeholders for them, and every other block as it was
//! received: `[{"type":"thinking",…}, {"text":12}, {"call":0}]` is a thinking block, the first twelve bytes of the
//! text, and the first call. A placeholder may carry provider-specific fields. What a layout does not mention follows
//! after it: text first, then calls. So an answer of a text and its calls, the usual case, has no layout at all.

use serde_json::{Map, Value, json};

/// One entry of a layout.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum BlockPlace<'a> {
    /// This many bytes of the text, and the provider-specific fields.
    Text(usize, Option<&'a Map<String, Value>>),
    /// The call with this index, likewise.
    Call(usize, Option<&'a Map<String, Value>>),
    /// A provider-specific block.
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

/// Whether it is equivalent to no layout: a text, and then calls in order.
pub(super) fn is_plain(layout: &[Value]) -> bool {
    let places: Vec<_> = layout.iter().map(read).collect();
    let calls = match places.split_first() {
        Some((BlockPlace::Text(_, None), calls)) => calls,
        _ => &places[..],
    };
    calls.iter().enumerate().all(|(number, place)| *place == BlockPlace::Call(number, None))
}

/// Reads one entry.
pub(super) fn read(entry: &Value) -> BlockPlace<'_> {
    let number = |name: &str| entry.get(name)?.as_u64().and_then(|number| usize::try_from(number).ok());
    let own = entry.get("own").and_then(Value::as_object);
    // The API's own blocks have a `type`, placeholders have none.
    if entry.get("type").is_none() {
        if let Some(bytes) = number("text") {
            return BlockPlace::Text(bytes, own);
        }
        if let Some(number) = number("call") {
            return BlockPlace::Call(number, own);
        }
    }
    BlockPlace::Own(entry)
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
    fn a_block_of_the_api_is_never_mistaken_for_a_placeholder() {
        let block = json!({"type": "call_summary", "call": 0});
        assert_eq!(read(&block), BlockPlace::Own(&block));
    }
}
