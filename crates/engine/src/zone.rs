//! Time zones, with the arithmetic of Go's `time` package, which the real server's schedules follow: which of two times
//! a repeated hour means, and what an hour that is skipped becomes.
//!
//! The tz database is part of the binary.

use jiff::{Timestamp, tz::TimeZone};

/// Seconds since the epoch.
pub(crate) type Unix = i64;

const DAY: i64 = 24 * 3600;

#[derive(Debug, Clone)]
pub(crate) struct Zone(TimeZone);

/// A local date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

impl Zone {
    pub(crate) const UTC: Self = Self(TimeZone::UTC);

    /// A zone of the database; names are case-sensitive. The error text is that of Go.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        if matches!(name, "" | "UTC" | "Local") {
            return Ok(Self::UTC);
        }
        if name.contains("..") || name.starts_with(['/', '\\']) {
            return Err("time: invalid location name".to_owned());
        }
        let found = jiff::tz::db().get(name).ok().filter(|zone| zone.iana_name() == Some(name));
        found.map(Self).ok_or_else(|| format!("unknown time zone {name}"))
    }

    /// A zone from the content of a TZif file.
    pub(crate) fn from_data(name: &str, data: &[u8]) -> Result<Self, String> {
        TimeZone::tzif(name, data).map(Self).map_err(|_| "malformed time zone information".to_owned())
    }

    pub(crate) fn civil(&self, at: Unix) -> Civil {
        let local = at.saturating_add(self.offset(at));
        let (year, month, day) = date_of(local.div_euclid(DAY));
        let clock = local.rem_euclid(DAY);
        Civil { year, month, day, hour: clock / 3600, minute: clock / 60 % 60, second: clock % 60 }
    }

    /// The time of a local date and time, whose parts may be out of range. As in Go, it is one of the two times of a
    /// repeated hour, and a time beside an hour that is skipped.
    pub(crate) fn unix(&self, civil: Civil) -> Unix {
        let local = days_of(civil.year, civil.month, civil.day)
            .saturating_mul(DAY)
            .saturating_add(civil.hour * 3600 + civil.minute * 60 + civil.second);
        match self.offset(local) {
            0 => local,
            offset => local - self.offset(local - offset),
        }
    }

    fn offset(&self, at: Unix) -> i64 {
        let at = at.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        Timestamp::from_second(at).map_or(0, |at| i64::from(self.0.to_offset(at).seconds()))
    }
}

/// The day of the week of a time in a zone; 0 is Sunday.
pub(crate) fn weekday(civil: Civil) -> i64 {
    // The epoch was a Thursday.
    (days_of(civil.year, civil.month, civil.day) + 4).rem_euclid(7)
}

pub(crate) fn days_in_month(month: i64, year: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since the epoch. The month may be out of range.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = (year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12) + 1);
    // Years begin in March, so that a leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn civil(year: i64, month: i64, day: i64, hour: i64, minute: i64) -> Civil {
        Civil { year, month, day, hour, minute, second: 0 }
    }

    #[test]
    fn skipped_and_repeated_hours_are_those_of_go() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        let back = |at: Civil| berlin.civil(berlin.unix(at));
        // 2:30 does not exist on that day.
        assert_eq!(back(civil(2026, 3, 29, 2, 30)), civil(2026, 3, 29, 3, 30));
        // 2:30 exists twice on that day.
        assert_eq!(berlin.unix(civil(2026, 10, 25, 2, 30)), 1_792_891_800);
        assert_eq!(back(civil(2026, 10, 25, 2, 30)), civil(2026, 10, 25, 2, 30));
        assert_eq!(back(civil(2026, 12, 31, 24, 0)), civil(2027, 1, 1, 0, 0));
        assert_eq!(back(civil(2026, 13, 1, 0, 0)), civil(2027, 1, 1, 0, 0));
    }

    #[test]
    fn unknown_names_have_the_error_texts_of_go() {
        for (name, error) in [
            ("Nowhere/Town", "unknown time zone Nowhere/Town"),
            ("europe/berlin", "unknown time zone europe/berlin"),
            ("../etc/passwd", "time: invalid location name"),
            ("/etc/localtime", "time: invalid location name"),
        ] {
            assert_eq!(Zone::named(name).unwrap_err(), error);
        }
        assert_eq!(Zone::from_data("x", b"TZif?").unwrap_err(), "malformed time zone information");
    }

    proptest! {
        #[test]
        fn a_time_is_found_again(at in 0_i64..4_000_000_000) {
            prop_assert_eq!(Zone::UTC.unix(Zone::UTC.civil(at)), at);
            let civil = Zone::UTC.civil(at);
            prop_assert!(civil.day <= days_in_month(civil.month, civil.year));
            prop_assert_eq!(weekday(civil), (at.div_euclid(DAY) + 4) % 7);
        }
    }
}
