//! Durations as ARK writes them: Go's `1h30m`, and plain numbers, which are seconds.

use std::time::Duration;

use serde_json::Value;

const NANOS: &[(&str, u128)] = &[
    // Longer units first: `ms` begins like `m`.
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads `90`, `1.5s` or `1h30m`; `None` if it is nothing of the kind.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds;
    let mut rest = if is_number {
        seconds = format!("{text}s");
        seconds.as_str()
    } else {
        text
    };
    let mut nanos = 0_u128;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(end);
        let (unit, scale) = NANOS.iter().find(|(unit, _)| after.starts_with(unit))?;
        nanos = nanos.checked_add(scaled(number, *scale)?)?;
        rest = &after[unit.len()..];
    }
    let nanos = u64::try_from(nanos).ok()?;
    (!text.is_empty()).then(|| Duration::from_nanos(nanos))
}

/// `number` times `scale`, without rounding through a float.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || whole.len() > 18 || fraction.len() > 18 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let part = part * scale / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_mul(scale)?.checked_add(part)
}

/// Reads a duration from JSON: a text as above, or a number of seconds.
pub(crate) fn from_json(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => parse(text),
        Value::Number(number) => parse(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Writes `duration` as Go does: `1m30s`, `1.204s`, `250ms`, `0s`.
pub(crate) fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".into();
    }
    if nanos < 1_000_000_000 {
        let (unit, scale) = match nanos {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!("{}{unit}", decimal(nanos, scale));
    }
    let minutes = nanos / 60_000_000_000;
    let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// `value / scale` with as many decimals as it takes.
fn decimal(value: u128, scale: u128) -> String {
    let (whole, part) = (value / scale, value % scale);
    if part == 0 {
        return whole.to_string();
    }
    let width = scale.ilog10() as usize;
    let fraction = format!("{part:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, millis: u64, written: &str) {
        assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        assert_eq!(format(Duration::from_millis(millis)), written);
    }

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        check("0", 0, "0s");
        check("30", 30_000, "30s");
        check("30s", 30_000, "30s");
        check("5m", 300_000, "5m0s");
        check("720h", 2_592_000_000, "720h0m0s");
        check("1h15m30.918s", 4_530_918, "1h15m30.918s");
        check("1.5h", 5_400_000, "1h30m0s");
        check("250ms", 250, "250ms");
        check(".5s", 500, "500ms");
        check("2000us", 2, "2ms");
    }

    #[test]
    fn small_ones_keep_their_unit() {
        assert_eq!(format(Duration::from_nanos(7)), "7ns");
        assert_eq!(format(Duration::from_nanos(1_500)), "1.5µs");
        assert_eq!(parse("1.5µs"), Some(Duration::from_nanos(1_500)));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "s", ".", ".s", "1d", "-1s", "+1s", "1 s", "1s ", "1.2.3s", "five", "1e3", "99999999999999999999s", "1h60", "∞"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(from_json(&serde_json::json!(2.5)), Some(Duration::from_millis(2_500)));
        for value in [serde_json::json!(-1), serde_json::json!(true), serde_json::json!([1])] {
            assert_eq!(from_json(&value), None);
        }
    }
}
