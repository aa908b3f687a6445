//! Fields that several bodies have: for each, the reader and, beside it, the schema that describes what the reader
//! takes.
//!
//! Every body has a table of its [`BodyField`]s, from which the OpenAPI document is made. An [`Object`] that was
//! given its table checks in debug builds that nothing else is read.

use std::{collections::BTreeMap, time::Duration};

use bosun_core::{ceiling::LABELS_BYTES, duration, query::ModelOptions, schema::path::with_key};
use serde_json::{Value, json};

use crate::{
    ark::params::{clamp_wait, read_wait},
    http::json::{BodyField, FieldTable, Object, RequestFindings, kind_of},
};

/// A duration as [`duration::positive_from_json`] reads it, as a regular expression: Go's units, a number of seconds without one.
pub(crate) const DURATION: &str =
    "([0-9]+(\\.[0-9]*)?|\\.[0-9]+)|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+";

pub(crate) const WAIT: BodyField = BodyField { name: "wait", schema: wait_schema };
pub(crate) const TEMPERATURE: BodyField =
    BodyField { name: "temperature", schema: || json!({"type": "number", "minimum": 0, "maximum": 2}) };
/// Of one answer of a model.
pub(crate) const MAX_TOKENS: BodyField = BodyField {
    name: "maxTokens",
    schema: || json!({"type": "integer", "minimum": 1, "maximum": u32::MAX, "description": "Of one answer"}),
};
pub(crate) const MODEL_OPTIONS: FieldTable = &[TEMPERATURE, MAX_TOKENS];

/// What is described of an object with these fields.
pub(crate) fn object_schema(fields: FieldTable, required: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> =
        fields.iter().map(|field| (field.name.to_owned(), (field.schema)())).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

pub(crate) fn text_schema() -> Value {
    json!({"type": "string"})
}

pub(crate) fn filled_text_schema() -> Value {
    json!({"type": "string", "minLength": 1})
}

pub(crate) fn flag_schema() -> Value {
    json!({"type": "boolean"})
}

pub(crate) fn duration_schema() -> Value {
    json!({"anyOf": [
        {"type": "string", "pattern": format!("^({DURATION})$"), "examples": ["30s", "1h30m"]},
        {"type": "number", "exclusiveMinimum": 0, "description": "Seconds"},
    ]})
}

pub(crate) fn read_duration(fields: &mut Object, name: &str, findings: &mut RequestFindings) -> Option<Duration> {
    let path = fields.path_of(name);
    let value = fields.take(name)?;
    let read = duration::positive_from_json(&value);
    if read.is_none() {
        findings.fault(path, "invalid_duration", "must be a duration above zero, such as `30s` or `5m`");
    }
    read
}

pub(crate) fn wait_schema() -> Value {
    json!({"anyOf": [
        {"type": "boolean"},
        {"type": "string", "pattern": format!("^(true|false|{DURATION})$"), "examples": ["20s"]},
        {"type": "number", "minimum": 0, "description": "Seconds"},
    ]})
}

pub(crate) fn read_body_wait(fields: &mut Object, findings: &mut RequestFindings) -> Option<Duration> {
    let path = fields.path_of("wait");
    let value = fields.take("wait")?;
    match read_wait(&value) {
        Some(wait) => Some(clamp_wait(wait, findings)),
        None => {
            findings.fault(path, "invalid_duration", "must be true, false or a duration such as `20s`");
            None
        }
    }
}

pub(crate) fn count_schema() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": u32::MAX})
}

pub(crate) fn read_count(fields: &mut Object, name: &str, findings: &mut RequestFindings) -> Option<u32> {
    let path = fields.path_of(name);
    let value = fields.take(name)?;
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
    if count.is_none() {
        findings.fault(path, "invalid_number", "must be a whole number, zero or more");
    }
    count
}

/// Labels, or annotations.
pub(crate) fn texts_schema() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}})
}

/// All labels, or all annotations, may have as many bytes as Kubernetes allows for annotations.
pub(crate) fn read_texts(
    metadata: &mut Object,
    name: &str,
    findings: &mut RequestFindings,
) -> Option<BTreeMap<String, String>> {
    let path = metadata.path_of(name);
    let texts = metadata.object(name, findings)?;
    let mut read = BTreeMap::new();
    let mut members = texts.into_members().into_iter();
    while let Some((key, value)) = members.next() {
        if findings.is_full() {
            findings.omit(1 + members.len());
            break;
        }
        match value {
            Value::String(text) => {
                read.insert(key, text);
            }
            other => {
                let message = format!("must be a string, not {}", kind_of(&other));
                findings.fault(with_key(&path, &key), "wrong_type", message);
            }
        }
    }
    let bytes: usize = read.iter().map(|(key, text): (&String, &String)| key.len() + text.len()).sum();
    if bytes > LABELS_BYTES {
        findings.fault(path, "too_large", format!("has {bytes} bytes; {LABELS_BYTES} are the most"));
    }
    Some(read)
}

/// `temperature` and `maxTokens`.
pub(crate) fn read_model_options(fields: &mut Object, findings: &mut RequestFindings) -> ModelOptions {
    let path = fields.path_of("temperature");
    let temperature = fields.take("temperature").and_then(|value| {
        let read = value.as_f64().filter(|temperature| (0.0..=2.0).contains(temperature));
        if read.is_none() {
            findings.fault(path, "invalid_number", "must be a number from 0 to 2");
        }
        read
    });
    let path = fields.path_of("maxTokens");
    let max_tokens = fields.take("maxTokens").and_then(|value| {
        let read = value.as_u64().filter(|tokens| (1..=u64::from(u32::MAX)).contains(tokens));
        if read.is_none() {
            findings.fault(path, "invalid_number", "must be a whole number above zero");
        }
        read
    });
    ModelOptions { temperature, max_tokens }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bosun_core::schema::Schema;

    use super::*;

    /// What the schema says of a value is what the reader does with it.
    #[track_caller]
    fn check(schema: &Value, value: &Value, is_read: bool) {
        let schema = Schema::compile(&Arc::new(schema.clone())).unwrap();
        assert_eq!(schema.validate(value).is_empty(), is_read, "{value}");
    }

    #[test]
    fn a_duration_is_described_as_it_is_read() {
        for value in [
            json!("30s"),
            json!("1h30m"),
            json!("1.5s"),
            json!(".5h"),
            json!("250ms"),
            json!("30"),
            json!(30),
            json!(1.5),
        ] {
            assert!(duration::positive_from_json(&value).is_some(), "{value}");
            check(&duration_schema(), &value, true);
        }
        for value in
            [json!(""), json!("-1s"), json!("1d"), json!("five"), json!(0), json!(-1), json!(true), json!(null)]
        {
            assert!(duration::positive_from_json(&value).is_none(), "{value}");
            check(&duration_schema(), &value, false);
        }
    }

    #[test]
    fn a_wait_is_described_as_it_is_read() {
        for value in [json!(true), json!(false), json!("true"), json!("0s"), json!(0), json!("1m30s"), json!(2.5)] {
            assert!(read_wait(&value).is_some(), "{value}");
            check(&wait_schema(), &value, true);
        }
        for value in [json!("soon"), json!(-1), json!([])] {
            assert!(read_wait(&value).is_none(), "{value}");
            check(&wait_schema(), &value, false);
        }
    }
}
