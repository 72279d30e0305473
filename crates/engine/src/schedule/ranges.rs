//! The text of a calendar's field, like `1-5/2,8`, as ranges. Error texts are the real server's.

use temporalio_protos::temporal::api::schedule::v1::Range;

pub(super) const FIRST_YEAR: i32 = 2000;
pub(super) const LAST_YEAR: i32 = 2100;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// A field of a calendar.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// What an empty text means.
    default: &'static str,
    first: i32,
    last: i32,
    names: Names,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    None,
    /// No names; every year is an empty list.
    Years,
    Months,
    /// 7 is Sunday, too.
    Weekdays,
}

const fn field(name: &'static str, default: &'static str, first: i32, last: i32, names: Names) -> Field {
    Field { name, default, first, last, names }
}

pub(super) const SECOND: Field = field("Second", "0", 0, 59, Names::None);
pub(super) const MINUTE: Field = field("Minute", "0", 0, 59, Names::None);
pub(super) const HOUR: Field = field("Hour", "0", 0, 23, Names::None);
pub(super) const DAY_OF_WEEK: Field = field("DayOfWeek", "*", 0, 7, Names::Weekdays);
pub(super) const DAY_OF_MONTH: Field = field("DayOfMonth", "*", 1, 31, Names::None);
pub(super) const MONTH: Field = field("Month", "*", 1, 12, Names::Months);
pub(super) const YEAR: Field = field("Year", "*", FIRST_YEAR, LAST_YEAR, Names::Years);

pub(super) fn parse(text: &str, field: Field) -> Result<Vec<Range>, String> {
    let text = match text.trim() {
        "" => field.default,
        text => text,
    };
    if text == "*" && field.names == Names::Years {
        return Ok(Vec::new());
    }
    let mut ranges = Vec::new();
    for part in text.split(',') {
        add_part(part, field, &mut ranges)?;
    }
    Ok(ranges)
}

fn add_part(part: &str, field: Field, ranges: &mut Vec<Range>) -> Result<(), String> {
    let Field { name, first, last, .. } = field;
    let (part, step) = match part.split_once('/') {
        None => (part, None),
        Some((_, step)) if step.contains('/') => return Err(format!("{name} has too many slashes")),
        Some((_, "")) => return Err(format!("{name} missing step value")),
        Some((part, step)) => match integer(step)? {
            step if step < 1 => return Err(format!("{name} has invalid Step")),
            step => (part, Some(step)),
        },
    };
    let (start, mut end) = match part.split_once('-') {
        _ if part == "*" => (first, last),
        Some((_, end)) if end.contains('-') => return Err(format!("{name} has too many dashes")),
        Some((start, end)) => {
            let start =
                value(start, field, first).ok_or_else(|| format!("{name} Start is not in range [{first}-{last}]"))?;
            let end = value(end, field, start)
                .ok_or_else(|| format!("{name} End is before Start or not in range [{first}-{last}]"))?;
            (start, end)
        }
        None => {
            let start = value(part, field, first).ok_or_else(|| format!("{name} is not in range [{first}-{last}]"))?;
            // With a step, a single value is the beginning of a range to the last one.
            (start, if step.is_some() { last } else { start })
        }
    };
    let step = step.unwrap_or(1);
    if field.names == Names::Weekdays && end == 7 {
        // Sunday is 0 in ranges.
        if (7 - start) % step == 0 && (step > 1 || start > 1) {
            ranges.push(Range::default());
            if start == 7 {
                return Ok(());
            }
        }
        end = 6;
    }
    ranges.push(Range { start, end: if start == end { 0 } else { end }, step: if step == 1 { 0 } else { step } });
    Ok(())
}

/// A value from `first` on: a number, or the beginning of a name.
fn value(text: &str, field: Field, first: i32) -> Option<i32> {
    let named = match field.names {
        Names::Months if text.len() >= 3 => position(text, &MONTHS).map(|month| month + 1),
        Names::Weekdays if text.len() >= 2 => position(text, &WEEKDAYS),
        _ => None,
    };
    named.or_else(|| integer(text).ok()).filter(|value| (first..=field.last).contains(value))
}

fn position(text: &str, names: &[&str]) -> Option<i32> {
    let text = text.to_lowercase();
    names.iter().position(|name| name.starts_with(&text)).and_then(|at| i32::try_from(at).ok())
}

/// As Go's `strconv.Atoi` reads it; larger numbers than a range may hold are the largest.
fn integer(text: &str) -> Result<i32, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(format!("strconv.Atoi: parsing \"{text}\": invalid syntax"));
    }
    let number: i64 = text.parse().map_err(|_| format!("strconv.Atoi: parsing \"{text}\": value out of range"))?;
    Ok(i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: i32, end: i32, step: i32) -> Range {
        Range { start, end, step }
    }

    #[test]
    fn fields_become_ranges() {
        for (text, field, expected) in [
            ("", MINUTE, vec![range(0, 0, 0)]),
            ("*", MINUTE, vec![range(0, 59, 0)]),
            ("*/15", MINUTE, vec![range(0, 59, 15)]),
            ("3/5", MINUTE, vec![range(3, 59, 5)]),
            ("1-5/2,8", MINUTE, vec![range(1, 5, 2), range(8, 0, 0)]),
            ("*", YEAR, vec![]),
            ("2030", YEAR, vec![range(2030, 0, 0)]),
            ("jan-Mar,decem", MONTH, vec![range(1, 3, 0), range(12, 0, 0)]),
            ("*", DAY_OF_WEEK, vec![range(0, 6, 0)]),
            ("7", DAY_OF_WEEK, vec![range(0, 0, 0)]),
            ("3-7", DAY_OF_WEEK, vec![range(0, 0, 0), range(3, 6, 0)]),
            ("1-7", DAY_OF_WEEK, vec![range(1, 6, 0)]),
            ("1-7/2", DAY_OF_WEEK, vec![range(0, 0, 0), range(1, 6, 2)]),
            ("3-7/3", DAY_OF_WEEK, vec![range(3, 6, 3)]),
            ("mo-fr", DAY_OF_WEEK, vec![range(1, 5, 0)]),
        ] {
            assert_eq!(parse(text, field), Ok(expected), "{text}");
        }
    }

    #[test]
    fn bad_fields_have_the_servers_texts() {
        for (text, field, error) in [
            ("60", MINUTE, "Minute is not in range [0-59]"),
            ("x", HOUR, "Hour is not in range [0-23]"),
            ("5-3", HOUR, "Hour End is before Start or not in range [0-23]"),
            ("x-3", HOUR, "Hour Start is not in range [0-23]"),
            ("1-2-3", HOUR, "Hour has too many dashes"),
            ("1/2/3", HOUR, "Hour has too many slashes"),
            ("1/", HOUR, "Hour missing step value"),
            ("1/0", HOUR, "Hour has invalid Step"),
            ("1/x", HOUR, "strconv.Atoi: parsing \"x\": invalid syntax"),
            ("ja", MONTH, "Month is not in range [1-12]"),
        ] {
            assert_eq!(parse(text, field), Err(error.to_owned()), "{text}");
        }
    }
}
