//! The reasoning of a message. Servers have their own fields for it and want them back as they were.

use crate::wire::{Fields, is_absent, quoted, text_of};

/// Fields that OpenAI's own type does not have. DeepSeek, vLLM and xAI use the first; OpenRouter, Ollama and newer vLLM
/// the second, and OpenRouter the third beside it.
const TEXT_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];
const DETAILS: &str = "reasoning_details";

#[derive(Debug, Default)]
pub(super) struct Reasoning {
    /// What was shown as it came.
    pub(super) text: String,
    /// The text of each field that came, by its name.
    fields: Vec<(&'static str, String)>,
    details: Vec<Fields>,
}

impl Reasoning {
    pub(super) fn is_in(delta: &Fields) -> bool {
        TEXT_FIELDS.iter().any(|name| delta.text(name).is_some_and(|text| !text.is_empty()))
            || delta.get(DETAILS).is_some_and(|details| !is_absent(details))
    }

    /// Takes the fields of one delta. Returns what is new to show.
    pub(super) fn take(&mut self, delta: &mut Fields) -> String {
        let mut new = None;
        for name in TEXT_FIELDS {
            let Some(piece) = delta.take(name).as_deref().and_then(text_of).filter(|text| !text.is_empty()) else {
                continue;
            };
            match self.fields.iter_mut().find(|(own, _)| *own == name) {
                Some((_, text)) => text.push_str(&piece),
                None => self.fields.push((name, piece.clone())),
            }
            // A server that sends both fields sends the same text twice.
            new.get_or_insert(piece);
        }
        let details = delta.take(DETAILS).and_then(|json| serde_json::from_str::<Vec<Fields>>(&json).ok());
        details.into_iter().flatten().for_each(|detail| self.add_detail(detail));
        let new = new.unwrap_or_default();
        self.text.push_str(&new);
        new
    }

    /// A detail comes in pieces with one index: its texts are joined, its other fields are those that came last.
    fn add_detail(&mut self, piece: Fields) {
        let same = |own: &&mut Fields| own.get("index") == piece.get("index") && own.get("type") == piece.get("type");
        let Some(detail) = self.details.last_mut().filter(|_| piece.get("index").is_some()).filter(same) else {
            return self.details.push(piece);
        };
        for (name, value) in piece {
            let joined = match name.as_str() {
                "text" | "summary" | "data" => detail.text(&name).zip(text_of(&value)).map(|(own, more)| own + &more),
                _ => None,
            };
            match joined {
                Some(text) => detail.set(&name, quoted(&text)),
                None if value == "null" && detail.get(&name).is_some() => {}
                None => detail.set(&name, value),
            }
        }
    }

    /// The fields for the message that this is replayed in.
    pub(super) fn into_fields(self) -> Fields {
        let mut fields = Fields::default();
        for (name, text) in self.fields {
            fields.set(name, quoted(&text));
        }
        if !self.details.is_empty() {
            let details: Vec<String> = self.details.iter().map(Fields::to_string).collect();
            fields.set(DETAILS, format!("[{}]", details.join(",")));
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(deltas: &[&str]) -> (String, String) {
        let mut reasoning = Reasoning::default();
        for delta in deltas {
            let mut delta = Fields::parse(delta).unwrap();
            if Reasoning::is_in(&delta) {
                reasoning.take(&mut delta);
            }
        }
        (reasoning.text.clone(), reasoning.into_fields().to_string())
    }

    #[test]
    fn each_server_gets_its_own_fields_back() {
        let table: [(&[&str], &str, &str); 4] = [
            (
                &[r#"{"reasoning_content":"a"}"#, r#"{"reasoning_content":"b","content":null}"#],
                "ab",
                r#"{"reasoning_content":"ab"}"#,
            ),
            (&[r#"{"reasoning":"a","reasoning_content":"a"}"#], "a", r#"{"reasoning_content":"a","reasoning":"a"}"#),
            (
                &[
                    r#"{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","index":0,"signature":null}]}"#,
                    r#"{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","index":0}]}"#,
                    r#"{"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0,"x":1.0}]}"#,
                    r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"zz","index":1}]}"#,
                ],
                "ab",
                r#"{"reasoning":"ab","reasoning_details":[{"type":"reasoning.text","text":"ab","index":0,"signature":"s","x":1.0},{"type":"reasoning.encrypted","data":"zz","index":1}]}"#,
            ),
            (&[r#"{"content":"x"}"#, r#"{"reasoning":""}"#, r#"{"reasoning":null}"#], "", "{}"),
        ];
        for (deltas, text, fields) in table {
            assert_eq!(read(deltas), (text.to_owned(), fields.to_owned()));
        }
    }
}
