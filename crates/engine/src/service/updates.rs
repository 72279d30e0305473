//! Updates: sent, waited for, asked after; and a start that brings one along.

use std::{sync::Arc, time::Duration};

use temporalio_protos::temporal::api::{
    common::v1::WorkflowExecution,
    enums::v1::{UpdateWorkflowExecutionLifecycleStage as Stage, WorkflowIdConflictPolicy},
    history::v1::history_event::Attributes,
    update::v1::{Outcome, Request, UpdateRef, outcome},
    workflowservice::v1::{
        ExecuteMultiOperationRequest, ExecuteMultiOperationResponse, PollWorkflowExecutionUpdateRequest,
        PollWorkflowExecutionUpdateResponse, StartWorkflowExecutionResponse, UpdateWorkflowExecutionRequest,
        UpdateWorkflowExecutionResponse,
        execute_multi_operation_request::operation::Operation,
        execute_multi_operation_response::{Response, response},
    },
};
use tokio::{sync::watch, time::Instant};

use super::{checks, start, start::Policies};
use crate::{
    core::{Core, Done, Target},
    persist,
    refusal::Refusal,
    run::{
        Run, StartSpec,
        updates::{Progress, aborted_by_closing, hopeless, run_ended_first},
    },
};

/// How long somebody waits before being told how far the update is.
const PATIENCE: Duration = Duration::from_secs(20);
const TAIL_ROOM: Duration = Duration::from_secs(1);
/// How often an update follows its run to the next one of the chain.
const MOVES: usize = 5;

/// An update that was taken in, and the news of it.
struct Followed {
    run_id: String,
    number: i64,
    progress: Progress,
    news: watch::Receiver<Option<Progress>>,
    completed_id: i64,
    running: bool,
}

/// An update that was checked.
struct Update {
    request: Request,
    stage: Stage,
}

impl Core {
    pub(super) async fn update_workflow(
        self: &Arc<Self>,
        request: UpdateWorkflowExecutionRequest,
        timeout: Option<Duration>,
    ) -> Result<UpdateWorkflowExecutionResponse, Refusal> {
        let target = checks::target(&self.read_namespaces(), &request.namespace, request.workflow_execution.clone())?;
        let (update, stage) =
            check(request.request, request.wait_policy.map(|policy| policy.lifecycle_stage()), &self.limits)?;
        let first_run_id = request.first_execution_run_id;
        let deadline = deadline(timeout);
        for _ in 0..MOVES {
            let followed = self.admit(&target, &update, &first_run_id)?;
            let id = update.meta.clone().unwrap_or_default().update_id;
            match self.follow(followed, &id, stage, deadline).await {
                // The run is being replaced by the next one of its chain; the update goes there.
                Err(Refusal::Exhausted { .. }) if target.run_id.is_empty() => {}
                Err(refusal) => return Err(refusal),
                Ok((run_id, reached, outcome)) => {
                    return Ok(response(&target.workflow_id, run_id, &id, reached, outcome));
                }
            }
        }
        Err(Refusal::Unavailable("the run keeps being replaced; try again".to_owned()))
    }

    fn admit(
        self: &Arc<Self>,
        target: &Target,
        update: &Request,
        first_run_id: &str,
    ) -> Result<Done<Followed>, Refusal> {
        self.with_run(target, |run, env| {
            if !first_run_id.is_empty() && run.state.first_run_id != first_run_id {
                return Err(Refusal::not_found("workflow execution not found"));
            }
            let id = update.meta.clone().unwrap_or_default().update_id;
            let news = self.news.update(&run.state.run_id, &id);
            let progress = run.admit_update(env, update.clone())?;
            Ok(followed(run, &id, progress, news))
        })
    }

