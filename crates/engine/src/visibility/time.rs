//! Times and durations in filters and attributes, as nanoseconds.

use chrono::DateTime;

const SECOND: i64 = 1_000_000_000;

/// Unix nanoseconds of an RFC 3339 time. A time outside of the range of 64 bits becomes the nearest one in range: it
/// compares the same with every time that a run can have.
pub(crate) fn rfc3339(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    // The library is more lenient than the protocol: it accepts lower case, blanks and leap seconds.
    let shape = bytes.len() >= 20 && bytes[10] == b'T' && bytes[13] == b':' && bytes[16] == b':';
    let zone = text.ends_with('Z') || matches!(bytes, [.., b'+' | b'-', _, _, b':', _, _]);
    if !shape || !zone || !bytes[0].is_ascii_digit() || &bytes[17..19] == b"60" {
        return None;
    }
    let time = DateTime::parse_from_rfc3339(&shortened(text)?).ok()?;
    let nearest = if time.timestamp() < 0 { i64::MIN } else { i64::MAX };
    Some(time.timestamp_nanos_opt().unwrap_or(nearest))
}

/// A time as RFC 3339, in UTC and to the nanosecond.
pub(crate) fn written(at: i64) -> String {
    DateTime::from_timestamp_nanos(at).to_rfc3339_opts(chrono::SecondsFormat::Nanos, true)
}

/// Cuts a fraction to nine digits, the precision of the result.
fn shortened(text: &str) -> Option<String> {
    let (seconds, rest) = text.split_at_checked(19)?;
    let Some(fraction) = rest.strip_prefix(['.', ',']) else { return Some(text.to_owned()) };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, zone) = fraction.split_at(digits);
    Some(format!("{seconds}.{}{zone}", &fraction[..digits.min(9)]))
}

/// Nanoseconds of a plain number, of `1h30m` (also days), or of `hh:mm:ss`.
pub(crate) fn duration(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| units(text)).or_else(|| clock(text))
}

fn units(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let number = rest.find(|char: char| !char.is_ascii_digit() && char != '.')?;
        let (amount, after) = rest.split_at(number);
        let unit = after.find(|char: char| char.is_ascii_digit() || char == '.').unwrap_or(after.len());
        total = total.checked_add(nanoseconds(amount, unit_size(&after[..unit])?)?)?;
        rest = &after[unit..];
    }
    Some(if negative { -total } else { total })
}

fn unit_size(unit: &str) -> Option<i64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        "d" => 24 * 3600 * SECOND,
        _ => return None,
    })
}

fn nanoseconds(amount: &str, unit: i64) -> Option<i64> {
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits below the precision are dropped, so that the scale stays in range.
    let fraction = &fraction[..fraction.len().min(18)];
    let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let part = part * i128::from(unit) / 10_i128.pow(fraction.len() as u32);
    whole.checked_mul(unit)?.checked_add(i64::try_from(part).ok()?)
}

fn clock(text: &str) -> Option<i64> {
    let mut parts = text.split(':').map(|part| part.parse::<u32>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || minutes > 59 || seconds > 59 {
        return None;
    }
    i64::from(hours).checked_mul(3600)?.checked_add(i64::from(minutes * 60 + seconds))?.checked_mul(SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_must_be_rfc_3339() {
        assert_eq!(rfc3339("1970-01-01T00:00:01Z"), Some(SECOND));
        assert_eq!(rfc3339("1970-01-01T02:00:00+02:00"), Some(0));
        assert_eq!(rfc3339("1970-01-01T00:00:00.1234567891234Z"), Some(123_456_789));
        assert_eq!(rfc3339("1970-01-01T00:00:00,5-00:01"), Some(60 * SECOND + SECOND / 2));
        assert_eq!(rfc3339("1677-09-21T00:12:43.145224192Z"), Some(i64::MIN));
        assert_eq!(rfc3339("2262-04-11T23:47:16.854775806Z"), Some(i64::MAX - 1));
        assert_eq!(rfc3339("1000-01-01T00:00:00Z"), Some(i64::MIN));
        assert_eq!(rfc3339("9999-01-01T00:00:00Z"), Some(i64::MAX));
        for text in [
            "",
            "2020-01-01",
            "2020-01-01T00:00:00",
            "2020-01-01 00:00:00Z",
            "2020-01-01t00:00:00z",
            "2020-01-01T00:00Z",
            "2020-01-01T00:00:00+0200",
            "2020-13-01T00:00:00Z",
            "2020-02-30T00:00:00Z",
            "2020-01-01T24:00:00Z",
            "2016-12-31T23:59:60Z",
            "2020-01-01T00:00:00.Z",
            "2020-01-01T00:00:00Z[UTC]",
            "2020-01-01T00:00:00éZ",
            "1577836800000000000000",
        ] {
            assert_eq!(rfc3339(text), None, "{text:?}");
        }
    }

    #[test]
    fn durations_have_three_forms() {
        let hour = 3600 * SECOND;
        for (text, nanoseconds) in [
            ("5", 5),
            ("-5", -5),
            ("0", 0),
            ("1h", hour),
            ("+1h", hour),
            ("-1.5h", -(hour + hour / 2)),
            (".5h", hour / 2),
            ("1d", 24 * hour),
            ("1h1d", 25 * hour),
            ("1d1h1m1s1ms1us1ns", 25 * hour + 61 * SECOND + 1_001_001),
            ("00:01:00", 60 * SECOND),
            ("100:00:01", 100 * hour + SECOND),
        ] {
            assert_eq!(duration(text), Some(nanoseconds), "{text:?}");
        }
        for text in ["", "-", "h", "1w", "1h 5m", ".h", "1.2.3h", "99999999h", "01:60:00", "01:00:60", "01:00", "a:b:c"]
        {
            assert_eq!(duration(text), None, "{text:?}");
        }
    }
}
