//! A calendar that times are matched with.

use temporalio_protos::temporal::api::schedule::v1::{Range, StructuredCalendarSpec};

use super::ranges::LAST_YEAR;
use crate::zone::{Civil, Unix, Zone, days_in_month, weekday};

#[derive(Debug, Clone)]
pub(super) struct Calendar {
    /// Empty for every year.
    years: Vec<i64>,
    month: Bits,
    day_of_month: Bits,
    day_of_week: Bits,
    hour: Bits,
    minute: Bits,
    second: Bits,
}

/// The matching values of a field.
#[derive(Debug, Clone, Copy)]
struct Bits(u64);

impl Bits {
    fn of(ranges: &[Range]) -> Self {
        Self(values(ranges).filter(|value| (0..64).contains(value)).fold(0, |bits, value| bits | 1 << value))
    }

    fn has(self, value: i64) -> bool {
        self.0 & 1 << value != 0
    }
}

fn values(ranges: &[Range]) -> impl Iterator<Item = i64> {
    ranges.iter().flat_map(|range| {
        let step = usize::try_from(range.step.max(1)).unwrap_or(1);
        (range.start..=range.end.max(range.start)).step_by(step).map(i64::from)
    })
}

impl Calendar {
    pub(super) fn new(spec: &StructuredCalendarSpec) -> Self {
        Self {
            years: values(&spec.year).collect(),
            month: Bits::of(&spec.month),
            day_of_month: Bits::of(&spec.day_of_month),
            day_of_week: Bits::of(&spec.day_of_week),
            hour: Bits::of(&spec.hour),
            minute: Bits::of(&spec.minute),
            second: Bits::of(&spec.second),
        }
    }

    pub(super) fn matches(&self, zone: &Zone, at: Unix) -> bool {
        let civil = zone.civil(at);
        self.has_year(civil.year)
            && self.month.has(civil.month)
            && self.day_of_month.has(civil.day)
            && self.day_of_week.has(weekday(civil))
            && self.hour.has(civil.hour)
            && self.minute.has(civil.minute)
            && self.second.has(civil.second)
    }

    fn has_year(&self, year: i64) -> bool {
        self.years.is_empty() || self.years.contains(&year)
    }

    /// The first matching time after this one. A time in a repeated hour matches twice, one in a skipped hour never.
    pub(super) fn next(&self, zone: &Zone, after: Unix) -> Option<Unix> {
        const HOUR: Unix = 3600;
        let mut at = zone.civil(after);
        // The second time of a repeated hour is counted from the first.
        let mut repeated = zone.civil(after - HOUR).hour == at.hour;
        at.second += 1;
        loop {
            self.carry(zone, &mut at, &mut repeated)?;
            match self.first_mismatch(zone, at) {
                Some(next) => {
                    // Within an hour, the repetition stays.
                    repeated &= (next.year, next.month, next.day, next.hour) == (at.year, at.month, at.day, at.hour);
                    at = next;
                }
                None => {
                    let found = zone.unix(at);
                    if zone.civil(found).hour == at.hour {
                        return Some(found + if repeated { HOUR } else { 0 });
                    }
                    // The time does not exist.
                    at = Civil { hour: at.hour + 1, minute: 0, second: 0, ..at };
                }
            }
        }
    }

    /// Brings a time whose parts are one too large into its normal form; `None` after the last year.
    fn carry(&self, zone: &Zone, at: &mut Civil, repeated: &mut bool) -> Option<()> {
        if at.second >= 60 {
            *at = Civil { minute: at.minute + 1, second: 0, ..*at };
        }
        if at.minute >= 60 {
            let hour = Civil { minute: 0, second: 0, ..*at };
            let next = Civil { hour: at.hour + 1, minute: 0, ..*at };
            let skips = zone.unix(Civil { second: 0, ..next }) - zone.unix(hour) > 3600;
            if !*repeated && skips {
                // The next hour is two hours later: this hour comes twice.
                *at = Civil { minute: 0, ..*at };
                *repeated = true;
            } else {
                *at = next;
                *repeated = false;
            }
        }
        if at.hour >= 24 {
            *at = Civil { day: at.day + 1, hour: 0, ..*at };
        }
        if at.day > days_in_month(at.month, at.year) {
            *at = Civil { month: at.month + 1, day: 1, ..*at };
        }
        if at.month > 12 {
            *at = Civil { year: at.year + 1, month: 1, ..*at };
        }
        (at.year <= i64::from(LAST_YEAR)).then_some(())
    }

    /// Where to go on from a time that does not match, beginning with the largest part.
    fn first_mismatch(&self, zone: &Zone, at: Civil) -> Option<Civil> {
        let Civil { year, month, day, hour, minute, second } = at;
        if !self.has_year(year) {
            return Some(Civil { year: year + 1, month: 1, day: 1, hour: 0, minute: 0, second: 0 });
        }
        if !self.month.has(month) {
            return Some(Civil { year, month: month + 1, day: 1, hour: 0, minute: 0, second: 0 });
        }
        if !self.day_of_month.has(day) || !self.day_of_week.has(weekday(zone.civil(zone.unix(at)))) {
            return Some(Civil { year, month, day: day + 1, hour: 0, minute: 0, second: 0 });
        }
        if !self.hour.has(hour) {
            return Some(Civil { hour: hour + 1, minute: 0, second: 0, ..at });
        }
        if !self.minute.has(minute) {
            return Some(Civil { minute: minute + 1, second: 0, ..at });
        }
        (!self.second.has(second)).then_some(Civil { second: second + 1, ..at })
    }
}