    pub(super) async fn poll_update(
        self: &Arc<Self>,
        request: PollWorkflowExecutionUpdateRequest,
        timeout: Option<Duration>,
    ) -> Result<PollWorkflowExecutionUpdateResponse, Refusal> {
        let Some(reference) = request.update_ref else {
            return Err(Refusal::invalid("UpdateRef is not set on request."));
        };
        let target = checks::target(&self.read_namespaces(), &request.namespace, reference.workflow_execution)?;
        let stage = request.wait_policy.map_or(Stage::Unspecified, |policy| policy.lifecycle_stage());
        let id = reference.update_id;
        let found = self.with_run(&target, |run, _| {
            let news = self.news.update(&run.state.run_id, &id);
            let progress = run.update_progress(&id).map(|progress| followed(run, &id, progress, news));
            Ok(progress.ok_or_else(|| Refusal::not_found(format!("update \"{id}\" not found"))))
        })?;
        let followed = found.transpose()?;
        let wait_until = if stage == Stage::Unspecified { Instant::now() } else { deadline(timeout) };
        let (run_id, reached, outcome) = self.follow(followed, &id, stage, wait_until).await?;
        let response = response(&target.workflow_id, run_id, &id, reached, outcome);
        Ok(PollWorkflowExecutionUpdateResponse {
            outcome: response.outcome,
            stage: response.stage,
            update_ref: response.update_ref,
        })
    }

    /// Waits until the update is as far as somebody wants it, or for as long as they wait.
    async fn follow(
        self: &Arc<Self>,
        followed: Done<Followed>,
        id: &str,
        wanted: Stage,
        deadline: Instant,
    ) -> Result<(String, Stage, Option<Outcome>), Refusal> {
        // An update that was only admitted leaves nothing to keep.
        let admitted = followed.value.progress == Progress::Admitted;
        let followed = if admitted { followed.value() } else { followed.kept().await? };
        let Followed { run_id, number, mut progress, mut news, completed_id, running } = followed;
        if completed_id != 0 {
            let outcome = self.recorded_outcome(number, completed_id)?;
            return Ok((run_id, Stage::Completed, Some(outcome)));
        }
        if !running && progress == Progress::Accepted {
            return Ok((run_id, Stage::Completed, Some(failed_by_end())));
        }
        loop {
            match progress {
                Progress::Completed(outcome) => return Ok((run_id, Stage::Completed, Some(*outcome))),
                Progress::Aborted(refusal) => return Err(refusal),
                Progress::Unattended => return Ok((run_id, Stage::Accepted, None)),
                Progress::Accepted if wanted != Stage::Completed => return Ok((run_id, Stage::Accepted, None)),
                Progress::Admitted if wanted == Stage::Unspecified => return Ok((run_id, Stage::Admitted, None)),
                Progress::Accepted | Progress::Admitted => {}
            }
            let reached = if progress == Progress::Accepted { Stage::Accepted } else { Stage::Admitted };
            match tokio::time::timeout_at(deadline, news.changed()).await {
                Err(_) => return Ok((run_id, reached, None)),
                Ok(Err(_)) => return Err(Refusal::Unavailable("workflow update was aborted".to_owned())),
                Ok(Ok(())) => {
                    progress = news.borrow_and_update().clone().unwrap_or(Progress::Admitted);
                    tracing::trace!(id, ?progress, "update moved on");
                }
            }
        }
    }

    fn recorded_outcome(&self, run: i64, completed_id: i64) -> Result<Outcome, Refusal> {
        let event = self.read(|sql| persist::event(sql, run, completed_id))?;
        match event.and_then(|event| event.attributes) {
            Some(Attributes::WorkflowExecutionUpdateCompletedEventAttributes(completed)) => {
                Ok(completed.outcome.unwrap_or_default())
            }
            _ => Err(Refusal::Unavailable("the update's outcome is not written yet; try again".to_owned())),
        }
    }

    /// A start and an update in one. A run that ends before it takes the update is no obstacle: another may be started.
    pub(super) async fn execute_multi_operation(
        self: &Arc<Self>,
        request: ExecuteMultiOperationRequest,
        timeout: Option<Duration>,
    ) -> Result<ExecuteMultiOperationResponse, Refusal> {
        let deadline = deadline(timeout);
        let ((spec, policies), update) = self.operations(request)?;
        let ended_first = both(Some(Refusal::Aborted), Some(aborted_by_closing()));
        let mut result = self.start_and_update(spec.clone(), policies, &update, deadline).await;
        if result.as_ref().is_err_and(|refusal| *refusal == ended_first) {
            result = self.start_and_update(spec, policies, &update, deadline).await;
        }
        result.map_err(|refusal| match refusal == ended_first {
            true => both(Some(Refusal::Aborted), Some(Refusal::Overtaken(aborted_by_closing().to_string()))),
            false => refusal,
        })
    }

