//! The `grpc-timeout` header: up to eight digits and a unit.

use std::time::Duration;

use http::HeaderMap;
use tonic::Status;

/// The timeout that the client sent.
pub fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(header) = headers.get("grpc-timeout") else { return Ok(None) };
    let text = header.to_str().unwrap_or_default();
    match parse(text) {
        Some(timeout) => Ok(Some(timeout)),
        None => Err(Status::internal(format!("malformed grpc-timeout: {text:?}"))),
    }
}

fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 60 * 60),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timeout_unit_is_parsed() {
        let read: Vec<_> = ["2H", "2M", "2S", "2m", "2u", "99999999n"].into_iter().map(parse).collect();
        assert_eq!(
            read,
            [
                Some(Duration::from_secs(7200)),
                Some(Duration::from_secs(120)),
                Some(Duration::from_secs(2)),
                Some(Duration::from_millis(2)),
                Some(Duration::from_micros(2)),
                Some(Duration::from_nanos(99_999_999)),
            ]
        );
    }

    #[test]
    fn malformed_timeouts_are_rejected() {
        for text in ["", "S", "5", "5s", "-5S", "+5S", "123456789S", "5 S", "5ä"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
