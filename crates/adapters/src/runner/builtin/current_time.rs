//! `current_time`: what time it is, in UTC or at an offset from it.
//!
//! Names of timezones are not accepted: their rules change with governments, and this program would have to ship a
//! table of them that becomes outdated.

use bosun_core::{Outcome, Timestamp, Tool, machine::outcome_code};
use serde_json::{Value, json};

use super::{Effects, definition};

pub(super) const NAME: &str = "current_time";

pub(super) fn tool() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "timezone": {
                "type": "string",
                "description": "UTC, or an offset from it such as +02:00 or -05:30; UTC if left out",
            },
        },
        "additionalProperties": false,
    });
    definition(
        NAME,
        "Tells the current date and time in the form 2026-01-31T14:05:00.000+02:00",
        parameters,
        Effects::Reads,
    )
}

pub(super) fn run(arguments: &Value, now: Timestamp) -> Outcome {
    let timezone = arguments.get("timezone").and_then(Value::as_str).unwrap_or("UTC");
    match offset_minutes(timezone) {
        Some(offset) => Outcome::success(at_offset(now, offset)),
        None => {
            let message = format!("`{timezone}` is not a known timezone; write UTC or an offset such as +02:00");
            Outcome::failure(outcome_code::TOOL_FAILED, message)
        }
    }
}

/// Reads `UTC`, `Z` or `±hh:mm`, up to the widest offset that is in use.
fn offset_minutes(text: &str) -> Option<i64> {
    if matches!(text, "UTC" | "utc" | "Z" | "z" | "GMT") {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two_digits =
        |text: &str| (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok());
    let (hours, minutes): (i64, i64) = (two_digits(hours)??, two_digits(minutes)??);
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// RFC 3339 with the offset: the local time there, and its offset from UTC.
fn at_offset(now: Timestamp, minutes: i64) -> String {
    if minutes == 0 {
        return now.to_rfc3339();
    }
    let wall = Timestamp(now.0.saturating_add(minutes * 60_000)).to_rfc3339();
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{}{sign}{:02}:{:02}", wall.trim_end_matches('Z'), minutes.abs() / 60, minutes.abs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: &Value, expect: &str) {
        // 2026-11-15T23:30:00.123Z
        let outcome = run(arguments, Timestamp(1_794_785_400_123));
        assert_eq!(outcome, Outcome::success(expect));
    }

    #[test]
    fn tells_the_time_in_utc_or_at_an_offset() {
        check(&json!({}), "2026-11-15T23:30:00.123Z");
        check(&json!({"timezone": "UTC"}), "2026-11-15T23:30:00.123Z");
        check(&json!({"timezone": "+00:00"}), "2026-11-15T23:30:00.123Z");
        check(&json!({"timezone": "+02:00"}), "2026-11-16T01:30:00.123+02:00");
        check(&json!({"timezone": "-05:30"}), "2026-11-15T18:00:00.123-05:30");
        check(&json!({"timezone": "+14:00"}), "2026-11-16T13:30:00.123+14:00");
    }

    #[test]
    fn other_timezones_are_a_failure_that_says_what_to_write() {
        for timezone in ["Europe/Paris", "+2", "+02", "02:00", "+15:00", "+02:60", "", "+0a:00", "é", "+é:00"] {
            let Outcome::Failure { code, message, .. } = run(&json!({"timezone": timezone}), Timestamp(0)) else {
                panic!("{timezone}")
            };
            assert_eq!(code, outcome_code::TOOL_FAILED);
            assert!(message.contains("write UTC or an offset such as +02:00"), "{message}");
        }
    }
}
