//! Typed access to a JSON object that keeps its path, so that an error can name the field.
//!
//! Unknown keys are ignored: a newer client may send more than this build knows. `null` counts as absent.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::Invalid;

/// How many characters of the caller's key an error repeats.
const MAX_NAMED: usize = 64;

/// An object of a body and its path.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    path: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn of_body(body: &'a Value) -> Result<Self, Invalid> {
        Self::at("", body).map_err(|_| Invalid::new("body", "must be a JSON object"))
    }

    pub(super) fn at(path: &str, value: &'a Value) -> Result<Self, Invalid> {
        match value {
            Value::Object(map) => Ok(Self { path: path.to_owned(), map }),
            _ => Err(Invalid::new(path, "must be an object")),
        }
    }

    /// The path of a key. Keys come from the caller, so only their beginning is repeated.
    pub(super) fn path_of(&self, key: &str) -> String {
        let key: String = key.chars().take(MAX_NAMED).collect();
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn invalid(&self, key: &str, problem: impl Into<String>) -> Invalid {
        Invalid::new(self.path_of(key), problem)
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.map.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Invalid> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.invalid(key, "must be a string")),
        }
    }

    /// A non-empty string.
    pub(super) fn required_text(&self, key: &str) -> Result<&'a str, Invalid> {
        self.text(key)?
            .filter(|text| !text.is_empty())
            .ok_or_else(|| self.invalid(key, "is required, a non-empty string"))
    }

    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Invalid> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.invalid(key, "must be true or false")),
        }
    }

    pub(super) fn integer(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, Invalid> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = whole_number(value).and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(self.invalid(key, format!("must be a whole number from {} to {}", range.start(), range.end()))),
        }
    }

    pub(super) fn object(&self, key: &str) -> Result<Option<Fields<'a>>, Invalid> {
        self.get(key).map(|value| Self::at(&self.path_of(key), value)).transpose()
    }

    /// A string of at most `most` characters.
    pub(super) fn bounded_text(&self, key: &str, most: usize) -> Result<Option<&'a str>, Invalid> {
        let text = self.text(key)?;
        match text.map(|text| text.chars().count()).filter(|chars| *chars > most) {
            Some(chars) => Err(self.invalid(key, format!("has {chars} characters; send at most {most}"))),
            None => Ok(text),
        }
    }

    /// An object of at most `most` bytes of JSON.
    pub(super) fn bounded_object(&self, key: &str, most: usize) -> Result<Option<Fields<'a>>, Invalid> {
        let bytes = self.get(key).map_or(0, |value| value.to_string().len());
        if bytes > most {
            return Err(self.invalid(key, format!("is {bytes} bytes of JSON; send at most {most}")));
        }
        self.object(key)
    }

    /// The items of a list of at most `most`, each with its path.
    pub(super) fn bounded_list(&self, key: &str, most: usize) -> Result<Option<Vec<(String, &'a Value)>>, Invalid> {
        match self.get(key) {
            Some(Value::Array(items)) if items.len() > most => {
                Err(self.invalid(key, format!("has {} entries; send at most {most}", items.len())))
            }
            _ => self.list(key),
        }
    }

    /// The items of a list, each with its path.
    pub(super) fn list(&self, key: &str) -> Result<Option<Vec<(String, &'a Value)>>, Invalid> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(items)) => {
                let path = self.path_of(key);
                Ok(Some(items.iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item)).collect()))
            }
            Some(_) => Err(self.invalid(key, "must be an array")),
        }
    }
}

/// 3.0 counts as 3, because JSON does not distinguish them.
pub(super) fn whole_number(value: &Value) -> Option<i64> {
    let whole = |float: &f64| float.fract() == 0.0 && float.abs() < 9e15;
    value.as_i64().or_else(|| value.as_f64().filter(whole).map(|float| float as i64))
}

/// Whether a word has 1 to `max` characters, each of them allowed.
pub(super) fn is_word(text: &str, max: usize, extra: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || extra.contains(c);
    (1..=max).contains(&text.len()) && text.chars().all(allowed)
}
