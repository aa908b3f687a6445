//! Values that are written in a manifest, or that a manifest says where to find: all of ARK's forms.
//!
//! Nothing is looked up here. A secret stays a reference until the call that needs it.

use bosun_core::tool::{ConfigRef, NamedValue, SecretRef, ValueSource};

use crate::{
    fault::Place,
    yaml::{Data, Fields, Node},
};

const HINT: &str =
    "write `value: …`, or `valueFrom` with a `secretKeyRef`, a `configMapKeyRef` or a `queryParameterRef`";

/// Reads the `value` or `valueFrom` that stands in `fields`; with the place of what is referred to.
pub(super) fn read(fields: &Fields<'_>) -> Option<(ValueSource, Place)> {
    let literal = fields.get("value");
    let from = fields.get("valueFrom");
    match (literal, from) {
        (Some(_), None) => fields.text("value").map(|text| (ValueSource::Literal(text.value.to_owned()), text.place)),
        (None, Some(_)) => reference(&fields.fields("valueFrom")?),
        (both, _) => {
            let problem =
                if both.is_some() { "both `value` and `valueFrom`" } else { "neither `value` nor `valueFrom`" };
            fields.fault(fields.place(), "bad_value", format!("{} has {problem}", fields.called()), HINT);
            None
        }
    }
}

fn reference(from: &Fields<'_>) -> Option<(ValueSource, Place)> {
    let mut found = Vec::new();
    for kind in ["secretKeyRef", "configMapKeyRef", "queryParameterRef"] {
        let Some(fields) = from.fields(kind) else { continue };
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
    let is_named = ["secretKeyRef", "configMapKeyRef", "queryParameterRef", "serviceRef"];
    let named = is_named.iter().filter(|name| from.get(name).is_some()).count();
    if named != 1 {
        let message = format!("{} needs exactly one reference, and has {named}", from.called());
        from.fault(from.place(), "bad_value", message, HINT);
        return None;
    }
    found.pop()
}

/// Headers, whose source stands in `value`, or parameters, whose source stands beside the name.
pub(super) fn named(parent: &Fields<'_>, field: &'static str) -> Vec<NamedValue> {
    let mut values: Vec<NamedValue> = Vec::new();
    for node in parent.list(field) {
        let Some(entry) = parent.inner(node, field) else { continue };
        let name = entry.required_text("name", "the name of the header or parameter");
        let source = match entry.get("value") {
            Some(Node { data: Data::Map(_), .. }) => entry.fields("value").and_then(|inner| {
                let source = read(&inner);
                inner.finish();
                source
            }),
            _ => read(&entry),
        };
        entry.finish();
        let (Some(name), Some((value, _))) = (name, source) else { continue };
        if values.iter().any(|earlier| earlier.name.eq_ignore_ascii_case(name.value)) {
            let message = format!("`{}` stands twice in {}", name.value, parent.called_field(field));
            parent.fault(name.place, "duplicate_name", message, "leave one of them out");
        } else {
            values.push(NamedValue { name: name.value.to_owned(), value });
        }
    }
    values
}
