//! Points in time and spans, both in whole milliseconds.
//!
//! The core never reads a clock: `now` is always an argument, taken from the workflow's own time. `friendly` parses and
//! prints durations such as `1h 30m`.

pub mod friendly;

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, SecondsFormat};
use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A span of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Timestamp {
    /// Time passed since `earlier`; zero when the clock went backwards.
    pub fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }

    #[must_use]
    pub fn after(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// In RFC 3339, in UTC, without trailing zeros in the fraction: `2026-01-31T09:05:00.25Z`. A time after the year 9999,
    /// which RFC 3339 cannot express, becomes the last millisecond of that year.
    pub fn rfc3339(self) -> String {
        let printed = self.date_time().format("%Y-%m-%dT%H:%M:%S%.3f").to_string();
        format!("{}Z", printed.trim_end_matches('0').trim_end_matches('.'))
    }

    /// As [`Self::rfc3339`], with exactly three digits in the fraction, so that a column of times is aligned.
    pub fn rfc3339_millis(self) -> String {
        self.date_time().and_utc().to_rfc3339_opts(SecondsFormat::Millis, true)
    }

    /// Reads a time in RFC 3339. `None` if the text is not one, or if the time is before 1970.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let parsed = DateTime::parse_from_rfc3339(text).ok()?;
        u64::try_from(parsed.timestamp_millis()).ok().map(Self)
    }

    fn date_time(self) -> NaiveDateTime {
        let millis = i64::try_from(self.0.min(LAST_MILLISECOND_OF_9999)).unwrap_or_default();
        DateTime::from_timestamp_millis(millis).unwrap_or_default().naive_utc()
    }
}

/// 9999-12-31T23:59:59.999Z.
const LAST_MILLISECOND_OF_9999: u64 = 253_402_300_799_999;

impl Millis {
    pub const ZERO: Self = Self(0);

    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1000)
    }

    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_timestamp_prints_as_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            (1_769_850_300_250, "2026-01-31T09:05:00.25Z", "2026-01-31T09:05:00.250Z"),
            (1_769_850_300_007, "2026-01-31T09:05:00.007Z", "2026-01-31T09:05:00.007Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ];
        for (millis, short, aligned) in cases {
            let at = Timestamp(millis);
            assert_eq!((at.rfc3339().as_str(), at.rfc3339_millis().as_str()), (short, aligned));
        }
    }

    #[test]
    fn only_rfc_3339_from_1970_on_is_a_timestamp() {
        let cases = [
            ("2026-01-31T09:05:00.25Z", Some(1_769_850_300_250)),
            ("2026-01-31T10:05:00+01:00", Some(1_769_850_300_000)),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-01-31", None),
            ("2026-01-31T09:05:00", None),
            ("2026-02-30T00:00:00Z", None),
            ("soon", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Timestamp::parse_rfc3339(text), expected.map(Timestamp), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_timestamp_parses_to_itself(millis in 0..=LAST_MILLISECOND_OF_9999) {
            let at = Timestamp(millis);
            prop_assert_eq!(Timestamp::parse_rfc3339(&at.rfc3339()), Some(at));
            prop_assert_eq!(Timestamp::parse_rfc3339(&at.rfc3339_millis()), Some(at));
        }
    }
}
