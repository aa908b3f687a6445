//! Exponential backoff, and retries of requests that are safe to repeat.

use std::time::Duration;

use crate::ClientError;

/// The maximum number of consecutive failures: with the delays below, almost a minute.
pub(crate) const MAX_FAILURES: u32 = 30;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The maximum `Retry-After` that is respected.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);

/// The delay after this many consecutive failures: exponential, up to two seconds.
#[must_use]
pub fn backoff(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(earlier) => FIRST_PAUSE.saturating_mul(1 << earlier.min(16)).min(LONGEST_PAUSE),
    }
}

/// The delay after this many consecutive failures, the last of which is `error`.
pub(crate) fn pause(failures: u32, error: Option<&ClientError>) -> Duration {
    let asked = error.and_then(ClientError::retry_after).unwrap_or_default();
    backoff(failures).max(asked.min(LONGEST_RETRY_AFTER))
}

/// Sends a request until it succeeds, fails for good, or has failed too often: almost a minute. The request must be
/// idempotent.
///
/// # Errors
/// The last error.
pub async fn retrying<T, F>(mut send: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let mut failures = 0;
    loop {
        match send().await {
            Err(error) if error.is_passing() && failures < MAX_FAILURES => {
                failures += 1;
                tokio::time::sleep(pause(failures, Some(&error))).await;
            }
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;
    use crate::Refusal;

    #[test]
    fn delays_grow_up_to_a_limit() {
        let pauses: Vec<_> = (0..8).map(|failures| pause(failures, None).as_millis()).collect();
        assert_eq!(pauses, [0, 100, 200, 400, 800, 1600, 2000, 2000]);
        let whole: Duration = (0..=MAX_FAILURES).map(|failures| pause(failures, None)).sum();
        assert!((45..60).contains(&whole.as_secs()), "{whole:?}");
    }

    #[test]
    fn a_server_may_ask_for_more_time_up_to_a_limit() {
        for (asked, failures, expect) in [(0, 1, 100), (5_000, 1, 5_000), (1, 8, 2_000), (3_600_000, 1, 30_000)] {
            let refusal = Refusal {
                status: StatusCode::SERVICE_UNAVAILABLE,
                code: "overloaded".into(),
                message: String::new(),
                details: Vec::new(),
            };
            let error = ClientError::of_answer(refusal, Some(Duration::from_millis(asked)));
            assert_eq!(pause(failures, Some(&error)).as_millis(), expect);
        }
    }
}
