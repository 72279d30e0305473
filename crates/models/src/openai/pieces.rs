//! What a user or a tool says, as pieces that both formats have: text, images and files.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use windlass_core::{
    canonical::CanonicalJson,
    message::{Content, DocumentFormat, DocumentSource, ImageFormat, ImageSource, Part},
};

use crate::{
    ModelError,
    wire::media::{image_type, unresolved},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// A data URL, or an address that the provider reads.
    Image(String),
    /// A file inside the request, as a data URL.
    File {
        name: String,
        data: String,
    },
    /// A file at an address.
    FileAt {
        name: String,
        url: String,
    },
}

/// The piece for a part of a user message or of a tool result. `None` for what neither can have.
pub(crate) fn piece_of(part: &Part) -> Result<Option<Piece>, ModelError> {
    Ok(match &part.content {
        Content::Text { text } | Content::Citations { text, .. } => Some(Piece::Text(text.clone())),
        Content::Image { format, source } => Some(Piece::Image(image_url(*format, source)?)),
        Content::Document { name, format, source, context, .. } => {
            Some(document(name, *format, source, context.as_deref())?)
        }
        Content::Thinking { .. }
        | Content::ToolUse { .. }
        | Content::ToolResult { .. }
        | Content::ProviderTool { .. }
        | Content::CacheCheckpoint
        | Content::Other { .. } => None,
    })
}

/// A tool's result: its text first. The formats have no flag for an error, so the text says it.
pub(crate) fn result_pieces(content: &CanonicalJson, parts: &[Part], is_error: bool) -> Result<Vec<Piece>, ModelError> {
    let mut pieces = Vec::new();
    if content.as_str() != "null" || parts.is_empty() {
        let text = content.decode::<String>().unwrap_or_else(|_| content.to_string());
        pieces.push(Piece::Text(text));
    }
    for part in parts {
        pieces.extend(piece_of(part)?);
    }
    if is_error {
        match pieces.first_mut() {
            Some(Piece::Text(text)) => text.insert_str(0, "Error: "),
            _ => pieces.insert(0, Piece::Text("Error: the call failed.".to_owned())),
        }
    }
    Ok(pieces)
}

/// What stands before the files of a result where they cannot be part of it.
pub(crate) fn attachment_note(call_id: &str) -> String {
    format!("[Files of the result of the call {call_id}:]")
}

fn image_url(format: ImageFormat, source: &ImageSource) -> Result<String, ModelError> {
    let media_type = image_type(format);
    match source {
        ImageSource::Bytes(bytes) => Ok(format!("data:{media_type};base64,{bytes}")),
        ImageSource::Uri(url) => Ok(url.clone()),
        ImageSource::Blob(_) => Err(unresolved("an image")),
    }
}

fn document(
    name: &str,
    format: DocumentFormat,
    source: &DocumentSource,
    context: Option<&str>,
) -> Result<Piece, ModelError> {
    Ok(match source {
        DocumentSource::Text(text) => Piece::Text(framed(name, context, text)),
        DocumentSource::Chunks(chunks) => Piece::Text(framed(name, context, &chunks.join("\n\n"))),
        DocumentSource::Uri(url) => Piece::FileAt { name: name.to_owned(), url: url.clone() },
        DocumentSource::Bytes(bytes) => match format {
            DocumentFormat::Csv | DocumentFormat::Html | DocumentFormat::Txt | DocumentFormat::Md => {
                Piece::Text(framed(name, context, &decoded(name, bytes)?))
            }
            binary => {
                let (media_type, ending) = binary_type(binary);
                let name = if name.ends_with(ending) { name.to_owned() } else { format!("{name}{ending}") };
                Piece::File { name, data: format!("data:{media_type};base64,{bytes}") }
            }
        },
        DocumentSource::Blob(_) => return Err(unresolved("a document")),
    })
}

fn binary_type(format: DocumentFormat) -> (&'static str, &'static str) {
    match format {
        DocumentFormat::Doc => ("application/msword", ".doc"),
        DocumentFormat::Docx => ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", ".docx"),
        DocumentFormat::Xls => ("application/vnd.ms-excel", ".xls"),
        DocumentFormat::Xlsx => ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".xlsx"),
        _ => ("application/pdf", ".pdf"),
    }
}

