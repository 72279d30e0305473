//! Canonical JSON (RFC 8785) and the digests built on it.
//!
//! Everything that is compared, approved or addressed by content goes through here. RFC 8785 is defined for numbers that
//! an IEEE double holds exactly; an integer beyond that range is written with all its digits instead of being rounded,
//! because two different amounts must never share a digest.

mod json;
mod key;
mod serializer;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use self::json::CanonicalJson;
use self::serializer::Canonical;

/// How `serde_json` marks text that is JSON already. Its `RawValue` uses the same name; a test would notice a change.
const RAW_JSON: &str = "$serde_json::private::RawValue";

/// The canonical bytes of a JSON value.
pub fn to_bytes(value: &Value) -> Vec<u8> {
    // Keys are strings and numbers are finite, so nothing in it can be refused.
    bytes_of(value).unwrap_or_default()
}

/// The canonical bytes of anything that serialises to JSON.
pub fn bytes_of<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    text_of(value).map(String::into_bytes)
}

/// As [`bytes_of`], as text.
pub fn text_of<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut out = String::with_capacity(256);
    value.serialize(Canonical::new(&mut out))?;
    Ok(out)
}

/// As [`text_of`], for something that serialises to an object, without one of its keys.
pub fn text_without<T: Serialize + ?Sized>(key: &'static str, value: &T) -> Result<String, serde_json::Error> {
    let mut out = String::with_capacity(256);
    value.serialize(Canonical::without(key, &mut out))?;
    Ok(out)
}

/// The canonical form of JSON text.
pub fn rewrite(json: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = String::with_capacity(json.len());
    let mut text = serde_json::Deserializer::from_slice(json);
    serde_transcode::transcode(&mut text, Canonical::new(&mut out))?;
    text.end()?;
    Ok(out.into_bytes())
}

/// A SHA-256 digest, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// What an empty chain starts from.
    pub const ZERO: Self = Self([0; 32]);

    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of a value's canonical bytes.
    pub fn of_json(value: &Value) -> Self {
        Self::of_bytes(&to_bytes(value))
    }

    /// The digest of anything that serialises to JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::of_bytes(&bytes_of(value)?))
    }

    /// The head of a chain one link longer: it commits to every link before it.
    #[must_use]
    pub fn chain(self, link: Self) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(link.0);
        Self(hasher.finalize().into())
    }

    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// Enough of the digest for a person to compare.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..6])
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::ZERO
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("a digest is 64 hex digits"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> String {
        String::from_utf8(to_bytes(value)).unwrap()
    }

    #[test]
    fn keys_sort_by_utf16_and_numbers_print_as_ecmascript_does() {
        let value = json!({"\u{20ac}": 1, "\r": 2, "1": 1.0, "a": [1e30, 4.5, 0.002, 1e-27, -0.0], "\u{fb33}": "\u{1}", "\u{1f600}": null});
        assert_eq!(
            text(&value),
            "{\"\\r\":2,\"1\":1,\"a\":[1e+30,4.5,0.002,1e-27,0],\"\u{20ac}\":1,\"\u{1f600}\":null,\"\u{fb33}\":\"\\u0001\"}"
        );
    }

    #[test]
    fn neighbouring_large_integers_keep_their_own_digest() {
        let (a, b) = (json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_993_u64));
        assert_ne!(Digest::of_json(&a), Digest::of_json(&b));
        assert_eq!(text(&b), "9007199254740993");
    }

    #[test]
    fn digest_round_trips_as_hex() {
        let digest = Digest::of_json(&json!({"a": 1}));
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        assert_eq!(serde_json::from_value::<Digest>(json!(digest)).unwrap(), digest);
        assert_eq!(Digest::parse("xyz"), None);
    }

    pub(crate) fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-9_007_199_254_740_991_i64..=9_007_199_254_740_991).prop_map(Value::from),
            any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// As an envelope has it: fields out of order, and keys of a newer build among them.
    #[derive(Serialize)]
    struct Mixed<'a> {
        zeta: &'a Value,
        alpha: Option<&'a str>,
        #[serde(flatten)]
        extra: &'a Value,
        beta: (u8, f64, char),
        variants: [Variant<'a>; 4],
        by_number: std::collections::BTreeMap<i32, bool>,
    }

    #[derive(Serialize)]
    enum Variant<'a> {
        Unit,
        Newtype(&'a Value),
        Tuple(i8, &'a str),
        Struct { second: u64, first: &'a str },
    }

    #[test]
    fn a_key_that_comes_twice_has_its_last_value_as_a_map_would() {
        #[derive(Serialize)]
        struct Twice {
            known: u8,
            #[serde(flatten)]
            extra: Value,
        }
        let twice = Twice { known: 1, extra: json!({"known": 2, "a": 0}) };
        assert_eq!(text_of(&twice).unwrap(), r#"{"a":0,"known":2}"#);
        assert_eq!(rewrite(br#"{"known":1,"a":0,"known":2}"#).unwrap(), br#"{"a":0,"known":2}"#);
    }

    #[test]
    fn a_key_can_be_left_out_of_the_outermost_object() {
        let value = json!({"type": "a", "inner": {"type": "b"}, "z": 1});
        assert_eq!(text_without("type", &value).unwrap(), r#"{"inner":{"type":"b"},"z":1}"#);
        assert_eq!(text_without("type", &json!({"type": 1})).unwrap(), "{}");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let odd = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(bytes_of(&odd).is_err());
        for text in ["", "{", "1 2", "{\"a\":1,}", "nul"] {
            assert!(rewrite(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(text_of(&f64::NAN).unwrap(), "null");
    }

    proptest! {
        #[test]
        fn types_are_written_as_their_values_are(value in any_json(), text in ".*", extra in any_json()) {
            let extra = if extra.is_object() { extra } else { json!({ "extra": extra }) };
            let variants = [
                Variant::Unit,
                Variant::Newtype(&value),
                Variant::Tuple(-3, &text),
                Variant::Struct { second: u64::MAX, first: &text },
            ];
            let by_number = [(-1, true), (10, false), (2, true)].into();
            let mixed = Mixed {
                zeta: &value,
                alpha: Some(&text),
                extra: &extra,
                beta: (7, 0.1, '\u{1f600}'),
                variants,
                by_number,
            };
            let written = bytes_of(&mixed).unwrap();
            prop_assert_eq!(&written, &to_bytes(&serde_json::to_value(&mixed).unwrap()));
            prop_assert_eq!(&written, &rewrite(&serde_json::to_vec(&mixed).unwrap()).unwrap());
        }

        #[test]
        fn agrees_with_an_independent_implementation(value in any_json()) {
            prop_assert_eq!(to_bytes(&value), serde_json_canonicalizer::to_vec(&value).unwrap());
        }

        #[test]
        fn is_a_fixed_point(value in any_json()) {
            let once = to_bytes(&value);
            let again: Value = serde_json::from_slice(&once).unwrap();
            prop_assert_eq!(to_bytes(&again), once);
        }
    }
}
