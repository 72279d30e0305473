//! What the world wrote down while a run lived: the facts that the invariants are judged by.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{script::Fate, world::World};
use crate::{
    canonical::{CanonicalJson, Digest},
    envelope::{AnswerStatus, BudgetCeiling},
    ids::{CallId, ToolName},
    stop::StopReason,
    time::Millis,
};

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Working time by the world's own reckoning.
    pub(super) active: Millis,
    /// The time left after every input: by the world's reckoning, and as the run has it.
    pub(super) clock: Vec<(Option<Millis>, Option<Millis>)>,
    /// Every call a model asked for.
    pub(super) requested: BTreeMap<CallId, Requested>,
    pub(super) plans: Vec<Planned>,
    /// Every message a model wrote.
    pub(super) spoken: Vec<Spoken>,
    /// Parts that tools returned beside their results.
    pub(super) shown: BTreeMap<CallId, CanonicalJson>,
    /// Calls that were begun here or by a child, in order.
    pub(super) executions: Vec<Execution>,
    /// What tools got from people in later rounds.
    pub(super) given: Vec<(CallId, String)>,
    pub(super) leases: Vec<Lease>,
    /// Calls of children that came back: those they counted, or all they were lent.
    pub(super) charged: u32,
    /// Everything people said, and what became of it.
    pub(super) heard: Vec<Heard>,
    /// Acknowledged words that no successful plan was given yet.
    pub(super) owed: Vec<String>,
    pub(super) promises: Vec<Promise>,
    /// By turn.
    pub(super) traffic: BTreeMap<u32, Traffic>,
    /// Bytes of what the run would take along, by the turn before which it was weighed.
    pub(super) carried: BTreeMap<u32, usize>,
    pub(super) crashes: usize,
    pub(super) children: Vec<World>,
}

#[derive(Debug)]
pub(super) struct Requested {
    pub(super) tool: ToolName,
    pub(super) turn: u32,
    pub(super) digest: Digest,
    /// Asked for through an await of the planner, not as a call of the table.
    pub(super) by_await: bool,
    pub(super) fate: Fate,
}

/// A plan that was begun.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) finaliser: bool,
    /// Time left when it began.
    pub(super) left: Option<Millis>,
    pub(super) timeout: Millis,
    pub(super) deadline: Option<Millis>,
    pub(super) owed: Vec<String>,
    pub(super) said: Vec<String>,
}

/// A turn that the model finished.
#[derive(Debug)]
pub(super) struct Spoken {
    /// The message, as it must be in the transcript.
    pub(super) written: CanonicalJson,
    pub(super) calls: Vec<CallId>,
    /// Whether it called tools or asked for something from outside.
    pub(super) asks: bool,
    pub(super) finaliser: bool,
    pub(super) stop: StopReason,
    /// Whether it does not match the output schema.
    pub(super) misfit: bool,
}

#[derive(Debug)]
pub(super) struct Execution {
    pub(super) call: CallId,
    pub(super) tool: ToolName,
    /// Of the arguments it was begun with.
    pub(super) digest: Digest,
    pub(super) left: Option<Millis>,
    pub(super) finalising: bool,
    /// How many answers had been heard when it began.
    pub(super) after_heard: usize,
}

/// What a child was given, and what there was to give.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) ceiling: BudgetCeiling,
    pub(super) time_left: Option<Millis>,
    /// Calls begun here so far, used by children that ended, lent to children that have not.
    pub(super) taken: u32,
}

/// Something a person said.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) what: String,
    /// Whether the run should have taken it.
    pub(super) welcome: bool,
    pub(super) accepted: bool,
    /// Of an answer: the reply, and what it should have been.
    pub(super) status: Option<AnswerStatus>,
    pub(super) due_status: Option<AnswerStatus>,
    pub(super) before: Digest,
    pub(super) after: Digest,
    /// It came after the last record was under way.
    pub(super) too_late: bool,
    /// The call it approves, with the digest it approves.
    pub(super) approves: Option<(CallId, Digest)>,
}

/// What an accepted answer or steer entitles a person to.
#[derive(Debug)]
pub(super) enum Promise {
    Text(String),
    Result {
        call: CallId,
        content: Value,
        is_error: bool,
    },
    Approved(CallId),
    Denied(CallId),
    /// What a tool asked for.
    Input {
        call: CallId,
        text: String,
    },
}

/// Bytes through history, and what the case's own content accounts for.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) bytes: usize,
    pub(super) allowed: usize,
}

impl Ledger {
    /// Counts an envelope of this many parts (events, calls, results) with this much text of people in it.
    pub(super) fn carry(&mut self, turn: u32, bytes: usize, parts: usize, text: usize) {
        /// More than any envelope without its parts, or any part, has in these cases.
        const ENVELOPE: usize = 1_800;
        const PART: usize = 900;
        let traffic = self.traffic.entry(turn).or_default();
        traffic.bytes += bytes;
        traffic.allowed += ENVELOPE + parts * PART + 2 * text;
    }
}
