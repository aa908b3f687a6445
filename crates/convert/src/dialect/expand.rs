//! Expanding references, for dialects that have none.
//!
//! A recursive schema has no end, and a small one may expand to a large one: both are cut at a bound, and what is cut
//! is declared as a plain object.

use bosun_core::schema::{dialect::LostKeyword, reference};
use serde_json::{Map, Value, json};

/// Maximum depth and number of expanded schemas.
const DEEPEST: usize = 16;
const MOST: usize = 2_000;

/// How far the references of one schema have been expanded, and what was lost.
pub(super) struct Expansion<'a> {
    root: &'a Value,
    written: usize,
    pub(super) lost: &'a mut LostKeyword,
}

impl<'a> Expansion<'a> {
    pub(super) fn new(root: &'a Value, lost: &'a mut LostKeyword) -> Self {
        Self { root, written: 0, lost }
    }
}

/// Writes schemas as a dialect has them.
pub(super) trait Reduce<'a> {
    fn expansion(&mut self) -> &mut Expansion<'a>;

    /// A schema that is no reference. `here` is its path.
    fn reduce_fields(&mut self, fields: &Map<String, Value>, here: &str, depth: usize) -> Value;

    /// A schema that accepts anything.
    fn anything(&mut self, here: &str) -> Value;

    /// Any schema. A description next to a reference is more specific than that of its target.
    fn reduce(&mut self, source: &Value, here: &str, depth: usize) -> Value {
        let Value::Object(fields) = source else { return self.anything(here) };
        let expansion = self.expansion();
        expansion.written += 1;
        if depth > DEEPEST || expansion.written > MOST {
            expansion.lost.add(here, "is too deep or too large; the model sees a plain object");
            return json!({"type": "object"});
        }
        let Some(target) = fields.get("$ref").and_then(Value::as_str) else {
            return self.reduce_fields(fields, here, depth);
        };
        let root = expansion.root;
        let target = reference::resolve(root, target).map_or(&Value::Null, |(target, _)| target);
        let mut reduced = self.reduce(target, here, depth + 1);
        if let (Some(description), Value::Object(reduced)) = (fields.get("description"), &mut reduced) {
            reduced.insert("description".to_owned(), description.clone());
        }
        reduced
    }
}
