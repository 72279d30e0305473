//! The canonical form of a spec, and its checks. Error texts are the real server's.

use prost_wkt_types::Duration;
use temporalio_protos::temporal::api::schedule::v1::{
    CalendarSpec, IntervalSpec, Range, ScheduleSpec, StructuredCalendarSpec,
};

use super::{
    cron::{self, Matches},
    ranges,
};
use crate::time::{SECOND, span};

const CONFLICTING_ZONES: &str = "conflicting timezone names";
const LONGEST_COMMENT: usize = 200;
/// The longest duration of protobuf, in seconds.
const LONGEST_DURATION: i64 = 315_576_000_000;

/// The spec with calendars and cron strings as structured calendars and intervals.
#[allow(deprecated, reason = "clients may still send the deprecated exclude_calendar")]
pub(super) fn canonical(mut spec: ScheduleSpec) -> Result<ScheduleSpec, String> {
    for calendar in std::mem::take(&mut spec.calendar) {
        spec.structured_calendar.push(structured(&calendar)?);
    }
    for calendar in std::mem::take(&mut spec.exclude_calendar) {
        spec.exclude_structured_calendar.push(structured(&calendar)?);
    }
    let mut zone: Option<String> = None;
    for text in std::mem::take(&mut spec.cron_string) {
        let cron = cron::parse(&text)?;
        if zone.as_ref().is_some_and(|zone| *zone != cron.zone) {
            return Err(CONFLICTING_ZONES.to_owned());
        }
        zone = Some(cron.zone);
        match cron.matches {
            Matches::Calendar(calendar) => spec.structured_calendar.push(calendar),
            Matches::Interval(interval) => spec.interval.push(interval),
        }
    }
    if let Some(zone) = zone.filter(|zone| !zone.is_empty()) {
        if !spec.timezone_name.is_empty() && spec.timezone_name != zone || !spec.timezone_data.is_empty() {
            return Err(CONFLICTING_ZONES.to_owned());
        }
        spec.timezone_name = zone;
    }
    spec.structured_calendar.iter().try_for_each(check_calendar)?;
    spec.interval.iter().try_for_each(check_interval)?;
    Ok(spec)
}

pub(super) fn structured(calendar: &CalendarSpec) -> Result<StructuredCalendarSpec, String> {
    let mut errors = Vec::new();
    let mut parsed = |text: &str, field| {
        ranges::parse(text, field).unwrap_or_else(|error| {
            errors.push(error);
            Vec::new()
        })
    };
    let structured = StructuredCalendarSpec {
        second: parsed(&calendar.second, ranges::SECOND),
        minute: parsed(&calendar.minute, ranges::MINUTE),
        hour: parsed(&calendar.hour, ranges::HOUR),
        day_of_week: parsed(&calendar.day_of_week, ranges::DAY_OF_WEEK),
        day_of_month: parsed(&calendar.day_of_month, ranges::DAY_OF_MONTH),
        month: parsed(&calendar.month, ranges::MONTH),
        year: parsed(&calendar.year, ranges::YEAR),
        comment: calendar.comment.clone(),
    };
    if errors.is_empty() { Ok(structured) } else { Err(errors.join(", ")) }
}

fn check_calendar(calendar: &StructuredCalendarSpec) -> Result<(), String> {
    let mut errors = Vec::new();
    for (name, ranges, first, last) in [
        ("Second", &calendar.second, 0, 59),
        ("Minute", &calendar.minute, 0, 59),
        ("Hour", &calendar.hour, 0, 23),
        ("DayOfMonth", &calendar.day_of_month, 1, 31),
        ("Month", &calendar.month, 1, 12),
        ("Year", &calendar.year, ranges::FIRST_YEAR, ranges::LAST_YEAR),
        ("DayOfWeek", &calendar.day_of_week, 0, 6),
    ] {
        for range in ranges {
            if !(first..=last).contains(&range.start) {
                errors.push(format!("{name} Start is not in range [{first}-{last}]"));
            }
            if range.end != 0 && (range.end < range.start || range.end > last) {
                errors.push(format!("{name} End is before Start or not in range [{first}-{last}]"));
            }
            if range.step < 0 {
                errors.push(format!("{name} has invalid Step"));
            }
        }
    }
    if calendar.comment.len() > LONGEST_COMMENT {
        errors.push("comment is too long".to_owned());
    }
    if errors.is_empty() { Ok(()) } else { Err(format!("invalid calendar spec: {}", errors.join(", "))) }
}

fn check_interval(interval: &IntervalSpec) -> Result<(), String> {
    let (length, phase) = (span(interval.interval.as_ref()), span(interval.phase.as_ref()));
    if length < SECOND {
        Err("interval is too small".to_owned())
    } else if phase < 0 {
        Err("phase is negative".to_owned())
    } else if phase >= length {
        Err("phase cannot be greater than Interval".to_owned())
    } else {
        Ok(())
    }
}

