//! Fields that several bodies have: for each, the reader and, next to it, the schema that describes what the reader
//! takes.
//!
//! Every body has a table of its [`Field`]s, from which the OpenAPI document is made. [`BodyFields`] that were
//! given their table check in debug builds that nothing else is read.

use std::{collections::BTreeMap, time::Duration};

use bosun_core::{
    ceiling::{LABELS, LABELS_BYTES},
    duration,
    query::ModelOptions,
};
use bosun_reading::{Field, FieldTable, table::DURATION};
use serde_json::{Value, json};

use crate::{
    ark::params::{clamp_wait, read_wait},
    http::report::BodyFields,
};

pub(crate) const WAIT: Field = Field { name: "wait", schema: wait_schema };
pub(crate) const TEMPERATURE: Field =
    Field { name: "temperature", schema: || json!({"type": "number", "minimum": 0, "maximum": 2}) };
/// Of one answer of a model.
pub(crate) const MAX_TOKENS: Field = Field {
    name: "maxTokens",
    schema: || json!({"type": "integer", "minimum": 1, "maximum": u32::MAX, "description": "Of one answer"}),
};
pub(crate) const MODEL_OPTIONS: FieldTable = &[TEMPERATURE, MAX_TOKENS];

/// A table of fields with the limits of a query between them: a new query and a change have the same.
/// [`read_limits`](super::request::read_limits) reads them.
macro_rules! with_limits {
    ([$($before:expr),* $(,)?], [$($after:expr),* $(,)?]) => {
        &[
            $($before,)*
            bosun_reading::Field::new("timeout", bosun_reading::table::duration_schema),
            bosun_reading::Field::new("toolTimeout", bosun_reading::table::duration_schema),
            bosun_reading::Field::new("externalTimeout", bosun_reading::table::duration_schema),
            bosun_reading::Field::new("approvalTimeout", bosun_reading::table::duration_schema),
            bosun_reading::Field::new("ttl", bosun_reading::table::duration_schema),
            bosun_reading::Field::new("maxToolCalls", $crate::ark::reading::fields::count_schema),
            bosun_reading::Field::new("maxTokens", $crate::ark::reading::fields::count_schema),
            $($after,)*
        ]
    };
}
pub(super) use with_limits;

pub(crate) fn read_duration(fields: &BodyFields<'_>, name: &str) -> Option<Duration> {
    duration_of(fields, name, &fields.get(name)?)
}

/// ARK's `timeout`. An empty text is none: forms send it for a field that was left empty.
pub(crate) fn read_timeout(fields: &BodyFields<'_>) -> Option<Duration> {
    let value = fields.get("timeout").filter(|value| value.as_str() != Some(""))?;
    duration_of(fields, "timeout", &value)
}

fn duration_of(fields: &BodyFields<'_>, name: &str, value: &Value) -> Option<Duration> {
    let read = duration::positive_from_json(value);
    if read.is_none() {
        fields.reject(name, "invalid_duration", "must be a duration above zero, such as `30s` or `5m`");
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

pub(crate) fn read_body_wait(fields: &BodyFields<'_>) -> Option<Duration> {
    match read_wait(&fields.get("wait")?) {
        Some(wait) => Some(clamp_wait(wait, fields.report())),
        None => {
            fields.reject("wait", "invalid_duration", "must be true, false or a duration such as `20s`");
            None
        }
    }
}

pub(crate) fn count_schema() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": u32::MAX})
}

pub(crate) fn read_count(fields: &BodyFields<'_>, name: &str) -> Option<u32> {
    let count = fields.get(name)?.as_u64().and_then(|count| u32::try_from(count).ok());
    if count.is_none() {
        fields.reject(name, "invalid_number", "must be a whole number, zero or more");
    }
    count
}

/// All labels, or all annotations, may have as many bytes as Kubernetes allows for annotations.
pub(crate) fn read_labels(metadata: &BodyFields<'_>, name: &str) -> Option<BTreeMap<String, String>> {
    let read = read_texts(metadata, name)?;
    let bytes: usize = read.iter().map(|(key, text)| key.len() + text.len()).sum();
    if bytes > LABELS_BYTES {
        metadata.reject(name, "too_large", format!("has {bytes} bytes; {LABELS_BYTES} are the most"));
    }
    if name == "labels" && read.len() > LABELS {
        metadata.reject(name, "too_many", format!("has {} labels; {LABELS} are the most", read.len()));
    }
    Some(read)
}

/// A mapping of free names to texts.
pub(crate) fn read_texts(fields: &BodyFields<'_>, name: &str) -> Option<BTreeMap<String, String>> {
    let texts = fields.fields(name)?;
    let mut read = BTreeMap::new();
    texts.consume(|texts, key, value| {
        if let Some(text) = texts.text_of(value, &key) {
            read.insert(key, text);
        }
    });
    Some(read)
}

/// `temperature` and `maxTokens`.
pub(crate) fn read_model_options(fields: &BodyFields<'_>) -> ModelOptions {
    let temperature = fields.get("temperature").and_then(|value| {
        let read = value.as_f64().filter(|temperature| (0.0..=2.0).contains(temperature));
        if read.is_none() {
            fields.reject("temperature", "invalid_number", "must be a number from 0 to 2");
        }
        read
    });
    let max_tokens = fields.get("maxTokens").and_then(|value| {
        let read = value.as_u64().filter(|tokens| (1..=u64::from(u32::MAX)).contains(tokens));
        if read.is_none() {
            fields.reject("maxTokens", "invalid_number", "must be a whole number above zero");
        }
        read
    });
    ModelOptions { temperature, max_tokens }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bosun_core::{query::AskedLimits, schema::Schema};
    use serde_json::Map;

    use super::{
        super::{request, update},
        *,
    };
    use crate::http::{error::Code, report::RequestReport};

    /// What the schema says of a value is what the reader does with it.
    #[track_caller]
    fn check(schema: &Value, value: &Value, is_read: bool) {
        let schema = Schema::compile(&Arc::new(schema.clone())).unwrap();
        assert_eq!(schema.validate(value).is_empty(), is_read, "{value}");
    }

    #[test]
    fn every_limit_is_read_described_and_documented() {
        let page = include_str!("../../../../../docs/api.md");
        for (table, section) in [(request::FIELDS, "## Create a query"), (update::FIELDS, "## Change")] {
            let (_, section) = page.split_once(section).unwrap();
            let (section, _) = section.split_once("\n## ").unwrap();
            let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
            let documented: Vec<_> = rows.flat_map(|names| names.split('`').skip(1).step_by(2)).collect();
            let mut body = Map::new();
            for name in AskedLimits::NAMES {
                assert!(documented.contains(name), "`{name}` is not documented");
                let field = table.iter().find(|field| field.name == *name);
                let schema = (field.unwrap_or_else(|| panic!("`{name}` is not described")).schema)();
                let value = if schema["type"] == "integer" { json!(7) } else { json!("7s") };
                check(&schema, &value, true);
                body.insert((*name).to_owned(), value);
            }
            let report = RequestReport::new(Code::InvalidRequest, Vec::new());
            let fields = report.body(Value::Object(body)).unwrap().with_table(table);
            let read: Vec<_> = request::read_limits(&fields).names().collect();
            fields.finish();
            assert_eq!(read, AskedLimits::NAMES);
            assert!(report.is_sound() && report.take_warnings().is_empty());
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
