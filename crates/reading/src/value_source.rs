//! Values that a manifest contains or refers to: ARK's `ValueSource`.
//!
//! Nothing is looked up here. A secret stays a reference until the call that needs it.

use bosun_core::tool::{ConfigRef, NamedValue, SecretRef, ValueSource};

use crate::{Fields, Shape, SourcePlace, Tree, spec};

const HINT: &str =
    "write `value: …`, or `valueFrom` with a `secretKeyRef`, a `configMapKeyRef` or a `queryParameterRef`";

/// Reads the `value` or `valueFrom` in `fields`, with the place of what it refers to.
pub fn value_source<T: Tree>(fields: &Fields<'_, &T>) -> Option<(ValueSource, SourcePlace)> {
    let literal = fields.get("value");
    let from = fields.get("valueFrom");
    match (literal, from) {
        (Some(_), None) => fields.text("value").map(|text| (ValueSource::Literal(text.value.to_owned()), text.place)),
        (None, Some(_)) => reference(&fields.fields("valueFrom")?.with_table(spec::VALUE_FROM)),
        (both, _) => {
            let problem =
                if both.is_some() { "both `value` and `valueFrom`" } else { "neither `value` nor `valueFrom`" };
            fields.fault(fields.place(), "bad_value", format!("{} has {problem}", fields.called()), HINT);
            None
        }
    }
}

fn reference<T: Tree>(from: &Fields<'_, &T>) -> Option<(ValueSource, SourcePlace)> {
    let mut found = Vec::new();
    for kind in ["secretKeyRef", "configMapKeyRef", "queryParameterRef"] {
        let Some(fields) = from.fields(kind) else { continue };
        let fields = fields.with_table(if kind == "queryParameterRef" { spec::NAMED } else { spec::KEY_REF });
        let name = fields.required_text("name", "the name of what is referred to");
        let key = (kind != "queryParameterRef").then(|| fields.required_text("key", "the key in it"));
        let optional = kind != "queryParameterRef" && fields.bool("optional").unwrap_or_default();
        fields.finish();
        let (Some(name), key) = (name, key.flatten()) else { continue };
        let place = name.place;
        let name = name.value.to_owned();
        found.push(match (kind, key.map(|key| key.value.to_owned())) {
            ("secretKeyRef", Some(key)) => (ValueSource::SecretKeyRef(SecretRef { name, key, optional }), place),
            ("configMapKeyRef", Some(key)) => (ValueSource::ConfigMapKeyRef(ConfigRef { name, key, optional }), place),
            ("queryParameterRef", _) => (ValueSource::QueryParameterRef { name }, place),
            _ => continue,
        });
    }
    from.unserved(&["serviceRef"], "there are no services without a cluster; write the address as `value`");
    from.finish();
    let kinds = ["secretKeyRef", "configMapKeyRef", "queryParameterRef", "serviceRef"];
    let named = kinds.iter().filter(|name| from.has(name)).count();
    if named != 1 {
        let message = format!("{} needs exactly one reference, and has {named}", from.called());
        from.fault(from.place(), "bad_value", message, HINT);
        return None;
    }
    found.pop()
}

/// Headers, whose source is in `value`, or parameters, whose source is next to the name.
pub fn named_values<T: Tree>(parent: &Fields<'_, &T>, field: &str) -> Vec<NamedValue> {
    let mut values: Vec<NamedValue> = Vec::new();
    for entry in parent.entries(field) {
        let is_inside = matches!(entry.node().member("value").map(Tree::shape), Some(Shape::Map));
        let entry = entry.with_table(if is_inside { spec::NAMED_VALUE } else { spec::NAMED_SOURCE });
        let name = entry.required_text("name", "the name of the header or parameter");
        let source = if is_inside {
            entry.fields("value").and_then(|inner| {
                let inner = inner.with_table(spec::VALUE_SOURCE);
                let source = value_source(&inner);
                inner.finish();
                source
            })
        } else {
            value_source(&entry)
        };
        entry.finish();
        let (Some(name), Some((value, _))) = (name, source) else { continue };
        if values.iter().any(|earlier| earlier.name.eq_ignore_ascii_case(name.value)) {
            let message = format!("`{}` appears twice in {}", name.value, parent.called_field(field));
            entry.fault_of("name", "duplicate_name", message, "leave one of them out");
        } else {
            values.push(NamedValue { name: name.value.to_owned(), value });
        }
    }
    values
}
