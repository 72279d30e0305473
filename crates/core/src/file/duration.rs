//! Durations as people write them.

use crate::time::friendly::{DurationError, parse};

/// Milliseconds of `30s`, `1h 30m` or `3w`.
pub(super) fn millis(text: &str) -> Result<u64, String> {
    let malformed = || format!("{text:?} is not a duration; write it like \"30s\" or \"10m\"");
    let duration = parse(text).map_err(|error| match error {
        DurationError::Malformed => malformed(),
        DurationError::Negative => format!("{text:?} is negative; write it like \"30s\" or \"10m\""),
        DurationError::NoFixedLength => {
            format!("{text:?} has no fixed length; write it in weeks or days, like \"4w\" or \"30d\"")
        }
    })?;
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err(format!("{text:?} is finer than a millisecond; write it like \"250ms\" or \"30s\""));
    }
    u64::try_from(duration.as_millis()).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_in_an_agent_file_is_read_in_milliseconds() {
        let cases = [
            ("30s", Ok(30_000)),
            ("250ms", Ok(250)),
            ("0s", Ok(0)),
            ("1.5h", Ok(5_400_000)),
            ("10m", Ok(600_000)),
            ("1h 30m", Ok(5_400_000)),
            ("1 hour, 30 minutes", Ok(5_400_000)),
            ("7d", Ok(604_800_000)),
            ("3w", Ok(1_814_400_000)),
            ("3w 2h", Ok(1_821_600_000)),
            ("", Err("\"\" is not a duration; write it like \"30s\" or \"10m\"")),
            ("30", Err("\"30\" is not a duration; write it like \"30s\" or \"10m\"")),
            ("10 fortnights", Err("\"10 fortnights\" is not a duration; write it like \"30s\" or \"10m\"")),
            ("-30s", Err("\"-30s\" is negative; write it like \"30s\" or \"10m\"")),
            ("30s ago", Err("\"30s ago\" is negative; write it like \"30s\" or \"10m\"")),
            ("2 months", Err("\"2 months\" has no fixed length; write it in weeks or days, like \"4w\" or \"30d\"")),
            ("1y", Err("\"1y\" has no fixed length; write it in weeks or days, like \"4w\" or \"30d\"")),
            ("10us", Err("\"10us\" is finer than a millisecond; write it like \"250ms\" or \"30s\"")),
        ];
        for (text, expected) in cases {
            assert_eq!(millis(text), expected.map_err(str::to_owned), "{text:?}");
        }
    }
}
