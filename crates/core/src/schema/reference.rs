//! Resolution of references inside one schema. None ever leads out of it.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    keyword::{self, KeywordContent},
    path,
};
use crate::percent;

/// The target of a reference, and its JSON pointer. `None` if it does not exist or is outside of the schema.
#[must_use]
pub fn resolve<'a>(root: &'a Value, reference: &str) -> Option<(&'a Value, String)> {
    let fragment = percent::decode(reference.strip_prefix('#')?)?;
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(&fragment).map(|target| (target, fragment));
    }
    anchored(root, &fragment, String::new())
}

/// The subschema with this anchor, wherever it is.
fn anchored<'a>(schema: &'a Value, name: &str, here: String) -> Option<(&'a Value, String)> {
    let fields = schema.as_object()?;
    let text_of = |keyword: &str| fields.get(keyword).and_then(Value::as_str);
    if text_of("$anchor") == Some(name)
        || text_of("$dynamicAnchor") == Some(name)
        || text_of("$id").and_then(|id| id.strip_prefix('#')) == Some(name)
    {
        return Some((schema, here));
    }
    keyword::subschemas(fields)
        .into_iter()
        .find_map(|(place, _, subschema)| anchored(subschema, name, format!("{here}{}", place.pointer())))
}

/// Rewrites the references that lead through a keyword which is about to be renamed: `moved` returns the new name of a
/// keyword of a schema, given the next key of the reference.
pub(super) fn follow_moves<F>(root: &mut Value, moved: F)
where
    F: Fn(&Map<String, Value>, &str, Option<&str>) -> Option<&'static str>,
{
    let mut rewritten: HashMap<String, String> = HashMap::new();
    collect(root, &mut |reference| {
        if let Some(to) = moved_reference(root, reference, &moved) {
            rewritten.insert(reference.to_owned(), to);
        }
    });
    if !rewritten.is_empty() {
        replace(root, &rewritten);
    }
}

fn collect(schema: &Value, visit: &mut dyn FnMut(&str)) {
    let Value::Object(fields) = schema else { return };
    if let Some(Value::String(reference)) = fields.get("$ref") {
        visit(reference);
    }
    for (_, _, subschema) in keyword::subschemas(fields) {
        collect(subschema, visit);
    }
}

fn replace(schema: &mut Value, rewritten: &HashMap<String, String>) {
    let Value::Object(fields) = schema else { return };
    if let Some(Value::String(reference)) = fields.get_mut("$ref")
        && let Some(to) = rewritten.get(reference)
    {
        reference.clone_from(to);
    }
    keyword::for_each_subschema_mut(fields, &mut |_, subschema| replace(subschema, rewritten));
}

/// The reference with new names; `None` if it has none.
fn moved_reference<F>(root: &Value, reference: &str, moved: &F) -> Option<String>
where
    F: Fn(&Map<String, Value>, &str, Option<&str>) -> Option<&'static str>,
{
    let fragment = percent::decode(reference.strip_prefix('#')?)?;
    let segments: Vec<String> = path::segments(&fragment).collect();
    let mut here = Some(root);
    let mut holds = KeywordContent::Schema;
    let mut is_moved = false;
    let mut pointer = String::from("#");
    for (index, segment) in segments.iter().enumerate() {
        let mut name = segment.as_str();
        holds = match (holds, here) {
            (KeywordContent::Schema, Some(Value::Object(fields))) => {
                if let Some(renamed) = moved(fields, segment, segments.get(index + 1).map(String::as_str)) {
                    name = renamed;
                    is_moved = true;
                }
                keyword::holds(segment, fields.get(segment))
            }
            (KeywordContent::Schemas, _) => KeywordContent::Schema,
            _ => KeywordContent::Data,
        };
        here = here.and_then(|value| match value {
            Value::Array(items) => segment.parse::<usize>().ok().and_then(|index| items.get(index)),
            other => other.get(segment),
        });
        pointer.push('/');
        let escaped = name.replace('~', "~0").replace('/', "~1");
        percent::push_except(&mut pointer, escaped.as_bytes(), |byte| percent::is_unreserved(byte) || byte == b'$');
    }
    is_moved.then_some(pointer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_resolved_inside_the_schema() {
        let schema =
            json!({"$defs": {"a/b": {"$anchor": "here", "type": "string"}}, "properties": {"x": {"$id": "#old"}}});
        for (reference, expect) in [
            ("#", Some("")),
            ("#/$defs/a~1b", Some("/$defs/a~1b")),
            ("#/%24defs/a~1b", Some("/$defs/a~1b")),
            ("#here", Some("/$defs/a~1b")),
            ("#old", Some("/properties/x")),
            ("#/none", None),
            ("#none", None),
            ("#%ff", None),
            ("#%2", None),
            ("http://x#/$defs", None),
        ] {
            assert_eq!(resolve(&schema, reference).map(|(_, pointer)| pointer).as_deref(), expect, "{reference}");
        }
    }
}
