//! A peer's answer as the result of the call.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use serde_json::{Value, json};
use windlass_core::{
    canonical::CanonicalJson,
    message::{self, Content, DocumentFormat, DocumentSource, ImageFormat, ImageSource},
};

use super::wire::{File, Message, Part, Task};
use crate::ToolSuccess;

/// ProtoJSON takes both alphabets, with and without padding.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const DECODERS: [GeneralPurpose; 2] =
    [GeneralPurpose::new(&alphabet::STANDARD, LENIENT), GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT)];

pub(super) fn of_message(message: Message) -> ToolSuccess {
    let ids = json!({"contextId": message.context_id});
    of_parts(message.parts, ids)
}

/// What a completed task produced: its artifacts, or else what its last status says.
pub(super) fn of_task(task: Task) -> ToolSuccess {
    let ids = json!({"taskId": task.id, "contextId": task.context_id});
    let mut parts: Vec<Part> = task.artifacts.into_iter().flat_map(|artifact| artifact.parts).collect();
    if parts.is_empty() {
        parts = task.status.message.map(|message| message.parts).unwrap_or_default();
    }
    of_parts(parts, ids)
}

/// Text is the result. A single piece of data without text is a structured result; otherwise data is text, too. Files are
/// content.
fn of_parts(parts: Vec<Part>, ids: Value) -> ToolSuccess {
    let mut texts = Vec::new();
    let mut data = Vec::new();
    let mut content: Vec<message::Part> = Vec::new();
    for part in parts {
        let file = part.file();
        if let Some(text) = part.text {
            texts.push(text);
        } else if let Some(json) = part.data {
            // Its place among the texts, in case that it becomes one.
            data.push((texts.len() + data.len(), json));
        } else if let Some(base64) = &file.bytes {
            match of_file(&file, base64) {
                Shown::Content(part) => content.push(part.into()),
                Shown::Text(text) => texts.push(text),
            }
        } else if let Some(uri) = &file.uri {
            texts.push(file.name.as_ref().map_or_else(|| uri.clone(), |name| format!("{name}: {uri}")));
        }
    }
    let result = match data.as_slice() {
        [(_, json)] if texts.is_empty() => json.clone(),
        _ => {
            for (place, json) in data {
                texts.insert(place, json.to_string());
            }
            if texts.is_empty() { CanonicalJson::null() } else { Value::from(texts.join("\n")).into() }
        }
    };
    ToolSuccess { content, server_data: Some(ids), ..ToolSuccess::new(result) }
}

enum Shown {
    Content(Content),
    Text(String),
}

fn of_file(file: &File, base64: &str) -> Shown {
    let name = file.name.clone().unwrap_or_else(|| "file".to_owned());
    let media_type = file.mime_type.as_deref().unwrap_or("application/octet-stream").to_ascii_lowercase();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let Some(bytes) = DECODERS.iter().find_map(|decoder| decoder.decode(base64).ok()) else {
        return Shown::Text(format!("[{name}: its base64 is wrong]"));
    };
    if let Some(format) = image_format(essence) {
        return Shown::Content(Content::Image { format, source: ImageSource::Bytes(STANDARD.encode(bytes)) });
    }
    if let Some(format) = document_format(essence) {
        let source = DocumentSource::Bytes(STANDARD.encode(bytes));
        return Shown::Content(Content::Document { name, format, source, context: None, cite: false });
    }
    let length = bytes.len();
    let is_text = essence.starts_with("text/") || essence == "application/json";
    match String::from_utf8(bytes) {
        Ok(text) if is_text => Shown::Text(text),
        _ => Shown::Text(format!("[{name}: {length} bytes of {essence:.100}, which cannot be shown]")),
    }
}

fn image_format(essence: &str) -> Option<ImageFormat> {
    Some(match essence {
        "image/png" => ImageFormat::Png,
        "image/jpeg" => ImageFormat::Jpeg,
        "image/gif" => ImageFormat::Gif,
        "image/webp" => ImageFormat::Webp,
        _ => return None,
    })
}

fn document_format(essence: &str) -> Option<DocumentFormat> {
    Some(match essence {
        "application/pdf" => DocumentFormat::Pdf,
        "application/msword" => DocumentFormat::Doc,
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => DocumentFormat::Docx,
        "application/vnd.ms-excel" => DocumentFormat::Xls,
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => DocumentFormat::Xlsx,
        _ => return None,
    })
}

/// Where a person is sent by a status that asks for authorisation.
pub(super) fn page_of(message: &Message) -> Option<String> {
    let linked = message.parts.iter().find_map(|part| part.file().uri);
    let is_page = |word: &&str| word.starts_with("https://") || word.starts_with("http://");
    let texts = message.parts.iter().filter_map(|part| part.text.as_deref());
    let written = texts.flat_map(str::split_whitespace).find(is_page);
    linked
        .filter(|url| is_page(&url.as_str()))
        .or_else(|| written.map(|word| word.trim_end_matches(['.', ',', ';', ')', '>', '"', '\'']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(parts: Value) -> ToolSuccess {
        let message = serde_json::from_value(json!({"messageId": "m", "contextId": "c", "parts": parts})).unwrap();
        of_message(message)
    }

    fn success(result: Value, content: Vec<message::Part>) -> ToolSuccess {
        ToolSuccess { content, server_data: Some(json!({"contextId": "c"})), ..ToolSuccess::new(result) }
    }

    #[test]
    fn texts_are_joined_and_addresses_of_files_are_text() {
        let said = json!([{"text": "a"}, {"text": "b"}, {"url": "https://x/y", "filename": "y"}, {"url": "https://z"}]);
        assert_eq!(parts(said), success(json!("a\nb\ny: https://x/y\nhttps://z"), vec![]));
        let of_0_3 =
            json!([{"kind": "text", "text": "a"}, {"kind": "file", "file": {"uri": "https://z", "name": "z"}}]);
        assert_eq!(parts(of_0_3), success(json!("a\nz: https://z"), vec![]));
    }

    #[test]
    fn one_piece_of_data_alone_is_the_structured_result() {
        assert_eq!(
            parts(json!([{"data": {"n": 9_007_199_254_740_993_u64}}])).result.as_str(),
            r#"{"n":9007199254740993}"#
        );
        assert_eq!(parts(json!([{"text": "a"}, {"data": {"n": 1}}, {"text": "b"}])).result, json!("a\n{\"n\":1}\nb"));
        assert_eq!(parts(json!([{"data": 1}, {"data": [2]}])).result, json!("1\n[2]"));
        assert_eq!(parts(json!([])).result, Value::Null);
    }

    #[test]
    fn files_with_bytes_are_content_if_a_model_can_read_them() {
        let image = Content::Image { format: ImageFormat::Png, source: ImageSource::Bytes("/+8=".to_owned()) };
        let pdf = Content::Document {
            name: "p.pdf".to_owned(),
            format: DocumentFormat::Pdf,
            source: DocumentSource::Bytes("AAE=".to_owned()),
            context: None,
            cite: false,
        };
        let said = json!([
            {"raw": "_-8", "mediaType": "image/png"},
            {"kind": "file", "file": {"bytes": "AAE=", "name": "p.pdf", "mimeType": "application/pdf"}},
            {"raw": "aGk=", "mediaType": "text/plain; charset=utf-8"},
            {"raw": "AAE=", "filename": "x"},
            {"raw": "!", "filename": "y"},
        ]);
        let shown = "hi\n[x: 2 bytes of application/octet-stream, which cannot be shown]\n[y: its base64 is wrong]";
        assert_eq!(parts(said), success(json!(shown), vec![image.into(), pdf.into()]));
    }
}
