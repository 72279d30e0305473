//! Texts, images and documents as Gemini reads them.

use serde::Serialize;
use serde_json::Value;
use windlass_core::message::{Content, DocumentFormat, DocumentSource, ImageSource};

use crate::{
    ModelError,
    wire::media::{image_type, unresolved},
};

/// What a part of ours is on the wire: one piece, or a file with a text that names it.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    File(File),
}

/// `{"inlineData": …}` or `{"fileData": …}`, in a content and in a function response alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum File {
    InlineData { mime_type: &'static str, data: String },
    FileData { mime_type: &'static str, file_uri: String },
}

/// The content without the provider's own item. Empty if it means nothing to another provider.
pub(super) fn pieces(content: &Content) -> Result<Vec<Piece>, ModelError> {
    Ok(match content {
        Content::Text { text } | Content::Citations { text, .. } => vec![Piece::Text(text.clone())],
        Content::Image { format, source } => {
            let mime_type = image_type(*format);
            vec![Piece::File(match source {
                ImageSource::Bytes(data) => File::InlineData { mime_type, data: data.clone() },
                ImageSource::Uri(uri) => File::FileData { mime_type, file_uri: uri.clone() },
                ImageSource::Blob(_) => return Err(unresolved("an image")),
            })]
        }
        Content::Document { name, format, source, context, .. } => {
            let mut label = format!("Document {}:", Value::from(name.as_str()));
            if let Some(context) = context {
                label = format!("{label}\n{context}");
            }
            let mime_type = document_type(*format);
            match source {
                DocumentSource::Text(text) => vec![Piece::Text(format!("{label}\n{text}"))],
                DocumentSource::Chunks(chunks) => vec![Piece::Text(format!("{label}\n{}", chunks.join("\n")))],
                DocumentSource::Bytes(data) => {
                    vec![Piece::Text(label), Piece::File(File::InlineData { mime_type, data: data.clone() })]
                }
                DocumentSource::Uri(uri) => {
                    vec![Piece::Text(label), Piece::File(File::FileData { mime_type, file_uri: uri.clone() })]
                }
                DocumentSource::Blob(_) => return Err(unresolved("a document")),
            }
        }
        Content::Thinking { .. }
        | Content::ToolUse { .. }
        | Content::ToolResult { .. }
        | Content::ProviderTool { .. }
        | Content::CacheCheckpoint
        | Content::Other { .. } => Vec::new(),
    })
}

/// Gemini reads the text formats as plain text, and takes no other name for some of them.
fn document_type(format: DocumentFormat) -> &'static str {
    match format {
        DocumentFormat::Txt | DocumentFormat::Md | DocumentFormat::Csv | DocumentFormat::Html => "text/plain",
        // Office files were replaced by a text before.
        DocumentFormat::Pdf
        | DocumentFormat::Doc
        | DocumentFormat::Docx
        | DocumentFormat::Xls
        | DocumentFormat::Xlsx => "application/pdf",
    }
}
