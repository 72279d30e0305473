//! Starting a run.

use serde_json::Value;
use temporalio_client::{WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions};
use temporalio_common::{MemoValues, search_attributes::SearchAttributes};
use temporalio_protos::temporal::api::common::v1::Payload;
use windlass_core::{
    agent::AgentDefinition,
    canonical,
    envelope::{Actor, Extra, GuardOverrides, Labels, PolicyOverrides, RunInput, Tuning, WorkflowOptions},
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
    pub metadata: Extra,
    pub policy: Option<PolicyOverrides>,
    pub guards: Option<GuardOverrides>,
    pub tuning: Option<Tuning>,
    /// Task queue, memo, search attributes and retry policy of the workflow.
    pub workflow_options: Option<WorkflowOptions>,
    /// Who starts it; a call that needs a second person is not theirs to approve.
    pub started_by: Option<Actor>,
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
            metadata: Extra::new(),
            policy: None,
            guards: None,
            tuning: None,
            workflow_options: None,
            started_by: None,
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
        input.metadata = start.metadata;
        input.policy = start.policy;
        input.guards = start.guards;
        input.tuning = start.tuning;
        input.started_by = start.started_by;
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
        input.workflow_options = start.workflow_options;
        let wanted = input.workflow_options.clone().unwrap_or_default();
        if wanted.retry_policy.is_some() {
            let message = "a run is not retried as a whole; leave retryPolicy out and start another run if one fails";
            return Err(OpsError::Input(message.to_owned()));
        }
        let mut memo = MemoValues::new();
        for (key, value) in &wanted.memo {
            memo.insert(key, value.clone());
        }
        let task_queue = wanted.task_queue.clone().unwrap_or_else(|| self.task_queue.clone());
        let options = WorkflowStartOptions::new(task_queue, start.run_id.to_string())
            .id_conflict_policy(WorkflowIdConflictPolicy::Fail)
            .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
            .search_attributes(search_attributes(&input, &wanted)?)
            .memo(memo)
            .static_summary(format!("agent {}", input.agent_id))
            .build();
        let started = self.client.start_workflow(RunWorkflow::run, input, options).await;
        started.map_err(|error| OpsError::start(&start.run_id, &error))?;
        Ok(start.run_id)
    }
}

/// The run's own search attributes and the caller's, typed by their values.
fn search_attributes(input: &RunInput, wanted: &WorkflowOptions) -> Result<SearchAttributes, OpsError> {
    let mut all = attributes::of_start(input).into_proto();
    for (name, value) in &wanted.search_attributes {
        let kind = match value {
            Value::String(_) => "Keyword",
            Value::Bool(_) => "Bool",
            Value::Number(number) if number.is_f64() => "Double",
            Value::Number(_) => "Int",
            _ => return Err(OpsError::Input(format!("search attribute {name} must be a string, number or boolean"))),
        };
        let metadata = [("encoding", "json/plain"), ("type", kind)];
        let payload = Payload {
            metadata: metadata.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec())).into(),
            data: canonical::to_bytes(value),
            ..Payload::default()
        };
        all.indexed_fields.insert(name.clone(), payload);
    }
    Ok(all.into())
}
