//! Headers with secrets in them, and keeping those secrets out of what is shown.

use std::collections::BTreeMap;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use windlass_core::{
    envelope::ToolErrorKind,
    secret::{SecretText, TextPiece},
};

use crate::{SecretSource, ToolFailure};

/// Headers that decide where a request goes and where it ends. The client writes them.
const FRAMING: [&str; 8] =
    ["connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];
/// Shorter secrets are left in results: replacing every `7` would destroy the data and hide nothing.
const SHORTEST_IN_RESULTS: usize = 8;
const HIDDEN: &str = "[redacted]";

/// What a request is sent with.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) headers: HeaderMap,
    secrets: Vec<SecretString>,
}

impl Credentials {
    pub(super) async fn read(
        headers: &BTreeMap<String, SecretText>,
        secrets: &dyn SecretSource,
    ) -> Result<Self, ToolFailure> {
        let mut read = Self::default();
        for (name, text) in headers {
            let mut value = String::new();
            for piece in text.pieces() {
                match piece {
                    TextPiece::Text(text) => value.push_str(text),
                    TextPiece::Secret(reference) => {
                        let secret = secrets.secret(&reference).await?;
                        value.push_str(secret.expose_secret());
                        read.hide(secret);
                    }
                }
            }
            read.insert(header_name(name)?, &SecretString::from(value))?;
        }
        Ok(read)
    }

    pub(super) fn authorize(&mut self, token: SecretString) -> Result<(), ToolFailure> {
        let value = SecretString::from(format!("Bearer {}", token.expose_secret()));
        self.hide(token);
        self.insert(AUTHORIZATION, &value)
    }

    pub(super) fn hide(&mut self, secret: SecretString) {
        if !secret.expose_secret().is_empty() {
            self.secrets.push(secret);
        }
    }

    fn insert(&mut self, name: HeaderName, value: &SecretString) -> Result<(), ToolFailure> {
        let mut value = HeaderValue::from_bytes(value.expose_secret().as_bytes()).map_err(|_| {
            let message = format!(
                "the header {name} cannot be sent: its value has a line break or another control character; correct \
                 the secret that it refers to"
            );
            ToolFailure::new(ToolErrorKind::ToolFailed, message)
        })?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(())
    }

    /// A text without the secrets, for failures.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.without(text, 1)
    }

    /// A result without the secrets, should the server repeat them.
    pub(crate) fn redact_result(&self, text: String) -> String {
        if self.secrets.is_empty() { text } else { self.without(&text, SHORTEST_IN_RESULTS) }
    }

    fn without(&self, text: &str, shortest: usize) -> String {
        let secrets = self.secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| secret.len() >= shortest);
        let mut forms: Vec<String> = secrets.flat_map(forms).collect();
        // A secret may be a part of another.
        forms.sort_unstable_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        forms.iter().fold(text.to_owned(), |text, form| text.replace(form.as_str(), HIDDEN))
    }

    /// The length of the longest form of a secret.
    pub(crate) fn longest_secret(&self) -> usize {
        let secrets = self.secrets.iter().map(ExposeSecret::expose_secret);
        secrets.flat_map(forms).map(|form| form.len()).max().unwrap_or_default()
    }
}

/// A secret as servers repeat it: as it is, inside JSON, inside a URL.
fn forms(secret: &str) -> [String; 3] {
    let json = serde_json::Value::from(secret).to_string();
    let encoded = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    [secret.to_owned(), json[1..json.len() - 1].to_owned(), encoded]
}

/// The name of a header that a definition may set.
pub(crate) fn header_name(name: &str) -> Result<HeaderName, ToolFailure> {
    let failed = |message| ToolFailure::new(ToolErrorKind::ToolFailed, message);
    let header = HeaderName::try_from(name)
        .map_err(|_| failed(format!("{name:.100?} is not the name of a header; correct the tool's definition")))?;
    if FRAMING.contains(&header.as_str()) {
        return Err(failed(format!("a tool's definition must not set the header {header}; remove it")));
    }
    Ok(header)
}
