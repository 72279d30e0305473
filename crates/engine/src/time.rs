//! Times and durations as the engine computes with them: Unix nanoseconds, with zero for "none" as in the protocol.

use prost_wkt_types::{Duration as ProtoDuration, Timestamp};

/// A time or a duration, in nanoseconds.
pub(crate) type Nanos = i64;

pub(crate) const SECOND: Nanos = 1_000_000_000;

/// The longest duration that the real server stores; longer ones are shortened to it.
const LONGEST_SECONDS: i64 = 100 * 365 * 24 * 3600;

pub(crate) fn timestamp(at: Nanos) -> Timestamp {
    let nanos = i32::try_from(at.rem_euclid(SECOND)).unwrap_or_default();
    Timestamp { seconds: at.div_euclid(SECOND), nanos }
}

/// An absent time is zero.
pub(crate) fn moment(at: Option<&Timestamp>) -> Nanos {
    at.map_or(0, |at| at.seconds.saturating_mul(SECOND).saturating_add(i64::from(at.nanos)))
}

/// Zero becomes `None`.
pub(crate) fn optional_timestamp(at: Nanos) -> Option<Timestamp> {
    (at != 0).then(|| timestamp(at))
}

pub(crate) fn duration(span: Nanos) -> ProtoDuration {
    let nanos = i32::try_from(span % SECOND).unwrap_or_default();
    ProtoDuration { seconds: span / SECOND, nanos }
}

/// An absent duration is zero.
pub(crate) fn span(duration: Option<&ProtoDuration>) -> Nanos {
    duration.map_or(0, |duration| duration.seconds.saturating_mul(SECOND).saturating_add(i64::from(duration.nanos)))
}

/// Rejects invalid durations and shortens long ones. The error text is the real server's.
pub(crate) fn check_span(duration: &mut Option<ProtoDuration>) -> Result<(), String> {
    let Some(given) = duration else { return Ok(()) };
    if given.seconds < 0 || given.nanos < 0 {
        return Err("negative duration".to_owned());
    }
    if i64::from(given.nanos) >= SECOND {
        return Err("invalid duration: nanos out of range".to_owned());
    }
    if given.seconds >= LONGEST_SECONDS {
        *given = ProtoDuration { seconds: LONGEST_SECONDS, nanos: 0 };
    }
    Ok(())
}
