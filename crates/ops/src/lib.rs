//! Operating runs: start, look, steer, answer, cancel. Straight over Temporal and the store.
//!
//! The command line and the API both operate runs through here. What does not live here: who may do what, and how it is
//! shown.

mod durable;
mod error;
mod installation;
mod look;
mod overruled;
mod repair;
mod start;

use std::sync::Arc;

use serde::Serialize;
use temporalio_client::{Client, WorkflowHandle, errors::WorkflowGetResultError};
use temporalio_common::{data_converters::RawValue, error::IncomingError};
use temporalio_protos::temporal::api::common::v1::Payload;
use tokio::sync::OnceCell;
use windlass_core::{
    awaits::AwaitView,
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

/// A cheap handle to everything an operator does.
#[derive(Clone)]
pub struct RunOps {
    client: Client,
    store: Arc<dyn Store>,
    task_queue: String,
    workspace: WorkspaceId,
    /// The store's, once it was asked for.
    installation: Arc<OnceCell<InstallationId>>,
    /// Whether a run is asked whose it is before it is told something: the server does not keep that otherwise.
    wary: bool,
}

impl RunOps {
    pub fn new(client: Client, store: Arc<dyn Store>, task_queue: impl Into<String>, workspace: WorkspaceId) -> Self {
        let installation = Arc::default();
        Self { client, store, task_queue: task_queue.into(), workspace, installation, wary: false }
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

    /// The same for runs of another workspace.
    #[must_use]
    pub fn in_workspace(&self, workspace: WorkspaceId) -> Self {
        Self { workspace, ..self.clone() }
    }

    /// By workflow id only: a run continues as new and its handle must follow.
    fn handle(&self, run: &RunId) -> WorkflowHandle<Client, RunWorkflow> {
        self.client.get_workflow_handle::<RunWorkflow>(run.to_string())
    }

    /// Fails unless the server knows the run, opened by a worker or not.
    pub async fn exists(&self, run: &RunId) -> Result<(), OpsError> {
        let described = self.handle(run).describe(Default::default()).await;
        described.map(|_| ()).map_err(|error| OpsError::interaction(run, &error))
    }

    /// The run's state as its workflow sees it; `None` while it is only starting.
    pub async fn status(&self, run: &RunId) -> Result<Option<RunStatusView>, OpsError> {
        let answered = self.handle(run).query(RunWorkflow::status, (), Default::default()).await;
        answered.map_err(|error| OpsError::query(run, &error))
    }

    /// What the run waits for.
    pub async fn awaits(&self, run: &RunId) -> Result<Vec<AwaitView>, OpsError> {
        let answered = self.handle(run).query(RunWorkflow::awaits, (), Default::default()).await;
        answered.map_err(|error| OpsError::query(run, &error))
    }

    /// Answers an await and waits for the run's reply.
    pub async fn answer(&self, run: &RunId, answer: &Answer) -> Result<AnswerReply, OpsError> {
        self.check_owner(run).await?;
        let updated = self.handle(run).execute_update(RunWorkflow::answer, payload(answer), Default::default()).await;
        updated.map_err(|error| OpsError::update(run, &error))
    }

    /// Gives the result of one call that somebody outside executes, and waits for the run's reply.
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

    /// Stops a run for good, also one whose workflow was not started yet.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<(), OpsError> {
        self.check_owner(run).await?;
        let options = temporalio_client::WorkflowCancelOptions::builder().reason(reason.to_owned()).build();
        if self.cancel_unstarted(run, reason).await? {
            return Ok(());
        }
        let sent = self.handle(run).cancel(options).await.map_err(|error| OpsError::interaction(run, &error));
        if let Err(OpsError::NotFound { .. }) = sent {
            self.end_if_overruled(run).await?;
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
