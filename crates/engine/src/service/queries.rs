//! Queries. They are sent to the worker with the pending workflow task or, without one, as a query task.

use std::{sync::Arc, time::Duration};

use temporalio_protos::temporal::api::{
    enums::v1::{
        QueryRejectCondition, QueryResultType, WorkerDeploymentVersionStatus as Status, WorkflowExecutionStatus,
    },
    query::v1::{QueryRejected, WorkflowQuery},
    workflowservice::v1::{
        QueryWorkflowRequest, QueryWorkflowResponse, RespondQueryTaskCompletedRequest,
        RespondQueryTaskCompletedResponse,
    },
};
use tokio::{sync::oneshot, time::Instant};

use super::checks;
use crate::{
    core::{Core, Target, TaskQueue, unavailable},
    deployments::Place,
    queues::{Kind, QueueKey, Task},
    registry::RunKey,
    run::{
        Run, RunState,
        queries::{PendingQuery, QueryAnswer},
    },
    service_error::ServiceError,
    time::{Nanos, SECOND},
    token::TaskToken,
};

/// How long a query waits if the request has no deadline.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long the sticky worker may take before the normal queue is tried.
const STICKY_TIMEOUT: Duration = Duration::from_secs(10);
/// A version has workers if one has polled for it in this time.
const POLLED: Nanos = 5 * 60 * SECOND;
const STICKY_SEEN: Nanos = 10 * SECOND;
/// A query that timed out reports a missing worker if none has polled for this long.
const WORKER_SEEN: Nanos = 20 * SECOND;
/// Time for the response to reach the client before its deadline.
const TAIL_ROOM: Duration = Duration::from_secs(1);
/// A workflow task that failed this often will not carry a query.
const FAILING_ATTEMPT: i32 = 3;

/// How a query is sent to the worker.
enum Way {
    Rejected(WorkflowExecutionStatus),
    WithTask { run_id: String, answer: oneshot::Receiver<QueryAnswer> },
    Directly { run_id: String, sticky: Option<String>, queue: QueueKey },
}

impl Core {
    pub(super) async fn query_workflow(
        self: &Arc<Self>,
        request: QueryWorkflowRequest,
        timeout: Option<Duration>,
    ) -> Result<QueryWorkflowResponse, ServiceError> {
        let deadline = Instant::now() + timeout.unwrap_or(TIMEOUT);
        let target = checks::target(&self.read_namespaces(), &request.namespace, request.execution.clone())?;
        let condition = request.query_reject_condition();
        let Some(query) = request.query else {
            return Err(ServiceError::invalid("WorkflowQuery is not set on request."));
        };
        if query.query_type.is_empty() {
            return Err(ServiceError::invalid("QueryType is not set on request."));
        }
        let answer = self.ask_run(target, condition, query, deadline).await?;
        // A local worker may answer from state that is not durable yet, so the response waits for it.
        self.database.synced().await.map_err(|error| unavailable(&error))?;
        Ok(answer)
    }

    async fn ask_run(
        self: &Arc<Self>,
        mut target: Target,
        mut condition: QueryRejectCondition,
        query: WorkflowQuery,
        deadline: Instant,
    ) -> Result<QueryWorkflowResponse, ServiceError> {
        loop {
            let (run_id, answer) = match self.choose_way(&target, condition, &query)? {
                Way::Rejected(status) => {
                    return Ok(QueryWorkflowResponse {
                        query_rejected: Some(QueryRejected { status: status as i32 }),
                        ..QueryWorkflowResponse::default()
                    });
                }
                Way::Directly { run_id, sticky, queue } => {
                    return self.ask_directly(&target, &run_id, sticky, queue, query, deadline).await;
                }
                Way::WithTask { run_id, answer } => (run_id, answer),
            };
            match tokio::time::timeout_at(deadline, answer).await {
                Err(_) => return Err(late()),
                // The query was for this run, even if another one is current now.
                Ok(Ok(QueryAnswer::AskDirectly)) | Ok(Err(_)) => {
                    target.run_id = run_id;
                    condition = QueryRejectCondition::None;
                }
                Ok(Ok(QueryAnswer::AskAgain)) => {}
                Ok(Ok(answer)) => return respond(answer),
            }
        }
    }

