//! A server's result as the result of a tool.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use windlass_core::{
    canonical::CanonicalJson,
    limits::{FILES_BYTES, NAME_CHARS},
    message::{Content, DocumentFormat, DocumentSource, ImageFormat, ImageSource, Part},
};

use super::failure;
use crate::{ToolFailure, ToolSuccess};

pub(super) fn success(result: CallToolResult) -> Result<ToolSuccess, ToolFailure> {
    if result.is_error == Some(true) {
        return Err(error(&result));
    }
    let CallToolResult { mut content, structured_content, .. } = result;
    if let Some(structured) = &structured_content {
        // For older clients servers repeat it as text.
        content.retain(|block| !is_text_of(block, structured));
    } else if let Some(text) = only_text(&content) {
        return Ok(ToolSuccess::new(Value::from(text)));
    }
    let mut files = Files { room: FILES_BYTES };
    let parts = content.into_iter().map(|block| files.part(block)).collect::<Result<_, _>>()?;
    let result = structured_content.map_or_else(CanonicalJson::null, CanonicalJson::from);
    Ok(ToolSuccess { content: parts, ..ToolSuccess::new(result) })
}

fn error(result: &CallToolResult) -> ToolFailure {
    let text = joined(&result.content);
    match &result.structured_content {
        _ if !text.trim().is_empty() => failure::failed(text),
        Some(structured) => failure::failed(structured.to_string()),
        None => failure::failed("the tool failed and did not say why"),
    }
}

/// The text of a result that has nothing else.
fn only_text(content: &[ContentBlock]) -> Option<String> {
    let only = !content.is_empty() && content.iter().all(|block| block.as_text().is_some());
    only.then(|| joined(content))
}

fn joined(content: &[ContentBlock]) -> String {
    let texts: Vec<&str> = content.iter().filter_map(|block| Some(block.as_text()?.text.as_str())).collect();
    texts.join("\n")
}

fn is_text_of(block: &ContentBlock, structured: &Value) -> bool {
    let text = block.as_text().map(|text| text.text.as_str());
    text.and_then(|text| serde_json::from_str::<Value>(text).ok()).is_some_and(|value| value == *structured)
}

/// What files of one result may still take, decoded.
struct Files {
    room: usize,
}

impl Files {
    fn part(&mut self, block: ContentBlock) -> Result<Part, ToolFailure> {
        match block {
            ContentBlock::Text(text) => Ok(Part::text(text.text)),
            ContentBlock::Image(image) => self.file("image", &image.mime_type, image.data, "image"),
            ContentBlock::Audio(audio) => self.file("audio", &audio.mime_type, audio.data, "audio"),
            ContentBlock::Resource(embedded) => match embedded.resource {
                ResourceContents::TextResourceContents { text, .. } => Ok(Part::text(text)),
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let name = uri.rsplit('/').find(|piece| !piece.is_empty()).unwrap_or("resource");
                    self.file("resource", mime_type.as_deref().unwrap_or_default(), blob, name)
                }
                _ => Err(failure::failed("the MCP server returned a resource of an unknown kind")),
            },
            ContentBlock::ResourceLink(link) => Ok(Part::text(format!("resource: {} {}", link.name, link.uri))),
            _ => Err(failure::failed("the MCP server returned content of an unknown kind")),
        }
    }

    /// A file of a type that messages have; of any other the model is told that it was left out.
    fn file(&mut self, what: &str, mime_type: &str, base64: String, name: &str) -> Result<Part, ToolFailure> {
        let bytes = STANDARD
            .decode(&base64)
            .map_err(|_| failure::failed(format!("the MCP server returned {what} data that is not valid base64")))?
            .len();
        self.room = self.room.checked_sub(bytes).ok_or_else(|| {
            failure::failed(format!("the files of the result are larger than {FILES_BYTES} bytes; ask for less"))
        })?;
        let essence = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let content = if let Some(format) = image_format(&essence) {
            Content::Image { format, source: ImageSource::Bytes(base64) }
        } else if let Some(format) = document_format(&essence) {
            let name = name.chars().take(NAME_CHARS).collect();
            Content::Document { name, format, source: DocumentSource::Bytes(base64), context: None, cite: false }
        } else {
            let kind = if essence.is_empty() { "unknown type" } else { &essence };
            let text = format!("[{what} of {kind}, {bytes} bytes: left out, because models cannot read it]");
            return Ok(Part::text(text));
        };
        Ok(Part { content, provider_item: None, extra: Default::default() })
    }
}

fn image_format(essence: &str) -> Option<ImageFormat> {
    Some(match essence {
        "image/png" => ImageFormat::Png,
        "image/jpeg" | "image/jpg" => ImageFormat::Jpeg,
        "image/gif" => ImageFormat::Gif,
        "image/webp" => ImageFormat::Webp,
        _ => return None,
    })
}

fn document_format(essence: &str) -> Option<DocumentFormat> {
    Some(match essence {
        "application/pdf" => DocumentFormat::Pdf,
        "text/csv" => DocumentFormat::Csv,
        "application/msword" => DocumentFormat::Doc,
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => DocumentFormat::Docx,
        "application/vnd.ms-excel" => DocumentFormat::Xls,
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => DocumentFormat::Xlsx,
        "text/html" => DocumentFormat::Html,
        "text/plain" => DocumentFormat::Txt,
        "text/markdown" => DocumentFormat::Md,
        _ => return None,
    })
}
