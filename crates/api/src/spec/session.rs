//! The bodies of runs, sessions and messages, and how a message's overrides are merged with its session's spec.

use serde_json::{Map, Value};
use windlass_core::canonical::Digest;

use super::{Conversation, Invalid, Spec, Start, fields::Fields, metadata, whole};

/// The fields of a session's spec that a message may override for its run.
const OVERRIDES: [&str; 7] =
    ["tools", "reasoningLevel", "outputSchema", "loopDetection", "toolBudgets", "supervisor", "plan"];

/// Keys that belong to one run and never to a session.
const OF_A_RUN: [&str; 7] = ["prompt", "messages", "runId", "sessionId", "policy", "labels", "approvals"];

/// A parsed request for a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    pub spec: Spec,
    /// The spec as it was sent, without the input.
    pub kept: Value,
    pub conversation: Conversation,
    pub start: Start,
    /// The digest of the body, by which a repeat of the request is recognized.
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

/// The spec of a session, parsed and as it was sent.
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

/// The body of `POST …/messages` merged with the session's spec. The session is not changed.
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
    // A message may have a run id, so that it can be sent again if its response was lost.
    let (run_id, approvals) = (whole::run_id(&said)?, whole::approvals(&said)?);
    let start = Start { run_id, approvals, ..Start::default() };
    let conversation = Conversation::parse(&said)?;
    Ok(Accepted { spec, kept: merged, conversation, start, request: Digest::of_json(message) })
}
