//! Cron expressions of five fields, descriptors and `@every`, with the rules of the Go library that the real server
//! uses (robfig/cron): its grammar differs from that of schedules.

use crate::{
    schedule::duration,
    time::{Nanos, SECOND},
    zone::{Civil, Unix, Zone, weekday},
};

const MINUTE: Unix = 60;
const HOUR: Unix = 3600;
/// How many years are searched.
const YEARS: i64 = 5;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

#[derive(Debug, Clone)]
pub(super) enum Expression {
    Every(Nanos),
    Fields { zone: Zone, minute: Field, hour: Field, day: Field, month: Field, weekday: Field },
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Field {
    values: u64,
    /// The field is not restricted.
    any: bool,
}

impl Field {
    fn has(self, value: i64) -> bool {
        self.values & 1 << value != 0
    }
}

impl Expression {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (zone, text) = match text {
            text if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") => {
                let (zone, rest) = text.split_once(' ')?;
                (Zone::named(zone.split_once('=')?.1).ok()?, rest.trim())
            }
            text => (Zone::UTC, text),
        };
        if let Some(every) = text.strip_prefix("@every ") {
            let every = duration::parse_without_days(every).ok()?.max(SECOND);
            return Some(Self::Every(every / SECOND * SECOND));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let [minute, hour, day, month, weekday] =
            <[&str; 5]>::try_from(text.split_whitespace().collect::<Vec<_>>()).ok()?;
        Some(Self::Fields {
            zone,
            minute: field(minute, 0, 59, &[])?,
            hour: field(hour, 0, 23, &[])?,
            day: field(day, 1, 31, &[])?,
            month: field(month, 1, 12, &MONTHS)?,
            weekday: field(weekday, 0, 6, &WEEKDAYS)?,
        })
    }

    /// The first time after this one, in whole seconds.
    pub(super) fn next(&self, after: Nanos) -> Option<Nanos> {
        let after = after.div_euclid(SECOND);
        match self {
            Self::Every(interval) => Some(after * SECOND + interval),
            Self::Fields { zone, minute, hour, day, month, weekday } => {
                let days = Days { day: *day, weekday: *weekday };
                next_of_fields(zone, *minute, *hour, days, *month, after).map(|at| at * SECOND)
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Days {
    day: Field,
    weekday: Field,
}

impl Days {
    /// If both are restricted, one of them has to match.
    fn have(self, at: Civil) -> bool {
        let (day, weekday) = (self.day.has(at.day), self.weekday.has(weekday(at)));
        if self.day.any || self.weekday.any { day && weekday } else { day || weekday }
    }
}

/// Raises the largest part that does not match, and begins again when a larger part has changed.
fn next_of_fields(zone: &Zone, minute: Field, hour: Field, days: Days, month: Field, after: Unix) -> Option<Unix> {
    let mut at = after + 1;
    let last_year = zone.civil(at).year + YEARS;
    // The smaller parts were set to their first values.
    let mut cleared = false;
    'wrapped: loop {
        if zone.civil(at).year > last_year {
            return None;
        }
        while let civil = zone.civil(at)
            && !month.has(civil.month)
        {
            let day = if cleared { civil } else { midnight(Civil { day: 1, ..civil }) };
            cleared = true;
            at = zone.unix(Civil { month: day.month + 1, ..zone.civil(zone.unix(day)) });
            if zone.civil(at).month == 1 {
                continue 'wrapped;
            }
        }
        while let civil = zone.civil(at)
            && !days.have(civil)
        {
            let day = if cleared { civil } else { midnight(civil) };
            cleared = true;
            let from = zone.civil(zone.unix(day));
            at = zone.unix(Civil { day: from.day + 1, ..from });
            // A change of the clocks may have moved midnight.
            match zone.civil(at).hour {
                0 => {}
                late @ 13.. => at += (24 - late) * HOUR,
                early => at -= early * HOUR,
            }
            if zone.civil(at).day == 1 {
                continue 'wrapped;
            }
        }
        while let civil = zone.civil(at)
            && !hour.has(civil.hour)
        {
            if !cleared {
                at = zone.unix(Civil { minute: 0, second: 0, ..civil });
            }
            cleared = true;
            at += HOUR;
            if zone.civil(at).hour == 0 {
                continue 'wrapped;
            }
        }
        while !minute.has(zone.civil(at).minute) {
            if !cleared {
                at -= at.rem_euclid(MINUTE);
            }
            cleared = true;
            at += MINUTE;
            if zone.civil(at).minute == 0 {
                continue 'wrapped;
            }
        }
        // Only second zero matches.
        while zone.civil(at).second != 0 {
            cleared = true;
            at += 1;
            if zone.civil(at).second == 0 {
                continue 'wrapped;
            }
        }
        return Some(at);
    }
}

fn midnight(at: Civil) -> Civil {
    Civil { hour: 0, minute: 0, second: 0, ..at }
}

fn field(text: &str, first: u32, last: u32, names: &[&str]) -> Option<Field> {
    let mut field = Field::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => (range, Some(number(step)?)),
        };
        let (low, high) = match range.split_once('-') {
            None => (range, None),
            Some((low, high)) => (low, Some(high)),
        };
        let any = matches!(low, "*" | "?");
        let (start, end) = match high {
            _ if any => (first, last),
            None => {
                let start = named(low, names, first)?;
                // With a step, a single value is the beginning of a range to the last one.
                (start, if step.is_some() { last } else { start })
            }
            Some(high) => (named(low, names, first)?, named(high, names, first)?),
        };
        let step = step.unwrap_or(1);
        if start < first || end > last || start > end || step == 0 {
            return None;
        }
        field.any |= any && step == 1;
        field.values |= (start..=end).step_by(usize::try_from(step).ok()?).fold(0, |bits, value| bits | 1 << value);
    }
    Some(field)
}

fn named(text: &str, names: &[&str], first: u32) -> Option<u32> {
    let position = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    position.and_then(|at| u32::try_from(at).ok()).map(|at| at + first).or_else(|| number(text))
}

/// As Go's `strconv.Atoi` reads it, without negative numbers.
fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-03-28 12:00 UTC, the day before clocks change in Berlin.
    const SATURDAY: Unix = 1_774_699_200;

