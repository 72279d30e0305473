//! A part of a message: its content, and what the provider sent for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap as _};

use super::{
    Content,
    field::{self, Field, Fields},
};
use crate::{
    canonical::CanonicalJson,
    ids::{CallId, ToolName},
};

/// A piece of a message. In JSON its fields and those of its content stand side by side; `kind` is always written and
/// never guessed.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub content: Content,
    /// What the provider sent for this part. It is replayed to that provider and left out for another one.
    pub provider_item: Option<ProviderItem>,
    /// Fields this build does not know. They are kept.
    pub extra: BTreeMap<String, CanonicalJson>,
}

/// A provider's own form of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProviderItem {
    /// For example `anthropic`.
    pub provider: String,
    /// JSON exactly as it came. It is text here, because making it canonical would change its bytes.
    pub item: String,
}

impl ProviderItem {
    /// Only what is wholly understood: anything else stays with the part as it is.
    fn read(field: &Field) -> Option<Self> {
        let json = field.clone().into_json();
        // Left to itself, serde would also take a list of values in the order of the fields.
        json.as_str().starts_with('{').then(|| json.decode().ok())?
    }
}

impl Part {
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text { text: text.into() }.into()
    }

    pub fn tool_use(id: CallId, name: ToolName, input: CanonicalJson) -> Self {
        Content::ToolUse { id, name, input }.into()
    }

    #[must_use]
    pub fn with_provider_item(mut self, provider: impl Into<String>, item: impl Into<String>) -> Self {
        self.provider_item = Some(ProviderItem { provider: provider.into(), item: item.into() });
        self
    }
}

impl From<Content> for Part {
    fn from(content: Content) -> Self {
        Self { content, provider_item: None, extra: BTreeMap::new() }
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.content.write(&mut map)?;
        if let Some(item) = &self.provider_item {
            map.serialize_entry("providerItem", item)?;
        }
        for (name, value) in &self.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::deserialize(deserializer)?;
        let kind = field::text(&mut fields, "kind").ok_or_else(|| D::Error::missing_field("kind"))?;
        let provider_item = fields.get("providerItem").and_then(ProviderItem::read);
        if provider_item.is_some() {
            fields.remove("providerItem");
        }
        let mut rest = fields.clone();
        // What does not read as its kind is kept as it is: a newer build knows more of it.
        let content = Content::read(&kind, &mut rest).unwrap_or_else(|| {
            rest = fields;
            Content::Other { kind }
        });
        let extra = rest.into_iter().map(|(name, value): (_, Field)| (name, value.into_json())).collect();
        Ok(Self { content, provider_item, extra })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        canonical::{tests::any_json, text_of},
        message::Message,
    };

    #[test]
    fn every_kind_round_trips() {
        let parts = json!([
            {"kind": "text", "text": "hi"},
            {"kind": "thinking", "text": "hm", "signature": "sig"},
            {"kind": "thinking", "redacted": "AAEC"},
            {"kind": "tool_use", "id": "c1", "name": "notes.add", "input": {"a": 1}},
            {"kind": "tool_result", "toolUseId": "c1", "content": [1], "isError": true},
            {"kind": "tool_result", "toolUseId": "c1", "content": null, "isError": false,
             "parts": [{"kind": "text", "text": "seen"}, {"kind": "image", "format": "png", "bytes": "AAEC"}]},
            {"kind": "image", "format": "png", "bytes": "AAEC"},
            {"kind": "image", "format": "webp", "source": {"blob": {"digest": "0".repeat(64), "bytes": 9}}},
            {"kind": "document", "name": "d", "format": "pdf", "source": {"uri": "s3://x"}, "cite": true},
            {"kind": "citations", "text": "t", "citations": [{"location": {"unit": "page", "documentIndex": 0, "start": 1, "end": 2}, "sourceContent": ["x"]}]},
            {"kind": "provider_tool", "name": "web_search", "input": {"q": "tides"}, "output": [{"url": "u"}]},
            {"kind": "cache_checkpoint"},
            {"kind": "text", "text": "hi", "providerItem": {"provider": "anthropic", "item": "{ \"type\":\"text\" }"}},
        ]);
        let decoded: Vec<Part> = serde_json::from_value(parts.clone()).unwrap();
        assert!(decoded.iter().all(|part| !matches!(part.content, Content::Other { .. }) && part.extra.is_empty()));
        assert_eq!(serde_json::to_value(&decoded).unwrap(), parts);
    }

    #[test]
    fn a_part_without_a_kind_is_refused() {
        let error = serde_json::from_value::<Part>(json!({"text": "hi"})).unwrap_err();
        assert_eq!(error.to_string(), "missing field `kind`");
    }

    #[test]
    fn a_known_kind_with_unknown_values_is_kept() {
        for part in [
            json!({"kind": "image", "format": "avif", "bytes": "AA"}),
            json!({"kind": "text"}),
            json!({"kind": "text", "text": 5}),
            json!({"kind": "document", "name": "d", "format": "odt", "source": {"text": "x"}, "cite": false}),
        ] {
            let decoded: Part = serde_json::from_value(part.clone()).unwrap();
            assert_eq!(decoded.content, Content::Other { kind: part["kind"].as_str().unwrap().to_owned() });
            assert_eq!(serde_json::to_value(&decoded).unwrap(), part);
        }
    }

    fn any_part() -> impl Strategy<Value = Value> {
        let kind = prop_oneof![
            Just("text"),
            Just("thinking"),
            Just("tool_use"),
            Just("tool_result"),
            Just("image"),
            Just("document"),
            Just("citations"),
            Just("provider_tool"),
            Just("cache_checkpoint"),
            Just("hologram"),
        ];
        const NAMES: [&str; 12] = [
            "text",
            "signature",
            "id",
            "name",
            "input",
            "toolUseId",
            "content",
            "isError",
            "format",
            "source",
            "x",
            "providerItem",
        ];
        let fields = proptest::collection::btree_map(proptest::sample::select(&NAMES[..]), any_json(), 0..6);
        (kind, fields).prop_map(|(kind, fields)| {
            let mut part = json!(fields);
            part["kind"] = json!(kind);
            part
        })
    }

    proptest! {
        /// Nothing that was stored is lost or changed by a build that does not understand it. A known kind may gain the
        /// defaults of fields that were absent, which is why the second trip is compared with the first.
        #[test]
        fn whatever_was_stored_survives(parts in proptest::collection::vec(any_part(), 0..5)) {
            let message: Message = serde_json::from_value(json!({"role": "user", "parts": parts})).unwrap();
            let text = text_of(&message).unwrap();
            let again: Message = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&again, &message);
            prop_assert_eq!(text_of(&again).unwrap(), text);
            for (part, stored) in message.parts.iter().zip(&parts) {
                let written = CanonicalJson::of(part).unwrap().to_value();
                for (name, value) in stored.as_object().unwrap() {
                    prop_assert_eq!(CanonicalJson::from(&written[name]), CanonicalJson::from(value), "{}", name);
                }
            }
        }
    }
}
