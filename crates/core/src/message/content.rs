//! What a part of a message says.

use serde::{Deserialize, Serialize, ser::SerializeMap};

use super::{
    DocumentFormat, DocumentSource, ImageFormat, ImageSource, Part,
    field::{self, Fields},
};
use crate::{
    canonical::CanonicalJson,
    ids::{CallId, ToolName},
};

#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Text {
        text: String,
    },
    /// A model's reasoning: readable text with its signature, or a redacted block.
    Thinking {
        text: String,
        signature: Option<String>,
        /// Base64 of a block only the provider can read.
        redacted: Option<String>,
    },
    ToolUse {
        id: CallId,
        name: ToolName,
        input: CanonicalJson,
    },
    ToolResult {
        tool_use_id: CallId,
        /// The structured result; `null` if the tool returned parts only.
        content: CanonicalJson,
        /// Text, images and documents that the tool returned.
        parts: Vec<Part>,
        is_error: bool,
    },
    Image {
        format: ImageFormat,
        source: ImageSource,
    },
    Document {
        name: String,
        format: DocumentFormat,
        source: DocumentSource,
        context: Option<String>,
        cite: bool,
    },
    Citations {
        text: String,
        citations: Vec<Citation>,
    },
    /// A tool that the provider executed itself. It is never executed here and needs no result.
    ProviderTool {
        name: String,
        input: Option<CanonicalJson>,
        output: Option<CanonicalJson>,
    },
    /// Where a provider may cut its prompt cache.
    CacheCheckpoint,
    /// A kind that this build does not know. Its fields are the part's `extra`.
    Other {
        kind: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Citation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where in a document of the conversation; absent for a source elsewhere, such as a web page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<CitationLocation>,
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

impl Content {
    pub fn kind(&self) -> &str {
        match self {
            Self::Text { .. } => "text",
            Self::Thinking { .. } => "thinking",
            Self::ToolUse { .. } => "tool_use",
            Self::ToolResult { .. } => "tool_result",
            Self::Image { .. } => "image",
            Self::Document { .. } => "document",
            Self::Citations { .. } => "citations",
            Self::ProviderTool { .. } => "provider_tool",
            Self::CacheCheckpoint => "cache_checkpoint",
            Self::Other { kind } => kind,
        }
    }

    /// The content of a kind, if the fields are what this build expects of it. They are taken out; the rest stays.
    pub(super) fn read(kind: &str, fields: &mut Fields) -> Option<Self> {
        let it = fields;
        Some(match kind {
            "text" => Self::Text { text: field::text(it, "text")? },
            "thinking" => Self::Thinking {
                text: field::default(it, "text")?,
                signature: field::default(it, "signature")?,
                redacted: field::default(it, "redacted")?,
            },
            "tool_use" => Self::ToolUse {
                id: CallId::new(field::text(it, "id")?),
                name: ToolName::new(field::text(it, "name")?),
                input: field::json(it, "input")?,
            },
            "tool_result" => Self::ToolResult {
                tool_use_id: CallId::new(field::text(it, "toolUseId")?),
                content: field::json(it, "content").unwrap_or_else(CanonicalJson::null),
                parts: field::default(it, "parts")?,
                is_error: field::default(it, "isError")?,
            },
            "image" => {
                let source = match it.contains_key("bytes") {
                    true => ImageSource::Bytes(field::text(it, "bytes")?),
                    false => field::decode(it, "source")?,
                };
                Self::Image { format: field::decode(it, "format")?, source }
            }
            "document" => Self::Document {
                name: field::text(it, "name")?,
                format: field::decode(it, "format")?,
                source: field::decode(it, "source")?,
                context: field::default(it, "context")?,
                cite: field::default(it, "cite")?,
            },
            "citations" => {
                Self::Citations { text: field::text(it, "text")?, citations: field::decode(it, "citations")? }
            }
            "provider_tool" => Self::ProviderTool {
                name: field::text(it, "name")?,
                input: field::json(it, "input"),
                output: field::json(it, "output"),
            },
            "cache_checkpoint" => Self::CacheCheckpoint,
            _ => return None,
        })
    }

    pub(super) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("kind", self.kind())?;
        match self {
            Self::Text { text } => map.serialize_entry("text", text),
            Self::Thinking { text, signature, redacted } => {
                if !text.is_empty() {
                    map.serialize_entry("text", text)?;
                }
                optional(map, "signature", signature.as_ref())?;
                optional(map, "redacted", redacted.as_ref())
            }
            Self::ToolUse { id, name, input } => {
                map.serialize_entry("id", id)?;
                map.serialize_entry("name", name)?;
                map.serialize_entry("input", input)
            }
            Self::ToolResult { tool_use_id, content, parts, is_error } => {
                map.serialize_entry("toolUseId", tool_use_id)?;
                map.serialize_entry("content", content)?;
                optional(map, "parts", Some(parts).filter(|parts| !parts.is_empty()))?;
                map.serialize_entry("isError", is_error)
            }
            Self::Image { format, source } => {
                map.serialize_entry("format", format)?;
                match source {
                    // The form that every build reads.
                    ImageSource::Bytes(bytes) => map.serialize_entry("bytes", bytes),
                    other => map.serialize_entry("source", other),
                }
            }
            Self::Document { name, format, source, context, cite } => {
                map.serialize_entry("name", name)?;
                map.serialize_entry("format", format)?;
                map.serialize_entry("source", source)?;
                optional(map, "context", context.as_ref())?;
                map.serialize_entry("cite", cite)
            }
            Self::Citations { text, citations } => {
                map.serialize_entry("text", text)?;
                map.serialize_entry("citations", citations)
            }
            Self::ProviderTool { name, input, output } => {
                map.serialize_entry("name", name)?;
                optional(map, "input", input.as_ref())?;
                optional(map, "output", output.as_ref())
            }
            Self::CacheCheckpoint | Self::Other { .. } => Ok(()),
        }
    }
}

fn optional<M: SerializeMap, T: Serialize>(map: &mut M, key: &'static str, value: Option<&T>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
}
