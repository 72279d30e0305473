//! Activity requests: polls, results by token or by id, heartbeats.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use temporalio_protos::temporal::api::{
    common::v1::{ActivityType, WorkflowExecution, WorkflowType},
    enums::v1::VersioningBehavior,
    workflowservice::v1::{
        PollActivityTaskQueueRequest, PollActivityTaskQueueResponse, RecordActivityTaskHeartbeatByIdRequest,
        RecordActivityTaskHeartbeatByIdResponse, RecordActivityTaskHeartbeatRequest,
        RecordActivityTaskHeartbeatResponse, RespondActivityTaskCanceledByIdRequest,
        RespondActivityTaskCanceledByIdResponse, RespondActivityTaskCanceledRequest,
        RespondActivityTaskCanceledResponse, RespondActivityTaskCompletedByIdRequest,
        RespondActivityTaskCompletedByIdResponse, RespondActivityTaskCompletedRequest,
        RespondActivityTaskCompletedResponse, RespondActivityTaskFailedByIdRequest,
        RespondActivityTaskFailedByIdResponse, RespondActivityTaskFailedRequest, RespondActivityTaskFailedResponse,
    },
};

use windlass_sqlite::Ack;

use super::tasks::{goes_to, poll_deadline};
use crate::{
    core::{Applied, Core, Target, TaskQueue, unavailable},
    deployments::{Version, names},
    queues::{Kind, QueueKey, Task},
    registry::RunKey,
    run::{ActivityFailure, Env, HeartbeatAnswer, Run, StartedActivity, Worker, activity_not_found},
    service_error::ServiceError,
    time::timestamp,
    token::TaskToken,
};

/// How a request names an activity.
enum Named {
    Token(TaskToken),
    Id { target: Target, activity_id: String },
}

impl Core {
    pub(super) async fn poll_activity_task(
        self: &Arc<Self>,
        request: PollActivityTaskQueueRequest,
        timeout: Option<Duration>,
        local: bool,
    ) -> Result<PollActivityTaskQueueResponse, ServiceError> {
        let deadline = poll_deadline(timeout)?;
        let options = request.deployment_options.as_ref();
        let mut key =
            self.polled_queue(&request.namespace, request.task_queue.as_ref(), &request.identity, Kind::Activity)?;
        names::check_worker(options, request.task_queue.as_ref(), self.limits.id_length)?;
        let version = Version::of_worker(options);
        self.register_worker(&mut key, version.as_ref()).await?;
        while let Some(task) = self.next_task(&key, &request.identity, options, deadline).await {
            let Task::Activity { run, scheduled_id, attempt, stamp } = &task else { continue };
            let attempt = (*attempt, *stamp);
            match self.take_activity(run, *scheduled_id, attempt, &key, &request.identity, local).await {
                Ok(Some(response)) => return Ok(response),
                Ok(None) => {}
                Err(error) => {
                    self.queues.offer_stored(&key, task);
                    return Err(error);
                }
            }
        }
        Ok(PollActivityTaskQueueResponse::default())
    }

