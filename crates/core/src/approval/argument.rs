//! Tests of a call's arguments.
//!
//! A test on a value that is missing or of another type does not hold. This is also true of `!=` and `not in`: they
//! hold for a value of the same type that differs. So `allow when amount <= 50` does not allow a call without an amount.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::compare::{order, same, same_type};
use crate::agent::matches;

/// A condition on one value of the arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArgumentTest {
    /// Which value, as a JSON pointer into the arguments: `/amount`, `/items/0/id`.
    pub at: String,
    pub op: ArgumentOp,
    /// What it is compared with; `exists` and `absent` have none.
    #[serde(default, deserialize_with = "crate::envelope::present", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// How a value is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ArgumentOp {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
    In,
    NotIn,
    /// Text of a form in which `*` stands for any text.
    Matches,
    /// There is a value; null is one.
    Exists,
    Absent,
    /// A test that this build does not know. No check accepts it, so a newer build wrote it.
    Other(String),
}

impl ArgumentOp {
    /// As rules write them.
    pub(super) const WORDS: [&str; 11] =
        ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "matches", "exists", "absent"];

    pub fn word(&self) -> &str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
            Self::In => "in",
            Self::NotIn => "not in",
            Self::Matches => "matches",
            Self::Exists => "exists",
            Self::Absent => "absent",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for ArgumentOp {
    fn from(word: String) -> Self {
        match word.as_str() {
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::AtMost,
            ">" => Self::More,
            ">=" => Self::AtLeast,
            "in" => Self::In,
            "not in" => Self::NotIn,
            "matches" => Self::Matches,
            "exists" => Self::Exists,
            "absent" => Self::Absent,
            _ => Self::Other(word),
        }
    }
}

impl From<ArgumentOp> for String {
    fn from(op: ArgumentOp) -> Self {
        match op {
            ArgumentOp::Other(word) => word,
            known => known.word().to_owned(),
        }
    }
}

impl ArgumentTest {
    /// Why the test does not hold, if it does not.
    pub(super) fn unmet(&self, args: Option<&Value>) -> Option<String> {
        let Some(args) = args else { return Some("the arguments are too large to look into".to_owned()) };
        let at = &self.at;
        let Some(found) = args.pointer(at) else {
            return (self.op != ArgumentOp::Absent).then(|| format!("the arguments have no {at:?}"));
        };
        if self.holds(found) {
            return None;
        }
        let (found, op) = (clipped(found), self.op.word());
        Some(match (&self.op, &self.value) {
            (ArgumentOp::Absent, _) => format!("the arguments have {at:?}"),
            (_, Some(value)) => format!("{at:?} is {found}; the rule wants {op} {}", clipped(value)),
            (_, None) => format!("{at:?} is {found}; the rule wants {op}, but not with what"),
        })
    }

    fn holds(&self, found: &Value) -> bool {
        match (&self.op, &self.value) {
            (ArgumentOp::Exists, _) => true,
            (ArgumentOp::Equal, Some(value)) => same(found, value),
            (ArgumentOp::NotEqual, Some(value)) => same_type(found, value) && !same(found, value),
            (ArgumentOp::In, Some(Value::Array(values))) => values.iter().any(|value| same(found, value)),
            (ArgumentOp::NotIn, Some(Value::Array(values))) => {
                values.iter().any(|value| same_type(found, value)) && !values.iter().any(|value| same(found, value))
            }
            (ArgumentOp::Matches, Some(Value::String(pattern))) => {
                found.as_str().is_some_and(|found| matches(pattern, found))
            }
            (op, Some(Value::Number(value))) => match (op, found) {
                (ArgumentOp::Less, Value::Number(found)) => order(found, value).is_some_and(Ordering::is_lt),
                (ArgumentOp::AtMost, Value::Number(found)) => order(found, value).is_some_and(Ordering::is_le),
                (ArgumentOp::More, Value::Number(found)) => order(found, value).is_some_and(Ordering::is_gt),
                (ArgumentOp::AtLeast, Value::Number(found)) => order(found, value).is_some_and(Ordering::is_ge),
                _ => false,
            },
            _ => false,
        }
    }
}

