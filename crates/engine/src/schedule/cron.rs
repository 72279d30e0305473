//! The cron strings of a spec.

use temporalio_protos::temporal::api::schedule::v1::{CalendarSpec, IntervalSpec, StructuredCalendarSpec};

use super::{duration, spec};
use crate::time;

/// A parsed cron string.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cron {
    pub(super) matches: Matches,
    /// The time zone's name; empty if the string has none.
    pub(super) zone: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Matches {
    Calendar(StructuredCalendarSpec),
    Interval(IntervalSpec),
}

pub(super) fn parse(text: &str) -> Result<Cron, String> {
    let mut text = text.trim();
    let mut zone = "";
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        let (prefix, rest) = text.split_once(' ').ok_or("CronString has time zone but missing fields")?;
        zone = prefix.split_once('=').map_or("", |(_, zone)| zone);
        text = rest;
    }
    let (fields, comment) = text.split_once('#').unwrap_or((text, ""));
    let fields = fields.trim();
    if fields.starts_with("@every") {
        // As on the real server, the zone of an interval is ignored.
        return Ok(Cron { matches: Matches::Interval(every(fields)?), zone: String::new() });
    }
    let mut calendar = calendar(predefined(fields))?;
    calendar.comment = comment.trim().to_owned();
    Ok(Cron { matches: Matches::Calendar(spec::structured(&calendar)?), zone: zone.to_owned() })
}

fn every(text: &str) -> Result<IntervalSpec, String> {
    let (_, interval) = text.split_once(' ').ok_or("CronString does not have interval after @every")?;
    let (interval, phase) = interval.split_once('/').unwrap_or((interval, ""));
    let interval = duration::parse(interval)?;
    let phase = (!phase.is_empty()).then(|| duration::parse(phase)).transpose()?;
    Ok(IntervalSpec { interval: Some(time::duration(interval)), phase: phase.map(time::duration) })
}

fn predefined(text: &str) -> &str {
    match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        other => other,
    }
}

fn calendar(text: &str) -> Result<CalendarSpec, String> {
    let fields: Vec<&str> = text.split_whitespace().take(8).collect();
    let (second, fields, year) = match fields.as_slice() {
        [second, fields @ .., year] if fields.len() == 5 => (*second, fields, *year),
        [fields @ .., year] if fields.len() == 5 => ("", fields, *year),
        fields if fields.len() == 5 => ("", fields, ""),
        _ => return Err("CronString does not have 5-7 fields".to_owned()),
    };
    let field = |at: usize| fields.get(at).copied().unwrap_or_default().to_owned();
    Ok(CalendarSpec {
        second: second.to_owned(),
        minute: field(0),
        hour: field(1),
        day_of_month: field(2),
        month: field(3),
        day_of_week: field(4),
        year: year.to_owned(),
        ..CalendarSpec::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calendar_of(text: &str) -> CalendarSpec {
        calendar(predefined(text)).unwrap()
    }

    #[test]
    fn five_to_seven_fields_are_a_calendar() {
        let five = CalendarSpec {
            minute: "1".into(),
            hour: "2".into(),
            day_of_month: "3".into(),
            month: "4".into(),
            day_of_week: "5".into(),
            ..CalendarSpec::default()
        };
        assert_eq!(calendar_of("1 2 3 4 5"), five);
        assert_eq!(calendar_of("1 2  3 4 5 2030"), CalendarSpec { year: "2030".into(), ..five.clone() });
        assert_eq!(calendar_of("0 1 2 3 4 5 2030"), CalendarSpec { second: "0".into(), year: "2030".into(), ..five });
        assert_eq!(calendar_of("@daily").hour, "0");
        for text in ["", "1 2 3 4", "1 2 3 4 5 6 7 8", "@fortnightly"] {
            assert_eq!(calendar(text), Err("CronString does not have 5-7 fields".to_owned()), "{text}");
        }
    }

    #[test]
    fn zones_comments_and_intervals_are_split_off() {
        let cron = parse(" CRON_TZ=Europe/Berlin 0 12 * * * # noon ").unwrap();
        assert_eq!(cron.zone, "Europe/Berlin");
        assert!(matches!(cron.matches, Matches::Calendar(calendar) if calendar.comment == "noon"));
        let every = parse("@every 14h/3h").unwrap();
        let hours = |hours: i64| Some(time::duration(hours * 3600 * time::SECOND));
        assert_eq!(every.matches, Matches::Interval(IntervalSpec { interval: hours(14), phase: hours(3) }));
        for (text, error) in [
            ("TZ=UTC", "CronString has time zone but missing fields"),
            ("@every", "CronString does not have interval after @every"),
            ("@every x", "time: invalid duration \"x\""),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()));
        }
    }
}
