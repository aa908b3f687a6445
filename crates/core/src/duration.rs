//! Durations as ARK writes them: in Go's form. [`parse_duration`](crate::tool::parse_duration) reads them.

use std::time::Duration;

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
    use crate::tool::parse_duration;

    use super::*;

    #[track_caller]
    fn check(millis: u64, written: &str) {
        let duration = Duration::from_millis(millis);
        assert_eq!(format(duration), written);
        assert_eq!(parse_duration(written), Some(duration).filter(|duration| !duration.is_zero()));
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
