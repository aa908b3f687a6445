//! Timestamps. The clock that reads them is in the engine.

use std::{num::NonZero, time::Duration};

use serde::{Deserialize, Serialize};
use time::{
    OffsetDateTime,
    format_description::well_known::{
        Iso8601, Rfc3339,
        iso8601::{Config, EncodedConfig, TimePrecision},
    },
};

/// The years 0 to 9999, which are all that RFC 3339 has.
const FIRST_WRITTEN: i64 = -62_167_219_200_000;
const LAST_WRITTEN: i64 = 253_402_300_799_999;

/// `time`'s own RFC 3339 omits trailing zeros of a fraction; this profile always writes three digits.
const PRECISION: TimePrecision = TimePrecision::Second { decimal_digits: NonZero::new(3) };
const PROFILE: EncodedConfig = Config::DEFAULT.set_time_precision(PRECISION).encode();
const MILLISECONDS: Iso8601<PROFILE> = Iso8601;

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

    /// The time `duration` before this one.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(millis))
    }

    /// The same time by a clock that has stepped by this much since.
    #[must_use]
    pub fn shifted(self, by_ms: i64) -> Self {
        Self(self.0.saturating_add(by_ms))
    }

    /// Time elapsed since `earlier`; zero if that is in the future, since clocks may step back.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The date of an HTTP header (RFC 9110, section 5.6.7), in whole seconds.
    #[must_use]
    pub fn to_http_date(self) -> String {
        let millis = self.0.clamp(FIRST_WRITTEN, LAST_WRITTEN);
        let moment =
            OffsetDateTime::from_unix_timestamp(millis.div_euclid(1_000)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (weekday, month) = (moment.weekday().to_string(), moment.month().to_string());
        format!(
            "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
            &weekday[..3],
            moment.day(),
            &month[..3],
            moment.year(),
            moment.hour(),
            moment.minute(),
            moment.second()
        )
    }

    /// RFC 3339 in UTC with milliseconds, as every edge writes it. The format ends with the year 9999: a later time is
    /// clamped to its last moment, and one before the year 0 to its first.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let millis = self.0.clamp(FIRST_WRITTEN, LAST_WRITTEN);
        let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000);
        // Neither fails: the range was checked.
        moment.ok().and_then(|moment| moment.format(&MILLISECONDS).ok()).unwrap_or_default()
    }

    /// Parses RFC 3339 with any offset; a date alone is its first moment in UTC.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let moment = match text.as_bytes().get(10) {
            None => OffsetDateTime::parse(&format!("{text}T00:00:00Z"), &Rfc3339),
            // `time` accepts any separator, since RFC 3339 leaves it open.
            Some(b'T' | b't' | b' ') => OffsetDateTime::parse(text, &Rfc3339),
            Some(_) => return None,
        };
        i64::try_from(moment.ok()?.unix_timestamp_nanos().div_euclid(1_000_000)).ok().map(Self)
    }
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
        check(-62_167_219_200_000, "0000-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_moment_that_rfc_3339_cannot_write_is_the_nearest_that_it_can() {
        check(253_402_300_800_000, "9999-12-31T23:59:59.999Z");
        check(i64::MAX, "9999-12-31T23:59:59.999Z");
        check(-62_167_219_200_001, "0000-01-01T00:00:00.000Z");
        check(i64::MIN, "0000-01-01T00:00:00.000Z");
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
            ("1969-12-31T23:59:59.9999Z", -1),
            ("2016-12-31T23:59:60Z", 1_483_228_799_999),
        ] {
            assert_eq!(Timestamp::from_rfc3339(text), Some(Timestamp(expect)), "{text}");
        }
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-11-15T24:00:00Z",
            "2026-11-15T00:00:60Z",
            "2026-11-15T00:00:00+24:00",
            "2026-11-15x00:00:00Z",
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
    fn an_http_date_is_in_whole_seconds_of_gmt() {
        assert_eq!(Timestamp(784_111_777_999).to_http_date(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(Timestamp(-1).to_http_date(), "Wed, 31 Dec 1969 23:59:59 GMT");
    }

    #[test]
    fn a_step_back_of_the_clock_is_zero_elapsed_time() {
        assert_eq!(Timestamp(5).since(Timestamp(9)), Duration::ZERO);
    }
}
