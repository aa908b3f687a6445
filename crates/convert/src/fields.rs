//! What the converters add to the reading of fields: texts as maps of their own, and cache policies as they are written.

use std::collections::BTreeMap;

use bosun_core::{
    Tool, duration,
    tool::{CachePolicy, CacheScope},
};
use bosun_reading::Text;
use serde_json::{Value, json};

/// The fields of a JSON or YAML value, which has paths and no places.
pub(crate) type Fields<'a> = bosun_reading::Fields<'a, &'a Value>;

/// The text of the field `key`.
pub(crate) fn text<'a>(fields: &Fields<'a>, key: &str) -> Option<&'a str> {
    fields.text(key).map(|text| text.value)
}

/// The texts of a mapping as a map of their own.
pub(crate) fn owned(texts: BTreeMap<&str, Text<'_>>) -> BTreeMap<String, String> {
    texts.into_iter().map(|(name, text)| (name.to_owned(), text.value.to_owned())).collect()
}

/// A cache policy as it is read again; the time alone if the scope is the default.
pub(crate) fn write_cache(tool: &Tool) -> Option<Value> {
    let CachePolicy { ttl, scope } = tool.written_cache()?;
    let ttl = duration::format(ttl);
    Some(if scope == CacheScope::default() { ttl.into() } else { json!({"ttl": ttl, "scope": scope.as_str()}) })
}