fn framed(name: &str, context: Option<&str>, text: &str) -> String {
    let context = context.map(|context| format!("{context}\n\n")).unwrap_or_default();
    format!("<document name={}>\n{context}{text}\n</document>", Value::from(name))
}

fn decoded(name: &str, base64: &str) -> Result<String, ModelError> {
    let bytes = STANDARD.decode(base64).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    bytes.ok_or_else(|| {
        let name = Value::from(name);
        ModelError::invalid_request(format!("the document {name} is not text in UTF-8; send it as UTF-8 or as a PDF"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn piece(part: Value) -> Result<Option<Piece>, ModelError> {
        piece_of(&serde_json::from_value(part).unwrap())
    }

    fn text(text: &str) -> Option<Piece> {
        Some(Piece::Text(text.to_owned()))
    }

    #[test]
    fn images_and_documents_are_sent_as_the_provider_reads_them() {
        let document = |format: &str, source: Value| {
            piece(json!({"kind": "document", "name": "r", "format": format, "source": source, "context": "c"})).unwrap()
        };
        let framed = text("<document name=\"r\">\nc\n\nhé\n</document>");
        assert_eq!(document("txt", json!({"bytes": "aMOp"})), framed);
        assert_eq!(document("md", json!({"text": "hé"})), framed);
        assert_eq!(
            document("txt", json!({"chunks": ["a", "b"]})),
            text("<document name=\"r\">\nc\n\na\n\nb\n</document>")
        );
        let data = "data:application/pdf;base64,AA==".to_owned();
        assert_eq!(document("pdf", json!({"bytes": "AA=="})), Some(Piece::File { name: "r.pdf".into(), data }));
        assert_eq!(
            document("pdf", json!({"uri": "https://x/r.pdf"})),
            Some(Piece::FileAt { name: "r".into(), url: "https://x/r.pdf".into() })
        );
        let image = |source: Value| piece(json!({"kind": "image", "format": "jpeg", "source": source})).unwrap();
        assert_eq!(image(json!({"bytes": "AA"})), Some(Piece::Image("data:image/jpeg;base64,AA".into())));
        assert_eq!(image(json!({"uri": "https://x"})), Some(Piece::Image("https://x".into())));
    }

    #[test]
    fn what_cannot_be_sent_is_refused_by_name() {
        let blob = json!({"blob": {"digest": "0".repeat(64), "bytes": 9}});
        let not_text = json!({"bytes": "/w=="});
        for (part, message) in [
            (
                json!({"kind": "image", "format": "png", "source": blob}),
                "an image of the conversation is still a reference",
            ),
            (
                json!({"kind": "document", "name": "r", "format": "pdf", "source": blob}),
                "a document of the conversation is still a reference",
            ),
            (
                json!({"kind": "document", "name": "r", "format": "txt", "source": not_text}),
                "the document \"r\" is not text",
            ),
        ] {
            let error = piece(part).unwrap_err();
            assert!(error.message.starts_with(message), "{error}");
        }
    }

    #[test]
    fn a_result_is_its_text_and_its_files() {
        let image: Part = serde_json::from_value(json!({"kind": "image", "format": "png", "bytes": "AA"})).unwrap();
        let seen = Piece::Image("data:image/png;base64,AA".into());
        let table = [
            (json!("done"), vec![], false, vec![text("done")]),
            (json!({"b": 1, "a": 2}), vec![], false, vec![text("{\"a\":2,\"b\":1}")]),
            (json!(null), vec![], false, vec![text("null")]),
            (json!(null), vec![image.clone()], false, vec![Some(seen.clone())]),
            (json!("no"), vec![image.clone()], true, vec![text("Error: no"), Some(seen.clone())]),
            (json!(null), vec![image], true, vec![text("Error: the call failed."), Some(seen)]),
        ];
        for (content, parts, is_error, pieces) in table {
            let pieces: Vec<Piece> = pieces.into_iter().flatten().collect();
            assert_eq!(result_pieces(&content.into(), &parts, is_error).unwrap(), pieces);
        }
    }
}
