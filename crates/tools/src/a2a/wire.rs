//! What peers send. One set of types reads 1.0 and 0.3, and reads tolerantly: ProtoJSON leaves out empty lists and texts,
//! and a state that this build does not know is a task that works on.

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use windlass_core::canonical::{CanonicalJson, Digest};

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task {
    pub(super) id: String,
    #[serde(default)]
    pub(super) context_id: Option<String>,
    #[serde(default)]
    pub(super) status: Status,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) artifacts: Vec<Artifact>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    #[serde(deserialize_with = "known_state")]
    pub(super) state: State,
    pub(super) message: Option<Message>,
    timestamp: Option<String>,
}

impl Status {
    /// The text of its message.
    pub(super) fn text(&self) -> Option<String> {
        let parts = self.message.iter().flat_map(|message| &message.parts);
        let texts: Vec<&str> = parts.filter_map(|part| part.text.as_deref()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Tells this status from a later one of the same state. `None` if the peer gives nothing to tell them by.
    pub(super) fn mark(&self) -> Option<Digest> {
        let message = self.message.as_ref().and_then(|message| message.message_id.as_deref());
        if self.timestamp.is_none() && message.is_none() {
            return None;
        }
        let mark = format!("{} {}", self.timestamp.as_deref().unwrap_or_default(), message.unwrap_or_default());
        Some(Digest::of_bytes(mark.as_bytes()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum State {
    #[serde(rename = "TASK_STATE_COMPLETED", alias = "completed")]
    Completed,
    #[serde(rename = "TASK_STATE_FAILED", alias = "failed")]
    Failed,
    #[serde(rename = "TASK_STATE_CANCELED", alias = "canceled")]
    Canceled,
    #[serde(rename = "TASK_STATE_REJECTED", alias = "rejected")]
    Rejected,
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED", alias = "input-required")]
    InputRequired,
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED", alias = "auth-required")]
    AuthRequired,
    /// Submitted, working, or unknown to this build.
    #[default]
    #[serde(other)]
    Working,
}

/// Over gRPC a state that this build does not know is a number.
fn known_state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<State, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Sent {
        Word(State),
        Other(IgnoredAny),
    }
    Ok(match Sent::deserialize(deserializer)? {
        Sent::Word(state) => state,
        Sent::Other(_) => State::default(),
    })
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    #[serde(default)]
    message_id: Option<String>,
    #[serde(default)]
    pub(super) context_id: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Artifact {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(super) parts: Vec<Part>,
}

/// Text, data or a file. 1.0 has the fields of a file beside the others, 0.3 has them in `file`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Part {
    pub(super) text: Option<String>,
    pub(super) data: Option<CanonicalJson>,
    /// Base64.
    raw: Option<String>,
    url: Option<String>,
    filename: Option<String>,
    media_type: Option<String>,
    file: Option<File>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct File {
    /// Base64.
    pub(super) bytes: Option<String>,
    pub(super) uri: Option<String>,
    pub(super) name: Option<String>,
    pub(super) mime_type: Option<String>,
}

impl Part {
    /// The file of a part that has one.
    pub(super) fn file(&self) -> File {
        self.file.clone().unwrap_or_else(|| File {
            bytes: self.raw.clone(),
            uri: self.url.clone(),
            name: self.filename.clone(),
            mime_type: self.media_type.clone(),
        })
    }
}

/// A reply to a message, or one event of a stream.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Event {
    Task(Task),
    Message(Message),
    StatusUpdate(StatusUpdate),
    ArtifactUpdate(ArtifactUpdate),
}

/// An event as 0.3 writes it, with its kind among its fields.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", remote = "Event")]
enum FlatEvent {
    Task(Task),
    Message(Message),
    StatusUpdate(StatusUpdate),
    ArtifactUpdate(ArtifactUpdate),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct Event03(#[serde(with = "FlatEvent")] pub(super) Event);

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct StatusUpdate {
    #[serde(default)]
    pub(super) status: Status,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct ArtifactUpdate {
    pub(super) artifact: Artifact,
}

/// A response of JSON-RPC.
#[derive(Debug, Deserialize)]
pub(super) struct RpcResponse<T> {
    #[serde(default = "Option::default")]
    pub(super) result: Option<T>,
    #[serde(default)]
    pub(super) error: Option<PeerError>,
}

/// An error of JSON-RPC. HTTP+JSON has the same fields, with the HTTP status as its code.
#[derive(Debug, Deserialize)]
pub(super) struct PeerError {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
}

/// The body of an error response.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorBody {
    pub(super) error: PeerError,
}

pub(super) fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
