//! Retries of requests, and their backoff.
//!
//! The backoff is exponential with jitter per caller, so that an API that recovers is not hit by all of them at once. A
//! `Retry-After` of the API is honoured, unless it is longer than a caller would wait. The delays are tokio timers:
//! dropping the future cancels them.

use std::time::{Duration, SystemTime};

use bosun_core::ContentHash;
use hyper::header::{HeaderMap, HeaderValue, RETRY_AFTER};

/// The maximum number of attempts, including the first one.
pub(crate) const ATTEMPTS: u32 = 3;

/// The backoff between attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// The delay after the first attempt; it doubles with each further one.
    pub(crate) first: Duration,
    /// An API that asks for a longer delay is not retried.
    pub(crate) longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(500), longest: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The delay after `failed` failed attempts; `None` if there is no further attempt.
    ///
    /// `spread` is the jitter: between 0 and 1, it takes off up to half of the delay.
    pub(crate) fn wait(&self, failed: u32, asked: Option<Duration>, spread: f64) -> Option<Duration> {
        if failed >= ATTEMPTS || asked.is_some_and(|asked| asked > self.longest) {
            return None;
        }
        let own = self.first.saturating_mul(1 << failed.saturating_sub(1).min(16)).min(self.longest);
        Some(own.mul_f64(1.0 - spread.clamp(0.0, 1.0) / 2.0).max(asked.unwrap_or_default()))
    }
}

/// A jitter between 0 and 1 that differs from one `attempt` to another and is deterministic.
pub(crate) fn spread(attempt: &[&[u8]]) -> f64 {
    let hash = ContentHash::of_parts(attempt);
    let [first, second, ..] = *hash.as_bytes();
    f64::from(u16::from_be_bytes([first, second])) / f64::from(u16::MAX)
}

/// The delay that the API asks for: `Retry-After` in seconds or as a date, or OpenAI's own `retry-after-ms`.
pub(crate) fn asked_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.trim().parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let wanted = text(RETRY_AFTER.as_str())?.trim();
    if let Ok(seconds) = wanted.parse() {
        return Some(Duration::from_secs(seconds));
    }
    // A date in the past means no delay.
    httpdate::parse_http_date(wanted).ok().map(|date| date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_wait(failed: u32, asked: Option<u64>, spread: f64, expect: Option<u64>) {
        let wait = Backoff::default().wait(failed, asked.map(Duration::from_millis), spread);
        assert_eq!(wait, expect.map(Duration::from_millis));
    }

    #[test]
    fn delays_double_with_jitter() {
        check_wait(1, None, 0.0, Some(500));
        check_wait(1, None, 1.0, Some(250));
        check_wait(2, None, 0.0, Some(1_000));
        check_wait(3, None, 0.0, None);
    }

    #[test]
    fn retry_after_is_honoured() {
        check_wait(1, Some(7_000), 0.5, Some(7_000));
        check_wait(1, Some(0), 0.0, Some(500));
        check_wait(1, Some(60_000), 0.0, Some(60_000));
        check_wait(1, Some(60_001), 0.0, None);
    }

    #[track_caller]
    fn check_asked(name: &'static str, value: &str, expect: Option<u64>) {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        // 2026-11-15 12:00:00 UTC
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_744_000);
        assert_eq!(asked_wait(&headers, now), expect.map(Duration::from_millis), "{value}");
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        check_asked("retry-after", "3", Some(3_000));
        check_asked("retry-after", " 0 ", Some(0));
        check_asked("retry-after", "Sun, 15 Nov 2026 12:00:30 GMT", Some(30_000));
        check_asked("retry-after", "Sun, 15 Nov 2026 11:00:00 GMT", Some(0));
        check_asked("retry-after-ms", "1500", Some(1_500));
        check_asked("retry-after", "-1", None);
        check_asked("retry-after", "soon", None);
        check_asked("x-other", "3", None);
    }

    #[test]
    fn jitter_separates_queries_that_fail_together() {
        let first = spread(&[b"one query", b"1"]);
        let second = spread(&[b"another", b"1"]);
        assert!((0.0..=1.0).contains(&first) && (0.0..=1.0).contains(&second));
        assert!((first - second).abs() > f64::EPSILON);
        assert!((first - spread(&[b"one query", b"1"])).abs() < f64::EPSILON);
    }
}
