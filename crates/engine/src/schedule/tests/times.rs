//! Times of specs. Those with jitter were recorded from the real server.

use proptest::prelude::*;
use prost_wkt_types::Timestamp;
use temporalio_protos::temporal::api::schedule::v1::{CalendarSpec, IntervalSpec, ScheduleSpec};

use super::super::times::{Times, TooManyExcluded};
use crate::time::{Nanos, SECOND, duration};

const HOUR: Nanos = 3600 * SECOND;
const DAY: Nanos = 24 * HOUR;
/// 2030-01-01.
const NEW_YEAR: Nanos = 1_893_456_000 * SECOND;

fn times(spec: ScheduleSpec) -> Times {
    Times::new(spec, "01a1f03e-5d3d-7180-9682-a41aac5d6250-jittered".to_owned()).unwrap()
}

fn cron(text: &str) -> ScheduleSpec {
    ScheduleSpec { cron_string: vec![text.to_owned()], ..ScheduleSpec::default() }
}

fn every(interval: Nanos, phase: Nanos) -> ScheduleSpec {
    let interval = IntervalSpec { interval: Some(duration(interval)), phase: Some(duration(phase)) };
    ScheduleSpec { interval: vec![interval], ..ScheduleSpec::default() }
}

fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos: 0 })
}

#[test]
fn jitter_is_that_of_the_real_server() {
    let jittered = times(ScheduleSpec { jitter: Some(duration(HOUR / 2)), ..every(HOUR, 0) });
    let found = jittered.between(NEW_YEAR - 1, NEW_YEAR + 6 * HOUR, 6).unwrap();
    let offsets: Vec<Nanos> = found.iter().map(|found| (found - NEW_YEAR) / (SECOND / 1000)).collect();
    assert_eq!(offsets, [1_525_800, 4_198_408, 8_156_722, 12_428_493, 15_735_286, 18_233_749]);
}

#[test]
fn an_hour_that_comes_twice_matches_twice_and_a_skipped_one_never() {
    // Clocks go back on 2026-10-25 at 01:00 UTC, and forward on 2026-03-29 at 01:00 UTC.
    let (autumn, spring) = (1_792_886_400 * SECOND, 1_774_742_400 * SECOND);
    let half_past_two = times(cron("CRON_TZ=Europe/Berlin 30 2 * * *"));
    let found = |times: &Times, from: Nanos| -> Vec<Nanos> {
        times.between(from, from + DAY - 1, 100).unwrap().iter().map(|at| (at - from) / (HOUR / 2)).collect()
    };
    assert_eq!(found(&half_past_two, autumn), [3]);
    assert!(found(&half_past_two, spring).is_empty());
}

#[test]
fn times_are_in_the_allowed_range_and_not_excluded() {
    let noons = CalendarSpec { hour: "12".to_owned(), ..CalendarSpec::default() };
    #[allow(deprecated, reason = "clients may still send it")]
    let spec = ScheduleSpec {
        start_time: at(NEW_YEAR / SECOND),
        end_time: at(NEW_YEAR / SECOND + 86_400),
        exclude_calendar: vec![noons],
        ..every(6 * HOUR, 0)
    };
    let found = times(spec).between(0, i64::MAX, 100).unwrap();
    assert_eq!(found.iter().map(|at| (at - NEW_YEAR) / HOUR).collect::<Vec<_>>(), [0, 6, 18, 24]);
    assert_eq!(times(ScheduleSpec::default()).next(0), Ok(None));
    assert_eq!(times(cron("0 0 30 2 *")).next(0), Ok(None));
}

#[test]
fn a_search_that_excludes_too_much_is_given_up() {
    let always = ["*"; 3].map(str::to_owned);
    let [second, minute, hour] = always;
    #[allow(deprecated, reason = "clients may still send it")]
    let spec = ScheduleSpec {
        exclude_calendar: vec![CalendarSpec { second, minute, hour, ..CalendarSpec::default() }],
        ..every(SECOND, 0)
    };
    assert_eq!(times(spec).next_within(NEW_YEAR, 1000), Err(TooManyExcluded));
}

proptest! {
    #[test]
    fn times_rise_and_jitter_stays_before_the_next_time(
        interval in 1_i64..100_000, phase in 0_i64..100_000, jitter in 0_i64..1_000_000, from in 0_i64..3_000_000_000
    ) {
        let plain = times(every(interval * SECOND, phase % interval * SECOND));
        let spec = ScheduleSpec { jitter: Some(duration(jitter * SECOND)), ..every(interval * SECOND, phase % interval * SECOND) };
        let jittered = times(spec);
        let mut after = from * SECOND;
        for _ in 0..20 {
            let next = jittered.next(after).unwrap().unwrap();
            prop_assert_eq!(Some(next.nominal), plain.next(after).unwrap().map(|next| next.nominal));
            prop_assert!(next.nominal > after && next.actual >= next.nominal);
            prop_assert!(next.actual < next.nominal + interval * SECOND || jitter >= interval);
            after = next.actual;
        }
    }
}
