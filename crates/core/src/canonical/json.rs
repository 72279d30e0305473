//! Canonical JSON carried as text.
//!
//! Arguments and results cross many boundaries and are looked into at few. As text they are written once, copied by
//! reference, and digested without being parsed.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _, MapAccess, Visitor},
    ser::SerializeStruct as _,
};
use serde_json::Value;

use super::{Digest, RAW_JSON, serializer::Canonical, text_of};

/// JSON text in the form of RFC 8785. A clone shares the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CanonicalJson(Arc<str>);

impl CanonicalJson {
    /// The canonical text of anything that serialises to JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        text_of(value).map(|text| Self(text.into()))
    }

    /// The canonical form of JSON text.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        let mut text = serde_json::Deserializer::from_str(json);
        let parsed = Self::transcode(&mut text)?;
        text.end()?;
        Ok(parsed)
    }

    /// The canonical form of what any deserializer holds, read piece by piece.
    pub(crate) fn transcode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut out = String::new();
        serde_transcode::transcode(deserializer, Canonical::new(&mut out)).map_err(D::Error::custom)?;
        Ok(Self(out.into()))
    }

    /// Text that is canonical already, because it was written by this module and its digest was checked since.
    pub fn from_canonical(text: String) -> Self {
        Self(text.into())
    }

    pub fn null() -> Self {
        Self("null".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The length in bytes, by which every limit on bodies is measured.
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    pub fn digest(&self) -> Digest {
        Digest::of_bytes(self.0.as_bytes())
    }

    /// How deep arrays and objects are nested: 0 for a scalar.
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
        for byte in self.0.bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                b'[' | b'{' if !in_string => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' if !in_string => depth -= 1,
                _ => {}
            }
        }
        deepest
    }

    /// The text as a value, for code that looks into it.
    pub fn to_value(&self) -> Value {
        // Canonical text is JSON by construction.
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl From<&Value> for CanonicalJson {
    fn from(value: &Value) -> Self {
        // Keys are strings and numbers are finite, so nothing in it can be refused.
        Self::of(value).unwrap_or_else(|_| Self::null())
    }
}

impl From<Value> for CanonicalJson {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl PartialEq<Value> for CanonicalJson {
    fn eq(&self, other: &Value) -> bool {
        self.as_str() == Self::from(other).as_str()
    }
}

impl fmt::Debug for CanonicalJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CanonicalJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for CanonicalJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut raw = serializer.serialize_struct(RAW_JSON, 1)?;
        raw.serialize_field(RAW_JSON, &*self.0)?;
        raw.end()
    }
}

impl<'de> Deserialize<'de> for CanonicalJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RAW_JSON, RawText)
    }
}

/// Takes JSON text from `serde_json`, and anything else piece by piece.
struct RawText;

impl<'de> Visitor<'de> for RawText {
    type Value = CanonicalJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    /// `serde_json` hands over the text under one key.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CanonicalJson, A::Error> {
        map.next_key::<String>()?.filter(|key| key == RAW_JSON).ok_or_else(|| A::Error::custom("no JSON text"))?;
        CanonicalJson::parse(&map.next_value::<String>()?).map_err(A::Error::custom)
    }

    /// Every other deserializer hands over itself.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<CanonicalJson, D::Error> {
        CanonicalJson::transcode(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::canonical::{tests::any_json, to_bytes};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Outer {
        body: CanonicalJson,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        Body { body: CanonicalJson },
    }

    proptest! {
        #[test]
        fn a_value_has_the_same_text_through_every_serializer(value in any_json()) {
            let outer = Outer { body: CanonicalJson::from(&value) };
            prop_assert_eq!(outer.body.as_str().as_bytes(), to_bytes(&value));
            prop_assert_eq!(outer.body.digest(), Digest::of_json(&value));
            let as_value = json!({"body": value});
            prop_assert_eq!(text_of(&outer).unwrap().into_bytes(), to_bytes(&as_value));
            let texts = [
                CanonicalJson::parse(&serde_json::to_string(&outer).unwrap()).unwrap(),
                CanonicalJson::from(serde_json::to_value(&outer).unwrap()),
            ];
            prop_assert!(texts.iter().all(|text| *text == as_value), "{texts:?}, {as_value}");
        }

        #[test]
        fn a_value_comes_back_through_every_deserializer(value in any_json()) {
            let outer = Outer { body: CanonicalJson::from(&value) };
            let spaced = serde_json::to_string_pretty(&json!({"body": value})).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Outer>(&spaced).unwrap(), &outer);
            prop_assert_eq!(&serde_json::from_value::<Outer>(json!({"body": value})).unwrap(), &outer);
            // A tagged enum reads its fields from a buffer instead of from the text.
            let tagged: Tagged = serde_json::from_value(json!({"kind": "Body", "body": value})).unwrap();
            prop_assert_eq!(tagged, Tagged::Body { body: outer.body });
        }
    }

    #[test]
    fn depth_counts_nesting_and_ignores_brackets_in_text() {
        let cases = [
            (json!(1), 0),
            (json!("[{\"\\"), 0),
            (json!([]), 1),
            (json!({"a": [1, {"b\"[": "]"}]}), 3),
            (json!([[], [[]], []]), 3),
        ];
        for (value, depth) in cases {
            assert_eq!(CanonicalJson::from(&value).depth(), depth, "{value}");
        }
    }

    #[test]
    fn text_becomes_canonical_and_what_is_not_json_is_refused() {
        let parsed = CanonicalJson::parse(" {\"b\": 1.0, \"a\": [true ]} ").unwrap();
        assert_eq!(parsed.as_str(), r#"{"a":[true],"b":1}"#);
        assert_eq!(parsed.to_value(), json!({"a": [true], "b": 1}));
        assert!(CanonicalJson::parse("{").is_err());
        assert!(CanonicalJson::parse("1 2").is_err());
    }
}
