//! Durations in Go's notation, which ARK uses: `30s`, `5m`, `1h30m`, `1.5s`, `250ms`.
//!
//! The only parser of durations: manifests, request bodies, command-line options, TOML files and
//! converters read them here. A plain number means seconds. [`parse`] is exact to the nanosecond and
//! takes zero; [`parse_positive`] is for timeouts and lifetimes, which are journaled in milliseconds.

use std::time::Duration;

use serde_json::Value;

/// How to write a duration, as the hint of an error message.
pub const HINT: &str = "write it like `30s`, `5m`, `1h30m` or `250ms`";

/// The units of Go. A prefix of another unit comes after it.
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

/// Parses a duration. `None` for anything else, and for more than 2⁶⁴ milliseconds.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let seconds;
    if !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        seconds = format!("{rest}s");
        rest = &seconds;
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0_u128;
    while !rest.is_empty() {
        let number = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(number);
        let (unit, scale) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        nanos = nanos.checked_add(scaled(number, *scale)?)?;
        rest = &after[unit.len()..];
    }
    u64::try_from(nanos / 1_000_000).ok()?;
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    let fraction = u32::try_from(nanos % 1_000_000_000).ok()?;
    Some(Duration::new(seconds, fraction))
}

/// Parses a duration of at least a millisecond, and truncates it to whole milliseconds. A shorter one
/// is refused: as a timeout it would expire every call at once.
#[must_use]
pub fn parse_positive(text: &str) -> Option<Duration> {
    let millis = u64::try_from(parse(text)?.as_millis()).ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}

/// [`parse_positive`] for a JSON value that is a text or a number of seconds.
#[must_use]
pub fn positive_from_json(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => parse_positive(text),
        Value::Number(number) => parse_positive(&number.to_string()),
        _ => None,
    }
}

/// [`parse`] for a JSON value that is a text or a number of seconds: a measured time, which may be zero.
#[must_use]
pub fn measured_from_json(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => parse(text),
        Value::Number(number) => parse(&number.to_string()),
        _ => None,
    }
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

/// Writes `duration` to the millisecond as Go does: `1m30s`, `1.204s`, `250ms`, `0s`.
#[must_use]
pub fn format(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".into();
    }
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    let (seconds, millis) = (millis / 1_000, millis % 1_000);
    let fraction = if millis == 0 { String::new() } else { format!(".{millis:03}") };
    let fraction = fraction.trim_end_matches('0');
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}{fraction}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}{fraction}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}{fraction}s"),
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
            ("0.1s", 100),
            (".5h", 1_800_000),
            ("1h15m30.918s", 4_530_918),
            ("720h", 2_592_000_000),
            ("1500us", 1),
        ] {
            assert_eq!(parse_positive(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in [
            "",
            "-1s",
            "+1s",
            "s",
            ".s",
            ".",
            "1..5s",
            "1.2.3s",
            "1d",
            "1e3",
            "1e3s",
            "1h30",
            "1 s",
            "5mm",
            "five",
            "99999999999999999999s",
            "9999999999999999999h",
            "∞",
        ] {
            assert_eq!((parse(bad), parse_positive(bad)), (None, None), "{bad}");
        }
    }

    #[test]
    fn less_than_a_millisecond_is_a_duration_and_not_a_timeout() {
        for (text, nanos) in [("0", 0), ("0s", 0), ("1ns", 1), ("200us", 200_000), ("999us", 999_000)] {
            assert_eq!((parse(text), parse_positive(text)), (Some(Duration::from_nanos(nanos)), None), "{text}");
        }
    }

    #[test]
    fn a_number_is_seconds() {
        assert_eq!(positive_from_json(&json!(1.5)), Some(Duration::from_millis(1_500)));
        assert_eq!(positive_from_json(&json!("2m")), Some(Duration::from_secs(120)));
        for bad in [json!(0), json!(-1), json!(1e300), json!(null), json!(true)] {
            assert_eq!(positive_from_json(&bad), None, "{bad}");
        }
    }

    #[track_caller]
    fn check(millis: u64, written: &str) {
        let duration = Duration::from_millis(millis);
        assert_eq!(format(duration), written);
        assert_eq!(parse(written), Some(duration));
    }

    #[test]
    fn durations_are_written_as_go_does_and_can_be_read_again() {
        check(0, "0s");
        check(7, "7ms");
        check(250, "250ms");
        check(1_000, "1s");
        check(1_204, "1.204s");
        check(1_500, "1.5s");
        check(90_000, "1m30s");
        check(300_000, "5m0s");
        check(4_530_918, "1h15m30.918s");
        check(2_592_000_000, "720h0m0s");
    }
}
