//! Files of messages: which of them are taken out of a message and stored, and how they come back for the model.
//!
//! A message is read again on every turn, so it does not have the bytes of a file above the inline limit: they are a body of
//! their own, and the part refers to it. The store keeps a body for as long as a message refers to it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Content, DocumentSource, ImageSource, Part};
use crate::{
    body::Body,
    canonical::{CanonicalJson, Digest},
    envelope::BlobRef,
};

/// Replaces the bytes of files that do not fit by references, also in results of tools. The caller stores the returned
/// bodies before it writes the parts anywhere.
pub fn detach_files(parts: &mut [Part], limit: u64) -> Vec<CanonicalJson> {
    let mut bodies = Vec::new();
    for part in parts {
        match &mut part.content {
            Content::Image { source, .. } => {
                if let ImageSource::Bytes(base64) = source
                    && let Some(blob) = detached(base64, limit, &mut bodies)
                {
                    *source = ImageSource::Blob(blob);
                }
            }
            Content::Document { source, .. } => {
                if let DocumentSource::Bytes(base64) = source
                    && let Some(blob) = detached(base64, limit, &mut bodies)
                {
                    *source = DocumentSource::Blob(blob);
                }
            }
            Content::ToolResult { parts, .. } => bodies.extend(detach_files(parts, limit)),
            _ => {}
        }
    }
    bodies
}

fn detached(base64: &str, limit: u64, bodies: &mut Vec<CanonicalJson>) -> Option<BlobRef> {
    let (body, large) = Body::fit(Value::from(base64).into(), limit);
    bodies.extend(large);
    body.stored()
}

/// The stored files that parts refer to, in their order.
pub fn stored_files(parts: &[Part]) -> Vec<BlobRef> {
    let of_part = |part: &Part| match &part.content {
        Content::Image { source: ImageSource::Blob(blob), .. }
        | Content::Document { source: DocumentSource::Blob(blob), .. } => vec![*blob],
        Content::ToolResult { parts, .. } => stored_files(parts),
        _ => Vec::new(),
    };
    parts.iter().flat_map(of_part).collect()
}

/// Replaces references by the bytes (base64) that they refer to. A reference to other bytes stays.
pub fn attach_files(parts: &mut [Part], files: &BTreeMap<Digest, String>) {
    for part in parts {
        match &mut part.content {
            Content::Image { source, .. } => {
                if let ImageSource::Blob(blob) = source
                    && let Some(base64) = files.get(&blob.digest)
                {
                    *source = ImageSource::Bytes(base64.clone());
                }
            }
            Content::Document { source, .. } => {
                if let DocumentSource::Blob(blob) = source
                    && let Some(base64) = files.get(&blob.digest)
                {
                    *source = DocumentSource::Bytes(base64.clone());
                }
            }
            Content::ToolResult { parts, .. } => attach_files(parts, files),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        ids::CallId,
        message::{DocumentFormat, ImageFormat},
    };

    fn image(source: ImageSource) -> Part {
        Content::Image { format: ImageFormat::Png, source }.into()
    }

    fn document(source: DocumentSource) -> Part {
        let (name, format) = ("d".to_owned(), DocumentFormat::Pdf);
        Content::Document { name, format, source, context: None, cite: false }.into()
    }

    fn result(parts: Vec<Part>) -> Part {
        let (tool_use_id, content) = (CallId::new("c"), CanonicalJson::null());
        Content::ToolResult { tool_use_id, content, parts, is_error: false }.into()
    }

    #[test]
    fn a_file_stays_in_its_part_exactly_up_to_the_limit() {
        // As JSON it has two quotes more.
        let bytes = || ImageSource::Bytes("AAAA".to_owned());
        let mut parts = [image(bytes())];
        assert!(detach_files(&mut parts, 6).is_empty());
        assert_eq!(parts, [image(bytes())]);
        let body = CanonicalJson::from(Value::from("AAAA"));
        assert_eq!(detach_files(&mut parts, 5), std::slice::from_ref(&body));
        assert_eq!(parts, [image(ImageSource::Blob(BlobRef::of(&body)))]);
    }

    #[test]
    fn texts_and_addresses_are_not_files() {
        let sources = [
            DocumentSource::Text("long".repeat(9)),
            DocumentSource::Chunks(vec!["long".repeat(9)]),
            DocumentSource::Uri("https://example.com/long".to_owned()),
        ];
        let mut parts: Vec<Part> = sources.into_iter().map(document).collect();
        parts.extend([image(ImageSource::Uri("https://example.com/x".to_owned())), Part::text("long".repeat(9))]);
        let before = parts.clone();
        assert!(detach_files(&mut parts, 1).is_empty());
        assert_eq!(parts, before);
    }

    fn any_parts() -> impl Strategy<Value = Vec<Part>> {
        let file = prop_oneof![
            "[A-Za-z0-9+/]{0,40}".prop_map(|base64| image(ImageSource::Bytes(base64))),
            "[A-Za-z0-9+/]{0,40}".prop_map(|base64| document(DocumentSource::Bytes(base64))),
            "[a-z]{0,40}".prop_map(Part::text),
        ];
        let nested = prop::collection::vec(file.clone(), 0..3).prop_map(result);
        prop::collection::vec(prop_oneof![file, nested], 0..6)
    }

    proptest! {
        #[test]
        fn what_was_detached_comes_back_as_it_was(parts in any_parts(), limit in 0_u64..50) {
            let mut stored = parts.clone();
            let bodies = detach_files(&mut stored, limit);
            prop_assert!(bodies.iter().all(|body| body.bytes() > limit));
            let referred: Vec<Digest> = stored_files(&stored).iter().map(|blob| blob.digest).collect();
            let digests: Vec<Digest> = bodies.iter().map(CanonicalJson::digest).collect();
            prop_assert_eq!(referred, digests, "every body is referred to, in order");
            // Nothing is left to detach.
            prop_assert!(detach_files(&mut stored.clone(), limit).is_empty());
            let files = bodies.iter().map(|body| (body.digest(), body.decode().unwrap())).collect();
            attach_files(&mut stored, &files);
            prop_assert_eq!(stored, parts);
        }
    }
}
