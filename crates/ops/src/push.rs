//! Push notifications: one workflow for each config, which sends the updates of its run.

use temporalio_client::{UntypedWorkflow, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions};
use windlass_core::{
    envelope::{PushCursor, PushInput, VERSION},
    ids::RunId,
};
use windlass_workflows::PushWorkflow;

use super::{OpsError, RunOps};

impl RunOps {
    /// Starts to send updates of a run, from the cursor on. If they are being sent already, that goes on.
    pub async fn start_push(&self, run: &RunId, config: &str, cursor: PushCursor) -> Result<(), OpsError> {
        let input = PushInput {
            v: VERSION,
            run_id: run.clone(),
            config_id: config.to_owned(),
            cursor,
            installation: Some(self.installation().await?),
        };
        let options = WorkflowStartOptions::new(self.task_queue.clone(), PushInput::workflow_id(run, config))
            .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
            .id_reuse_policy(WorkflowIdReusePolicy::AllowDuplicate)
            .static_summary(format!("push notifications of {run}"))
            .build();
        let started = self.client.start_workflow(PushWorkflow::run, input, options).await;
        started.map(|_| ()).map_err(|error| OpsError::start(run, &error))
    }

    /// Ends the workflow of a config. Without its config it would end by itself, a little later.
    pub async fn cancel_push(&self, run: &RunId, config: &str) -> Result<(), OpsError> {
        let handle = self.client.get_workflow_handle::<UntypedWorkflow>(PushInput::workflow_id(run, config));
        match handle.cancel(Default::default()).await.map_err(|error| OpsError::interaction(run, &error)) {
            Err(OpsError::NotFound { .. }) => Ok(()),
            cancelled => cancelled,
        }
    }
}
