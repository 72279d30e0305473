//! References to secrets. Definitions and specs hold these; the value exists only in the memory of the activity that uses
//! it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

/// Where a secret is. Written as `{"secret": NAME}` or `{"env": NAME}`; the text form is read, too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretRef {
    /// In the store, by its name in the run's workspace.
    Secret(String),
    /// In the environment of the worker. For definitions that the operator writes, not for those of API callers.
    Env(String),
}

/// The longest name of a secret.
pub const NAME_CHARS: usize = 128;

impl SecretRef {
    /// `${secret:NAME}` or `${env:NAME}`.
    pub fn parse(text: &str) -> Option<Self> {
        let (place, name) = text.strip_prefix("${")?.strip_suffix('}')?.split_once(':')?;
        let name = Some(name).filter(|name| is_name(name))?.to_owned();
        match place {
            "secret" => Some(Self::Secret(name)),
            "env" => Some(Self::Env(name)),
            _ => None,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Secret(name) | Self::Env(name) => name,
        }
    }
}

impl<'de> Deserialize<'de> for SecretRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Named {
            Secret(String),
            Env(String),
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Named(Named),
            Text(String),
        }
        let reference = match Form::deserialize(deserializer) {
            Ok(Form::Named(Named::Secret(name))) => Some(Self::Secret(name)),
            Ok(Form::Named(Named::Env(name))) => Some(Self::Env(name)),
            Ok(Form::Text(text)) => Self::parse(&text),
            Err(_) => None,
        };
        // What was given may be the secret itself, so it is not repeated.
        reference.ok_or_else(|| {
            de::Error::custom(
                "expected a reference to a secret, as \"${secret:NAME}\" or {\"secret\": \"NAME\"}; set one with \
                 `windlass secrets set NAME`",
            )
        })
    }
}

/// Whether this may be the name of a secret.
pub fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=NAME_CHARS).contains(&name.len()) && name.chars().all(allowed)
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(name) => write!(f, "${{secret:{name}}}"),
            Self::Env(name) => write!(f, "${{env:{name}}}"),
        }
    }
}

/// A text that may refer to secrets, such as `Bearer ${secret:TOKEN}`. It shows its references, never a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

/// Shows references only: until a spec is split, the text itself may be the secret.
impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.pieces().into_iter().map(|piece| match piece {
            TextPiece::Text(_) => "…".to_owned(),
            TextPiece::Secret(reference) => reference.to_string(),
        });
        f.debug_tuple("SecretText").field(&shown.collect::<String>()).finish()
    }
}

/// A piece of a [`SecretText`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPiece<'a> {
    Text(&'a str),
    Secret(SecretRef),
}

impl SecretText {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text in order. What is not a well-formed reference is text.
    pub fn pieces(&self) -> Vec<TextPiece<'_>> {
        let mut pieces = Vec::new();
        let (mut text, mut from) = (0, 0);
        while let Some(start) = self.0[from..].find("${").map(|at| from + at) {
            let end = self.0[start..].find('}').map(|at| start + at + 1);
            match end.and_then(|end| Some((end, SecretRef::parse(&self.0[start..end])?))) {
                Some((end, reference)) => {
                    if start > text {
                        pieces.push(TextPiece::Text(&self.0[text..start]));
                    }
                    pieces.push(TextPiece::Secret(reference));
                    (text, from) = (end, end);
                }
                None => from = start + 2,
            }
        }
        if text < self.0.len() {
            pieces.push(TextPiece::Text(&self.0[text..]));
        }
        pieces
    }

    pub fn references(&self) -> Vec<SecretRef> {
        let secret = |piece| match piece {
            TextPiece::Secret(reference) => Some(reference),
            TextPiece::Text(_) => None,
        };
        self.pieces().into_iter().filter_map(secret).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_is_read_and_written_in_both_forms() {
        let cases = [
            (SecretRef::Secret("model.key".into()), "${secret:model.key}", json!({"secret": "model.key"})),
            (SecretRef::Env("MODEL_KEY".into()), "${env:MODEL_KEY}", json!({"env": "MODEL_KEY"})),
        ];
        for (reference, text, json) in cases {
            assert_eq!((SecretRef::parse(text), reference.to_string()), (Some(reference.clone()), text.to_owned()));
            assert_eq!(serde_json::to_value(&reference).unwrap(), json);
            for form in [json, json!(text)] {
                assert_eq!(serde_json::from_value::<SecretRef>(form).unwrap(), reference);
            }
        }
        for text in ["sk-live-1234", "${secret:}", "${secret:a b}", "${vault:x}", "${secret:x", "secret:x"] {
            assert_eq!(SecretRef::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_value_in_the_place_of_a_reference_is_not_repeated_in_the_error() {
        for given in [json!("sk-live-1234"), json!({"sk-live-1234": 1}), json!({"value": "sk-live-1234"})] {
            let error = serde_json::from_value::<SecretRef>(given).unwrap_err().to_string();
            assert!(error.contains("windlass secrets set") && !error.contains("sk-live"), "{error}");
        }
    }

    #[test]
    fn a_text_is_read_as_its_pieces() {
        let secret = |name: &str| TextPiece::Secret(SecretRef::Secret(name.to_owned()));
        let cases = [
            ("", vec![]),
            ("plain", vec![TextPiece::Text("plain")]),
            ("${secret:A}", vec![secret("A")]),
            ("Bearer ${secret:A}!", vec![TextPiece::Text("Bearer "), secret("A"), TextPiece::Text("!")]),
            ("${env:B}${secret:A}", vec![TextPiece::Secret(SecretRef::Env("B".to_owned())), secret("A")]),
            ("${other:A} ${secret:A", vec![TextPiece::Text("${other:A} ${secret:A")]),
            ("${${secret:A}", vec![TextPiece::Text("${"), secret("A")]),
        ];
        for (text, expected) in cases {
            assert_eq!(SecretText::new(text).pieces(), expected, "{text}");
        }
    }
}
