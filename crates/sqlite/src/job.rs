//! A queued write: what it executes, and how its result is sent.

use std::{
    cell::RefCell,
    future::Future,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{Ack, DatabaseError, damage::Damage};

/// Runs after the job is synced.
pub(crate) type AfterSync = Box<dyn FnOnce() + Send>;

/// A connection inside the batch's transaction, for a job.
pub struct Tx<'c> {
    sql: &'c Connection,
    after_sync: RefCell<Vec<AfterSync>>,
}

impl<'c> Tx<'c> {
    pub(crate) fn new(sql: &'c Connection) -> Self {
        Self { sql, after_sync: RefCell::default() }
    }

    /// Runs `then` in the writer thread after this job is synced to disk and before its caller is told; never if the
    /// job is undone.
    pub fn after_sync(&self, then: impl FnOnce() + Send + 'static) {
        self.after_sync.borrow_mut().push(Box::new(then));
    }

    pub(crate) fn into_after_sync(self) -> Vec<AfterSync> {
        self.after_sync.into_inner()
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.sql
    }
}

/// The pending result of a write. The write is executed even if the ticket is dropped.
#[derive(Debug)]
#[must_use = "without the result, a failed write goes unnoticed"]
pub struct Ticket<T, E> {
    answer: oneshot::Receiver<Result<T, E>>,
}

impl<T, E> Ticket<T, E> {
    pub(crate) fn new() -> (oneshot::Sender<Result<T, E>>, Self) {
        let (reply, answer) = oneshot::channel();
        (reply, Self { answer })
    }

    /// The result, if it was sent.
    #[cfg(test)]
    pub(crate) fn try_answer(&mut self) -> Option<Result<T, E>> {
        self.answer.try_recv().ok()
    }
}

impl<T, E: From<DatabaseError>> Future for Ticket<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The writer drops a job without a reply only when it ends.
        Pin::new(&mut self.answer)
            .poll(context)
            .map(|answer| answer.unwrap_or_else(|_| Err(DatabaseError::Closed.into())))
    }
}

/// What to do with a job's changes.
#[derive(Debug)]
pub(crate) enum Verdict {
    Keep,
    Undo,
    /// The whole batch fails.
    Fail(DatabaseError),
}

pub(crate) trait Job: Send {
    fn ack(&self) -> Ack;

    /// Whether it may ask for its own changes to be undone.
    fn may_undo(&self) -> bool;

    /// Executes the job. It runs again if another job of the transaction was undone, or the transaction was rolled
    /// back.
    fn run(&mut self, tx: &Tx<'_>) -> Verdict;

    /// Sends the result, or the error of the whole batch. Called once.
    fn answer(&mut self, batch: Result<(), DatabaseError>);
}

/// A job that may fail: its error undoes its changes.
pub(crate) struct FallibleJob<T, E, F, R> {
    pub(crate) ack: Ack,
    pub(crate) work: F,
    pub(crate) progress: Progress<T, E>,
    /// `None` after the result was sent.
    pub(crate) reply: Option<R>,
}

/// The state of a job.
pub(crate) enum Progress<T, E> {
    Waiting,
    Done(Result<T, E>),
    /// SQLite aborted the whole transaction because of this job, for example on a full disk.
    AbortedTransaction(E),
    Panicked,
}

impl<T, E, F, R> Job for FallibleJob<T, E, F, R>
where
    T: Send,
    E: From<DatabaseError> + Send,
    F: Fn(&Tx<'_>) -> Result<T, E> + Send,
    R: FnOnce(Result<T, E>) + Send,
{
    fn ack(&self) -> Ack {
        self.ack
    }

    fn may_undo(&self) -> bool {
        true
    }

    fn run(&mut self, tx: &Tx<'_>) -> Verdict {
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.work)(tx))).ok();
        let (progress, verdict) = match outcome {
            Some(Err(error)) if tx.is_autocommit() => {
                (Progress::AbortedTransaction(error), Verdict::Fail(DatabaseError::transaction_aborted()))
            }
            Some(Err(error)) => (Progress::Done(Err(error)), Verdict::Undo),
            Some(Ok(value)) => (Progress::Done(Ok(value)), Verdict::Keep),
            None => (Progress::Panicked, Verdict::Undo),
        };
        self.progress = progress;
        verdict
    }

    fn answer(&mut self, batch: Result<(), DatabaseError>) {
        let Some(reply) = self.reply.take() else { return };
        let outcome = match (std::mem::replace(&mut self.progress, Progress::Waiting), batch) {
            (Progress::AbortedTransaction(error), _) => Err(error),
            // A failed batch fails all of its jobs, because each may have read the changes of another.
            (_, Err(error)) => Err(error.into()),
            (Progress::Done(outcome), Ok(())) => outcome,
            (Progress::Waiting | Progress::Panicked, Ok(())) => {
                Err(DatabaseError::unavailable("write", "the write panicked").into())
            }
        };
        reply(outcome);
    }
}

/// A job that only SQLite can fail. Its error fails the batch.
pub(crate) struct InfallibleJob<T, F> {
    pub(crate) ack: Ack,
    pub(crate) work: F,
    pub(crate) value: Option<T>,
    pub(crate) damage: Arc<Damage>,
    /// `None` after the result was sent.
    pub(crate) reply: Option<oneshot::Sender<Result<T, DatabaseError>>>,
}

impl<T, F> Job for InfallibleJob<T, F>
where
    T: Send,
    F: Fn(&Tx<'_>) -> rusqlite::Result<T> + Send,
{
    fn ack(&self) -> Ack {
        self.ack
    }

    fn may_undo(&self) -> bool {
        false
    }

    fn run(&mut self, tx: &Tx<'_>) -> Verdict {
        match catch_unwind(AssertUnwindSafe(|| (self.work)(tx))).ok() {
            Some(Ok(value)) => {
                self.value = Some(value);
                Verdict::Keep
            }
            Some(Err(error)) => {
                self.damage.note_error(&error);
                Verdict::Fail(DatabaseError::batch_failed(&error))
            }
            None => Verdict::Fail(DatabaseError::unavailable("write", "a write panicked")),
        }
    }

    fn answer(&mut self, batch: Result<(), DatabaseError>) {
        let Some(reply) = self.reply.take() else { return };
        let outcome = batch.and_then(|()| self.value.take().ok_or(DatabaseError::Closed));
        // The caller may have stopped waiting.
        let _ = reply.send(outcome);
    }
}
