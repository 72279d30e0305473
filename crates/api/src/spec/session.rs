//! Bodies as a whole, and a session's spec with a message's overrides laid over it.

use serde_json::{Map, Value};
use windlass_core::canonical::Digest;

use super::{Conversation, Invalid, Spec, Start, fields::Fields, metadata, whole};

/// What a message may change for its own run. Everything else is the session's.
const OVERRIDES: [&str; 7] =
    ["tools", "reasoningLevel", "outputSchema", "loopDetection", "toolBudgets", "supervisor", "plan"];

/// Keys that belong to one run and never to a session.
const OF_A_RUN: [&str; 6] = ["prompt", "messages", "runId", "sessionId", "policy", "labels"];

/// What one run is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    pub spec: Spec,
    /// The spec as it was sent, without what was said.
    pub kept: Value,
    pub conversation: Conversation,
    pub start: Start,
    /// Of the body as it was sent: the same request again has the same digest.
    pub request: Digest,
}

/// The body of `POST /agent-runs`.
pub fn parse_run(body: &Value) -> Result<Accepted, Invalid> {
    let fields = Fields::of_body(body)?;
    let spec = Spec::parse(&fields)?;
    let conversation = Conversation::parse(&fields)?;
    spec.check_purpose(&conversation.system)?;
    Ok(Accepted {
        spec,
        kept: kept(&fields),
        conversation,
        start: Start::parse(&fields)?,
        request: Digest::of_json(body),
    })
}

/// What a session is, and the spec as it was sent.
pub type Kept = (Spec, Value);

/// The body of `POST /agent-sessions`, and what to keep of it.
pub fn parse_session(body: &Value) -> Result<Kept, Invalid> {
    let fields = Fields::of_body(body)?;
    for key in ["prompt", "messages"] {
        if fields.get(key).is_some() {
            let problem = "a session is created without a message; send it to POST /agent-sessions/{id}/messages";
            return Err(fields.invalid(key, problem));
        }
    }
    let spec = Spec::parse(&fields)?;
    spec.check_purpose(&[])?;
    Ok((spec, kept(&fields)))
}

fn kept(fields: &Fields<'_>) -> Value {
    let kept = fields.entries().filter(|(key, _)| !OF_A_RUN.contains(&key.as_str()));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// The body of `POST …/messages` on top of the session's spec: what this one run is. The session is left as it is.
pub fn effective(session: &Value, message: &Value) -> Result<Accepted, Invalid> {
    let said = Fields::of_body(message)?;
    let mut merged: Map<String, Value> = session.as_object().cloned().unwrap_or_default();
    for key in OVERRIDES {
        if let Some(value) = said.get(key) {
            merged.insert(key.to_owned(), value.clone());
        }
    }
    let merged = Value::Object(merged);
    let mut spec = Spec::parse(&Fields::of_body(&merged)?)?;
    spec.metadata = metadata::merge(&spec.metadata, metadata::parse(&said, "metadata")?)?;
    // The run's id is the message's own: a message whose answer was lost may be sent again.
    let start = Start { run_id: whole::run_id(&said)?, ..Start::default() };
    let conversation = Conversation::parse(&said)?;
    Ok(Accepted { spec, kept: merged, conversation, start, request: Digest::of_json(message) })
}