    fn choose_way(
        self: &Arc<Self>,
        target: &Target,
        condition: QueryRejectCondition,
        query: &WorkflowQuery,
    ) -> Result<Way, ServiceError> {
        // A rejected query does not change the run.
        self.with_run(target, |run, _| Ok(self.way(run, condition, query)))?.value()
    }

    fn way(&self, run: &mut Run, condition: QueryRejectCondition, query: &WorkflowQuery) -> Result<Way, ServiceError> {
        let status = WorkflowExecutionStatus::try_from(run.state.status).unwrap_or_default();
        if rejects(condition, status) {
            return Ok(Way::Rejected(status));
        }
        let not_ready = |why: &str| Err(ServiceError::WorkflowNotReady(why.to_owned()));
        let decided_once = run.state.previous_started_id > 0;
        if !run.state.is_running() && !decided_once {
            return not_ready("Workflow execution closed before WorkflowTaskStarted event");
        }
        if run.state.task_attempt >= FAILING_ATTEMPT {
            return not_ready("Unable to query workflow due to Workflow Task in failed state.");
        }
        if run.can_ask_directly() && decided_once {
            let state = &run.state;
            let key = RunKey::new(&state.namespace, &state.workflow_id, &state.run_id);
            let queue = self.queue_of(&key, state, &state.task_queue, Kind::Workflow);
            self.check_drained(state, &queue)?;
            let sticky = run.memory.sticky.as_ref().filter(|sticky| {
                let here = TaskQueue { name: &sticky.queue, kind: Kind::Workflow, sticky: true };
                self.routing(state, here).is_none_or(|routing| routing.place != Place::NotSticky)
            });
            return Ok(Way::Directly {
                run_id: state.run_id.clone(),
                sticky: sticky.map(|sticky| sticky.queue.clone()),
                queue,
            });
        }
        self.join_task(run, query)
    }

    /// A run that is pinned to a version without workers cannot answer.
    fn check_drained(&self, state: &RunState, queue: &QueueKey) -> Result<(), ServiceError> {
        let Some(version) = &queue.version else { return Ok(()) };
        let deployment = self.deployments.get(&state.namespace, &version.deployment).unwrap_or_default();
        let drained = deployment.versions.get(&version.build_id).is_some_and(|it| it.status() == Status::Drained);
        let polled = || {
            let versions = self.queues.versions(queue).into_iter();
            let keys = versions.map(|version| QueueKey { version, ..queue.clone() });
            keys.into_iter().any(|key| !self.queues.pollers(&key, self.now() - POLLED).is_empty())
        };
        if !drained || polled() {
            return Ok(());
        }
        let build = &version.build_id;
        Err(ServiceError::FailedPrecondition(format!(
            "You are trying to query a closed Workflow that is PINNED to Worker Deployment Version {build}, but {build} \
             is drained and has no pollers to answer the query. Immediately: You can re-deploy Workers in this \
             Deployment Version to take those queries, or you can workflow update-options to change your workflow to \
             AUTO_UPGRADE. For the future: In your infrastructure, consider waiting longer after the last queried \
             timestamp as reported in Describe Deployment before you sunset Workers. Or mark this workflow as \
             AUTO_UPGRADE."
        )))
    }

    /// Adds the query to the pending workflow task.
    fn join_task(&self, run: &mut Run, query: &WorkflowQuery) -> Result<Way, ServiceError> {
        if run.memory.queries.len() >= self.limits.queries_waiting {
            return Err(ServiceError::Exhausted {
                message: "consistent query buffer is full, this may be caused by too many queries and workflow not \
                          able to process query fast enough"
                    .to_owned(),
                cause: temporalio_protos::temporal::api::enums::v1::ResourceExhaustedCause::BusyWorkflow,
            });
        }
        let key = RunKey::new(&run.state.namespace, &run.state.workflow_id, &run.state.run_id);
        let (pending, answer) = PendingQuery::new(uuid::Uuid::new_v4().to_string(), key, query.clone());
        run.memory.queries.retain(|query| query.is_wanted());
        run.memory.queries.push(Arc::new(pending));
        Ok(Way::WithTask { run_id: run.state.run_id.clone(), answer })
    }

