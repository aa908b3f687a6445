//! Durations as people write them: `30s`, `5m`, `1h30m`, `250ms`, or a number of seconds.

use std::time::Duration;

use serde_json::Value;

/// Reads a duration; a plain number means seconds. `None` for anything else, and for zero: nothing
/// can be done in no time.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let count: u64 = rest[..digits].parse().ok()?;
        let letters =
            rest[digits..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |end| digits + end);
        let part = match &rest[digits..letters] {
            "ms" => Duration::from_millis(count),
            "s" => Duration::from_secs(count),
            "m" => Duration::from_secs(count.checked_mul(60)?),
            "h" => Duration::from_secs(count.checked_mul(3_600)?),
            // Only a number that stands alone may lack its unit.
            "" if digits == text.trim().len() => Duration::from_secs(count),
            _ => return None,
        };
        total = total.checked_add(part)?;
        rest = &rest[letters..];
    }
    Some(total).filter(|total| !total.is_zero())
}

/// [`parse_duration`] for a field that holds a text or a number of seconds.
#[must_use]
pub fn duration_from_json(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => parse_duration(text),
        Value::Number(number) => {
            let seconds = Duration::try_from_secs_f64(number.as_f64()?).ok()?;
            // Whole milliseconds are what is stored.
            Some(Duration::from_millis(u64::try_from(seconds.as_millis()).ok()?)).filter(|duration| !duration.is_zero())
        }
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
        ] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in
            ["", "0", "0s", "-1s", "s", "1d", "1h30", "1.5s", "1 s", "99999999999999999999s", "5124095576030432h"]
        {
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
