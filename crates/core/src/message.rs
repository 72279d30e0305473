//! Messages of a conversation: what a model reads and writes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    envelope::Extra,
    ids::{CallId, ToolName},
};

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

/// A piece of a message. The discriminator is always written and never guessed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Part {
    Text {
        text: String,
    },
    /// A model's reasoning: readable text with its signature, or a redacted block.
    Thinking {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// Base64 of a block only the provider can read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redacted: Option<String>,
    },
    ToolUse {
        id: CallId,
        name: ToolName,
        input: Value,
    },
    ToolResult {
        tool_use_id: CallId,
        content: Value,
        #[serde(default)]
        is_error: bool,
    },
    Image {
        format: ImageFormat,
        /// Base64.
        bytes: String,
    },
    Document {
        name: String,
        format: DocumentFormat,
        source: DocumentSource,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        #[serde(default)]
        cite: bool,
    },
    Citations {
        text: String,
        citations: Vec<Citation>,
    },
    /// Where a provider may cut its prompt cache.
    CacheCheckpoint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    Png,
    Jpeg,
    Gif,
    Webp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentFormat {
    Pdf,
    Csv,
    Doc,
    Docx,
    Xls,
    Xlsx,
    Html,
    Txt,
    Md,
}

/// Exactly one way in which a document's content is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentSource {
    /// Base64.
    Bytes(String),
    Text(String),
    Chunks(Vec<String>),
    Uri(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Citation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub location: CitationLocation,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_content: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "unit", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum CitationLocation {
    Char { document_index: u32, start: u32, end: u32 },
    Chunk { document_index: u32, start: u32, end: u32 },
    Page { document_index: u32, start: u32, end: u32 },
}

impl Message {
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, meta: Extra::new() }
    }

    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self::new(role, vec![Part::Text { text: text.into() }])
    }

    pub fn user(text: impl Into<String>) -> Self {
        Self::text(Role::User, text)
    }

    pub fn assistant(text: impl Into<String>) -> Self {
        Self::text(Role::Assistant, text)
    }

    /// The readable text of the message: its text and citation parts joined.
    pub fn plain_text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } | Part::Citations { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_part_round_trips_with_its_kind() {
        let parts = json!([
            {"kind": "text", "text": "hi"},
            {"kind": "thinking", "text": "hm", "signature": "sig"},
            {"kind": "thinking", "redacted": "AAEC"},
            {"kind": "tool_use", "id": "c1", "name": "notes.add", "input": {"a": 1}},
            {"kind": "tool_result", "toolUseId": "c1", "content": [1], "isError": true},
            {"kind": "image", "format": "png", "bytes": "AAEC"},
            {"kind": "document", "name": "d", "format": "pdf", "source": {"uri": "s3://x"}, "cite": true},
            {"kind": "citations", "text": "t", "citations": [{"location": {"unit": "page", "documentIndex": 0, "start": 1, "end": 2}, "sourceContent": ["x"]}]},
            {"kind": "cache_checkpoint"},
        ]);
        let decoded: Vec<Part> = serde_json::from_value(parts.clone()).unwrap();
        assert_eq!(serde_json::to_value(decoded).unwrap(), parts);
    }

    #[test]
    fn a_part_without_kind_is_refused_rather_than_guessed() {
        assert!(serde_json::from_value::<Part>(json!({"text": "hi"})).is_err());
        assert!(serde_json::from_value::<Part>(json!({"kind": "hologram"})).is_err());
    }
}
