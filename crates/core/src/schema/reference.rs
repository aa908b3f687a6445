//! References inside one schema. None ever leads out of it.

use serde_json::Value;

use super::keyword;

/// What a reference leads to, and the JSON pointer of that place. `None` for one that leads nowhere
/// or out of the schema.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<(&'a Value, String)> {
    let fragment = percent_decoded(reference.strip_prefix('#')?)?;
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(&fragment).map(|target| (target, fragment));
    }
    anchored(root, &fragment, String::new())
}

/// The subschema with this plain name, wherever it stands.
fn anchored<'a>(schema: &'a Value, name: &str, here: String) -> Option<(&'a Value, String)> {
    let fields = schema.as_object()?;
    let says = |keyword: &str| fields.get(keyword).and_then(Value::as_str);
    if says("$anchor") == Some(name)
        || says("$dynamicAnchor") == Some(name)
        || says("$id").and_then(|id| id.strip_prefix('#')) == Some(name)
    {
        return Some((schema, here));
    }
    keyword::subschemas(fields)
        .into_iter()
        .find_map(|(place, _, subschema)| anchored(subschema, name, format!("{here}{}", place.pointer())))
}

/// The text of a URI fragment; `None` if it is not UTF-8.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let (high, low) = (digit(rest.next())?, digit(rest.next())?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
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
