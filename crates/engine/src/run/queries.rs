//! Questions to a run's worker. They leave no trace in history.

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

/// A question, and whoever waits for the answer.
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
    /// No workflow task of its run will bring it to the worker: it goes there on its own.
    AskDirectly,
    /// It was forgotten, and has to be asked anew.
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
            // Whoever asked may have stopped waiting.
            sender.send(answer).ok();
        }
    }

    /// Whether somebody still wants to know.
    pub(crate) fn is_wanted(&self) -> bool {
        let reply = self.reply.lock().unwrap_or_else(PoisonError::into_inner);
        reply.as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

impl Run {
    /// Whether a question can go straight to the worker, because no decision is pending that it would miss.
    pub(crate) fn can_ask_directly(&self) -> bool {
        !self.state.is_running() || self.state.task.is_none()
    }

    /// Takes the answers a worker gave along with its decision. What it left out waits for the next task, or goes to
    /// the worker on its own.
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

    /// What came with a refused answer does not count, and a worker that answers later answers another question.
    pub(super) fn forget_queries(&mut self) {
        for query in std::mem::take(&mut self.memory.queries) {
            query.answer(QueryAnswer::AskAgain);
        }
    }

    /// Nobody will decide anything any more.
    pub(crate) fn release_queries(&mut self) {
        for query in std::mem::take(&mut self.memory.queries) {
            query.answer(QueryAnswer::AskDirectly);
        }
    }
}
