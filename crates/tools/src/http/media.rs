//! Responses that are images or documents.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use windlass_core::message::{Content, DocumentFormat, DocumentSource, ImageFormat, ImageSource, Part};

/// What a media type is for a model.
pub(super) enum Media {
    Image(ImageFormat),
    Document(DocumentFormat),
}

impl Media {
    pub(super) fn of(essence: &str) -> Option<Self> {
        Some(match essence {
            "image/png" => Self::Image(ImageFormat::Png),
            "image/jpeg" | "image/jpg" => Self::Image(ImageFormat::Jpeg),
            "image/gif" => Self::Image(ImageFormat::Gif),
            "image/webp" => Self::Image(ImageFormat::Webp),
            "application/pdf" => Self::Document(DocumentFormat::Pdf),
            "application/msword" => Self::Document(DocumentFormat::Doc),
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => {
                Self::Document(DocumentFormat::Docx)
            }
            "application/vnd.ms-excel" => Self::Document(DocumentFormat::Xls),
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => Self::Document(DocumentFormat::Xlsx),
            _ => return None,
        })
    }

    pub(super) fn part(self, bytes: &[u8]) -> Part {
        let bytes = STANDARD.encode(bytes);
        let content = match self {
            Self::Image(format) => Content::Image { format, source: ImageSource::Bytes(bytes) },
            Self::Document(format) => Content::Document {
                name: "response".to_owned(),
                format,
                source: DocumentSource::Bytes(bytes),
                context: None,
                cite: false,
            },
        };
        content.into()
    }
}
