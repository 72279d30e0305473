//! Operating runs over a Temporal client and the store: start, inspect, steer, answer, cancel.
//!
//! The command line and the API both use this crate. Authorization and presentation are not here.

mod approvals;
mod closed_externally;
mod durable;
mod error;
mod installation;
mod look;
mod push;
mod repair;
mod start;

use std::sync::Arc;

use serde::Serialize;
use temporalio_client::{Client, WorkflowHandle, errors::WorkflowGetResultError};
use temporalio_common::{data_converters::RawValue, error::IncomingError};
use temporalio_protos::temporal::api::common::v1::Payload;
use tokio::sync::OnceCell;
use windlass_core::{
    awaits::{AwaitView, addressed},
    canonical,
    envelope::{Answer, AnswerReply, CallAnswer, PauseRequest, ResumeRequest, RunOutput, RunStatusView, SteerRequest},
    ids::{InstallationId, RunId, WorkspaceId},
};
use windlass_store::Store;
use windlass_workflows::RunWorkflow;

pub use self::{
    error::{OpsError, RunEnd},
    installation::{Paired, Pairing, PairingError},
    look::{complete, complete_entry},
    start::{StartPlan, StartRun},
};

/// The operations on runs. Cheap to clone.
#[derive(Clone)]
pub struct RunOps {
    client: Client,
    store: Arc<dyn Store>,
    task_queue: String,
    workspace: WorkspaceId,
    /// The store's installation id, cached.
    installation: Arc<OnceCell<InstallationId>>,
    /// Whether each run's installation is checked before a request, because the namespace does not keep the id.
    checks_owners: bool,
}

impl RunOps {
    pub fn new(client: Client, store: Arc<dyn Store>, task_queue: impl Into<String>, workspace: WorkspaceId) -> Self {
        let installation = Arc::default();
        Self { client, store, task_queue: task_queue.into(), workspace, installation, checks_owners: false }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn task_queue(&self) -> &str {
        &self.task_queue
    }

    pub fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    /// The same operations for another workspace.
    #[must_use]
    pub fn in_workspace(&self, workspace: WorkspaceId) -> Self {
        Self { workspace, ..self.clone() }
    }

    /// By workflow id only, because a run continues as new.
    fn handle(&self, run: &RunId) -> WorkflowHandle<Client, RunWorkflow> {
        self.client.get_workflow_handle::<RunWorkflow>(run.to_string())
    }

    /// Fails unless the server has the run's workflow.
    pub async fn exists(&self, run: &RunId) -> Result<(), OpsError> {
        let described = self.handle(run).describe(Default::default()).await;
        described.map(|_| ()).map_err(|error| OpsError::interaction(run, &error))
    }

    /// The status from the run's workflow; `None` until the run is open.
    pub async fn status(&self, run: &RunId) -> Result<Option<RunStatusView>, OpsError> {
        let answered = self.handle(run).query(RunWorkflow::status, (), Default::default()).await;
        answered.map_err(|error| OpsError::query(run, &error))
    }

    /// The open awaits of the run.
    pub async fn awaits(&self, run: &RunId) -> Result<Vec<AwaitView>, OpsError> {
        let answered = self.handle(run).query(RunWorkflow::awaits, (), Default::default()).await;
        answered.map_err(|error| OpsError::query(run, &error))
    }

    /// Answers an await and waits for the run's reply.
    pub async fn answer(&self, run: &RunId, answer: &Answer) -> Result<AnswerReply, OpsError> {
        // A root shows the awaits of its sub-agents.
        let (run, await_id) = addressed(run, &answer.await_id);
        let answer = Answer { await_id, ..answer.clone() };
        self.check_owner(&run).await?;
        let updated = self.handle(&run).execute_update(RunWorkflow::answer, payload(&answer), Default::default()).await;
        updated.map_err(|error| OpsError::update(&run, &error))
    }

    /// Sends the result of one call that is executed outside of the worker, and waits for the run's reply.
    pub async fn tool_result(&self, run: &RunId, answer: &CallAnswer) -> Result<AnswerReply, OpsError> {
        self.check_owner(run).await?;
        let updated =
            self.handle(run).execute_update(RunWorkflow::tool_result, payload(answer), Default::default()).await;
        updated.map_err(|error| OpsError::update(run, &error))
    }

    pub async fn pause(&self, run: &RunId, request: &PauseRequest) -> Result<(), OpsError> {
        self.check_owner(run).await?;
        let sent = self.handle(run).signal(RunWorkflow::pause, payload(request), Default::default()).await;
        sent.map_err(|error| OpsError::interaction(run, &error))
    }

    pub async fn resume(&self, run: &RunId, request: &ResumeRequest) -> Result<(), OpsError> {
        self.check_owner(run).await?;
        let sent = self.handle(run).signal(RunWorkflow::resume, payload(request), Default::default()).await;
        sent.map_err(|error| OpsError::interaction(run, &error))
    }

    pub async fn steer(&self, run: &RunId, request: &SteerRequest) -> Result<(), OpsError> {
        self.check_owner(run).await?;
        let sent = self.handle(run).signal(RunWorkflow::steer, payload(request), Default::default()).await;
        sent.map_err(|error| OpsError::interaction(run, &error))
    }

    /// Cancels a run, also one whose workflow was not started yet.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<(), OpsError> {
        self.check_owner(run).await?;
        let options = temporalio_client::WorkflowCancelOptions::builder().reason(reason.to_owned()).build();
        if self.cancel_unstarted(run, reason).await? {
            return Ok(());
        }
        let sent = self.handle(run).cancel(options).await.map_err(|error| OpsError::interaction(run, &error));
        if let Err(OpsError::NotFound { .. }) = sent {
            self.end_if_closed_externally(run).await?;
        }
        sent
    }

    /// Waits for the end of the run, however often it continues as new.
    pub async fn result(&self, run: &RunId) -> Result<RunOutput, RunEnd> {
        match self.handle(run).get_result(Default::default()).await {
            Ok(output) => Ok(output),
            Err(WorkflowGetResultError::Failed(error)) => Err(RunEnd::Failed {
                code: match &*error {
                    IncomingError::Application(failure) => failure.type_name().unwrap_or_default().to_owned(),
                    _ => String::new(),
                },
                message: error.failure().message.clone(),
            }),
            Err(WorkflowGetResultError::Cancelled { .. }) => Err(RunEnd::Cancelled),
            Err(WorkflowGetResultError::Terminated { .. }) => Err(RunEnd::Terminated),
            Err(error) => Err(RunEnd::Unknown { message: error.to_string() }),
        }
    }
}

/// Any envelope as a raw JSON payload.
fn payload<T: Serialize>(value: &T) -> RawValue {
    RawValue::new(vec![Payload {
        metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
        // Envelopes are built from JSON types only.
        data: canonical::bytes_of(value).unwrap_or_default(),
        ..Payload::default()
    }])
}
