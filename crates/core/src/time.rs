//! Points in time, as data. The clock that makes them lives in the engine.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, as the journal stores them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The moment `duration` after this one. Saturates: a deadline far in the future stays there.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// So long ago.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(millis))
    }

    /// The same moment by a clock that has stepped by so much since.
    #[must_use]
    pub fn shifted(self, by_ms: i64) -> Self {
        Self(self.0.saturating_add(by_ms))
    }

    /// How long ago `earlier` was; zero if it lies ahead, since clocks may step back.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// RFC 3339 in UTC with milliseconds, as every edge writes it.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let days = self.0.div_euclid(86_400_000);
        let millis = self.0.rem_euclid(86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1_000 % 60);
        if !(0..=9_999).contains(&year) {
            return format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", millis % 1_000);
        }
        // Every answer has several, and to be formatted costs ten times as much as to be written down.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        for (place, digits, mut number) in [
            (0, 4, year),
            (5, 2, month),
            (8, 2, day),
            (11, 2, hour),
            (14, 2, minute),
            (17, 2, second),
            (20, 3, millis % 1_000),
        ] {
            for digit in text[place..place + digits].iter_mut().rev() {
                *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
                number /= 10;
            }
        }
        str::from_utf8(&text).unwrap_or_default().to_owned()
    }
}

impl Timestamp {
    /// Reads RFC 3339 with any offset, and a date alone as its first moment in UTC.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let number = |range: std::ops::Range<usize>| {
            let digits = text.get(range)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok()).flatten()
        };
        let is = |at: usize, marks: &[u8]| text.as_bytes().get(at).is_some_and(|byte| marks.contains(byte));
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let days = days_from_civil(year, month, day);
        if !is(4, b"-") || !is(7, b"-") || civil_from_days(days) != (year, month, day) {
            return None;
        }
        if text.len() == 10 {
            return Some(Self(days * 86_400_000));
        }
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        // A leap second is the last moment of its minute.
        let in_range = hour < 24 && minute < 60 && second <= 60;
        if !in_range || !is(10, b"Tt ") || !is(13, b":") || !is(16, b":") {
            return None;
        }
        let mut rest = text.get(19..)?;
        let mut millis = 0;
        if let Some(fraction) = rest.strip_prefix('.') {
            let end = fraction.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(fraction.len());
            let digits = fraction.get(..end).filter(|digits| !digits.is_empty())?;
            millis = format!("{digits:0<3}").get(..3)?.parse::<i64>().ok()?;
            rest = fraction.get(end..)?;
        }
        let offset = match rest.as_bytes() {
            b"Z" | b"z" => 0,
            [sign @ (b'+' | b'-'), h1 @ b'0'..=b'2', h2 @ b'0'..=b'9', b':', m1 @ b'0'..=b'5', m2 @ b'0'..=b'9'] => {
                let digit = |byte: &u8| i64::from(*byte - b'0');
                let minutes = (digit(h1) * 10 + digit(h2)) * 60 + digit(m1) * 10 + digit(m2);
                if *sign == b'-' { -minutes } else { minutes }
            }
            _ => return None,
        };
        let seconds = (hour * 60 + minute - offset) * 60 + second.min(59);
        Some(Self(days * 86_400_000 + seconds * 1_000 + millis))
    }
}

/// The day number of a proleptic Gregorian date; Howard Hinnant's `days_from_civil`.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Proleptic Gregorian date of a day number; Howard Hinnant's `civil_from_days`.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(millis: i64, expect: &str) {
        assert_eq!(Timestamp(millis).to_rfc3339(), expect);
    }

    #[test]
    fn writes_rfc_3339() {
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_794_700_800_123, "2026-11-15T00:00:00.123Z");
        check(-1, "1969-12-31T23:59:59.999Z");
        check(253_402_300_799_999, "9999-12-31T23:59:59.999Z");
        check(253_402_300_800_000, "10000-01-01T00:00:00.000Z");
        check(-62_167_219_200_000, "0000-01-01T00:00:00.000Z");
        check(-62_167_219_200_001, "-001-12-31T23:59:59.999Z");
    }

    #[test]
    fn reads_what_it_writes() {
        for millis in [0, 951_782_399_999, 951_782_400_000, 1_794_700_800_123, -1, 253_402_300_799_999] {
            assert_eq!(Timestamp::from_rfc3339(&Timestamp(millis).to_rfc3339()), Some(Timestamp(millis)));
        }
        for (text, expect) in [
            ("2026-11-15", 1_794_700_800_000),
            ("2026-11-15T00:00:00Z", 1_794_700_800_000),
            ("2026-11-15t01:30:00+01:30", 1_794_700_800_000),
            ("2026-11-14 23:00:00.5-01:00", 1_794_700_800_500),
            ("2026-11-15T00:00:00.123456789Z", 1_794_700_800_123),
        ] {
            assert_eq!(Timestamp::from_rfc3339(text), Some(Timestamp(expect)), "{text}");
        }
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-11-15T24:00:00Z",
            "2026-11-15T00:00:00",
            "2026-11-15T00:00Z",
            "2026-11-15T00:00:00.Z",
            "2026-11-15T00:00:00+1:00",
            "+026-11-15",
            "2026/11/15",
            "2026-11-15é",
            "yesterday",
        ] {
            assert_eq!(Timestamp::from_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn a_step_back_of_the_clock_is_no_time_at_all() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
    }
}
