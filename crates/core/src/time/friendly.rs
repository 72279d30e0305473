//! Durations as people write them: `30s`, `1h 30m`, `3w 2h`, `1 hour, 30 minutes`, `1d 02:03:04`.
//!
//! Units go from large to small and none is repeated. A day is 24 hours and a week is 7 days. The value of the last unit,
//! from hours to microseconds, may have a fraction of up to 9 digits. [`parse_iso8601`] reads the other common notation, `PT1H30M`.

use std::{fmt::Write as _, time::Duration};

/// Why a text is not a duration that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("this is not a duration")]
    Malformed,
    #[error("a duration cannot be negative")]
    Negative,
    #[error("months and years have no fixed length")]
    NoFixedLength,
}

use DurationError::{Malformed, Negative, NoFixedLength};

/// From large to small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

use Unit::{Day, Hour, Microsecond, Millisecond, Minute, Month, Nanosecond, Second, Week, Year};

impl Unit {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "y" | "yr" | "yrs" | "year" | "years" => Year,
            "mo" | "mos" | "month" | "months" => Month,
            "w" | "wk" | "wks" | "week" | "weeks" => Week,
            "d" | "day" | "days" => Day,
            "h" | "hr" | "hrs" | "hour" | "hours" => Hour,
            "m" | "min" | "mins" | "minute" | "minutes" => Minute,
            "s" | "sec" | "secs" | "second" | "seconds" => Second,
            "ms" | "msec" | "msecs" | "milli" | "millis" | "millisecond" | "milliseconds" => Millisecond,
            "us" | "usec" | "usecs" | "µs" | "µsec" | "µsecs" | "micro" | "micros" | "microsecond" | "microseconds" => {
                Microsecond
            }
            "ns" | "nsec" | "nsecs" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => Nanosecond,
            _ => return None,
        })
    }

    /// `None` for units without a fixed length.
    fn nanos(self) -> Option<u128> {
        Some(match self {
            Year | Month => return None,
            Week => 7 * 86_400_000_000_000,
            Day => 86_400_000_000_000,
            Hour => 3_600_000_000_000,
            Minute => 60_000_000_000,
            Second => 1_000_000_000,
            Millisecond => 1_000_000,
            Microsecond => 1_000,
            Nanosecond => 1,
        })
    }
}

/// The units that are printed, each with its shortest name.
const PRINTED: [(Unit, &str); 8] = [
    (Week, "w"),
    (Day, "d"),
    (Hour, "h"),
    (Minute, "m"),
    (Second, "s"),
    (Millisecond, "ms"),
    (Microsecond, "us"),
    (Nanosecond, "ns"),
];

/// Prints a duration so that [`parse`] returns it exactly: `3w 2h`, `1m 30s`, `0s`.
pub fn print(duration: Duration) -> String {
    let mut printed = String::new();
    let mut rest = duration.as_nanos();
    for (unit, name) in PRINTED {
        let Some(nanos) = unit.nanos() else { continue };
        if rest >= nanos {
            let space = if printed.is_empty() { "" } else { " " };
            // Writing to a string cannot fail.
            let _ = write!(printed, "{space}{}{name}", rest / nanos);
            rest %= nanos;
        }
    }
    if printed.is_empty() { "0s".to_owned() } else { printed }
}

/// Parses a duration in the notation of this module.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let (sign, rest) = split_sign(text);
    let (mut reader, mut sum) = (Reader { rest }, Sum::default());
    let spaced = loop {
        let is_last = reader.term(&mut sum)?;
        let (comma, spaced) = (reader.take(","), reader.blanks());
        if comma && (is_last || !spaced) {
            return Err(Malformed);
        }
        if !comma && (is_last || !reader.at_digit()) {
            break spaced;
        }
    };
    let ago = spaced && reader.take("ago");
    if !reader.rest.is_empty() || (ago && sign.is_some()) {
        return Err(Malformed);
    }
    sum.finish(ago || sign == Some('-'))
}

