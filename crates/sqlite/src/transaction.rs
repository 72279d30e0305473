//! The transaction that is under way: what was carried out in it, and who has been told.
//!
//! Writes whose callers do not wait for the disk are answered as soon as they are carried out and share the commit of
//! whoever comes next and does wait. So an answer may be older than its commit. Should the transaction be lost after
//! that, what was answered is carried out again, before anything new: for everybody in this process it has happened, and
//! what comes later relies on it. What ends the process ends those who were told, too.

use rusqlite::Connection;

use crate::{
    Ack, DatabaseError, Result,
    job::{AfterSync, Job, Tx, Verdict},
};

#[derive(Default)]
pub(crate) struct Transaction {
    /// In their order.
    entries: Vec<Entry>,
    begun: bool,
    /// How many of the entries were carried out since it was begun.
    carried_out: usize,
    /// What those want done once they are safe.
    after_sync: Vec<AfterSync>,
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
    /// Jobs to be carried out next.
    pub(crate) fn add(&mut self, jobs: impl Iterator<Item = Box<dyn Job>>) {
        self.entries.extend(jobs.map(|job| Entry { job, answered: false, kept: false }));
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is nothing to carry out and nothing to commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && !self.begun
    }

    /// Whether a caller waits for more than having its write carried out.
    pub(crate) fn is_awaited(&self) -> bool {
        self.entries.iter().any(|entry| !entry.answered && entry.job.ack() == Ack::Durable)
    }

    /// Carries out what has not been yet, and begins with that if need be.
    pub(crate) fn carry_out(&mut self, sql: &Connection) -> Result<()> {
        // A savepoint for every job costs more than all that has to be carried out again, since hardly any job fails.
        if !self.attempt(sql, Guards::None)? {
            self.attempt(sql, Guards::Savepoints)?;
        }
        Ok(())
    }

    /// Returns false, and has undone everything, if a job that nothing guards has to be undone.
    fn attempt(&mut self, sql: &Connection, guards: Guards) -> Result<bool> {
        let alone = self.entries.len() == 1;
        if !self.begun {
            execute(sql, "BEGIN IMMEDIATE")?;
            self.begun = true;
        }
        for entry in &mut self.entries[self.carried_out..] {
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
                    // Nobody needs protection from a job that is alone.
                    return Ok(alone);
                }
                Verdict::Fail(error) => return Err(error),
            }
            entry.kept = matches!(verdict, Verdict::Keep);
            if entry.answered && !entry.kept {
                tracing::error!("a write that was answered was refused when it had to be carried out again");
            }
            self.carried_out += 1;
        }
        Ok(true)
    }

    /// Tells those who wait only for this that their writes were carried out. All of them were.
    pub(crate) fn answer(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.answered) {
            entry.job.answer(Ok(()));
            entry.answered = true;
        }
        // What was undone must not be tried again by whoever was told so.
        self.entries.retain(|entry| entry.kept);
        self.carried_out = self.entries.len();
    }

    /// Whether there is anything to commit.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// It was committed, or nothing of it was kept. Returns whom to tell, and what to do once it is safe.
    pub(crate) fn end(&mut self) -> (Vec<Box<dyn Job>>, Vec<AfterSync>) {
        (self.begun, self.carried_out) = (false, 0);
        let unanswered = self.entries.drain(..).filter(|entry| !entry.answered).map(|entry| entry.job).collect();
        (unanswered, std::mem::take(&mut self.after_sync))
    }

    /// It was rolled back. What was answered stays, to be carried out again; the others are returned.
    pub(crate) fn roll_back(&mut self) -> Vec<Box<dyn Job>> {
        self.reset();
        self.entries.extract_if(.., |entry| !entry.answered).map(|entry| entry.job).collect()
    }

    /// Nothing more will be carried out.
    pub(crate) fn discard(&mut self) {
        self.reset();
        self.entries.clear();
    }

    fn reset(&mut self) {
        (self.begun, self.carried_out) = (false, 0);
        self.after_sync.clear();
    }
}

pub(crate) fn execute(sql: &Connection, statement: &str) -> Result<()> {
    let done = sql.prepare_cached(statement).and_then(|mut statement| statement.execute([]));
    done.map(drop).map_err(|error| DatabaseError::batch_failed(&error))
}
