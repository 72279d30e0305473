//! Messages of a conversation: what a model reads and writes.
//!
//! A message is an ordered list of [`Part`]s, kept in the order in which they came. What is stored is read tolerantly: a
//! part of a kind that this build does not know is kept and handed on.

mod content;
mod fallback;
mod field;
mod files;
mod media;
mod part;

use serde::{Deserialize, Serialize};

pub use self::{
    content::{Citation, CitationLocation, Content},
    fallback::FallbackMark,
    files::{attach_files, detach_files, stored_files},
    media::{DocumentFormat, DocumentSource, ImageFormat, ImageSource},
    part::{Part, ProviderItem},
};
use crate::envelope::Extra;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    System,
    User,
    Assistant,
}

/// One message. A tool result is a part of a user message, as providers expect it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub role: Role,
    pub parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Extra::is_empty")]
    pub meta: Extra,
}

impl Message {
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, meta: Extra::new() }
    }

    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self::new(role, vec![Part::text(text)])
    }

    pub fn user(text: impl Into<String>) -> Self {
        Self::text(Role::User, text)
    }

    pub fn assistant(text: impl Into<String>) -> Self {
        Self::text(Role::Assistant, text)
    }

    /// The readable text of the message: its text and citation parts joined.
    pub fn plain_text(&self) -> String {
        plain_text(&self.parts)
    }
}

/// The readable text of parts: text and citations joined.
pub fn plain_text(parts: &[Part]) -> String {
    let text = parts.iter().filter_map(|part| match &part.content {
        Content::Text { text } | Content::Citations { text, .. } => Some(text.as_str()),
        _ => None,
    });
    text.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_text_joins_text_and_citations_in_order() {
        let cited = Content::Citations { text: "b".into(), citations: Vec::new() };
        let thinking = Content::Thinking { text: "hm".into(), signature: None, redacted: None };
        let parts = vec![Part::text("a"), thinking.into(), cited.into(), Part::text("c")];
        assert_eq!(Message::new(Role::Assistant, parts).plain_text(), "abc");
    }

    #[test]
    fn a_message_of_a_newer_build_survives_a_round_trip() {
        let text = r#"{"meta":{"later":1},"parts":[{"beam":[1,2],"kind":"hologram"},{"kind":"text","shade":"red","text":"hi"}],"role":"user"}"#;
        let message: Message = serde_json::from_str(text).unwrap();
        assert_eq!(message.plain_text(), "hi");
        assert_eq!(crate::canonical::text_of(&message).unwrap(), text);
        assert_eq!(serde_json::from_value::<Message>(json!(message)).unwrap(), message);
    }
}
