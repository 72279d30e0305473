//! From a client's message to the answer of an open await. Pure: an answer that does not fit changes nothing.

use a2a::{Message, PartContent};
use serde_json::{Map, Value, json};
use windlass_core::{
    awaits::{AwaitKind, AwaitView},
    canonical::Digest,
    envelope::Question,
    ids::{AwaitId, CallId},
};

use super::{
    message::{AWAIT_ID, text},
    task::wants_input,
};
use crate::auth::Scope;

/// An answer to one await.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) await_id: AwaitId,
    pub(crate) body: ReplyBody,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReplyBody {
    Text(String),
    Decision { approved: bool, digest: Option<Digest>, reason: Option<String> },
    Result { call: CallId, result: Value },
}

impl ReplyBody {
    /// The scope that an answer of this kind needs.
    pub(crate) fn scope(&self) -> Scope {
        match self {
            Self::Text(_) | Self::Result { .. } => Scope::RunsAnswer,
            Self::Decision { .. } => Scope::RunsApprove,
        }
    }
}

/// The answer in a message, or why it is none. Data may name the await; otherwise the message answers the first one.
pub(crate) fn read(open: &[AwaitView], message: &Message) -> Result<Reply, String> {
    let data = data_of(message);
    let named = data.and_then(|data| data.get(AWAIT_ID)).and_then(Value::as_str);
    let digest = data.and_then(|data| data.get("digest")).and_then(Value::as_str);
    let mut asking = open.iter().filter(|item| wants_input(item));
    let item = match (named, digest) {
        (Some(id), _) => {
            asking.find(|item| item.id.as_str() == id).ok_or_else(|| format!("the task has no open await {id}"))?
        }
        (None, Some(digest)) => asking
            .find(|item| item.calls.iter().any(|call| call.digest.to_string() == digest))
            .ok_or("the digest is not that of a call that waits for an approval; look at the task again")?,
        (None, None) => asking.next().ok_or("the task is not waiting for input")?,
    };
    let body = match item.kind {
        AwaitKind::Confirmation => decision(open, item, data, message)?,
        AwaitKind::Questions => result(item, data, message)?,
        AwaitKind::Clarification | AwaitKind::ExternalTools | AwaitKind::Input => {
            let said = data.and_then(|data| data.get("answer")).and_then(Value::as_str);
            ReplyBody::Text(said.map_or_else(|| text(message), str::to_owned))
        }
    };
    Ok(Reply { await_id: item.id.clone(), body })
}

/// The first data part that is an object.
fn data_of(message: &Message) -> Option<&Map<String, Value>> {
    message.parts.iter().find_map(|part| match &part.content {
        PartContent::Data(Value::Object(data)) => Some(data),
        _ => None,
    })
}

fn decision(
    open: &[AwaitView],
    item: &AwaitView,
    data: Option<&Map<String, Value>>,
    message: &Message,
) -> Result<ReplyBody, String> {
    if let Some(data) = data {
        let wanted = "send {\"approve\": true or false, \"digest\": …} with the digest of the arguments";
        let approved = data.get("approve").and_then(Value::as_bool).ok_or(wanted)?;
        let digest = data.get("digest").map(|digest| serde_json::from_value(digest.clone())).transpose();
        let digest = digest.map_err(|_| wanted)?;
        let reason = data.get("reason").and_then(Value::as_str).map(str::to_owned);
        return Ok(ReplyBody::Decision { approved, digest, reason });
    }
    let approved = match text(message).trim().to_ascii_lowercase().as_str() {
        "approve" => true,
        "deny" => false,
        _ => {
            return Err("a call waits for an approval; answer with approve or deny, or with data that has the digest"
                .to_owned());
        }
    };
    // A word does not say which call it is about.
    if open.iter().filter(|item| item.kind == AwaitKind::Confirmation).count() > 1 {
        return Err("several calls wait for an approval; answer with data that has the digest of one".to_owned());
    }
    let digest = item.calls.first().map(|call| call.digest).filter(|_| approved);
    Ok(ReplyBody::Decision { approved, digest, reason: None })
}

/// Answers to questions, by their ids: as data, as JSON text or, to a single question, as plain text.
fn result(item: &AwaitView, data: Option<&Map<String, Value>>, message: &Message) -> Result<ReplyBody, String> {
    let call = item.calls.first().map(|call| call.tool_call_id.clone()).ok_or("the questions belong to no call")?;
    let said = text(message);
    let parsed = match data {
        Some(data) => Some(data.clone()),
        None => serde_json::from_str::<Map<String, Value>>(&said).ok(),
    };
    let mut answers = match (parsed, item.questions.as_slice()) {
        (Some(answers), _) => answers,
        (None, [only]) => Map::from_iter([(only.id.clone(), json!(said.trim()))]),
        (None, _) => {
            let ids: Vec<&str> = item.questions.iter().map(|question| question.id.as_str()).collect();
            return Err(format!("several questions are open; answer with data that has {}", ids.join(", ")));
        }
    };
    answers.remove(AWAIT_ID);
    for question in &item.questions {
        let answer = answers
            .get_mut(&question.id)
            .ok_or_else(|| format!("the answer to question {} is missing", question.id))?;
        choose(question, answer)?;
    }
    Ok(ReplyBody::Result { call, result: Value::Object(answers) })
}

/// Replaces labels of options by their ids. A question without options takes any answer.
fn choose(question: &Question, answer: &mut Value) -> Result<(), String> {
    if question.options.is_empty() {
        return Ok(());
    }
    match answer {
        Value::Array(answers) if question.allow_multiple => {
            answers.iter_mut().try_for_each(|answer| choose_one(question, answer))
        }
        one => choose_one(question, one),
    }
}

fn choose_one(question: &Question, answer: &mut Value) -> Result<(), String> {
    let said = answer.as_str().unwrap_or_default();
    let chosen = question
        .options
        .iter()
        .find(|option| option.id == said)
        .or_else(|| question.options.iter().find(|option| option.label.eq_ignore_ascii_case(said)));
    match chosen {
        Some(option) => *answer = json!(option.id),
        None => {
            let ids: Vec<&str> = question.options.iter().map(|option| option.id.as_str()).collect();
            return Err(format!("question {} takes one of {}", question.id, ids.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
