//! Repairs runs whose rows and workflows do not match: accepted runs without a workflow, and runs whose
//! workflows were deleted.
//!
//! A process may be killed between accepting a run and starting it. The store keeps the start plan until the run
//! is opened, so that any process can execute it. Any number of them may do so at the same time.

use std::time::Duration;

use windlass_core::{
    closed_externally::ExternalClosure,
    ids::RunId,
    time::{Millis, Timestamp},
};
use windlass_store::{Clock, OpenRun, PendingStart, RunRow, system_clock};

use super::{OpsError, RunOps, StartPlan, closed_externally::before};

/// The page size of pending starts.
const STARTS: u32 = 100;
/// The number of open runs that one round checks, so that its cost does not depend on how many runs are open.
const OPEN_RUNS: u32 = 20;
/// How old an accepted run without a start plan must be before its missing workflow counts as deleted.
const NO_TRACE: Millis = Millis::from_secs(60);

impl RunOps {
    /// Executes unfinished starts repeatedly, until it is dropped. A start that is younger than `grace`
    /// is left to the server that accepted the run.
    pub async fn finish_starts(&self, every: Duration, grace: Millis, clock: Clock) {
        loop {
            if let Err(error) = self.finish_starts_before(before(clock(), grace)).await {
                tracing::debug!(%error, "cannot list unfinished starts");
            }
            tokio::time::sleep(every).await;
        }
    }

    async fn finish_starts_before(&self, accepted: Timestamp) -> Result<(), OpsError> {
        for start in self.store().pending_starts(accepted, STARTS).await? {
            let run = start.run.clone();
            if let Err(error) = self.finish_start(start).await {
                tracing::warn!(%run, %error, "cannot start an accepted run yet");
            }
        }
        Ok(())
    }

    async fn finish_start(&self, start: PendingStart) -> Result<(), OpsError> {
        let run = start.run;
        let refused = match start.plan.map(serde_json::from_value::<StartPlan>) {
            Some(Ok(plan)) => match self.carry_out(&plan).await {
                Ok(()) => None,
                Err(error @ (OpsError::Unstartable { .. } | OpsError::Input(_) | OpsError::AlreadyExists { .. })) => {
                    Some(error.to_string())
                }
                Err(error) => return Err(error),
            },
            Some(Err(error)) => Some(format!("its start plan cannot be read ({error})")),
            None => match self.exists(&run).await {
                Ok(()) => None,
                Err(OpsError::NotFound { .. }) => {
                    Some("it was accepted by a version that did not store its input".into())
                }
                Err(error) => return Err(error),
            },
        };
        let Some(refused) = refused else { return Ok(self.store().start_done(&run).await?) };
        let reason = format!("The run was accepted and could not be started: {refused}. Start another run.");
        if let Some(row) = self.store().run(&run).await?
            && self.write_end(&row, &ExternalClosure::NotStarted { reason }).await?
        {
            tracing::warn!(%run, refused, "an accepted run cannot be started; wrote its terminal event");
        }
        Ok(())
    }

    /// Ends a cancelled run that has no workflow. One write decides between this and a start
    /// that is under way: a run that has ended is not opened.
    pub(crate) async fn cancel_unstarted(&self, run: &RunId, reason: &str) -> Result<bool, OpsError> {
        let Some(start) = self.store().pending_start(run).await? else { return Ok(false) };
        let started = match start.plan.map(serde_json::from_value) {
            Some(Ok(plan)) => self.was_started_from(&plan).await?,
            Some(Err(_)) => false,
            None => !matches!(self.exists(run).await, Err(OpsError::NotFound { .. })),
        };
        match self.store().run(run).await? {
            Some(row) if !started && row.closed_at.is_none() => {
                self.write_end(&row, &ExternalClosure::Cancelled { reason: reason.to_owned() }).await
            }
            _ => Ok(false),
        }
    }

    /// Checks open runs against the server, a few at a time, repeatedly, until it is dropped: runs whose workflows were
    /// deleted are ended.
    pub async fn end_deleted_runs(&self, every: Duration) {
        let mut after = None;
        loop {
            tokio::time::sleep(every).await;
            match self.end_deleted_after(after.clone()).await {
                Ok(last) => after = last,
                Err(error) => tracing::debug!(%error, "cannot check open runs against the server"),
            }
        }
    }

    async fn end_deleted_after(&self, after: Option<OpenRun>) -> Result<Option<OpenRun>, OpsError> {
        let page = self.store().open_runs(after, OPEN_RUNS).await?;
        for run in &page {
            match self.end_if_closed_externally(&run.id).await {
                Ok(true) => tracing::warn!(run = %run.id, "workflow deleted on the server; wrote the terminal event"),
                Ok(false) => {}
                // The next round begins after this run: one that cannot be checked must not hide the others.
                Err(error) => {
                    tracing::debug!(run = %run.id, %error, "cannot check an open run against the server");
                    return Ok(Some(run.clone()));
                }
            }
        }
        // After the last page comes the first.
        Ok(if page.len() < OPEN_RUNS as usize { None } else { page.into_iter().last() })
    }

    /// Whether the workflow of an open run, which the server does not have, was deleted: not if it was not started
    /// yet, and not if this may be another server than the one it was started on.
    pub(crate) async fn was_deleted(&self, row: &RunRow) -> Result<bool, OpsError> {
        if row.agent_digest.is_none() {
            let young = row.created_at > before(system_clock()(), NO_TRACE);
            if young || self.store().pending_start(&row.id).await?.is_some() {
                return Ok(false);
            }
        }
        self.is_only_home().await
    }
}
