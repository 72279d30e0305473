//! Starting a run: first the start is checked and written as a start plan, then the plan is executed, with repeats.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use temporalio_client::{
    WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions, errors::WorkflowStartError,
};
use temporalio_common::{MemoValues, search_attributes::SearchAttributes};
use temporalio_protos::temporal::api::common::v1::Payload;
use windlass_core::{
    agent::AgentDefinition,
    body::Body,
    canonical::{self, CanonicalJson, Digest},
    envelope::{Actor, Extra, GuardOverrides, Labels, PolicyOverrides, RunInput, Tuning, WorkflowOptions},
    ids::{AgentId, RunId, SessionId},
    message::{Message, detach_files},
};
use windlass_workflows::{RunWorkflow, attributes};

use super::{OpsError, RunOps};

/// The memo with the token of the start plan that a workflow was started from.
const START: &str = "windlass.start";

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
    /// Who starts it. With four eyes, this actor may not approve a call.
    pub started_by: Option<Actor>,
}

impl StartRun {
    /// A run of this definition with one user message.
    pub fn new(definition: AgentDefinition, prompt: impl Into<String>) -> Self {
        Self::of(definition.id.clone(), Some(definition), prompt)
    }

    /// An id that sorts by time.
    pub fn new_id() -> RunId {
        RunId::new(format!("run-{}", uuid::Uuid::now_v7().simple()))
    }

    /// A run of this agent with one user message and an id that sorts by time.
    pub fn of(agent_id: AgentId, definition: Option<AgentDefinition>, prompt: impl Into<String>) -> Self {
        Self {
            run_id: Self::new_id(),
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

/// A start that any process can execute. Executing it twice starts one workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartPlan {
    /// Workflows that were started from this plan have it in their memo; another workflow with the same id does not.
    token: String,
    task_queue: String,
    input: RunInput,
}

impl RunOps {
    /// Starts a run. A repeat of the same start returns the run of the first one.
    pub async fn start(&self, start: StartRun) -> Result<RunId, OpsError> {
        let mut plan = self.plan(start).await?;
        // This plan is not stored, so its token is a digest that a repeat has, too.
        let digest = Digest::of(&plan.input).map_err(|error| OpsError::Input(error.to_string()))?;
        plan.token = digest.to_string().chars().take(32).collect();
        self.carry_out(&plan).await?;
        Ok(plan.input.run_id)
    }

    /// Checks a start and makes its plan. The definition, large files and large messages go into the store; the plan, and
    /// later the history, get their digests.
    pub async fn plan(&self, mut start: StartRun) -> Result<StartPlan, OpsError> {
        let mut input = RunInput::new(start.agent_id, start.run_id.clone());
        input.workspace = Some(self.workspace.clone());
        input.installation = Some(self.installation().await?);
        input.session_id = start.session_id;
        input.model_id = start.model_id;
        input.labels = start.labels;
        input.metadata = start.metadata;
        input.policy = start.policy;
        input.guards = start.guards;
        let mut tuning = start.tuning.unwrap_or_default();
        let limit = *tuning.inline_limit_bytes.get_or_insert(Tuning::INLINE_LIMIT_OF_NEW_RUNS);
        input.tuning = Some(tuning);
        input.started_by = start.started_by;
        if let Some(definition) = &start.definition {
            let body = CanonicalJson::of(definition).map_err(|error| OpsError::Input(error.to_string()))?;
            input.agent_digest = Some(self.store.put_blob(body).await?.digest);
        }
        for message in &mut start.messages {
            for file in detach_files(&mut message.parts, limit) {
                self.store.put_blob(file).await?;
            }
        }
        let messages = CanonicalJson::of(&start.messages).map_err(|error| OpsError::Input(error.to_string()))?;
        match Body::fit(messages, limit) {
            (_, Some(large)) => input.messages_ref = Some(self.store.put_blob(large).await?),
            (_, None) => input.messages = start.messages,
        }
        input.workflow_options = start.workflow_options;
        let wanted = input.workflow_options.clone().unwrap_or_default();
        if wanted.retry_policy.is_some() {
            let message = "a run has no retry policy of its own; omit retryPolicy, and start another run if one fails";
            return Err(OpsError::Input(message.to_owned()));
        }
        search_attributes(&input, &wanted)?;
        let task_queue = wanted.task_queue.unwrap_or_else(|| self.task_queue.clone());
        Ok(StartPlan { token: uuid::Uuid::new_v4().simple().to_string(), task_queue, input })
    }

    /// Starts the workflow of a plan, unless that was done before.
    pub async fn carry_out(&self, plan: &StartPlan) -> Result<(), OpsError> {
        let StartPlan { token, task_queue, input } = plan;
        let wanted = input.workflow_options.clone().unwrap_or_default();
        let mut memo = MemoValues::new();
        for (key, value) in &wanted.memo {
            memo.insert(key, value.clone());
        }
        memo.insert(START, token.clone());
        if let Some(installation) = &input.installation {
            memo.insert(attributes::INSTALLATION, installation.to_string());
        }
        let options = WorkflowStartOptions::new(task_queue.clone(), input.run_id.to_string())
            .id_conflict_policy(WorkflowIdConflictPolicy::Fail)
            .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
            .search_attributes(search_attributes(input, &wanted)?)
            .memo(memo)
            .static_summary(format!("agent {}", input.agent_id))
            .build();
        match self.client.start_workflow(RunWorkflow::run, input.clone(), options).await {
            Ok(_) => Ok(()),
            Err(WorkflowStartError::AlreadyStarted { .. }) if self.was_started_from(plan).await? => Ok(()),
            Err(error) => Err(OpsError::start(&input.run_id, &error)),
        }
    }

    /// Whether there is a workflow of this plan.
    pub(crate) async fn was_started_from(&self, plan: &StartPlan) -> Result<bool, OpsError> {
        let run = &plan.input.run_id;
        match self.memo(run, START).await {
            Ok(token) => Ok(token.as_ref() == Some(&plan.token)),
            Err(OpsError::NotFound { .. }) => Ok(false),
            Err(error) => Err(OpsError::Unsettled { run: run.clone(), reason: error.to_string() }),
        }
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
