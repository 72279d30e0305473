//! Starting a run.

use temporalio_client::{WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions};
use windlass_core::{
    agent::AgentDefinition,
    canonical,
    envelope::{GuardOverrides, Labels, PolicyOverrides, RunInput, Tuning},
    ids::{AgentId, RunId, SessionId},
    message::Message,
};
use windlass_workflows::{RunWorkflow, attributes};

use super::{OpsError, RunOps};

/// What to start.
#[derive(Debug, Clone)]
pub struct StartRun {
    pub run_id: RunId,
    pub agent_id: AgentId,
    /// The exact definition; without it the worker's own agent of that id is used.
    pub definition: Option<AgentDefinition>,
    pub messages: Vec<Message>,
    pub session_id: Option<SessionId>,
    pub model_id: Option<String>,
    pub labels: Labels,
    pub policy: Option<PolicyOverrides>,
    pub guards: Option<GuardOverrides>,
    pub tuning: Option<Tuning>,
}

impl StartRun {
    /// A run of this definition with one user message.
    pub fn new(definition: AgentDefinition, prompt: impl Into<String>) -> Self {
        Self::of(definition.id.clone(), Some(definition), prompt)
    }

    /// A run of this agent with one user message and an id that sorts by time.
    pub fn of(agent_id: AgentId, definition: Option<AgentDefinition>, prompt: impl Into<String>) -> Self {
        Self {
            run_id: RunId::new(format!("run-{}", uuid::Uuid::now_v7().simple())),
            agent_id,
            definition,
            messages: vec![Message::user(prompt)],
            session_id: None,
            model_id: None,
            labels: Labels::new(),
            policy: None,
            guards: None,
            tuning: None,
        }
    }
}

impl RunOps {
    /// Starts a run. Its definition and large messages go into the store; the history gets their digests.
    pub async fn start(&self, start: StartRun) -> Result<RunId, OpsError> {
        let mut input = RunInput::new(start.agent_id, start.run_id.clone());
        input.workspace = Some(self.workspace.clone());
        input.session_id = start.session_id;
        input.model_id = start.model_id;
        input.labels = start.labels;
        input.policy = start.policy;
        input.guards = start.guards;
        input.tuning = start.tuning;
        if let Some(definition) = &start.definition {
            let body = serde_json::to_value(definition).map_err(|error| OpsError::Input(error.to_string()))?;
            input.agent_digest = Some(self.store.put_blob(body).await?.digest);
        }
        let messages = serde_json::to_value(&start.messages).map_err(|error| OpsError::Input(error.to_string()))?;
        let limit = input.tuning.clone().unwrap_or_default().inline_limit();
        if canonical::to_bytes(&messages).len() as u64 > limit {
            input.messages_ref = Some(self.store.put_blob(messages).await?);
        } else {
            input.messages = start.messages;
        }
        let options = WorkflowStartOptions::new(self.task_queue.clone(), start.run_id.to_string())
            .id_conflict_policy(WorkflowIdConflictPolicy::Fail)
            .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
            .search_attributes(attributes::of_start(&input))
            .static_summary(format!("agent {}", input.agent_id))
            .build();
        let started = self.client.start_workflow(RunWorkflow::run, input, options).await;
        started.map_err(|error| OpsError::start(&start.run_id, &error))?;
        Ok(start.run_id)
    }
}
