//! The fields of spans, formatted as JSON directly.
//!
//! Every request and every query has a span, and nearly all of them log nothing. The library's own formatter, which
//! builds a map of values for each span and then serializes it, took a fiftieth of the work of a request. The lines are
//! the same.

use std::fmt;

use tracing::{
    field::{Field, Visit},
    span::Record,
};
use tracing_subscriber::{
    field::{RecordFields, VisitOutput},
    fmt::{FormatFields, FormattedFields, format::Writer},
};

/// Writes the fields of a span as one JSON object.
#[derive(Debug)]
pub(super) struct JsonObject;

impl<'writer> FormatFields<'writer> for JsonObject {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> fmt::Result {
        writer.write_char('{')?;
        let mut members = Members { writer: writer.by_ref(), is_first: true, result: Ok(()) };
        fields.record(&mut members);
        members.finish()?;
        writer.write_char('}')
    }

    fn add_fields(&self, current: &'writer mut FormattedFields<Self>, fields: &Record<'_>) -> fmt::Result {
        // The object is reopened.
        let is_first = current.fields.pop().is_none() || current.fields.ends_with('{');
        if current.fields.is_empty() {
            current.fields.push('{');
        }
        let mut members = Members { writer: current.as_writer(), is_first, result: Ok(()) };
        fields.record(&mut members);
        members.finish()?;
        current.fields.push('}');
        Ok(())
    }
}

struct Members<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl Members<'_> {
    /// Writes one member; a value that is not JSON becomes a string.
    fn member(&mut self, field: &Field, write: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.result.is_err() {
            return;
        }
        let comma = if std::mem::replace(&mut self.is_first, false) { "" } else { "," };
        // `r#type` is how Rust spells a field named by a keyword. Names need no escaping: they are identifiers, with
        // dots.
        let name = field.name().strip_prefix("r#").unwrap_or(field.name());
        self.result = write!(self.writer, "{comma}\"{name}\":").and_then(|()| write(&mut self.writer));
    }
}

impl Visit for Members<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.member(field, |writer| {
            writer.write_char('"')?;
            fmt::write(&mut Escaped(writer), format_args!("{value:?}"))?;
            writer.write_char('"')
        });
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.member(field, |writer| {
            writer.write_char('"')?;
            fmt::Write::write_str(&mut Escaped(writer), value)?;
            writer.write_char('"')
        });
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.member(field, |writer| write!(writer, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.member(field, |writer| write!(writer, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.member(field, |writer| write!(writer, "{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinity.
        self.member(
            field,
            |writer| if value.is_finite() { write!(writer, "{value:?}") } else { writer.write_str("null") },
        );
    }
}

impl VisitOutput<fmt::Result> for Members<'_> {
    fn finish(self) -> fmt::Result {
        self.result
    }
}

/// Text that is escaped for a JSON string.
struct Escaped<'a, 'writer>(&'a mut Writer<'writer>);

impl fmt::Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut plain_from = 0;
        for (index, byte) in text.bytes().enumerate().filter(|(_, byte)| matches!(byte, 0..0x20 | b'"' | b'\\')) {
            self.0.write_str(&text[plain_from..index])?;
            match byte {
                b'"' | b'\\' => write!(self.0, "\\{}", char::from(byte))?,
                _ => write!(self.0, "\\u{byte:04x}")?,
            }
            plain_from = index + 1;
        }
        self.0.write_str(&text[plain_from..])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};
    use tracing_subscriber::{fmt::MakeWriter, layer::SubscriberExt};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Lines {
        type Writer = Self;
        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    /// The spans of a log line, with our formatter and with the library's.
    #[track_caller]
    fn check(log: impl Fn(), expect: &Value) {
        let (ours, theirs) = (Lines::default(), Lines::default());
        let lines = tracing_subscriber::fmt::layer().json().flatten_event(true);
        let subscriber = tracing_subscriber::registry().with(lines.fmt_fields(JsonObject).with_writer(ours.clone()));
        tracing::subscriber::with_default(subscriber, &log);
        let lines = tracing_subscriber::fmt::layer().json().flatten_event(true);
        let subscriber = tracing_subscriber::registry().with(lines.with_writer(theirs.clone()));
        tracing::subscriber::with_default(subscriber, &log);
        let spans = |lines: &Lines| -> Value {
            serde_json::from_slice::<Value>(&lines.0.lock().unwrap()).unwrap()["span"].take()
        };
        assert_eq!(&spans(&ours), expect);
        assert_eq!(&spans(&theirs), expect, "the library's");
    }

    #[test]
    fn fields_of_every_kind_match_the_librarys() {
        check(
            || {
                let text = "a \"quoted\" \\ line\nand\ttab \u{1} ü";
                let span = tracing::info_span!(
                    "work",
                    text,
                    shown = %text,
                    debugged = ?Some("x"),
                    small = -3_i64,
                    large = u64::MAX,
                    yes = true,
                    share = 0.5
                );
                span.in_scope(|| tracing::info!("done"));
            },
            &json!({
                "name": "work", "text": "a \"quoted\" \\ line\nand\ttab \u{1} ü",
                "shown": "a \"quoted\" \\ line\nand\ttab \u{1} ü", "debugged": "Some(\"x\")",
                "small": -3, "large": u64::MAX, "yes": true, "share": 0.5,
            }),
        );
    }

    #[test]
    fn fields_that_come_later_are_added() {
        check(
            || {
                let span = tracing::info_span!("work", first = 1, later = tracing::field::Empty);
                span.record("later", "two");
                span.in_scope(|| tracing::info!("done"));
            },
            &json!({"name": "work", "first": 1, "later": "two"}),
        );
        check(
            || {
                let span = tracing::info_span!("work", later = tracing::field::Empty);
                span.record("later", "two");
                span.in_scope(|| tracing::info!("done"));
            },
            &json!({"name": "work", "later": "two"}),
        );
    }
}
