//! What the converters add to the reading of fields: durations and cache policies as texts.

use std::{collections::BTreeMap, time::Duration};

use bosun_core::{
    Tool,
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

/// A duration as a text that can be read again.
pub(crate) fn duration_text(duration: Duration) -> String {
    match (duration.as_secs(), duration.subsec_millis()) {
        (seconds, 0) => format!("{seconds}s"),
        _ => format!("{}ms", duration.as_millis()),
    }
}

/// A cache policy as it is read again; the time alone if the scope is the default.
pub(crate) fn write_cache(tool: &Tool) -> Option<Value> {
    let CachePolicy { ttl, scope } = tool.written_cache()?;
    let ttl = duration_text(ttl);
    Some(if scope == CacheScope::default() { ttl.into() } else { json!({"ttl": ttl, "scope": scope.as_str()}) })
}
