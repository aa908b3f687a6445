//! Values that are written in a manifest or kept as a secret: ARK's `ValueSource`.

use bosun_core::tool::SecretRef;
use bosun_reading::{Data, Fields, Node, SourcePlace, spec};

use crate::secret::{Secret, SecretSource};

/// A value with its place; for a literal, the place of the text itself.
pub(super) struct ManifestValue {
    pub(super) source: SecretSource,
    pub(super) place: SourcePlace,
}

impl ManifestValue {
    /// The text, if it is written in the manifest.
    pub(super) fn literal(&self) -> Option<&str> {
        match &self.source {
            SecretSource::Literal(text) => Some(text.expose()),
            SecretSource::Reference(_) => None,
        }
    }
}

const HINT: &str = "write `{value: …}` or `{valueFrom: {secretKeyRef: {name: …, key: …}}}`";

/// The value of the field `name`, if it is there.
pub(super) fn optional(fields: &Fields<'_>, name: &'static str) -> Option<ManifestValue> {
    of(fields, fields.get(name)?, name)
}

/// The value of the field `name`.
pub(super) fn required(fields: &Fields<'_>, name: &'static str) -> Option<ManifestValue> {
    of(fields, fields.require(name, HINT)?, name)
}

/// Reads `node`, the value of `name`.
pub(super) fn of(parent: &Fields<'_>, node: &Node, name: &str) -> Option<ManifestValue> {
    if !matches!(node.data, Data::Map(_)) {
        parent.wrong_field(name, node, "a mapping", HINT);
        return None;
    }
    let fields = parent.inner(node, name)?.with_table(spec::SECRET_VALUE);
    let literal = fields.text("value");
    let reference = fields.fields("valueFrom").map(|from| {
        let from = from.with_table(spec::SECRET_FROM);
        let secret = from.fields("secretKeyRef").map(|reference| secret(&reference.with_table(spec::KEY_REF)));
        from.unserved(&["configMapKeyRef", "serviceRef", "queryParameterRef"], "this version serves `secretKeyRef`");
        from.finish();
        (from.place(), secret)
    });
    fields.finish();
    let both = fields.get("value").is_some() && fields.get("valueFrom").is_some();
    let neither = fields.get("value").is_none() && fields.get("valueFrom").is_none();
    if both || neither {
        let problem = if both { "both `value` and `valueFrom`" } else { "neither `value` nor `valueFrom`" };
        fields.fault(fields.place(), "bad_value", format!("{} has {problem}", parent.called_field(name)), HINT);
        return None;
    }
    if let Some(text) = literal {
        return Some(ManifestValue {
            source: SecretSource::Literal(Secret::new(text.value.to_owned())),
            place: text.place,
        });
    }
    let (place, secret) = reference?;
    Some(ManifestValue { source: SecretSource::Reference(secret??), place })
}

fn secret(fields: &Fields<'_>) -> Option<SecretRef> {
    let name = fields.required_text("name", "the name of the secret");
    let key = fields.required_text("key", "the key in the secret");
    let optional = fields.bool("optional").unwrap_or_default();
    fields.finish();
    Some(SecretRef { name: name?.value.to_owned(), key: key?.value.to_owned(), optional })
}
