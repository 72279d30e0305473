//! Images and documents, and where their bytes are.

use serde::{Deserialize, Serialize};

use crate::envelope::BlobRef;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFormat {
    Png,
    Jpeg,
    Gif,
    Webp,
}

/// Where an image's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// Base64, inside the message.
    Bytes(String),
    /// In the store, as a JSON string of base64.
    Blob(BlobRef),
    /// At an address that the provider reads.
    Uri(String),
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
    /// Base64, inside the message.
    Bytes(String),
    /// In the store, as a JSON string of base64.
    Blob(BlobRef),
    Text(String),
    Chunks(Vec<String>),
    Uri(String),
}
