//! Runs whose rows and workflows do not fit together: accepted runs that no workflow was started for, and runs whose
//! workflows were deleted.
//!
//! A process may be killed between accepting a run and starting it. The store keeps the plan of the start until the run
//! is opened, so that any process can carry it out. Any number of them may do so at the same time.

use std::time::Duration;

use windlass_core::{
    ids::RunId,
    overruled::Overruled,
    time::{Millis, Timestamp},
};
use windlass_store::{Clock, OpenRun, PendingStart, RunRow, system_clock};

use super::{OpsError, RunOps, StartPlan, overruled::before};

/// Starts that are looked at together.
const STARTS: u32 = 100;
/// Open runs that one look asks the server about: what the check costs does not depend on how many runs are open.
const OPEN_RUNS: u32 = 20;
/// How long a run may be accepted without a trace of its start before a missing workflow counts as deleted.
const NO_TRACE: Millis = Millis::from_secs(60);

impl RunOps {
    /// Carries out unfinished starts, again and again, until it is dropped. A start that is younger than `grace`
    /// is left to the server that accepted the run.
    pub async fn finish_starts(&self, every: Duration, grace: Millis, clock: Clock) {
        loop {
            if let Err(error) = self.finish_starts_before(before(clock(), grace)).await {
                tracing::debug!(%error, "starts that were not finished cannot be looked at");
            }
            tokio::time::sleep(every).await;
        }
    }

    async fn finish_starts_before(&self, accepted: Timestamp) -> Result<(), OpsError> {
        for start in self.store().pending_starts(accepted, STARTS).await? {
            let run = start.run.clone();
            if let Err(error) = self.finish_start(start).await {
                tracing::warn!(%run, %error, "an accepted run cannot be started yet");
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
            Some(Err(error)) => Some(format!("what was kept of it cannot be read ({error})")),
            None => match self.exists(&run).await {
                Ok(()) => None,
                Err(OpsError::NotFound { .. }) => {
                    Some("it was accepted by a version that did not keep its input".into())
                }
                Err(error) => return Err(error),
            },
        };
        let Some(refused) = refused else { return Ok(self.store().start_done(&run).await?) };
        let reason = format!("The run was accepted and could not be started: {refused}. Start another one.");
        if let Some(row) = self.store().run(&run).await?
            && self.write_end(&row, &Overruled::NotStarted { reason }).await?
        {
            tracing::warn!(%run, refused, "an accepted run can never be started; it was ended");
        }
        Ok(())
    }

    /// Ends a run that no workflow exists for, because it is cancelled. One write decides between this and a start
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
                self.write_end(&row, &Overruled::Cancelled { reason: reason.to_owned() }).await
            }
            _ => Ok(false),
        }
    }

    /// Asks the server about open runs, some at a time, again and again, until it is dropped: those whose workflows were
    /// deleted are ended.
    pub async fn end_deleted_runs(&self, every: Duration) {
        let mut after = None;
        loop {
            tokio::time::sleep(every).await;
            match self.end_deleted_after(after.clone()).await {
                Ok(last) => after = last,
                Err(error) => tracing::debug!(%error, "open runs cannot be compared with the server's"),
            }
        }
    }

    async fn end_deleted_after(&self, after: Option<OpenRun>) -> Result<Option<OpenRun>, OpsError> {
        let page = self.store().open_runs(after, OPEN_RUNS).await?;
        for run in &page {
            match self.end_if_overruled(&run.id).await {
                Ok(true) => tracing::warn!(run = %run.id, "the run is gone from the server; its log was ended"),
                Ok(false) => {}
                // The next look begins after this run: one that cannot be asked about must not hide the others.
                Err(error) => {
                    tracing::debug!(run = %run.id, %error, "an open run cannot be compared with the server's");
                    return Ok(Some(run.clone()));
                }
            }
        }
        // After the last page comes the first.
        Ok(if page.len() < OPEN_RUNS as usize { None } else { page.into_iter().last() })
    }

    /// Whether the workflow of an open run, of which the server knows nothing, was deleted: not if it was not started
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
