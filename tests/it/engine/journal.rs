//! What the workload sent and what was acknowledged. A request is recorded before it is sent, its acknowledgement when
//! it arrives.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use temporalio_protos::temporal::api::history::v1::HistoryEvent;

#[derive(Default)]
pub(super) struct Journal {
    facts: Mutex<Facts>,
}

#[derive(Default)]
pub(super) struct Facts {
    /// Run ids by the workflow ids of the starts that were acknowledged.
    pub(super) starts: BTreeMap<String, String>,
    /// By request id.
    pub(super) signals: BTreeMap<String, Signal>,
    /// By the id in the decision's marker.
    pub(super) decisions: BTreeMap<String, Decision>,
    /// Activity results, and whether they were acknowledged.
    pub(super) results: BTreeMap<String, bool>,
    /// Activities that reached a worker: run id, activity id and attempt, and how often.
    pub(super) hand_outs: BTreeMap<(String, String, i32), usize>,
    /// Hand-outs of activities with one attempt, by run id and activity id.
    pub(super) once: BTreeMap<(String, String), usize>,
    /// Requests that were sent again, by their kind.
    pub(super) repeats: BTreeMap<&'static str, usize>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Signal {
    pub(super) workflow_id: String,
    pub(super) acknowledged: bool,
}

/// A workflow task's completion, with the history it was based on.
#[derive(Debug, Clone, Default)]
pub(super) struct Decision {
    pub(super) run_id: String,
    pub(super) based_on: Vec<HistoryEvent>,
    pub(super) acknowledged: bool,
}

impl Journal {
    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn repeated(&self, what: &'static str, times: usize) {
        *self.facts().repeats.entry(what).or_default() += times;
    }
}