/// The most characters of a value that a trace shows.
const SHOWN_CHARS: usize = 60;

fn clipped(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn test(at: &str, op: &str, value: Option<Value>) -> ArgumentTest {
        ArgumentTest { at: at.to_owned(), op: op.to_owned().into(), value }
    }

    #[test]
    fn a_test_holds_for_values_of_its_type_only() {
        let args = json!({
            "amount": 50, "exact": 50.0, "to": "ann@example.com", "none": null, "on": true,
            "list": [1, 2], "map": {"a/b": {"~": "deep"}},
        });
        let cases = [
            ("/amount", "==", json!(50.0), true),
            ("/exact", "==", json!(50), true),
            ("/amount", "==", json!("50"), false),
            ("/amount", "!=", json!(51), true),
            ("/amount", "!=", json!(50.0), false),
            ("/amount", "!=", json!("50"), false),
            ("/missing", "!=", json!(50), false),
            ("/none", "==", json!(null), true),
            ("/amount", "!=", json!(null), false),
            ("/amount", "<", json!(50.5), true),
            ("/amount", "<", json!(50), false),
            ("/amount", "<=", json!(50), true),
            ("/amount", ">", json!(49.9), true),
            ("/amount", ">=", json!(50.1), false),
            ("/to", "<=", json!(50), false),
            ("/missing", "<=", json!(50), false),
            ("/amount", "<=", json!("50"), false),
            ("/amount", "in", json!([1, 50.0]), true),
            ("/amount", "in", json!(["50"]), false),
            ("/amount", "in", json!(50), false),
            ("/amount", "not in", json!([1, 2]), true),
            ("/amount", "not in", json!([1, 50]), false),
            ("/amount", "not in", json!(["50"]), false),
            ("/amount", "not in", json!([]), false),
            ("/missing", "not in", json!([1]), false),
            ("/to", "matches", json!("*@example.com"), true),
            ("/to", "matches", json!("*@example.org"), false),
            ("/amount", "matches", json!("*"), false),
            ("/list", "==", json!([1.0, 2]), true),
            ("/list/1", "==", json!(2), true),
            ("/list/2", "==", json!(2), false),
            ("/map/a~1b/~0", "==", json!("deep"), true),
            ("", "!=", json!({}), true),
            ("amount", "==", json!(50), false),
            ("/amount", "~=", json!(50), false),
        ];
        for (at, op, value, expected) in cases {
            let test = test(at, op, Some(value));
            assert_eq!(test.unmet(Some(&args)).is_none(), expected, "{test:?}");
            assert!(test.unmet(None).is_some(), "{test:?}");
        }
        let cases = [
            ("/none", "exists", true),
            ("/missing", "exists", false),
            ("/none", "absent", false),
            ("/x", "absent", true),
        ];
        for (at, op, expected) in cases {
            assert_eq!(test(at, op, None).unmet(Some(&args)).is_none(), expected, "{at} {op}");
            assert!(test(at, op, None).unmet(None).is_some(), "{at} {op}");
        }
        assert!(test("/amount", "==", None).unmet(Some(&args)).is_some());
    }

    #[test]
    fn every_word_is_a_test_and_an_unknown_one_survives() {
        for word in ArgumentOp::WORDS.into_iter().chain(["~="]) {
            let op: ArgumentOp = serde_json::from_value(json!(word)).unwrap();
            assert_eq!(serde_json::to_value(&op).unwrap(), json!(word));
            assert_eq!(matches!(op, ArgumentOp::Other(_)), word == "~=", "{word}");
        }
    }

    #[test]
    fn null_is_a_value_and_an_absent_field_is_none() {
        for json in [json!({"at": "/a", "op": "==", "value": null}), json!({"at": "/a", "op": "exists"})] {
            let read: ArgumentTest = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), json);
        }
    }

    #[test]
    fn a_trace_shows_the_beginning_of_a_long_value() {
        let args = json!({"text": "é".repeat(100)});
        let why = test("/text", "==", Some(json!("x"))).unmet(Some(&args)).unwrap();
        assert_eq!(why, format!("\"/text\" is \"{}…; the rule wants == \"x\"", "é".repeat(59)));
    }
}
