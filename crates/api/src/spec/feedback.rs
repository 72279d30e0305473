//! The body of `POST …/feedback`.

use serde::Serialize;
use serde_json::Value;

use super::{Invalid, fields::Fields};

const MAX_EXPLANATION: usize = 8000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Feedback {
    pub verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    Up,
    Down,
}

impl Feedback {
    pub fn parse(body: &Value) -> Result<Self, Invalid> {
        let fields = Fields::of_body(body)?;
        let verdict = match fields.required_text("verdict")? {
            "UP" => Verdict::Up,
            "DOWN" => Verdict::Down,
            _ => return Err(fields.invalid("verdict", "must be \"UP\" or \"DOWN\"")),
        };
        let explanation = fields.text("explanation")?;
        if explanation.is_some_and(|text| text.chars().count() > MAX_EXPLANATION) {
            return Err(fields.invalid("explanation", format!("must have at most {MAX_EXPLANATION} characters")));
        }
        Ok(Self { verdict, explanation: explanation.map(str::to_owned) })
    }
}
