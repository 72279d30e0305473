//! Files of a user message or a tool result, with the same limits.

use serde_json::{Value, json};
use windlass_core::{
    limits::{FILES, FILES_BYTES, NAME_CHARS, URL_CHARS},
    message::{Content, DocumentFormat, DocumentSource, ImageFormat, ImageSource, Part},
};

use super::{Invalid, fields::Fields};

/// A file of a message or a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attachment {
    Inline {
        filename: String,
        mime_type: String,
        /// Base64, checked.
        data: String,
        bytes: usize,
    },
    Url {
        url: String,
        mime_type: Option<String>,
        filename: Option<String>,
    },
}

impl Attachment {
    /// The file's metadata for the conversation's history, without its content.
    pub fn summary(&self) -> Value {
        match self {
            Self::Inline { filename, mime_type, bytes, .. } => {
                json!({"type": "input_file", "mimeType": mime_type, "filename": filename, "size": bytes})
            }
            Self::Url { url, mime_type, filename } => {
                let mut summary = json!({"type": "input_file_url", "url": url});
                if let Some(mime_type) = mime_type {
                    summary["mimeType"] = json!(mime_type);
                }
                if let Some(filename) = filename {
                    summary["filename"] = json!(filename);
                }
                summary
            }
        }
    }

    /// The file as a part for the model.
    pub fn part(&self) -> Part {
        match self {
            Self::Inline { filename, mime_type, data, .. } => match image_format(mime_type) {
                Some(format) => Content::Image { format, source: ImageSource::Bytes(data.clone()) }.into(),
                None => document(filename, mime_type, DocumentSource::Bytes(data.clone())),
            },
            Self::Url { url, mime_type, filename } => {
                let mime_type = mime_type.as_deref().unwrap_or_else(|| by_ending(filename.as_deref().unwrap_or(url)));
                match image_format(mime_type) {
                    Some(format) => Content::Image { format, source: ImageSource::Uri(url.clone()) }.into(),
                    None => {
                        let name = filename.as_deref().unwrap_or(url);
                        document(name, mime_type, DocumentSource::Uri(url.clone()))
                    }
                }
            }
        }
    }
}

fn document(name: &str, mime_type: &str, source: DocumentSource) -> Part {
    let format = match mime_type {
        "application/pdf" => DocumentFormat::Pdf,
        "text/csv" => DocumentFormat::Csv,
        "text/html" => DocumentFormat::Html,
        "text/markdown" => DocumentFormat::Md,
        DOCX => DocumentFormat::Docx,
        _ => DocumentFormat::Txt,
    };
    Content::Document { name: name.to_owned(), format, source, context: None, cite: false }.into()
}

/// The type of a linked file whose sender names none. Providers read images, PDF files and texts in different ways.
fn by_ending(name: &str) -> &'static str {
    let path = name.split(['?', '#']).next().unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    let ending = file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "md" => "text/markdown",
        "docx" => DOCX,
        _ => "text/plain",
    }
}

fn image_format(mime_type: &str) -> Option<ImageFormat> {
    match mime_type {
        "image/png" => Some(ImageFormat::Png),
        "image/jpeg" => Some(ImageFormat::Jpeg),
        "image/gif" => Some(ImageFormat::Gif),
        "image/webp" => Some(ImageFormat::Webp),
        _ => None,
    }
}

const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

fn check_mime_type(mime_type: &str) -> Result<(), &'static str> {
    if mime_type.starts_with("audio/") {
        return Err("audio is not available on this server; send text, an image or a document");
    }
    let named = ["application/pdf", "application/json", "application/xml", DOCX].contains(&mime_type);
    let text = mime_type.strip_prefix("text/").is_some_and(|kind| !kind.is_empty());
    if named || text || image_format(mime_type).is_some() {
        return Ok(());
    }
    Err(
        "must be image/png, image/jpeg, image/gif, image/webp, application/pdf, application/json, application/xml, text/* or docx",
    )
}

/// Attachments of a message.
pub(super) fn parse(fields: &Fields<'_>, key: &str) -> Result<Vec<Attachment>, Invalid> {
    let items = list(fields, key)?;
    let mut room = FILES_BYTES;
    let parsed = items.into_iter().map(|(path, item)| {
        let item = Fields::at(&path, item)?;
        match item.required_text("type")? {
            "input_file" => inline(&item, &mut room),
            "input_file_url" => linked(&item),
            _ => Err(item.invalid("type", "must be \"input_file\" or \"input_file_url\"")),
        }
    });
    parsed.collect()
}