    /// If the run is there already and may be used, the update goes to it.
    async fn start_and_update(
        self: &Arc<Self>,
        spec: StartSpec,
        policies: Policies,
        update: &Update,
        deadline: Instant,
    ) -> Result<ExecuteMultiOperationResponse, Refusal> {
        let id = update.request.meta.clone().unwrap_or_default().update_id;
        let (namespace, workflow_id) = (spec.namespace.clone(), spec.workflow_id.clone());
        let used = self.usable_run(&spec, policies, &id)?;
        let (started, used) = match used {
            Some(used) => (used, true),
            None => {
                let started = self.start_for_update(spec, policies);
                let started = started.map_err(|refusal| both(Some(refusal), Some(Refusal::Aborted)))?;
                let started = started.kept().await.map_err(|refusal| both(Some(refusal), Some(Refusal::Aborted)))?;
                (start::response(&namespace, &workflow_id, started), false)
            }
        };
        // An update that waits in vain was tried again by then, and found the run it had started.
        let failed = |refusal| both((used || refusal == hopeless()).then_some(Refusal::Aborted), Some(refusal));
        let target = Target::new(&namespace, &workflow_id, &started.run_id);
        let followed = self.admit(&target, &update.request, "").map_err(failed)?;
        let (run_id, reached, outcome) = self.follow(followed, &id, update.stage, deadline).await.map_err(failed)?;
        let answered = response(&workflow_id, run_id, &id, reached, outcome);
        Ok(ExecuteMultiOperationResponse {
            responses: vec![
                Response { response: Some(response::Response::StartWorkflow(started)) },
                Response { response: Some(response::Response::UpdateWorkflow(answered)) },
            ],
        })
    }

    /// The run that the update can go to without a start: one that is to be used, or knows the update.
    fn usable_run(
        self: &Arc<Self>,
        spec: &StartSpec,
        policies: Policies,
        update_id: &str,
    ) -> Result<Option<StartWorkflowExecutionResponse>, Refusal> {
        let target = Target::new(&spec.namespace, &spec.workflow_id, "");
        let found = self.with_run(&target, |run, _| {
            let state = &run.state;
            let answered = state.updates.get(update_id).is_some_and(|record| record.completed_id != 0);
            let usable = state.is_running()
                && (state.create_request_id == spec.request_id
                    || run.update_progress(update_id).is_some()
                    || policies.conflict == WorkflowIdConflictPolicy::UseExisting);
            Ok((answered || usable).then(|| StartWorkflowExecutionResponse {
                run_id: state.run_id.clone(),
                status: state.status,
                link: usable.then(|| start::started_link(&spec.namespace, &spec.workflow_id, &state.run_id)),
                ..StartWorkflowExecutionResponse::default()
            }))
        });
        match found {
            Ok(done) => Ok(done.value()),
            Err(Refusal::NotFound(_)) => Ok(None),
            Err(refusal) => Err(both(Some(refusal), Some(Refusal::Aborted))),
        }
    }

    /// Both operations, each checked for itself.
    fn operations(&self, request: ExecuteMultiOperationRequest) -> Result<((StartSpec, Policies), Update), Refusal> {
        self.read_namespaces().named(&request.namespace)?;
        let count = request.operations.len();
        let mut operations = request.operations.into_iter().map(|operation| operation.operation);
        let (Some(Operation::StartWorkflow(mut start)), Some(Operation::UpdateWorkflow(mut update)), 2) =
            (operations.next().flatten(), operations.next().flatten(), count)
        else {
            return Err(Refusal::invalid("Operations have to be exactly [Start, Update]."));
        };
        for namespace in [&mut start.namespace, &mut update.namespace] {
            if namespace.is_empty() {
                namespace.clone_from(&request.namespace);
            }
        }
        let mismatch = || Refusal::invalid("Operation namespace did not match request's namespace.");
        let workflow_id = start.workflow_id.clone();
        let start = if start.namespace == request.namespace { self.spec_for_update(start) } else { Err(mismatch()) };
        let update = match &start {
            _ if update.namespace != request.namespace => Err(mismatch()),
            Ok(_) => self.update_for_start(update, Some(&workflow_id)),
            Err(_) => self.update_for_start(update, None),
        };
        match (start, update) {
            (Ok(start), Ok(update)) => Ok((start, update)),
            (start, update) => {
                let aborted = |refusal: Option<Refusal>| Some(refusal.unwrap_or(Refusal::Aborted));
                Err(both(aborted(start.err()), aborted(update.err())))
            }
        }
    }