    /// Dispatches the query to the sticky queue and, after a timeout, to the normal one.
    async fn ask_directly(
        self: &Arc<Self>,
        target: &Target,
        run_id: &str,
        sticky: Option<String>,
        key: QueueKey,
        query: WorkflowQuery,
        deadline: Instant,
    ) -> Result<QueryWorkflowResponse, ServiceError> {
        let target = Target { run_id: run_id.to_owned(), ..target.clone() };
        if let Some(sticky) = sticky {
            let namespace = target.namespace.as_str().into();
            let key = QueueKey { namespace, name: sticky, kind: Kind::Workflow, version: None };
            if self.queues.is_polled(&key, self.now() - STICKY_SEEN) {
                let patience = deadline.min(Instant::now() + STICKY_TIMEOUT);
                if let Some(answer) = self.ask(&target, &key, query.clone(), patience).await {
                    return respond(answer);
                }
            }
        }
        let quiet = deadline.checked_sub(TAIL_ROOM).unwrap_or(deadline);
        let mut asked = std::pin::pin!(self.ask(&target, &key, query, deadline));
        let answer = match tokio::time::timeout_at(quiet, &mut asked).await {
            Ok(answer) => answer,
            Err(_) if !self.queues.is_polled(&key, self.now() - WORKER_SEEN) => {
                let message = "no poller seen for task queue recently, worker may be down";
                return Err(ServiceError::FailedPrecondition(message.to_owned()));
            }
            Err(_) => asked.await,
        };
        answer.map_or_else(|| Err(late()), respond)
    }

    async fn ask(
        self: &Arc<Self>,
        target: &Target,
        queue: &QueueKey,
        query: WorkflowQuery,
        deadline: Instant,
    ) -> Option<QueryAnswer> {
        let (pending, answer) = PendingQuery::new(uuid::Uuid::new_v4().to_string(), target.key(), query);
        let pending = Arc::new(pending);
        let _open = self.open_queries.enter(Arc::clone(&pending));
        self.queues.offer_stored(queue, Task::Query(pending));
        tokio::time::timeout_at(deadline, answer).await.ok()?.ok()
    }

    pub(super) async fn complete_query(
        self: &Arc<Self>,
        request: RespondQueryTaskCompletedRequest,
    ) -> Result<RespondQueryTaskCompletedResponse, ServiceError> {
        let token = TaskToken::read(&request.task_token)?;
        let Some(query) = self.open_queries.get(&token.query_id) else {
            return Err(ServiceError::not_found("query task not found, or already expired"));
        };
        query.answer(match request.completed_type() {
            QueryResultType::Answered => QueryAnswer::Answered(request.query_result),
            _ => QueryAnswer::Failed { message: request.error_message, failure: request.failure.map(Box::new) },
        });
        Ok(RespondQueryTaskCompletedResponse {})
    }
}

fn rejects(condition: QueryRejectCondition, status: WorkflowExecutionStatus) -> bool {
    match condition {
        QueryRejectCondition::NotOpen => status != WorkflowExecutionStatus::Running,
        QueryRejectCondition::NotCompletedCleanly => {
            !matches!(status, WorkflowExecutionStatus::Running | WorkflowExecutionStatus::Completed)
        }
        _ => false,
    }
}

fn respond(answer: QueryAnswer) -> Result<QueryWorkflowResponse, ServiceError> {
    match answer {
        QueryAnswer::Answered(query_result) => {
            Ok(QueryWorkflowResponse { query_result, ..QueryWorkflowResponse::default() })
        }
        QueryAnswer::Failed { message, failure } => Err(ServiceError::QueryFailed { message, failure }),
        QueryAnswer::AskDirectly | QueryAnswer::AskAgain => Err(late()),
    }
}

fn late() -> ServiceError {
    ServiceError::DeadlineExceeded("Deadline Exceeded".to_owned())
}