/// Files of a tool's result; they are always inline.
pub(super) fn files(fields: &Fields<'_>, key: &str) -> Result<Vec<Attachment>, Invalid> {
    let items = list(fields, key)?;
    let mut room = FILES_BYTES;
    items.into_iter().map(|(path, item)| inline(&Fields::at(&path, item)?, &mut room)).collect()
}

fn list<'a>(fields: &Fields<'a>, key: &str) -> Result<Vec<(String, &'a Value)>, Invalid> {
    Ok(fields.bounded_list(key, FILES)?.unwrap_or_default())
}

fn inline(item: &Fields<'_>, room: &mut usize) -> Result<Attachment, Invalid> {
    item.bounded_text("filename", NAME_CHARS)?;
    let filename = item.required_text("filename")?.to_owned();
    let mime_type = item.required_text("mimeType")?.to_ascii_lowercase();
    check_mime_type(&mime_type).map_err(|problem| item.invalid("mimeType", problem))?;
    let data = item.required_text("data")?;
    if data.starts_with("data:") {
        return Err(item.invalid("data", "must be plain base64; leave the data-URL prefix out"));
    }
    let bytes = decoded_len(data).ok_or_else(|| item.invalid("data", "must be base64"))?;
    *room = room
        .checked_sub(bytes)
        .ok_or_else(|| item.invalid("data", format!("all files together exceed {FILES_BYTES} bytes; send less")))?;
    Ok(Attachment::Inline { filename, mime_type, data: data.to_owned(), bytes })
}

fn linked(item: &Fields<'_>) -> Result<Attachment, Invalid> {
    item.bounded_text("url", URL_CHARS)?;
    let url = item.required_text("url")?;
    if !url.starts_with("https://") {
        return Err(item.invalid("url", "must begin with https://"));
    }
    let mime_type = item.text("mimeType")?.map(str::to_ascii_lowercase);
    if let Some(mime_type) = &mime_type {
        check_mime_type(mime_type).map_err(|problem| item.invalid("mimeType", problem))?;
    }
    Ok(Attachment::Url {
        url: url.to_owned(),
        mime_type,
        filename: item.bounded_text("filename", NAME_CHARS)?.map(str::to_owned),
    })
}

/// The decoded size of a base64 text, without decoding it.
fn decoded_len(text: &str) -> Option<usize> {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let alphabet = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    if padding > 2 || !body.bytes().all(alphabet) || body.len() % 4 == 1 {
        return None;
    }
    // A padded text has a multiple of four characters.
    (padding == 0 || text.len().is_multiple_of(4)).then_some(body.len() / 4 * 3 + (body.len() % 4).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_linked_file_is_an_image_or_a_document_by_its_type_or_else_by_its_ending() {
        let uri = |text: &str| ImageSource::Uri(text.to_owned());
        let image = |format, url| Content::Image { format, source: uri(url) };
        let file = |name: &str, format, url: &str| Content::Document {
            name: name.to_owned(),
            format,
            source: DocumentSource::Uri(url.to_owned()),
            context: None,
            cite: false,
        };
        let (pier, tides, none) = ("https://a/pier.jpg", "https://a/tides.PDF?v=2", "https://a.pdf/x");
        let cases = [
            (pier, Some("image/png"), None, image(ImageFormat::Png, pier)),
            (pier, None, None, image(ImageFormat::Jpeg, pier)),
            (pier, Some("application/pdf"), Some("p"), file("p", DocumentFormat::Pdf, pier)),
            (tides, None, None, file(tides, DocumentFormat::Pdf, tides)),
            (none, None, Some("dot.webp"), image(ImageFormat::Webp, none)),
            (none, None, None, file(none, DocumentFormat::Txt, none)),
        ];
        for (url, mime_type, filename, expected) in cases {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            let linked =
                Attachment::Url { url: url.to_owned(), mime_type: owned(mime_type), filename: owned(filename) };
            assert_eq!(linked.part().content, expected, "{url} {mime_type:?} {filename:?}");
        }
    }

    proptest! {
        #[test]
        fn base64_is_measured_as_it_decodes(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let text = BASE64_STANDARD.encode(&bytes);
            prop_assert_eq!(decoded_len(&text), Some(bytes.len()));
        }

        #[test]
        fn what_is_no_base64_is_refused(text in "\\PC{1,40}") {
            if let Some(bytes) = decoded_len(&text) {
                let padded = format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4));
                let lenient = base64::engine::GeneralPurpose::new(
                    &base64::alphabet::STANDARD,
                    base64::engine::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
                );
                prop_assert_eq!(lenient.decode(padded).map(|bytes| bytes.len()), Ok(bytes));
            }
        }
    }
}
