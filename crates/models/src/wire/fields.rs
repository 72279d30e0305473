//! The fields of a JSON object in the order in which they came, each with the exact text of its value.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use windlass_core::canonical::CanonicalJson;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// `None` if the text is not one JSON object.
    pub(crate) fn parse(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The value of a field. `None` if it is absent, `null` or of another type.
    pub(crate) fn decode<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str::<Option<T>>(self.get(name)?).ok()?
    }

    /// The value of a field that is a JSON string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.decode(name)
    }

    pub(crate) fn canonical(&self, name: &str) -> Option<CanonicalJson> {
        CanonicalJson::parse(self.get(name)?).ok()
    }

    /// Sets a field to JSON text. A field that is there keeps its place.
    pub(crate) fn set(&mut self, name: &str, json: impl Into<String>) {
        match self.0.iter_mut().find(|(own, _)| own == name) {
            Some((_, value)) => *value = json.into(),
            None => self.0.push((name.to_owned(), json.into())),
        }
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.remove(at).1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The fields as those that a part has beside its content. Two names have a meaning of their own in a part.
    pub(crate) fn into_extra(self) -> BTreeMap<String, CanonicalJson> {
        let fields = self.into_iter().filter(|(name, _)| !matches!(name.as_str(), "kind" | "providerItem"));
        fields.filter_map(|(name, value)| Some((name, CanonicalJson::parse(&value).ok()?))).collect()
    }
}

impl IntoIterator for Fields {
    type Item = (String, String);
    type IntoIter = std::vec::IntoIter<(String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (number, (name, value)) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "," };
            write!(f, "{separator}{}:{value}", quoted(name))?;
        }
        f.write_str("}")
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
            fields.set(&name, value.get());
        }
        Ok(fields)
    }
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The text of a JSON string.
pub(crate) fn text_of(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

/// Whether a value says nothing: servers write `null` or an empty value for a field that a message does not have.
pub(crate) fn is_absent(json: &str) -> bool {
    let mut inner = json.chars().filter(|c| !c.is_whitespace());
    matches!(inner.by_ref().take(4).collect::<String>().as_str(), "null" | "\"\"" | "[]" | "{}")
        && inner.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_text_and_fields_their_order() {
        let json = r#"{"z":1.10,"a":{"b" : 1e400,"u":"\u00e9"},"n":null}"#;
        let mut fields = Fields::parse(json).unwrap();
        assert_eq!(fields.to_string(), json);
        assert_eq!(fields.get("z"), Some("1.10"));
        fields.set("z", "2");
        fields.set("new \"one\"", quoted("\n"));
        assert_eq!(fields.take("n").as_deref(), Some("null"));
        assert_eq!(fields.to_string(), r#"{"z":2,"a":{"b" : 1e400,"u":"\u00e9"},"new \"one\"":"\n"}"#);
        assert_eq!(fields.text("new \"one\"").as_deref(), Some("\n"));
        assert_eq!((Fields::parse("[1]"), Fields::parse("{} x")), (None, None));
    }

    #[test]
    fn a_value_that_says_nothing_is_absent() {
        for absent in ["null", "\"\"", "[]", "{ }", " [\n] "] {
            assert!(is_absent(absent), "{absent}");
        }
        for present in ["0", "false", "\" \"x", "[null]", "{\"a\":1}", "nulls"] {
            assert!(!is_absent(present), "{present}");
        }
    }
}
