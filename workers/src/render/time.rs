//! Times and durations as text.

use windlass_core::time::{Millis, Timestamp};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A duration, rounded to a precision that fits its size.
pub fn duration(span: Millis) -> String {
    let ms = span.0;
    match ms {
        0..SECOND => format!("{ms}ms"),
        SECOND..MINUTE => format!("{}.{}s", ms / SECOND, ms % SECOND / 100),
        MINUTE..HOUR => format!("{}m {:02}s", ms / MINUTE, ms % MINUTE / SECOND),
        HOUR..DAY => format!("{}h {:02}m", ms / HOUR, ms % HOUR / MINUTE),
        _ => format!("{}d {}h", ms / DAY, ms % DAY / HOUR),
    }
}

/// How long ago, in its largest unit.
pub fn age(now: Timestamp, then: Timestamp) -> String {
    let ms = now.since(then).0;
    match ms {
        0..MINUTE => format!("{}s", ms / SECOND),
        MINUTE..HOUR => format!("{}m", ms / MINUTE),
        HOUR..DAY => format!("{}h", ms / HOUR),
        _ => format!("{}d", ms / DAY),
    }
}

/// A point in time, in UTC: `2026-01-31T09:05:00.250Z`.
pub fn moment(at: Timestamp) -> String {
    at.rfc3339_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_at_every_size() {
        let cases = [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1.0s"),
            (59_990, "59.9s"),
            (65_000, "1m 05s"),
            (3 * HOUR + 7 * MINUTE, "3h 07m"),
            (50 * HOUR, "2d 2h"),
        ];
        for (ms, expected) in cases {
            assert_eq!(duration(Millis(ms)), expected);
        }
    }

    #[test]
    fn ages_at_every_size() {
        for (ms, expected) in [(400, "0s"), (59_000, "59s"), (HOUR - 1, "59m"), (HOUR, "1h"), (9 * DAY, "9d")] {
            assert_eq!(age(Timestamp(ms), Timestamp(0)), expected);
        }
        assert_eq!(age(Timestamp(0), Timestamp(5_000)), "0s");
    }

    #[test]
    fn moments_are_utc() {
        assert_eq!(moment(Timestamp(1_769_850_300_250)), "2026-01-31T09:05:00.250Z");
    }
}