/// Parses a duration in the notation of ISO 8601: `PT30S`, `P1DT2H`. Letters may be lower case.
pub fn parse_iso8601(text: &str) -> Result<Duration, DurationError> {
    let (sign, rest) = split_sign(text);
    let upper = rest.to_ascii_uppercase();
    let (mut reader, mut sum) = (Reader { rest: upper.strip_prefix('P').ok_or(Malformed)? }, Sum::default());
    let mut in_time = false;
    loop {
        if !in_time {
            in_time = reader.take("T");
        }
        let (value, fraction) = reader.value().ok_or(Malformed)?;
        let unit = match (in_time, reader.letter().ok_or(Malformed)?) {
            (false, 'Y') => Year,
            (false, 'M') => Month,
            (false, 'W') => Week,
            (false, 'D') => Day,
            (true, 'H') => Hour,
            (true, 'M') => Minute,
            (true, 'S') => Second,
            _ => return Err(Malformed),
        };
        sum.add(unit, value, fraction)?;
        if reader.rest.is_empty() {
            return sum.finish(sign == Some('-'));
        }
        if fraction.is_some() {
            return Err(Malformed);
        }
    }
}

fn split_sign(text: &str) -> (Option<char>, &str) {
    match text.chars().next() {
        Some(sign @ ('+' | '-')) => (Some(sign), &text[1..]),
        _ => (None, text),
    }
}

/// The length of what was read so far.
#[derive(Debug, Default)]
struct Sum {
    nanos: u128,
    smallest: Option<Unit>,
    /// Whether there were months or years.
    calendar: bool,
}

impl Sum {
    /// The fraction is in billionths of the unit.
    fn add(&mut self, unit: Unit, value: u64, fraction: Option<u32>) -> Result<(), DurationError> {
        let in_order = self.smallest.is_none_or(|smallest| smallest < unit);
        let divisible = (Hour..Nanosecond).contains(&unit);
        if !in_order || (fraction.is_some() && !divisible) {
            return Err(Malformed);
        }
        self.smallest = Some(unit);
        let Some(nanos) = unit.nanos() else {
            self.calendar |= value > 0;
            return Ok(());
        };
        self.nanos += u128::from(value) * nanos + u128::from(fraction.unwrap_or(0)) * nanos / 1_000_000_000;
        Ok(())
    }

    fn finish(self, negative: bool) -> Result<Duration, DurationError> {
        if negative && (self.nanos > 0 || self.calendar) {
            return Err(Negative);
        }
        if self.calendar {
            return Err(NoFixedLength);
        }
        let seconds = u64::try_from(self.nanos / 1_000_000_000).map_err(|_| Malformed)?;
        let nanos = u32::try_from(self.nanos % 1_000_000_000).map_err(|_| Malformed)?;
        Ok(Duration::new(seconds, nanos))
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// A value with its unit, or hours, minutes and seconds with colons. Returns whether nothing may follow it.
    fn term(&mut self, sum: &mut Sum) -> Result<bool, DurationError> {
        let (value, fraction) = self.value().ok_or(Malformed)?;
        if fraction.is_none() && self.take(":") {
            let minutes = self.whole().filter(|_| self.take(":")).ok_or(Malformed)?;
            let (seconds, fraction) = self.value().ok_or(Malformed)?;
            sum.add(Hour, value, None)?;
            sum.add(Minute, minutes, None)?;
            sum.add(Second, seconds, fraction)?;
            return Ok(true);
        }
        self.blanks();
        let unit = Unit::named(self.word()).ok_or(Malformed)?;
        sum.add(unit, value, fraction)?;
        Ok(fraction.is_some())
    }

    /// Digits, and the fraction that may follow them, in billionths.
    fn value(&mut self) -> Option<(u64, Option<u32>)> {
        let whole = self.whole()?;
        if !(self.take(".") || self.take(",")) {
            return Some((whole, None));
        }
        let length = self.rest.bytes().take(9).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        let scale = 10_u32.pow(9 - u32::try_from(length).ok()?);
        digits.parse::<u32>().ok().map(|fraction| (whole, Some(fraction * scale)))
    }

    fn whole(&mut self) -> Option<u64> {
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        digits.parse().ok()
    }

    fn take(&mut self, expected: &str) -> bool {
        let after = self.rest.strip_prefix(expected);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn letter(&mut self) -> Option<char> {
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        Some(letter)
    }

    /// The letters that follow, up to the next digit or blank.
    fn word(&mut self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_alphabetic()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Skips blanks; returns whether there were any.
    fn blanks(&mut self) -> bool {
        let after = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
        let found = after.len() < self.rest.len();
        self.rest = after;
        found
    }

    fn at_digit(&self) -> bool {
        self.rest.starts_with(|c: char| c.is_ascii_digit())
    }
}

#[cfg(test)]
mod tests;
