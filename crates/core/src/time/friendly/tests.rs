use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

fn nanos(result: Result<Duration, DurationError>) -> Result<u128, DurationError> {
    result.map(|duration| duration.as_nanos())
}

#[test]
fn every_accepted_notation_has_one_meaning() {
    let cases: &[(&[&str], u64)] = &[
        (&["0s", "-0s", "0s ago", "0d 0h 0s", "0y", "0.0s", "00:00:00"], 0),
        (&["30s", "+30s", "30s ", "30 s", "30\ts", "00030s", "00:00:30", "0h 30s"], 30 * SECOND),
        (&["30sec", "30secs", "30second", "30seconds", "30 seconds", "0mo 30s"], 30 * SECOND),
        (&["5m", "5min", "5mins", "5minute", "5minutes", "300s", "00:05:00", "0:4:60"], 5 * MINUTE),
        (&["5h", "5hr", "5hrs", "5hour", "5hours", "5:00:00", "05:00:00.0"], 5 * HOUR),
        (&["5d", "5day", "5days", "120h", "120:00:00"], 5 * DAY),
        (&["3w", "3wk", "3wks", "3week", "3weeks", "21d"], 21 * DAY),
        (&["250ms", "250msec", "250msecs", "250milli", "250millis", "250millisecond", "250milliseconds"], SECOND / 4),
        (&["0.25s", "0,25s", "0.250 s", "00:00:00.25", "00:00:00,25"], SECOND / 4),
        (&["10us", "10usec", "10usecs", "10µs", "10µsec", "10µsecs", "10micro", "10micros", "10microsecond"], 10_000),
        (&["10microseconds", "0.01ms", "10000ns"], 10_000),
        (&["10ns", "10nsec", "10nsecs", "10nano", "10nanos", "10nanosecond", "10nanoseconds", "0.01us"], 10),
        (&["1h 30m", "1h30m", "1h, 30m", "1h,  30m", "1h\t30m", "1h\n30m", "1   h   30   m", "90m"], 90 * MINUTE),
        (&["1 hour, 30 minutes", "1hour30minutes", "1.5h", "1,5h", "01:30:00"], 90 * MINUTE),
        (&["3w 2h", "3w2h", "3 weeks, 2 hours", "3w 02:00:00", "3w, 2:00:00"], 21 * DAY + 2 * HOUR),
        (&["1s 1ms", "1.001s", "1s, 1 millisecond"], SECOND + 1_000_000),
        (&["1.123456789s"], 1_123_456_789),
        (&["1d 02:03:04.5", "1 day, 2h 3m 4.5s"], DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND + SECOND / 2),
    ];
    for (texts, expected) in cases {
        for text in *texts {
            assert_eq!(nanos(parse(text)), Ok(u128::from(*expected)), "{text:?}");
        }
    }
}

#[test]
fn other_texts_are_rejected_with_the_reason() {
    let cases: &[(&[&str], DurationError)] = &[
        (
            &["", " ", "30", "s", "soon", "inf", " 30s", "- 30s", "--5s", "+-5s", "1e3s", "1_000s", "0x10s", "٣s"],
            Malformed,
        ),
        (&["30S", "5M", "30Sec", "10 fortnights", "1u", "1n", "1µ", "10μs", "1hago", "1h x"], Malformed),
        (&["2h 3w", "1h1h", "1m 2h", "1h 02:03:04", "02:03", "1h,30m", "1h , 30m", "1h,", ",1h", "1h 30"], Malformed),
        (&["1h and 30m", "1h, and 30m", "1.5h 30m", "1.5h, 30m", ".5h", "1.h", "1.s", "1.1234567890s"], Malformed),
        (&["1.5d", "1.5w", "1.5y", "1.5ns", "-30s ago", "+5s ago", "1h ago ago", "1h, ago", "PT30S"], Malformed),
        (&["99999999999999999999s", "18446744073709551615w"], Malformed),
        (&["-30s", "30s ago", "30 s  ago", "5 minutes ago", "-1y", "1y ago", "01:30:00 ago"], Negative),
        (&["1y", "1yr", "1yrs", "1year", "2 years", "1mo", "1mos", "1month", "2 months", "1y 1d"], NoFixedLength),
    ];
    for (texts, expected) in cases {
        for text in *texts {
            assert_eq!(parse(text), Err(*expected), "{text:?}");
        }
    }
}

#[test]
fn iso_8601_is_read_too() {
    let cases = [
        ("PT30S", Ok(30 * SECOND)),
        ("pt30s", Ok(30 * SECOND)),
        ("+PT5S", Ok(5 * SECOND)),
        ("PT0S", Ok(0)),
        ("PT1M", Ok(MINUTE)),
        ("PT1H30M", Ok(90 * MINUTE)),
        ("PT1.5H", Ok(90 * MINUTE)),
        ("PT1,5S", Ok(SECOND + SECOND / 2)),
        ("P1W2D", Ok(9 * DAY)),
        ("P1DT2H", Ok(DAY + 2 * HOUR)),
        ("P1M", Err(NoFixedLength)),
        ("P1Y", Err(NoFixedLength)),
        ("-PT30S", Err(Negative)),
        ("P", Err(Malformed)),
        ("PT", Err(Malformed)),
        ("P1DT", Err(Malformed)),
        ("P1H", Err(Malformed)),
        ("PT1D", Err(Malformed)),
        ("PT1M1H", Err(Malformed)),
        ("PT1.5H30M", Err(Malformed)),
        ("P1.5D", Err(Malformed)),
        ("PT-5S", Err(Malformed)),
        ("PT1H30", Err(Malformed)),
        ("30s", Err(Malformed)),
    ];
    for (text, expected) in cases {
        assert_eq!(nanos(parse_iso8601(text)), expected.map(u128::from), "{text:?}");
    }
}

#[test]
fn a_duration_prints_in_its_shortest_units() {
    let cases = [
        (0, "0s"),
        (30 * SECOND, "30s"),
        (90 * MINUTE, "1h 30m"),
        (21 * DAY + 2 * HOUR, "3w 2h"),
        (8 * DAY + 1, "1w 1d 1ns"),
        (SECOND / 4, "250ms"),
    ];
    for (nanos, expected) in cases {
        assert_eq!(print(Duration::from_nanos(nanos)), expected);
    }
}

proptest! {
    #[test]
    fn a_printed_duration_parses_to_itself(seconds in any::<u64>(), nanos in 0_u32..1_000_000_000) {
        let duration = Duration::new(seconds, nanos);
        prop_assert_eq!(parse(&print(duration)), Ok(duration));
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "[-+PTpt0-9smhdwyoµ.,: ago]{0,24}") {
        let _ = (parse(&text), parse_iso8601(&text));
    }
}