    fn next(text: &str, after: Unix) -> Option<Unix> {
        Expression::parse(text).unwrap().next(after * SECOND).map(|at| at / SECOND)
    }

    #[test]
    fn the_next_time_matches_all_fields() {
        for (text, expected) in [
            ("0 12 * * *", SATURDAY + 24 * HOUR),
            ("*/20 * * * *", SATURDAY + 20 * MINUTE),
            ("5/20 * * * *", SATURDAY + 5 * MINUTE),
            ("0 0 1 * *", SATURDAY + 3 * 24 * HOUR + 12 * HOUR),
            // Both kinds of days are restricted: the Sunday comes first.
            ("0 0 1 * 0", SATURDAY + 12 * HOUR),
            ("0 0 ? APR *", SATURDAY + 3 * 24 * HOUR + 12 * HOUR),
            ("CRON_TZ=Europe/Berlin 0 3 * * *", SATURDAY + 13 * HOUR),
            // 2:30 does not exist on Sunday.
            ("TZ=Europe/Berlin 30 2 * * *", SATURDAY + 36 * HOUR + 30 * MINUTE),
            ("@every 90m", SATURDAY + 90 * MINUTE),
        ] {
            assert_eq!(next(text, SATURDAY), Some(expected), "{text}");
        }
        assert_eq!(next("0 0 31 2 *", SATURDAY), None);
    }

    #[test]
    fn bad_expressions_are_not_parsed() {
        for text in [
            "",
            "*",
            "60 * * * *",
            "5-3 * * * *",
            "*/0 * * * *",
            "* * 0 * *",
            "* * * * 7",
            "1/2/3 * * * *",
            "1-2-3 * * * *",
            "* * * * * *",
            "@fortnightly",
            "@every",
            "@every 1d",
            "TZ=Nowhere * * * * *",
            "-1 * * * *",
        ] {
            assert!(Expression::parse(text).is_none(), "{text}");
        }
    }
}
