//! A session stays with the model that it fell back to. The mark is in the session's last message, so it needs no row of
//! its own and is there exactly if the run's answer is.

use super::Message;
use crate::envelope::Extra;
use serde_json::Value;

const MODEL: &str = "fallbackModel";
const PRIMARY: &str = "primaryModel";

/// In the `meta` of a message that a fallback model wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackMark {
    pub model: String,
    /// The model that was asked first.
    pub primary: String,
}

impl FallbackMark {
    pub fn new(model: &str, primary: &str) -> Self {
        Self { model: model.to_owned(), primary: primary.to_owned() }
    }

    pub fn to_meta(&self) -> Extra {
        let entry = |key: &str, value: &str| (key.to_owned(), Value::from(value));
        Extra::from([entry(MODEL, &self.model), entry(PRIMARY, &self.primary)])
    }

    pub fn of(message: &Message) -> Option<Self> {
        let text = |key: &str| message.meta.get(key)?.as_str().map(str::to_owned);
        Some(Self { model: text(MODEL)?, primary: text(PRIMARY)? })
    }

    /// The fallback model of a run that asks for `primary`, and the models that are left after it. `None` if the run asks
    /// for another model, or does not have this fallback any more.
    pub fn continued(self, primary: &str, fallback: &[String]) -> Option<(String, Vec<String>)> {
        let at = fallback.iter().position(|model| *model == self.model)?;
        (self.primary == primary).then(|| (self.model, fallback[at + 1..].to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_stays_with_its_fallback_only_for_the_same_model() {
        let mut message = Message::assistant("hi");
        assert_eq!(FallbackMark::of(&message), None);
        message.meta = FallbackMark::new("b", "a").to_meta();
        let mark = FallbackMark::of(&message).unwrap();
        let models = ["b", "c"].map(str::to_owned);
        let continued = mark.clone().continued("a", &models);
        assert_eq!(continued, Some(("b".to_owned(), vec!["c".to_owned()])));
        assert_eq!(mark.clone().continued("x", &models), None);
        assert_eq!(mark.continued("a", &[]), None);
    }
}