    fn update_for_start(
        &self,
        update: UpdateWorkflowExecutionRequest,
        workflow_id: Option<&str>,
    ) -> Result<Update, Refusal> {
        let target = checks::target(&self.read_namespaces(), &update.namespace, update.workflow_execution)?;
        let stage = update.wait_policy.map(|policy| policy.lifecycle_stage());
        let (request, stage) = check(update.request, stage, &self.limits)?;
        if !update.first_execution_run_id.is_empty() {
            return Err(Refusal::invalid("FirstExecutionRunId is not allowed."));
        }
        if !target.run_id.is_empty() {
            return Err(Refusal::invalid("RunId is not allowed."));
        }
        if workflow_id.is_some_and(|id| id != target.workflow_id) {
            return Err(Refusal::invalid("WorkflowId is not consistent with previous operation(s)."));
        }
        Ok(Update { request, stage })
    }
}

/// What came of each operation; `None` if all is well with it.
fn both(start: Option<Refusal>, update: Option<Refusal>) -> Refusal {
    let outcomes = [start, update];
    let at_fault = outcomes.iter().flatten().find(|refusal| **refusal != Refusal::Aborted);
    let code = at_fault.map_or(tonic::Code::Unknown, Refusal::code);
    Refusal::MultiOperation { code: code as i32, outcomes: outcomes.into() }
}

fn check(
    request: Option<Request>,
    stage: Option<Stage>,
    limits: &crate::limits::Limits,
) -> Result<(Request, Stage), Refusal> {
    let mut request = request.unwrap_or_default();
    let Some(meta) = &mut request.meta else { return Err(Refusal::invalid("Update meta is not set on request.")) };
    if meta.update_id.len() > limits.id_length {
        return Err(Refusal::invalid("UpdateId length exceeds limit."));
    }
    if meta.update_id.is_empty() {
        meta.update_id = uuid::Uuid::new_v4().to_string();
    }
    let Some(input) = &request.input else { return Err(Refusal::invalid("Update input is not set on request.")) };
    if input.name.is_empty() {
        return Err(Refusal::invalid("Update name is not set on request."));
    }
    checks::blob(input.args.as_ref(), limits)?;
    match stage.unwrap_or(Stage::Unspecified) {
        Stage::Admitted => Err(Refusal::PermissionDenied(
            "UpdateWorkflowExecution issued asynchronously and waiting on update admitted is not supported.".to_owned(),
        )),
        Stage::Unspecified => Ok((request, Stage::Accepted)),
        stage => Ok((request, stage)),
    }
}

fn followed(run: &Run, id: &str, progress: Progress, news: watch::Receiver<Option<Progress>>) -> Followed {
    Followed {
        run_id: run.state.run_id.clone(),
        number: run.number,
        progress,
        news,
        completed_id: run.state.updates.get(id).map_or(0, |record| record.completed_id),
        running: run.state.is_running(),
    }
}

fn deadline(timeout: Option<Duration>) -> Instant {
    let wait = timeout.map_or(PATIENCE, |timeout| timeout.saturating_sub(TAIL_ROOM).min(PATIENCE));
    Instant::now() + wait
}

fn failed_by_end() -> Outcome {
    Outcome { value: Some(outcome::Value::Failure(run_ended_first())) }
}

fn response(
    workflow_id: &str,
    run_id: String,
    update_id: &str,
    stage: Stage,
    outcome: Option<Outcome>,
) -> UpdateWorkflowExecutionResponse {
    UpdateWorkflowExecutionResponse {
        update_ref: Some(UpdateRef {
            workflow_execution: Some(WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id }),
            update_id: update_id.to_owned(),
        }),
        outcome,
        stage: stage as i32,
        ..UpdateWorkflowExecutionResponse::default()
    }
}
