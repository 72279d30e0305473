//! The fields of a part, by name: canonical JSON sorts keys, so fields come before the `kind` that says what they mean.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor, value},
};

use crate::canonical::CanonicalJson;

pub(super) type Fields = BTreeMap<String, Field>;

/// The value of a field. Text is most of a conversation, so it is taken as it is.
#[derive(Debug, Clone)]
pub(super) enum Field {
    Text(String),
    Json(CanonicalJson),
}

impl Field {
    pub(super) fn into_json(self) -> CanonicalJson {
        match self {
            Self::Text(text) => CanonicalJson::of(&text).unwrap_or_else(|_| CanonicalJson::null()),
            Self::Json(json) => json,
        }
    }
}

/// Takes a text out. `None` if it is absent or not a text.
pub(super) fn text(fields: &mut Fields, name: &str) -> Option<String> {
    match fields.remove(name)? {
        Field::Text(text) => Some(text),
        Field::Json(_) => None,
    }
}

pub(super) fn json(fields: &mut Fields, name: &str) -> Option<CanonicalJson> {
    fields.remove(name).map(Field::into_json)
}

/// Takes a value out. `None` if it is absent or not what is wanted.
pub(super) fn decode<T: DeserializeOwned>(fields: &mut Fields, name: &str) -> Option<T> {
    fields.remove(name)?.into_json().decode().ok()
}

/// As [`decode`], for a field that may be absent. `None` only if it is there and not what is wanted.
pub(super) fn default<T: DeserializeOwned + Default>(fields: &mut Fields, name: &str) -> Option<T> {
    if fields.contains_key(name) { decode(fields, name) } else { Some(T::default()) }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

macro_rules! scalars {
    ($($method:ident: $type:ty),*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<Field, E> {
            CanonicalJson::of(&value).map(Field::Json).map_err(E::custom)
        })*
    };
}

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Field, E> {
        Ok(Field::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Field, E> {
        Ok(Field::Text(text))
    }

    scalars!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64);

    fn visit_unit<E: Error>(self) -> Result<Field, E> {
        Ok(Field::Json(CanonicalJson::null()))
    }

    fn visit_none<E: Error>(self) -> Result<Field, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        Field::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Field, A::Error> {
        CanonicalJson::transcode(value::SeqAccessDeserializer::new(items)).map(Field::Json)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Field, A::Error> {
        CanonicalJson::transcode(value::MapAccessDeserializer::new(entries)).map(Field::Json)
    }
}
