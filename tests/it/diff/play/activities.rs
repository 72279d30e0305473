//! What an activity worker does: take an activity and report on it, by token or by id, in time or too late.

use temporalio_protos::temporal::api::{
    common::v1::Payloads,
    enums::v1::PendingActivityState,
    failure::v1::failure::FailureInfo,
    workflowservice::v1::{
        PollActivityTaskQueueRequest, RecordActivityTaskHeartbeatByIdRequest, RecordActivityTaskHeartbeatRequest,
        RespondActivityTaskCanceledByIdRequest, RespondActivityTaskCanceledRequest,
        RespondActivityTaskCompletedByIdRequest, RespondActivityTaskCompletedRequest,
        RespondActivityTaskFailedByIdRequest, RespondActivityTaskFailedRequest,
    },
};

use super::{
    PATIENCE, Player,
    names::{WORKER, failure, millis, payloads},
    prompt,
    state::Echo,
    timed,
};
use crate::diff::{
    peer::NAMESPACE,
    script::{By, Report, Run, Who},
};

impl Player {
    pub(super) async fn poll_activity(&mut self, who: Who, activity: u8) {
        let id = format!("a{activity}");
        let pending = self.memory.states.get(&who).map(|state| state.pending_activities.as_slice()).unwrap_or_default();
        let pending = pending.iter().find(|pending| pending.activity_id == id);
        let state = pending.map(|pending| pending.state());
        let queue = pending.and_then(|pending| pending.activity_options.clone()?.task_queue);
        if state != Some(PendingActivityState::Scheduled) {
            return self.note("poll activity", format!("left out: the activity is {state:?}"));
        }
        let request = PollActivityTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: Some(
                queue.map_or_else(|| self.activity_queue(who, activity), |queue| super::names::queue(queue.name)),
            ),
            identity: WORKER.to_owned(),
            ..Default::default()
        };
        let answer = self.client.poll_activity_task_queue(timed(request, PATIENCE)).await;
        if let Some(task) = self.saw("poll activity", answer)
            && !task.task_token.is_empty()
        {
            self.take_activity(who, activity, task.task_token);
        }
    }

    pub(super) fn take_activity(&mut self, who: Who, activity: u8, token: Vec<u8>) {
        self.memory.activities.entry((who, activity)).or_default().push(token);
        if self.memory.hurried.contains(&(who, activity)) {
            let run = self.memory.current_run(who).unwrap_or_default().to_owned();
            self.memory.echoes.push(Echo::RunTimeout { who, run, activity: format!("a{activity}") });
        }
    }

    pub(super) async fn report_activity(&mut self, who: Who, activity: u8, by: By, report: Report) {
        let tokens = self.memory.activities.get(&(who, activity)).map(Vec::as_slice).unwrap_or_default();
        let token = match by {
            By::LastToken => tokens.last().cloned(),
            By::FirstToken => tokens.first().cloned(),
            By::Garbage => Some(b"garbage".to_vec()),
            By::Id => return self.report_by_id(who, activity, report).await,
        };
        let Some(task_token) = token else {
            return self.note("report", "left out: the activity was not taken");
        };
        let (namespace, identity) = (NAMESPACE.to_owned(), WORKER.to_owned());
        match report {
            Report::Completed => {
                let result = Some(payloads("result"));
                let request = RespondActivityTaskCompletedRequest {
                    namespace,
                    identity,
                    task_token,
                    result,
                    ..Default::default()
                };
                let answer = self.client.respond_activity_task_completed(prompt(request)).await;
                self.saw("complete activity", answer);
            }
            Report::Failed(_) | Report::FailedForGood | Report::FailedWithDelay | Report::FailedWithHeartbeat => {
                let failure = Some(activity_failure(report));
                let request = RespondActivityTaskFailedRequest {
                    namespace,
                    identity,
                    task_token,
                    failure,
                    last_heartbeat_details: last_heartbeat(report),
                    ..Default::default()
                };
                let answer = self.client.respond_activity_task_failed(prompt(request)).await;
                self.saw("fail activity", answer);
            }
            Report::Cancelled => {
                let details = Some(payloads("stopped"));
                let request = RespondActivityTaskCanceledRequest {
                    namespace,
                    identity,
                    task_token,
                    details,
                    ..Default::default()
                };
                let answer = self.client.respond_activity_task_canceled(prompt(request)).await;
                self.saw("cancel activity", answer);
            }
            Report::Heartbeat => {
                let details = Some(payloads("alive"));
                let request = RecordActivityTaskHeartbeatRequest {
                    namespace,
                    identity,
                    task_token,
                    details,
                    ..Default::default()
                };
                let answer = self.client.record_activity_task_heartbeat(prompt(request)).await;
                self.saw("heartbeat", answer);
            }
        }
    }

    async fn report_by_id(&mut self, who: Who, activity: u8, report: Report) {
        let (namespace, identity) = (NAMESPACE.to_owned(), WORKER.to_owned());
        let workflow_id = self.id(who);
        let run_id = self.run_id(who, Run::Current);
        let activity_id = format!("a{activity}");
        match report {
            Report::Completed => {
                let request = RespondActivityTaskCompletedByIdRequest {
                    namespace,
                    workflow_id,
                    run_id,
                    activity_id,
                    identity,
                    result: Some(payloads("result")),
                    ..Default::default()
                };
                let answer = self.client.respond_activity_task_completed_by_id(prompt(request)).await;
                self.saw("complete activity by id", answer);
            }
            Report::Failed(_) | Report::FailedForGood | Report::FailedWithDelay | Report::FailedWithHeartbeat => {
                let request = RespondActivityTaskFailedByIdRequest {
                    namespace,
                    workflow_id,
                    run_id,
                    activity_id,
                    identity,
                    failure: Some(activity_failure(report)),
                    last_heartbeat_details: last_heartbeat(report),
                    ..Default::default()
                };
                let answer = self.client.respond_activity_task_failed_by_id(prompt(request)).await;
                self.saw("fail activity by id", answer);
            }
            Report::Cancelled => {
                let request = RespondActivityTaskCanceledByIdRequest {
                    namespace,
                    workflow_id,
                    run_id,
                    activity_id,
                    identity,
                    details: Some(payloads("stopped")),
                    ..Default::default()
                };
                let answer = self.client.respond_activity_task_canceled_by_id(prompt(request)).await;
                self.saw("cancel activity by id", answer);
            }
            Report::Heartbeat => {
                let request = RecordActivityTaskHeartbeatByIdRequest {
                    namespace,
                    workflow_id,
                    run_id,
                    activity_id,
                    identity,
                    details: Some(payloads("alive")),
                    ..Default::default()
                };
                let answer = self.client.record_activity_task_heartbeat_by_id(prompt(request)).await;
                self.saw("heartbeat by id", answer);
            }
        }
    }
}

fn last_heartbeat(report: Report) -> Option<Payloads> {
    (report == Report::FailedWithHeartbeat).then(|| payloads("last heartbeat"))
}

fn activity_failure(report: Report) -> temporalio_protos::temporal::api::failure::v1::Failure {
    let mut failure = match report {
        Report::Failed(kind) => failure(kind, false),
        Report::FailedForGood => failure("Final", true),
        _ => failure("Later", false),
    };
    if let (Report::FailedWithDelay, Some(FailureInfo::ApplicationFailureInfo(info))) =
        (report, &mut failure.failure_info)
    {
        info.next_retry_delay = Some(millis(20));
    }
    failure
}
