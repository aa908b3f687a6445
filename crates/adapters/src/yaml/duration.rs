//! Durations as Go, and therefore ARK, writes them: `30s`, `1h30m`, `250ms`, `1.5s`.

use std::time::Duration;

pub(crate) const HINT: &str = "write it like `30s`, `5m`, `1h30m` or `250ms`";

/// The longest duration that is taken: a year.
const LONGEST: f64 = 366.0 * 86_400.0;

/// Reads a duration; `None` if it is none, negative or absurdly long.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    if text.is_empty() {
        return None;
    }
    let mut seconds = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let unit_start = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(unit_start);
        let unit_end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * unit;
        rest = after;
    }
    // Whole microseconds: enough for any limit, and `0.1s` is what it says.
    (seconds <= LONGEST).then(|| Duration::from_micros((seconds * 1e6).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, millis: Option<u64>) {
        assert_eq!(parse(text), millis.map(Duration::from_millis), "{text}");
    }

    #[test]
    fn durations_are_written_as_in_go() {
        check("30s", Some(30_000));
        check("5m", Some(300_000));
        check("1h30m", Some(5_400_000));
        check("1m30s", Some(90_000));
        check("250ms", Some(250));
        check("1.5s", Some(1_500));
        check("0.1s", Some(100));
        check("0", Some(0));
        check("0s", Some(0));
        check("720h", Some(2_592_000_000));
    }

    #[test]
    fn anything_else_is_none() {
        for text in ["", "30", "s", "5 m", "-5s", "1d", "1.2.3s", "5m ", "five", "1e3s", ".s", "99999999h", "5mm"] {
            check(text, None);
        }
    }
}
