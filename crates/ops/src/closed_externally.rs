//! Runs whose workflows were closed on the server: terminated, timed out or deleted. Writes their terminal events.
//!
//! One list request finds them all, however many runs are open. Any number
//! of processes may do this at the same time: a log takes one terminal event.

use std::{collections::BTreeSet, time::Duration};

use futures_util::TryStreamExt as _;
use temporalio_client::{
    HistoryEventFilterType, WorkflowExecutionStatus, WorkflowFetchHistoryOptions, errors::ClientError,
};
use temporalio_protos::temporal::api::history::v1::history_event::Attributes;
use windlass_core::{
    closed_externally::{ExternalClosure, last_events},
    envelope::TranscriptHead,
    ids::RunId,
    run::Phase,
    time::{Millis, Timestamp},
};
use windlass_store::{Clock, ErrorKind, RecordBatch, RunRow, StoreError};
use windlass_workflows::contract::RUN_WORKFLOW;

use super::{OpsError, RunEnd, RunOps};

/// How far the first list request goes back, for runs that were closed while no API server was running.
const FIRST_LOOK: Millis = Millis::from_secs(24 * 60 * 60);
/// How long it may take until lists show a closed run.
const LISTS_LAG: Millis = Millis::from_secs(120);

impl RunOps {
    /// Looks for such runs repeatedly, until it is dropped.
    pub async fn end_externally_closed_runs(&self, every: Duration, clock: Clock) {
        let mut since = before(clock(), FIRST_LOOK);
        loop {
            let now = clock();
            match self.end_externally_closed_since(since).await {
                Ok(()) => since = before(now, LISTS_LAG),
                // The next look goes back as far as this one.
                Err(error) => tracing::debug!(%error, "cannot list runs whose workflows were closed on the server"),
            }
            tokio::time::sleep(every).await;
        }
    }

    /// Writes the terminal events of runs whose workflows were closed on the server since then.
    async fn end_externally_closed_since(&self, since: Timestamp) -> Result<(), OpsError> {
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
            match self.end_if_closed_externally(&run).await {
                Ok(true) => tracing::warn!(%run, "workflow closed on the server; wrote the terminal event"),
                Ok(false) => {}
                // A repeat would fail the same way.
                Err(OpsError::Store(error)) if error.kind() == ErrorKind::Corrupt => {
                    tracing::error!(%error, %run, "workflow closed on the server; its terminal event cannot be written");
                }
                // A failure for one run must not stop the others.
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// Writes the run's terminal event if its workflow was closed on the server or deleted. Returns whether it did.
    pub async fn end_if_closed_externally(&self, run: &RunId) -> Result<bool, OpsError> {
        // Not in this store, or it has ended properly.
        let Some(row) = self.store().run(run).await?.filter(|row| row.closed_at.is_none()) else { return Ok(false) };
        let Some(how) = self.external_closure(&row).await? else { return Ok(false) };
        self.write_end(&row, &how).await
    }

    /// Writes the terminal event of a run. `false` if the run or another process wrote it first.
    pub(crate) async fn write_end(&self, row: &RunRow, how: &ExternalClosure) -> Result<bool, OpsError> {
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
            // Another process, or the run itself, wrote it first.
            Err(StoreError::RunClosed { .. } | StoreError::EventConflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// How the run's workflow was closed. `None` if it is open: a list may show a run that was reset or continued as new.
    async fn external_closure(&self, row: &RunRow) -> Result<Option<ExternalClosure>, OpsError> {
        let run = &row.id;
        let described = self.handle(run).describe(Default::default()).await;
        let described = match described.map_err(|error| OpsError::interaction(run, &error)) {
            Err(OpsError::NotFound { .. }) => {
                return Ok(self.was_deleted(row).await?.then_some(ExternalClosure::Deleted));
            }
            described => described?,
        };
        Ok(match described.status() {
            WorkflowExecutionStatus::Terminated => Some(self.termination(run).await?),
            WorkflowExecutionStatus::TimedOut => Some(ExternalClosure::TimedOut),
            WorkflowExecutionStatus::Failed => match self.result(run).await {
                Err(RunEnd::Failed { code, message }) => Some(ExternalClosure::Failed { code, message }),
                _ => None,
            },
            _ => None,
        })
    }
}

impl RunOps {
    /// Who terminated the run and why, from the last event of its history.
    async fn termination(&self, run: &RunId) -> Result<ExternalClosure, OpsError> {
        let closing =
            WorkflowFetchHistoryOptions::builder().event_filter_type(HistoryEventFilterType::CloseEvent).build();
        let history = self.handle(run).fetch_history(closing).into_events().await;
        let history = history.map_err(|error| OpsError::interaction(run, &error))?;
        let attributes = history.into_iter().rev().find_map(|event| event.attributes);
        Ok(match attributes {
            Some(Attributes::WorkflowExecutionTerminatedEventAttributes(ended)) => {
                ExternalClosure::Terminated { by: ended.identity, reason: ended.reason }
            }
            _ => ExternalClosure::Terminated { by: String::new(), reason: String::new() },
        })
    }
}

pub(crate) fn before(now: Timestamp, span: Millis) -> Timestamp {
    Timestamp(now.0.saturating_sub(span.0))
}

fn refused(error: &ClientError) -> OpsError {
    OpsError::Refused { reason: error.to_string() }
}