    /// Gives an activity to a worker after its start is durable. Otherwise one attempt could be executed twice. A worker of
    /// this process need not wait for that if the activity may be repeated: it ends with the start that is lost.
    async fn take_activity(
        self: &Arc<Self>,
        run: &RunKey,
        scheduled_id: i64,
        attempt: (i32, i32),
        polled: &QueueKey,
        identity: &str,
        local: bool,
    ) -> Result<Option<PollActivityTaskQueueResponse>, ServiceError> {
        let taken = self.with_run(&Target::of(run), |found, env| {
            let task = Task::Activity { run: run.clone(), scheduled_id, attempt: attempt.0, stamp: attempt.1 };
            if !self.may_start_activity(env, found, run, polled, task) {
                return Ok(None);
            }
            let run = found;
            if !run.memory.scheduled.contains_key(&scheduled_id) && run.state.activities.contains_key(&scheduled_id) {
                let scheduled = self.scheduled(run.number, scheduled_id)?;
                run.memory.scheduled.insert(scheduled_id, Arc::new(scheduled));
            }
            let started =
                run.start_activity(env, scheduled_id, attempt, identity, &(env.new_id)(), polled.version.as_ref());
            if started.is_none() {
                // The task in the queue was stale.
                run.drop_transient_state();
            }
            Ok(started.map(|started| {
                run.set_activity_incarnation(scheduled_id, self.incarnation_for(local));
                if local && started.activity.may_be_repeated() {
                    run.relax_changes();
                }
                let mut response = activity_response(run, &started);
                // An activity has the priority of its run, unless it has its own.
                response.priority = response.priority.or_else(|| run.state.priority.clone());
                response
            }))
        });
        match taken {
            Ok(done) => done.acknowledged().await,
            Err(ServiceError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether these workers may start the activity. Otherwise it is for others, or the run must move to their version
    /// first; then it is dispatched again.
    fn may_start_activity(&self, env: &Env<'_>, found: &mut Run, run: &RunKey, polled: &QueueKey, task: Task) -> bool {
        let here = TaskQueue { name: &polled.name, kind: Kind::Activity, sticky: false };
        let routing = self.routing(&found.state, here);
        if goes_to(routing.as_ref()) != polled.version.as_ref() {
            let elsewhere = self.queue_of(run, &found.state, &polled.name, Kind::Activity);
            self.queues.offer_stored(&elsewhere, task);
            return false;
        }
        if found.state.in_transition() {
            return false;
        }
        let version = polled.version.as_ref();
        if found.state.version().as_ref() == version || found.state.behavior() == VersioningBehavior::Pinned {
            return true;
        }
        let revision = routing.map_or(0, |routing| routing.revision);
        let (target, target_revision) = self.target(&found.state);
        let lags = |target: &Version| {
            version.is_some_and(|version| version.deployment == target.deployment) && revision > target_revision
        };
        if target.as_ref() == version || target.as_ref().is_some_and(lags) {
            found.begin_transition_for_activity(env, version, revision);
            return false;
        }
        true
    }

    #[allow(deprecated, reason = "unversioned workers still send their build here")]
    pub(super) async fn complete_activity(
        self: &Arc<Self>,
        request: RespondActivityTaskCompletedRequest,
    ) -> Result<RespondActivityTaskCompletedResponse, ServiceError> {
        let named = Named::Token(TaskToken::read(&request.task_token)?);
        super::checks::blob(request.result.as_ref(), &self.limits)?;
        self.end_activity(&named, |run, env, (id, attempt)| {
            let worker = Worker { identity: &request.identity, build: request.worker_version.as_ref() };
            run.complete_activity(env, id, attempt, request.result, worker)
        })
        .await?;
        Ok(RespondActivityTaskCompletedResponse {})
    }

    pub(super) async fn complete_activity_by_id(
        self: &Arc<Self>,
        request: RespondActivityTaskCompletedByIdRequest,
    ) -> Result<RespondActivityTaskCompletedByIdResponse, ServiceError> {
        let named = self.by_id(&request.namespace, request.workflow_id, request.run_id, request.activity_id)?;
        super::checks::blob(request.result.as_ref(), &self.limits)?;
        self.end_activity(&named, |run, env, (id, attempt)| {
            run.complete_activity(env, id, attempt, request.result, Worker::unknown(&request.identity))
        })
        .await?;
        Ok(RespondActivityTaskCompletedByIdResponse {})
    }

    #[allow(deprecated, reason = "unversioned workers still send their build here")]
    pub(super) async fn fail_activity(
        self: &Arc<Self>,
        request: RespondActivityTaskFailedRequest,
    ) -> Result<RespondActivityTaskFailedResponse, ServiceError> {
        let named = Named::Token(TaskToken::read(&request.task_token)?);
        let failed = ActivityFailure {
            failure: request.failure,
            heartbeat_details: request.last_heartbeat_details,
            identity: request.identity,
            build: request.worker_version,
        };
        self.end_activity(&named, |run, env, (id, attempt)| run.fail_activity(env, id, attempt, failed)).await?;
        Ok(RespondActivityTaskFailedResponse::default())
    }

    pub(super) async fn fail_activity_by_id(
        self: &Arc<Self>,
        request: RespondActivityTaskFailedByIdRequest,
    ) -> Result<RespondActivityTaskFailedByIdResponse, ServiceError> {
        let named = self.by_id(&request.namespace, request.workflow_id, request.run_id, request.activity_id)?;
        let failed = ActivityFailure {
            failure: request.failure,
            heartbeat_details: request.last_heartbeat_details,
            identity: request.identity,
            build: None,
        };
        self.end_activity(&named, |run, env, (id, attempt)| run.fail_activity(env, id, attempt, failed)).await?;
        Ok(RespondActivityTaskFailedByIdResponse::default())
    }

    pub(super) async fn cancel_activity(
        self: &Arc<Self>,
        request: RespondActivityTaskCanceledRequest,
    ) -> Result<RespondActivityTaskCanceledResponse, ServiceError> {
        let named = Named::Token(TaskToken::read(&request.task_token)?);
        self.end_activity(&named, |run, env, (id, attempt)| {
            run.cancel_activity(env, id, attempt, request.details, &request.identity)
        })
        .await?;
        Ok(RespondActivityTaskCanceledResponse {})
    }

    pub(super) async fn cancel_activity_by_id(
        self: &Arc<Self>,
        request: RespondActivityTaskCanceledByIdRequest,
    ) -> Result<RespondActivityTaskCanceledByIdResponse, ServiceError> {
        let named = self.by_id(&request.namespace, request.workflow_id, request.run_id, request.activity_id)?;
        self.end_activity(&named, |run, env, (id, attempt)| {
            run.cancel_activity(env, id, attempt, request.details, &request.identity)
        })
        .await?;
        Ok(RespondActivityTaskCanceledByIdResponse {})
    }

    pub(super) async fn heartbeat(
        self: &Arc<Self>,
        request: RecordActivityTaskHeartbeatRequest,
    ) -> Result<RecordActivityTaskHeartbeatResponse, ServiceError> {
        let named = Named::Token(TaskToken::read(&request.task_token)?);
        let done =
            self.on_activity(&named, |run, env, (id, attempt)| run.heartbeat(env, id, attempt, request.details))?;
        let HeartbeatAnswer { cancel_requested, paused, reset } = done.value();
        Ok(RecordActivityTaskHeartbeatResponse { cancel_requested, activity_paused: paused, activity_reset: reset })
    }

    pub(super) async fn heartbeat_by_id(
        self: &Arc<Self>,
        request: RecordActivityTaskHeartbeatByIdRequest,
    ) -> Result<RecordActivityTaskHeartbeatByIdResponse, ServiceError> {
        let named = self.by_id(&request.namespace, request.workflow_id, request.run_id, request.activity_id)?;
        let done =
            self.on_activity(&named, |run, env, (id, attempt)| run.heartbeat(env, id, attempt, request.details))?;
        let HeartbeatAnswer { cancel_requested, paused, reset } = done.value();
        Ok(RecordActivityTaskHeartbeatByIdResponse { cancel_requested, activity_paused: paused, activity_reset: reset })
    }

    fn by_id(
        &self,
        namespace: &str,
        workflow_id: String,
        run_id: String,
        activity_id: String,
    ) -> Result<Named, ServiceError> {
        self.read_namespaces().named(namespace)?;
        if workflow_id.is_empty() {
            return Err(ServiceError::invalid("WorkflowId is not set on request."));
        }
        if activity_id.is_empty() {
            return Err(ServiceError::invalid("activityId is not set on request"));
        }
        let target = Target { namespace: namespace.to_owned(), workflow_id, run_id };
        Ok(Named::Id { target, activity_id })
    }

    /// Ends an attempt with a relaxed write: the workflow task that follows needs a sync anyway, and without one a sync
    /// follows soon.
    async fn end_activity(
        self: &Arc<Self>,
        named: &Named,
        act: impl FnOnce(&mut Run, &Env<'_>, (i64, i32)) -> Result<(), ServiceError>,
    ) -> Result<(), ServiceError> {
        self.on_activity(named, act)?.acknowledged().await?;
        self.database.synced().await.map_err(|error| unavailable(&error))
    }

    /// Applies an operation to a named activity. The attempt is zero if the request does not name it.
    fn on_activity<T>(
        self: &Arc<Self>,
        named: &Named,
        act: impl FnOnce(&mut Run, &Env<'_>, (i64, i32)) -> Result<T, ServiceError>,
    ) -> Result<Applied<T>, ServiceError> {
        match named {
            Named::Token(token) => self.with_run_acked(&token.target(), Ack::Relaxed, |run, env| {
                run.must_run()?;
                let held = run.state.activities.get(&token.scheduled_id);
                if held.is_some_and(|activity| activity.started_time != token.started_time) {
                    return Err(activity_not_found());
                }
                act(run, env, (token.scheduled_id, token.attempt))
            }),
            Named::Id { target, activity_id } => self.with_run_acked(target, Ack::Relaxed, |run, env| {
                run.must_run()?;
                let id = run.activity_by_id(activity_id).ok_or_else(|| {
                    ServiceError::not_found(format!(
                        "cannot find pending activity with ActivityID {activity_id}, check workflow execution \
                             history for more details"
                    ))
                })?;
                act(run, env, (id, 0))
            }),
        }
    }
}

pub(super) fn activity_response(run: &Run, started: &StartedActivity) -> PollActivityTaskQueueResponse {
    let activity = &started.activity;
    let token = TaskToken {
        namespace: run.state.namespace.clone(),
        workflow_id: run.state.workflow_id.clone(),
        run_id: run.state.run_id.clone(),
        scheduled_id: started.scheduled_id,
        attempt: activity.attempt,
        started_time: activity.started_time,
        ..TaskToken::default()
    };
    // Workers get the timeouts that the activity was scheduled with, also after they were changed.
    let scheduled = started.scheduled.as_deref();
    PollActivityTaskQueueResponse {
        task_token: token.encode_to_vec(),
        workflow_namespace: run.state.namespace.clone(),
        workflow_type: Some(WorkflowType { name: run.state.workflow_type.clone() }),
        workflow_execution: Some(WorkflowExecution {
            workflow_id: run.state.workflow_id.clone(),
            run_id: run.state.run_id.clone(),
        }),
        activity_type: Some(ActivityType { name: activity.kind.clone() }),
        activity_id: activity.id.clone(),
        header: scheduled.and_then(|scheduled| scheduled.header.clone()),
        input: scheduled.and_then(|scheduled| scheduled.input.clone()),
        heartbeat_details: activity.heartbeat_details.clone(),
        scheduled_time: Some(timestamp(activity.first_scheduled_time)),
        current_attempt_scheduled_time: Some(timestamp(activity.scheduled_time)),
        started_time: Some(timestamp(activity.started_time)),
        attempt: activity.attempt,
        schedule_to_close_timeout: scheduled.and_then(|scheduled| scheduled.schedule_to_close_timeout),
        start_to_close_timeout: scheduled.and_then(|scheduled| scheduled.start_to_close_timeout),
        heartbeat_timeout: scheduled.and_then(|scheduled| scheduled.heartbeat_timeout),
        retry_policy: activity.retry_policy.clone(),
        priority: activity.priority.clone(),
        ..PollActivityTaskQueueResponse::default()
    }
}
