//! Runs that were closed over their heads: terminated, out of time, deleted. Their logs are ended for them.
//!
//! One question to the server finds them all, however many runs are followed, so an idle system stays idle. Any number
//! of processes may look at the same time: a log takes its end once.

use std::{collections::BTreeSet, time::Duration};

use futures_util::TryStreamExt as _;
use temporalio_client::{
    HistoryEventFilterType, WorkflowExecutionStatus, WorkflowFetchHistoryOptions, errors::ClientError,
};
use temporalio_protos::temporal::api::history::v1::history_event::Attributes;
use windlass_core::{
    envelope::TranscriptHead,
    ids::RunId,
    overruled::{Overruled, last_events},
    run::Phase,
    time::{Millis, Timestamp},
};
use windlass_store::{Clock, ErrorKind, RecordBatch, RunRow, StoreError};
use windlass_workflows::contract::RUN_WORKFLOW;

use super::{OpsError, RunEnd, RunOps};

/// How far the first look goes back: to what happened while nobody looked.
const FIRST_LOOK: Millis = Millis::from_secs(24 * 60 * 60);
/// How long it may take until lists show that a run was closed.
const LISTS_LAG: Millis = Millis::from_secs(120);

impl RunOps {
    /// Looks for such runs again and again, until it is dropped.
    pub async fn end_overruled_runs(&self, every: Duration, clock: Clock) {
        let mut since = before(clock(), FIRST_LOOK);
        loop {
            let now = clock();
            match self.end_overruled_since(since).await {
                Ok(()) => since = before(now, LISTS_LAG),
                // The next look goes back as far as this one.
                Err(error) => tracing::debug!(%error, "runs that were closed over their heads cannot be looked for"),
            }
            tokio::time::sleep(every).await;
        }
    }

    /// Ends the logs of runs that were closed over their heads since then.
    async fn end_overruled_since(&self, since: Timestamp) -> Result<(), OpsError> {
        let query = format!(
            "WorkflowType = '{RUN_WORKFLOW}' AND ExecutionStatus IN ('Terminated', 'TimedOut', 'Failed') \
             AND CloseTime >= '{}'",
            since.rfc3339()
        );
        let closed = self.client().list_workflows(query, Default::default());
        let closed: BTreeSet<RunId> =
            closed.map_ok(|it| RunId::new(it.id())).try_collect().await.map_err(|error| refused(&error))?;
        let mut outcome = Ok(());
        for run in closed {
            match self.end_if_overruled(&run).await {
                Ok(true) => tracing::warn!(%run, "the run was closed over its head; its log was ended"),
                Ok(false) => {}
                // What cannot be read now cannot be read at the next look either.
                Err(OpsError::Store(error)) if error.kind() == ErrorKind::Corrupt => {
                    tracing::error!(%error, %run, "workflow closed on the server; its terminal event cannot be written");
                }
                // One run that cannot be ended must not keep the others from it.
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// Ends the run's log if its workflow is closed or gone, and says whether it did.
    pub async fn end_if_overruled(&self, run: &RunId) -> Result<bool, OpsError> {
        // Of another deployment, of a time before retention, or ended as it should be.
        let Some(row) = self.store().run(run).await?.filter(|row| row.closed_at.is_none()) else { return Ok(false) };
        let Some(how) = self.overruled(&row).await? else { return Ok(false) };
        self.write_end(&row, &how).await
    }

    /// Writes the end of a run in its place. `false` if the run, or another process, was faster.
    pub(crate) async fn write_end(&self, row: &RunRow, how: &Overruled) -> Result<bool, OpsError> {
        let events = last_events(&self.events(&row.id, 0).await?, how);
        if row.agent_digest.is_none() {
            return Ok(self.store().end_unopened_run(&row.id, how.status(), events).await?);
        }
        let batch = RecordBatch {
            run: row.id.clone(),
            head: TranscriptHead::default(),
            messages: Vec::new(),
            events,
            status: how.status(),
            phase: Phase::Done,
            closes_session_turn: false,
        };
        match self.store().record(batch).await {
            Ok(_) => Ok(true),
            // Somebody else was faster, or a last write of the run arrived after all.
            Err(StoreError::RunClosed { .. } | StoreError::EventConflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// A list may show a run that goes on: one that was reset, or continued.
    async fn overruled(&self, row: &RunRow) -> Result<Option<Overruled>, OpsError> {
        let run = &row.id;
        let described = self.handle(run).describe(Default::default()).await;
        let described = match described.map_err(|error| OpsError::interaction(run, &error)) {
            Err(OpsError::NotFound { .. }) => return Ok(self.was_deleted(row).await?.then_some(Overruled::Deleted)),
            described => described?,
        };
        Ok(match described.status() {
            WorkflowExecutionStatus::Terminated => Some(self.termination(run).await?),
            WorkflowExecutionStatus::TimedOut => Some(Overruled::TimedOut),
            WorkflowExecutionStatus::Failed => match self.result(run).await {
                Err(RunEnd::Failed { code, message }) => Some(Overruled::Failed { code, message }),
                _ => None,
            },
            _ => None,
        })
    }
}

impl RunOps {
    /// Who terminated the run and why, as the last event of its history has it.
    async fn termination(&self, run: &RunId) -> Result<Overruled, OpsError> {
        let closing =
            WorkflowFetchHistoryOptions::builder().event_filter_type(HistoryEventFilterType::CloseEvent).build();
        let history = self.handle(run).fetch_history(closing).into_events().await;
        let history = history.map_err(|error| OpsError::interaction(run, &error))?;
        let attributes = history.into_iter().rev().find_map(|event| event.attributes);
        Ok(match attributes {
            Some(Attributes::WorkflowExecutionTerminatedEventAttributes(ended)) => {
                Overruled::Terminated { by: ended.identity, reason: ended.reason }
            }
            _ => Overruled::Terminated { by: String::new(), reason: String::new() },
        })
    }
}

pub(crate) fn before(now: Timestamp, span: Millis) -> Timestamp {
    Timestamp(now.0.saturating_sub(span.0))
}

fn refused(error: &ClientError) -> OpsError {
    OpsError::Refused { reason: error.to_string() }
}
