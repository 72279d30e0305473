//! A body that crosses a boundary: inside its envelope, or by reference to the store.

use crate::{
    canonical::{CanonicalJson, Digest},
    envelope::BlobRef,
};

/// Arguments, a result or a message. Whether it travels is decided in one place, [`Body::fit`], by one measure: its
/// canonical bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    Inline(CanonicalJson),
    Stored(BlobRef),
}

impl Body {
    /// Inline up to `limit` bytes. A larger body is returned as the second value: the caller puts it into the store.
    pub fn fit(json: CanonicalJson, limit: u64) -> (Self, Option<CanonicalJson>) {
        if json.bytes() <= limit { (Self::Inline(json), None) } else { (Self::Stored(BlobRef::of(&json)), Some(json)) }
    }

    /// As an envelope has it: a body, or a reference where it did not fit.
    pub(crate) fn from_fields(inline: Option<&CanonicalJson>, stored: Option<BlobRef>) -> Option<Self> {
        // A stored body wins: an old worker may have left a preview beside the reference.
        stored.map(Self::Stored).or_else(|| inline.cloned().map(Self::Inline))
    }

    pub fn inline(&self) -> Option<&CanonicalJson> {
        match self {
            Self::Inline(json) => Some(json),
            Self::Stored(_) => None,
        }
    }

    pub fn stored(&self) -> Option<BlobRef> {
        match self {
            Self::Inline(_) => None,
            Self::Stored(blob) => Some(*blob),
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Self::Inline(json) => json.bytes(),
            Self::Stored(blob) => blob.bytes,
        }
    }

    pub fn digest(&self) -> Digest {
        match self {
            Self::Inline(json) => json.digest(),
            Self::Stored(blob) => blob.digest,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_inline_exactly_up_to_the_limit() {
        let json = CanonicalJson::from(json!("abc"));
        assert_eq!(json.bytes(), 5);
        assert_eq!(Body::fit(json.clone(), 5), (Body::Inline(json.clone()), None));
        let stored = BlobRef { digest: json.digest(), bytes: 5 };
        assert_eq!(Body::fit(json.clone(), 4), (Body::Stored(stored), Some(json)));
    }

    #[test]
    fn a_body_has_the_same_measure_and_digest_either_way() {
        // `é` is one character and two bytes; a newline is one character and two bytes of JSON.
        let json = CanonicalJson::from(json!("é\n"));
        let (inline, stored) = (Body::fit(json.clone(), 99).0, Body::fit(json, 0).0);
        assert_eq!((inline.bytes(), inline.digest()), (stored.bytes(), stored.digest()));
        assert_eq!(inline.bytes(), 6);
    }
}
