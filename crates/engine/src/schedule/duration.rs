//! Durations as Go writes them, like `1h30m`, and with `d` for days.

use crate::time::Nanos;

const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// The error text is that of Go.
pub(crate) fn parse(text: &str) -> Result<Nanos, String> {
    parse_without_days(&days_as_hours(text))
}

/// Replaces each number of days by its hours, as the real server does; error texts show the result.
fn days_as_hours(text: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = number_length(rest);
        let (number, after) = rest.split_at(length);
        match (number.parse::<f64>(), after.strip_prefix('d')) {
            (Ok(days), Some(after)) if length > 0 => {
                replaced.push_str(&format!("{:.6}h", 24.0 * days));
                rest = after;
            }
            _ if length > 0 => {
                replaced.push_str(number);
                rest = after;
            }
            _ => {
                let mut characters = rest.chars();
                replaced.extend(characters.next());
                rest = characters.as_str();
            }
        }
    }
    replaced
}

/// The length of the number at the beginning: digits, or digits and a point.
fn number_length(text: &str) -> usize {
    let digits = |text: &str| text.len() - text.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let whole = digits(text);
    let rest = text.get(whole..).unwrap_or_default();
    match rest.strip_prefix('.').map(digits) {
        Some(fraction) if whole + fraction > 0 => whole + 1 + fraction,
        _ => whole,
    }
}

/// Without the unit `d`.
pub(crate) fn parse_without_days(text: &str) -> Result<Nanos, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Ok(0);
    }
    if unsigned.is_empty() {
        return Err(invalid());
    }
    let (mut total, mut rest) = (0_f64, unsigned);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(number_length(rest));
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let length = after.find(|next: char| next == '.' || next.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text)));
        };
        total += number * size;
        if total >= i64::MAX as f64 {
            return Err(invalid());
        }
        rest = after;
    }
    // The value was checked; a cast saturates.
    let total = total.round() as i64;
    Ok(if text.starts_with('-') { -total } else { total })
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    #[test]
    fn durations_are_those_of_go_and_days() {
        for (text, seconds) in
            [("1h30m", 5400), ("0", 0), ("90s", 90), ("1.5h", 5400), ("2d", 172_800), ("1d12h", 129_600), ("-3s", -3)]
        {
            assert_eq!(parse(text), Ok(seconds * SECOND), "{text}");
        }
        assert_eq!(parse("1500ms"), Ok(1_500_000_000));
        for (text, error) in [
            ("", "time: invalid duration \"\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5x", "time: unknown unit \"x\" in duration \"5x\""),
            ("x", "time: invalid duration \"x\""),
            ("1dx", "time: unknown unit \"hx\" in duration \"24.000000hx\""),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
    }
}
