//! Durations as people write them: `30s`, `5m`, `1h30m`, `1.5s`, `250ms`, or a number of seconds.

use std::time::Duration;

use serde_json::Value;

/// Go's units, in which ARK writes durations. A longer one precedes the one that is its prefix.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration as Go does (`1h30m`, `1.5s`); a plain number means seconds. Truncated to whole milliseconds, which
/// is what is stored. `None` for anything else, and for less than one millisecond: nothing can be done in no time.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let seconds;
    if !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        seconds = format!("{rest}s");
        rest = &seconds;
    }
    let mut nanos = 0_u128;
    while !rest.is_empty() {
        let number = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(number);
        let (unit, scale) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        nanos = nanos.checked_add(scaled(number, *scale)?)?;
        rest = &after[unit.len()..];
    }
    let millis = u64::try_from(nanos / 1_000_000).ok()?;
    Some(Duration::from_millis(millis)).filter(|duration| !duration.is_zero())
}

/// A decimal number times `scale`, without rounding through a float.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    const LONGEST: usize = 18;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.len() == usize::from(number.contains('.')) || whole.len() > LONGEST || fraction.len() > LONGEST {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let part = digits(fraction)? * scale / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    digits(whole)?.checked_mul(scale)?.checked_add(part)
}

/// [`parse_duration`] for a field that holds a text or a number of seconds.
#[must_use]
pub fn duration_from_json(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => parse_duration(text),
        Value::Number(number) => parse_duration(&number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [
            ("30s", 30_000),
            ("30", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("1m30s", 90_000),
            ("250ms", 250),
            (" 2s ", 2_000),
            ("1.5s", 1_500),
            (".5h", 1_800_000),
            ("1h15m30.918s", 4_530_918),
            ("720h", 2_592_000_000),
            ("1500us", 1),
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in [
            "",
            "0",
            "0s",
            "999us",
            "-1s",
            "+1s",
            "s",
            ".s",
            ".",
            "1..5s",
            "1.2.3s",
            "1d",
            "1e3",
            "1h30",
            "1 s",
            "five",
            "99999999999999999999s",
            "9999999999999999999h",
            "∞",
        ] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_number_is_seconds() {
        assert_eq!(duration_from_json(&json!(1.5)), Some(Duration::from_millis(1_500)));
        assert_eq!(duration_from_json(&json!("2m")), Some(Duration::from_secs(120)));
        for bad in [json!(0), json!(-1), json!(1e300), json!(null), json!(true)] {
            assert_eq!(duration_from_json(&bad), None, "{bad}");
        }
    }
}
