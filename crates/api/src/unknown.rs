//! Messages for unknown fields and parameters, with a suggestion.

use windlass_core::agent::nearest;

/// How many characters of the caller's text an error repeats.
const MAX_REPEATED: usize = 64;

/// The unknown word, truncated, and the message about it.
pub(crate) fn key(what: &str, word: &str, known: &[&str]) -> (String, String) {
    let shown: String = word.chars().take(MAX_REPEATED).collect();
    let advice = match nearest(word, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => "there are none here".to_owned(),
        None => format!("known are `{}`", known.join("`, `")),
    };
    let problem = format!("unknown {what} `{shown}`; {advice}");
    (shown, problem)
}

/// The same from serde's message about an unknown field, if the message is about one.
pub(crate) fn field(complaint: &str) -> Option<(String, String)> {
    let rest = complaint.strip_prefix("unknown field `")?;
    let (word, expected) = rest.split_once("`, ")?;
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    Some(key("field", word, &known))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its fields are looked at")]
    struct Two {
        output: Option<String>,
        error: Option<String>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    /// Fails when serde changes its message.
    #[test]
    fn serdes_message_about_an_unknown_field_is_recognized() {
        let of_two = |body: Value| field(&serde_json::from_value::<Two>(body).unwrap_err().to_string());
        let said = |word: &str, problem: &str| Some((word.to_owned(), problem.to_owned()));
        assert_eq!(of_two(json!({"ouput": 1})), said("ouput", "unknown field `ouput`; did you mean `output`?"));
        assert_eq!(of_two(json!({"x": 1})), said("x", "unknown field `x`; known are `output`, `error`"));
        assert_eq!(of_two(json!({"output": 1})), None);
        let none = serde_json::from_value::<Nothing>(json!({"x": 1})).unwrap_err().to_string();
        assert_eq!(field(&none), said("x", "unknown field `x`; there are none here"));
        let long = of_two(json!({"x".repeat(9000): 1})).unwrap().1;
        assert!(long.len() < 200, "{long}");
    }
}
