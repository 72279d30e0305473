//! Queries. They leave no events in history.

use std::sync::{Mutex, PoisonError};

use temporalio_protos::temporal::api::{
    common::v1::Payloads,
    enums::v1::QueryResultType,
    failure::v1::Failure,
    query::v1::{WorkflowQuery, WorkflowQueryResult},
};
use tokio::sync::oneshot;

use super::Run;
use crate::registry::RunKey;

/// A query and the channel of its reply.
#[derive(Debug)]
pub(crate) struct PendingQuery {
    pub(crate) id: String,
    pub(crate) run: RunKey,
    pub(crate) query: WorkflowQuery,
    reply: Mutex<Option<oneshot::Sender<QueryAnswer>>>,
}

#[derive(Debug)]
pub(crate) enum QueryAnswer {
    Answered(Option<Payloads>),
    Failed {
        message: String,
        failure: Option<Box<Failure>>,
    },
    /// No workflow task will carry the query: it must be dispatched as a query task.
    AskDirectly,
    /// The query was dropped and must be sent again.
    AskAgain,
}

impl PendingQuery {
    pub(crate) fn new(id: String, run: RunKey, query: WorkflowQuery) -> (Self, oneshot::Receiver<QueryAnswer>) {
        let (sender, answer) = oneshot::channel();
        (Self { id, run, query, reply: Mutex::new(Some(sender)) }, answer)
    }

    pub(crate) fn answer(&self, answer: QueryAnswer) {
        let sender = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // The caller may have stopped waiting.
            sender.send(answer).ok();
        }
    }

    /// Whether the caller still waits.
    pub(crate) fn is_wanted(&self) -> bool {
        let reply = self.reply.lock().unwrap_or_else(PoisonError::into_inner);
        reply.as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

impl Run {
    /// Whether a query can be dispatched as a query task, because there is no pending workflow task that it would have
    /// to wait for.
    pub(crate) fn can_ask_directly(&self) -> bool {
        !self.state.is_running() || self.state.task.is_none()
    }

    /// Takes the query results of a completion. Queries without a result wait for the next task or are dispatched as
    /// query tasks.
    pub(crate) fn answer_queries(&mut self, mut results: std::collections::HashMap<String, WorkflowQueryResult>) {
        let more_tasks = self.state.is_running() && self.state.task.is_some();
        let mut left = Vec::new();
        for query in std::mem::take(&mut self.memory.queries) {
            match results.remove(&query.id) {
                Some(result) => query.answer(match result.result_type() {
                    QueryResultType::Answered => QueryAnswer::Answered(result.answer),
                    _ => QueryAnswer::Failed { message: result.error_message, failure: result.failure.map(Box::new) },
                }),
                None if more_tasks => left.push(query),
                None => query.answer(QueryAnswer::AskDirectly),
            }
        }
        self.memory.queries = left;
    }

    /// Drops the pending queries after a rejected completion. Later results for them are ignored.
    pub(super) fn forget_queries(&mut self) {
        for query in std::mem::take(&mut self.memory.queries) {
            query.answer(QueryAnswer::AskAgain);
        }
    }

    /// The run is closed: pending queries are dispatched as query tasks.
    pub(crate) fn release_queries(&mut self) {
        for query in std::mem::take(&mut self.memory.queries) {
            query.answer(QueryAnswer::AskDirectly);
        }
    }
}
