//! The answer of a run as content of a result: its text, and the files of its last message.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_core::{
    ids::RunId,
    message::{
        Content, DocumentFormat, DocumentSource, ImageFormat, ImageSource, Part, Role, attach_files, stored_files,
    },
};
use windlass_store::{Store, StoreError};

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    /// Content blocks.
    files: Vec<Value>,
}

impl Answer {
    pub(super) async fn of(store: &dyn Store, run: &RunId) -> Result<Self, StoreError> {
        let text = store.final_text(run).await?.unwrap_or_default();
        let length = store.run(run).await?.map_or(0, |row| row.head.len);
        let mut last = store.transcript_page(run, length.saturating_sub(1), 1).await?.messages;
        let Some((_, mut message)) = last.pop().filter(|(_, message)| message.role == Role::Assistant) else {
            return Ok(Self { text, files: Vec::new() });
        };
        let mut stored = BTreeMap::new();
        for file in stored_files(&message.parts) {
            let body = store.blob(&file.digest).await?;
            if let Some(Value::String(bytes)) = body.map(|body| body.to_value()) {
                stored.insert(file.digest, bytes);
            }
        }
        attach_files(&mut message.parts, &stored);
        Ok(Self { text, files: message.parts.iter().filter_map(file).collect() })
    }

    #[cfg(test)]
    pub(super) fn text(text: &str) -> Self {
        Self { text: text.to_owned(), files: Vec::new() }
    }

    /// An answer of files only has no empty text before them.
    pub(super) fn blocks(&self) -> Vec<Value> {
        let text = (!self.text.is_empty() || self.files.is_empty()).then(|| json!({"type": "text", "text": self.text}));
        text.into_iter().chain(self.files.iter().cloned()).collect()
    }
}

/// The content block of a file.
fn file(part: &Part) -> Option<Value> {
    match &part.content {
        Content::Image { format, source } => image(*format, source),
        Content::Document { name, format, source, .. } => document(name, *format, source),
        _ => None,
    }
}

fn image(format: ImageFormat, source: &ImageSource) -> Option<Value> {
    let kind = match format {
        ImageFormat::Png => "image/png",
        ImageFormat::Jpeg => "image/jpeg",
        ImageFormat::Gif => "image/gif",
        ImageFormat::Webp => "image/webp",
    };
    match source {
        ImageSource::Bytes(bytes) => Some(json!({"type": "image", "data": bytes, "mimeType": kind})),
        ImageSource::Uri(uri) => Some(link(uri, "image", kind)),
        // Its bytes are gone.
        ImageSource::Blob(_) => None,
    }
}

fn document(name: &str, format: DocumentFormat, source: &DocumentSource) -> Option<Value> {
    let kind = match format {
        DocumentFormat::Pdf => "application/pdf",
        DocumentFormat::Csv => "text/csv",
        DocumentFormat::Doc => "application/msword",
        DocumentFormat::Docx => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        DocumentFormat::Xls => "application/vnd.ms-excel",
        DocumentFormat::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        DocumentFormat::Html => "text/html",
        DocumentFormat::Txt => "text/plain",
        DocumentFormat::Md => "text/markdown",
    };
    let (key, content) = match source {
        DocumentSource::Bytes(bytes) => ("blob", bytes.clone()),
        DocumentSource::Text(text) => ("text", text.clone()),
        DocumentSource::Chunks(chunks) => ("text", chunks.join("\n")),
        DocumentSource::Uri(uri) => return Some(link(uri, name, kind)),
        DocumentSource::Blob(_) => return None,
    };
    let encoded: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    // It cannot be read by this address; a resource must have one.
    Some(
        json!({"type": "resource", "resource": {"uri": format!("attachment:{encoded}"), "mimeType": kind, key: content}}),
    )
}

fn link(uri: &str, name: &str, kind: &str) -> Value {
    json!({"type": "resource_link", "uri": uri, "name": name, "mimeType": kind})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: Value) -> Vec<Value> {
        let parts: Vec<Part> = serde_json::from_value(parts).unwrap();
        parts.iter().filter_map(file).collect()
    }

    #[test]
    fn images_and_documents_are_content_and_thoughts_are_not() {
        let parts = json!([
            {"kind": "thinking", "text": "hm"},
            {"kind": "image", "format": "png", "bytes": "QUJD"},
            {"kind": "image", "format": "jpeg", "source": {"uri": "https://example.com/a.jpg"}},
            {"kind": "document", "name": "a b", "format": "md", "source": {"text": "# A"}},
        ]);
        assert_eq!(
            of(parts),
            [
                json!({"type": "image", "data": "QUJD", "mimeType": "image/png"}),
                json!({"type": "resource_link", "uri": "https://example.com/a.jpg", "name": "image", "mimeType": "image/jpeg"}),
                json!({"type": "resource", "resource": {"uri": "attachment:a+b", "mimeType": "text/markdown", "text": "# A"}}),
            ]
        );
    }

    #[test]
    fn an_answer_without_text_has_its_files_only() {
        let image = json!({"type": "image", "data": "QUJD", "mimeType": "image/png"});
        let only = Answer { text: String::new(), files: vec![image.clone()] };
        assert_eq!(only.blocks(), [image]);
        assert_eq!(Answer::default().blocks(), [json!({"type": "text", "text": ""})]);
    }
}
