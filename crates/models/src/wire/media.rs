//! What all formats say alike about images and documents.

use windlass_core::message::ImageFormat;

use crate::ModelError;

pub(crate) fn image_type(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Png => "image/png",
        ImageFormat::Jpeg => "image/jpeg",
        ImageFormat::Gif => "image/gif",
        ImageFormat::Webp => "image/webp",
    }
}

/// The error of a file whose bytes were not put into the request.
pub(crate) fn unresolved(what: &str) -> ModelError {
    ModelError::invalid_request(format!(
        "{what} of the conversation is still a reference to the store; its bytes must be read before the model is asked"
    ))
}