/// Rejects durations that protobuf does not allow.
pub(crate) fn check_durations(spec: &ScheduleSpec) -> Result<(), String> {
    for interval in &spec.interval {
        for (name, duration) in [("interval", &interval.interval), ("phase", &interval.phase)] {
            if let Some(problem) = duration.as_ref().and_then(invalid) {
                return Err(format!("{name} is not a valid duration: proto:\u{a0}{problem}"));
            }
        }
    }
    Ok(())
}

fn invalid(duration: &Duration) -> Option<String> {
    let Duration { seconds, nanos } = *duration;
    // Go prints a message as protobuf's text format does, which is not stable either.
    let shown = format!("duration (seconds:{seconds}  nanos:{nanos})");
    if seconds < -LONGEST_DURATION {
        Some(format!("{shown} exceeds -10000 years"))
    } else if seconds > LONGEST_DURATION {
        Some(format!("{shown} exceeds +10000 years"))
    } else if i64::from(nanos).abs() >= SECOND {
        Some(format!("{shown} has out-of-range nanos"))
    } else if seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 {
        Some(format!("{shown} has seconds and nanos with different signs"))
    } else {
        None
    }
}

/// Fills in the defaults of ranges, as replies show them.
pub(super) fn with_defaults(spec: &mut ScheduleSpec) {
    for calendar in spec.structured_calendar.iter_mut().chain(&mut spec.exclude_structured_calendar) {
        let StructuredCalendarSpec { second, minute, hour, day_of_month, month, year, day_of_week, .. } = calendar;
        for Range { start, end, step } in
            [second, minute, hour, day_of_month, month, year, day_of_week].into_iter().flatten()
        {
            *end = (*end).max(*start);
            if *step == 0 {
                *step = 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::duration;

    fn cron(strings: &[&str]) -> ScheduleSpec {
        ScheduleSpec { cron_string: strings.iter().map(|text| (*text).to_owned()).collect(), ..Default::default() }
    }

    #[test]
    fn cron_strings_and_calendars_become_structured_calendars() {
        let noon = CalendarSpec { hour: "12".into(), ..CalendarSpec::default() };
        let spec = ScheduleSpec { calendar: vec![noon], ..cron(&["CRON_TZ=Asia/Tokyo 0 13 * * *"]) };
        let canonical = canonical(spec).unwrap();
        assert_eq!(canonical.timezone_name, "Asia/Tokyo");
        assert!(canonical.calendar.is_empty() && canonical.cron_string.is_empty());
        let hours: Vec<i32> = canonical.structured_calendar.iter().map(|calendar| calendar.hour[0].start).collect();
        assert_eq!(hours, [12, 13]);
    }

    #[test]
    fn invalid_specs_have_the_servers_texts() {
        let interval = |interval, phase| ScheduleSpec {
            interval: vec![IntervalSpec { interval: Some(duration(interval)), phase: Some(duration(phase)) }],
            ..ScheduleSpec::default()
        };
        let minute = |start, end, step| ScheduleSpec {
            structured_calendar: vec![StructuredCalendarSpec {
                minute: vec![Range { start, end, step }],
                ..StructuredCalendarSpec::default()
            }],
            ..ScheduleSpec::default()
        };
        for (spec, error) in [
            (interval(SECOND / 2, 0), "interval is too small"),
            (interval(SECOND, -1), "phase is negative"),
            (interval(SECOND, SECOND), "phase cannot be greater than Interval"),
            (minute(60, 0, 0), "invalid calendar spec: Minute Start is not in range [0-59]"),
            (
                minute(5, 4, -1),
                "invalid calendar spec: Minute End is before Start or not in range [0-59], Minute has invalid Step",
            ),
            (cron(&["TZ=UTC 0 1 * * *", "0 1 * * *"]), CONFLICTING_ZONES),
            (ScheduleSpec { timezone_name: "Asia/Tokyo".into(), ..cron(&["TZ=UTC 0 1 * * *"]) }, CONFLICTING_ZONES),
        ] {
            assert_eq!(canonical(spec), Err(error.to_owned()));
        }
    }

    #[test]
    fn replies_show_the_end_and_step_of_a_range() {
        let mut spec = canonical(cron(&["*/5 3 * * *"])).unwrap();
        with_defaults(&mut spec);
        let calendar = &spec.structured_calendar[0];
        assert_eq!(calendar.minute, [Range { start: 0, end: 59, step: 5 }]);
        assert_eq!(calendar.hour, [Range { start: 3, end: 3, step: 1 }]);
    }
}
