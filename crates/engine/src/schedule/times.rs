//! The times of a spec.

use temporalio_protos::temporal::api::schedule::v1::{IntervalSpec, ScheduleSpec};

use super::{calendar::Calendar, fingerprint::fingerprint, ranges::LAST_YEAR, spec};
use crate::{
    time::{Nanos, SECOND, moment, span},
    zone::{Unix, Zone},
};

/// How many excluded times are passed over before the search is given up.
const MOST_EXCLUDED: usize = 2 * 7 * 24 * 3600;

const MILLISECOND: Nanos = 1_000_000;

/// A spec that times are computed from.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    canonical: ScheduleSpec,
    zone: Zone,
    calendars: Vec<Calendar>,
    excluded: Vec<Calendar>,
    /// Part of the jitter's seed.
    seed: String,
}

/// A time at which the schedule acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ActionTime {
    /// As the spec says it.
    pub(crate) nominal: Nanos,
    /// With jitter.
    pub(crate) actual: Nanos,
}

/// Too many times were excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyExcluded;

impl Times {
    /// The error text is the real server's.
    pub(crate) fn new(spec: ScheduleSpec, seed: String) -> Result<Self, String> {
        let canonical = spec::canonical(spec)?;
        let zone = match canonical.timezone_data.as_slice() {
            [] => Zone::named(&canonical.timezone_name)?,
            data => Zone::from_data(&canonical.timezone_name, data)?,
        };
        let calendars = canonical.structured_calendar.iter().map(Calendar::new).collect();
        let excluded = canonical.exclude_structured_calendar.iter().map(Calendar::new).collect();
        Ok(Self { canonical, zone, calendars, excluded, seed })
    }

    pub(crate) fn into_canonical(self) -> ScheduleSpec {
        self.canonical
    }

    /// The first time after this one, or `None` if there is no other.
    pub(crate) fn next(&self, after: Nanos) -> Result<Option<ActionTime>, TooManyExcluded> {
        self.next_within(after, MOST_EXCLUDED)
    }

    /// As [`next`](Self::next), passing over fewer excluded times than this.
    pub(super) fn next_within(&self, after: Nanos, excluded: usize) -> Result<Option<ActionTime>, TooManyExcluded> {
        // The first second of the allowed range may match.
        let after = after.max(moment(self.canonical.start_time.as_ref()) - SECOND);
        let mut after = after.div_euclid(SECOND);
        let mut known = Vec::new();
        for _ in 0..excluded {
            let Some(nominal) = self.matching(after, &mut known).filter(|at| !self.is_over(*at)) else {
                return Ok(None);
            };
            if !self.excluded.iter().any(|calendar| calendar.matches(&self.zone, nominal)) {
                return Ok(Some(self.with_jitter(nominal, &mut known)));
            }
            after = nominal;
        }
        Err(TooManyExcluded)
    }

    /// The times after `from` up to and including `to`, not more than `most`.
    pub(crate) fn between(&self, from: Nanos, to: Nanos, most: usize) -> Result<Vec<Nanos>, TooManyExcluded> {
        let mut times = Vec::new();
        let mut after = from;
        while times.len() < most
            && let Some(next) = self.next(after)?.filter(|next| next.actual <= to)
        {
            times.push(next.actual);
            after = next.actual;
        }
        Ok(times)
    }

    fn is_over(&self, at: Unix) -> bool {
        let past_end = self.canonical.end_time.is_some() && at * SECOND > moment(self.canonical.end_time.as_ref());
        past_end || Zone::UTC.civil(at).year > i64::from(LAST_YEAR)
    }

    /// The first match after this time, excluded or not. `known` has the next time of each calendar: most are far
    /// ahead while a search passes over excluded times.
    fn matching(&self, after: Unix, known: &mut Vec<Option<Unix>>) -> Option<Unix> {
        if known.is_empty() {
            known.extend(self.calendars.iter().map(|calendar| calendar.next(&self.zone, after)));
        }
        for (calendar, next) in self.calendars.iter().zip(&mut *known) {
            if next.is_some_and(|next| next <= after) {
                *next = calendar.next(&self.zone, after);
            }
        }
        let intervals = self.canonical.interval.iter().map(|interval| next_of_interval(interval, after));
        known.iter().copied().flatten().chain(intervals).min()
    }

    /// The jitter depends on the time and the schedule only, and ends before the next time.
    fn with_jitter(&self, nominal: Unix, known: &mut Vec<Option<Unix>>) -> ActionTime {
        let longest = span(self.canonical.jitter.as_ref());
        let longest = match self.matching(nominal, known) {
            Some(following) => longest.min((following - nominal).saturating_mul(SECOND)),
            None => longest,
        };
        let at = nominal.saturating_mul(SECOND);
        let milliseconds = u64::try_from(longest / MILLISECOND).unwrap_or(0).min(u64::from(u32::MAX));
        let drawn = u64::from(fingerprint(&[go_time(nominal).as_slice(), self.seed.as_bytes()].concat()));
        let jitter = Nanos::try_from((drawn * milliseconds) >> 32).unwrap_or(0) * MILLISECOND;
        ActionTime { nominal: at, actual: at + jitter }
    }
}

fn next_of_interval(interval: &IntervalSpec, after: Unix) -> Unix {
    let length = (span(interval.interval.as_ref()) / SECOND).max(1);
    let phase = (span(interval.phase.as_ref()) / SECOND).max(0);
    ((after - phase) / length + 1) * length + phase
}

/// A UTC time as Go's `Time.MarshalBinary` writes it.
fn go_time(at: Unix) -> [u8; 15] {
    const VERSION: u8 = 1;
    const YEAR_ONE: Unix = -62_135_596_800;
    let mut bytes = [0; 15];
    bytes[0] = VERSION;
    bytes[1..9].copy_from_slice(&(at - YEAR_ONE).to_be_bytes());
    bytes[13..].copy_from_slice(&[0xff; 2]);
    bytes
}
