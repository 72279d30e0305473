//! The open transaction: its jobs, and which of them were acknowledged.
//!
//! Relaxed writes are acknowledged as soon as they are executed and share the commit of the next durable write. So an
//! acknowledgement may come before the commit. If the transaction is rolled back after that, the acknowledged writes
//! are replayed before anything new, because later writes of this process rely on them. A crash of the process loses
//! them together with everything that relied on them.

use rusqlite::Connection;

use crate::{
    Ack, DatabaseError, Result,
    job::{AfterSync, Job, Tx, Verdict},
};

#[derive(Default)]
pub(crate) struct Transaction {
    /// In order.
    entries: Vec<Entry>,
    begun: bool,
    /// How many of the entries were executed in this transaction.
    executed: usize,
    /// Callbacks of those, to be called after the sync.
    after_sync: Vec<AfterSync>,
    /// A job that was executed at once has to be undone, and with it the whole transaction.
    undo: bool,
}

/// What became of a job that was executed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtOnce {
    Kept,
    /// The transaction has to be executed again without the changes of this job.
    Undone,
}

struct Entry {
    job: Box<dyn Job>,
    answered: bool,
    kept: bool,
}

/// Whether each job can be undone alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guards {
    None,
    Savepoints,
}

impl Transaction {
    /// Adds jobs to be executed.
    pub(crate) fn add(&mut self, jobs: impl Iterator<Item = Box<dyn Job>>) {
        self.entries.extend(jobs.map(|job| Entry { job, answered: false, kept: false }));
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing to execute and nothing to commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.begun
    }

    /// Whether a caller waits for the commit or the sync.
    pub(crate) fn is_awaited(&self) -> bool {
        self.entries.iter().any(|entry| !entry.answered && entry.job.ack() == Ack::Durable)
    }

    /// Whether a reader waits for the sync.
    pub(crate) fn is_prompt(&self) -> bool {
        self.entries.iter().any(|entry| entry.job.ack() == Ack::Prompt)
    }

    /// Whether a caller goes on while its write is to be synced.
    pub(crate) fn is_eager(&self) -> bool {
        self.entries.iter().any(|entry| entry.job.ack() == Ack::Eager)
    }

    /// Executes the jobs that were not executed yet, and begins a transaction if necessary.
    pub(crate) fn execute_jobs(&mut self, sql: &Connection) -> Result<()> {
        // Savepoints for all jobs would cost more than executing the jobs again, because hardly any job fails.
        if !self.attempt(sql, Guards::None)? {
            self.attempt(sql, Guards::Savepoints)?;
        }
        Ok(())
    }

    /// Returns false after everything was undone, if a job without a savepoint has to be undone.
    fn attempt(&mut self, sql: &Connection, guards: Guards) -> Result<bool> {
        let alone = self.entries.len() == 1;
        if self.undo {
            if !sql.is_autocommit() {
                execute(sql, "ROLLBACK")?;
            }
            self.reset();
        }
        if !self.begun {
            self.begin(sql)?;
        }
        for entry in &mut self.entries[self.executed..] {
            let guarded = guards == Guards::Savepoints && entry.job.may_undo();
            if guarded {
                execute(sql, "SAVEPOINT job")?;
            }
            let tx = Tx::new(sql);
            let verdict = entry.job.run(&tx);
            let wanted = tx.into_after_sync();
            if sql.is_autocommit() && !matches!(verdict, Verdict::Fail(_)) {
                return Err(DatabaseError::transaction_aborted());
            }
            match verdict {
                Verdict::Keep => {
                    if guarded {
                        execute(sql, "RELEASE job")?;
                    }
                    self.after_sync.extend(wanted);
                }
                Verdict::Undo if guarded => {
                    execute(sql, "ROLLBACK TO job")?;
                    execute(sql, "RELEASE job")?;
                }
                Verdict::Undo => {
                    execute(sql, "ROLLBACK")?;
                    self.reset();
                    // A job that is alone needs no second attempt.
                    return Ok(alone);
                }
                Verdict::Fail(error) => return Err(error),
            }
            entry.kept = matches!(verdict, Verdict::Keep);
            if entry.answered && !entry.kept {
                tracing::error!("an acknowledged write failed when it was replayed");
            }
            self.executed += 1;
        }
        Ok(true)
    }

    pub(crate) fn begin(&mut self, sql: &Connection) -> Result<()> {
        execute(sql, "BEGIN IMMEDIATE")?;
        self.begun = true;
        Ok(())
    }

    /// Whether a job can be executed at once: nothing comes before it.
    pub(crate) fn is_up_to_date(&self) -> bool {
        !self.undo && self.executed == self.entries.len()
    }

    /// Executes one job in the transaction, which has begun and is up to date.
    pub(crate) fn execute_at_once(&mut self, sql: &Connection, mut job: Box<dyn Job>) -> AtOnce {
        let tx = Tx::new(sql);
        let kept = matches!(job.run(&tx), Verdict::Keep) && !sql.is_autocommit();
        if kept {
            self.after_sync.extend(tx.into_after_sync());
            self.executed += 1;
        }
        self.undo = !kept;
        self.entries.push(Entry { job, answered: false, kept });
        if kept { AtOnce::Kept } else { AtOnce::Undone }
    }

    /// Acknowledges the job that was executed last.
    pub(crate) fn answer_last(&mut self) {
        if let Some(entry) = self.entries.last_mut() {
            entry.job.answer(Ok(()));
            entry.answered = true;
        }
    }

    /// Acknowledges the executed jobs.
    pub(crate) fn answer(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.answered) {
            entry.job.answer(Ok(()));
            entry.answered = true;
        }
        // Jobs that were undone must not be replayed.
        self.entries.retain(|entry| entry.kept);
        self.executed = self.entries.len();
    }

    /// Whether there is anything to commit.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The transaction was committed, or none of its jobs was kept. Returns the jobs to acknowledge and the callbacks
    /// to run after the sync.
    pub(crate) fn end(&mut self) -> (Vec<Box<dyn Job>>, Vec<AfterSync>) {
        (self.begun, self.executed) = (false, 0);
        let unanswered = self.entries.drain(..).filter(|entry| !entry.answered).map(|entry| entry.job).collect();
        (unanswered, std::mem::take(&mut self.after_sync))
    }

    /// The transaction was rolled back. Acknowledged jobs stay, to be replayed; the others are returned.
    pub(crate) fn roll_back(&mut self) -> Vec<Box<dyn Job>> {
        self.reset();
        self.entries.extract_if(.., |entry| !entry.answered).map(|entry| entry.job).collect()
    }

    /// Drops all jobs.
    pub(crate) fn discard(&mut self) {
        self.reset();
        self.entries.clear();
    }

    fn reset(&mut self) {
        (self.begun, self.executed, self.undo) = (false, 0, false);
        self.after_sync.clear();
    }
}

pub(crate) fn execute(sql: &Connection, statement: &str) -> Result<()> {
    let done = sql.prepare_cached(statement).and_then(|mut statement| statement.execute([]));
    done.map(drop).map_err(|error| DatabaseError::batch_failed(&error))
}
