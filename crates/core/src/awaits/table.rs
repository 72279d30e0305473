//! The table of awaits: which are open, and how the recent ones ended.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{AwaitKind, AwaitView, AwaitedCall, ExpiryOutcome};
use crate::{
    canonical::Digest,
    envelope::{InputRequest, Question},
    event::AwaitClosure,
    ids::{AwaitId, CallId},
    time::{Millis, Timestamp},
};

/// How many closed awaits are remembered exactly; older ones are only known to have existed.
const REMEMBERED: usize = 64;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AwaitTable {
    issued: u32,
    open: Vec<AwaitView>,
    closed: VecDeque<ClosedAwait>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClosedAwait {
    pub(super) id: AwaitId,
    pub(super) closure: AwaitClosure,
    /// Of the answer that closed it, so that its repetition can be told from another answer.
    pub(super) answer: Option<Digest>,
    /// The calls it was about, while an answer may be addressed to one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) calls: Vec<CallId>,
}

/// An await to open.
#[derive(Debug, Clone)]
pub struct NewAwait {
    pub kind: AwaitKind,
    pub title: Option<String>,
    pub prompt: String,
    pub calls: Vec<AwaitedCall>,
    pub questions: Vec<Question>,
    pub inputs: Vec<InputRequest>,
    pub expires_in: Option<Millis>,
    pub on_expiry: ExpiryOutcome,
    pub default_answer: Option<String>,
    pub roles: Vec<String>,
    pub four_eyes: bool,
    pub edit: bool,
}

impl AwaitTable {
    pub fn open(&mut self, new: NewAwait, now: Timestamp) -> AwaitView {
        self.issued += 1;
        let view = AwaitView {
            id: AwaitId::new(format!("await-{}", self.issued)),
            kind: new.kind,
            title: new.title,
            prompt: new.prompt,
            calls: new.calls,
            questions: new.questions,
            inputs: new.inputs,
            opened_at: now,
            expires_at: new.expires_in.map(|span| now.after(span)),
            on_expiry: new.on_expiry,
            default_answer: new.default_answer,
            roles: new.roles,
            four_eyes: new.four_eyes,
            edit: new.edit,
            child: None,
        };
        self.open.push(view.clone());
        view
    }

    /// Takes an await off the table. `answer` is the digest of what closed it.
    pub fn close(&mut self, id: &AwaitId, closure: AwaitClosure, answer: Option<Digest>) -> Option<AwaitView> {
        let index = self.open.iter().position(|item| item.id == *id)?;
        let item = self.open.remove(index);
        if self.closed.len() == REMEMBERED {
            self.closed.pop_front();
        }
        let calls = match item.kind {
            AwaitKind::ExternalTools | AwaitKind::Questions => {
                item.calls.iter().map(|call| call.tool_call_id.clone()).collect()
            }
            AwaitKind::Clarification | AwaitKind::Confirmation | AwaitKind::Input => Vec::new(),
        };
        self.closed.push_back(ClosedAwait { id: id.clone(), closure, answer, calls });
        Some(item)
    }

    /// In the order they were opened.
    pub fn pending(&self) -> &[AwaitView] {
        &self.open
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.open.iter().filter_map(|item| item.expires_at).min()
    }

    /// Open awaits whose time has run out.
    pub fn overdue(&self, now: Timestamp) -> Vec<AwaitId> {
        let overdue = self.open.iter().filter(|item| item.expires_at.is_some_and(|at| at <= now));
        overdue.map(|item| item.id.clone()).collect()
    }

    pub(super) fn find(&self, id: &AwaitId) -> Option<&AwaitView> {
        self.open.iter().find(|item| item.id == *id)
    }

    pub(super) fn find_closed(&self, id: &AwaitId) -> Option<&ClosedAwait> {
        self.closed.iter().find(|item| item.id == *id)
    }

    /// The open await that wants a result of this call.
    pub(super) fn find_by_call(&self, call: &CallId) -> Option<&AwaitView> {
        self.open.iter().find(|item| {
            item.kind != AwaitKind::Confirmation && item.calls.iter().any(|awaited| awaited.tool_call_id == *call)
        })
    }

    pub(super) fn find_closed_by_call(&self, call: &CallId) -> Option<&ClosedAwait> {
        self.closed.iter().rev().find(|item| item.calls.contains(call))
    }

    /// Whether this run ever issued the id.
    pub(super) fn was_issued(&self, id: &AwaitId) -> bool {
        let number = id.as_str().strip_prefix("await-").and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| (1..=self.issued).contains(&number))
    }
}
