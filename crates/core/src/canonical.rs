//! Canonical JSON (RFC 8785) and the digests built on it.
//!
//! Everything that is compared, approved or addressed by content goes through here. RFC 8785 is defined for numbers that
//! an IEEE double holds exactly; an integer beyond that range is written with all its digits instead of being rounded,
//! because two different amounts must never share a digest.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The canonical bytes of a JSON value.
pub fn to_bytes(value: &Value) -> Vec<u8> {
    let mut out = String::new();
    write_value(&mut out, value);
    out.into_bytes()
}

/// The canonical bytes of anything that serialises to JSON.
pub fn bytes_of<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, serde_json::Error> {
    Ok(to_bytes(&serde_json::to_value(value)?))
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_value(out, &fields[key]);
            }
            out.push('}');
        }
    }
}

fn write_number(out: &mut String, number: &serde_json::Number) {
    if number.is_i64() || number.is_u64() {
        out.push_str(&number.to_string());
    } else {
        // serde_json holds only finite doubles besides integers.
        out.push_str(ryu_js::Buffer::new().format_finite(number.as_f64().unwrap_or_default()));
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < '\u{20}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
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
mod tests {
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

    fn any_json() -> impl Strategy<Value = Value> {
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

    proptest! {
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
