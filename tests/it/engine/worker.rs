//! A worker without an SDK: polls tasks, completes them by the plan, and caches histories.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use temporalio_protos::temporal::api::{
    enums::v1::WorkflowTaskFailedCause,
    failure::v1::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    history::v1::HistoryEvent,
    taskqueue::v1::{StickyExecutionAttributes, TaskQueue},
    workflowservice::v1::{
        GetWorkflowExecutionHistoryRequest, PollActivityTaskQueueRequest, PollActivityTaskQueueResponse,
        PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse, RespondActivityTaskCompletedRequest,
        RespondActivityTaskFailedRequest, RespondWorkflowTaskCompletedRequest, RespondWorkflowTaskFailedRequest,
    },
};
use tokio::task::JoinSet;

use super::{
    client::{Client, NAMESPACE, QUEUE, milliseconds, patient, payloads, queue, sticky_queue},
    journal::{Decision, Journal},
    plan::{ONCE, TASK_TIMEOUT, decide},
};
use crate::proofs::dice::Dice;

const IDENTITY: &str = "a worker";
const STICKY: &str = "sticky";
/// Longer than any other wait of the engine.
const POLL_SECONDS: u64 = 30;

#[derive(Clone)]
pub(super) struct Worker {
    pub(super) client: Client,
    pub(super) journal: Arc<Journal>,
    histories: Arc<Mutex<HashMap<String, Vec<HistoryEvent>>>>,
}

impl Worker {
    pub(super) fn new(client: Client, journal: Arc<Journal>) -> Self {
        Self { client, journal, histories: Arc::default() }
    }

    /// Polls in as many tasks of each kind until the set is dropped.
    pub(super) fn poll(&self, pollers: u64, seed: u64) -> JoinSet<()> {
        let mut polls = JoinSet::new();
        for n in 0..pollers {
            let (normal, sticky, activities) = (self.clone(), self.clone(), self.clone());
            let dice = move |kind: u64| Dice::seeded(seed ^ (n << 8) ^ kind);
            polls.spawn(async move { normal.take_workflow_tasks(queue(QUEUE), dice(1)).await });
            polls.spawn(async move { sticky.take_workflow_tasks(sticky_queue(STICKY), dice(2)).await });
            polls.spawn(async move { activities.take_activities(dice(3)).await });
        }
        polls
    }

    async fn take_workflow_tasks(&self, queue: Option<TaskQueue>, mut dice: Dice) {
        let request = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: queue,
            identity: IDENTITY.to_owned(),
            ..PollWorkflowTaskQueueRequest::default()
        };
        loop {
            let send = self.client.insist(request.clone(), async |stub, request| {
                stub.poll_workflow_task_queue(patient(request, POLL_SECONDS)).await
            });
            let mut task = send.await.0.unwrap();
            while !task.task_token.is_empty() {
                task = self.answer(task, &mut dice).await.unwrap_or_default();
            }
        }
    }

    /// Completes a workflow task; the response may contain the next one.
    async fn answer(
        &self,
        task: PollWorkflowTaskQueueResponse,
        dice: &mut Dice,
    ) -> Option<PollWorkflowTaskQueueResponse> {
        let run_id = task.workflow_execution.clone().unwrap().run_id;
        if dice.chance(3) {
            self.fail(task.task_token).await;
            return None;
        }
        let token = task.task_token.clone();
        let history = self.whole_history(task).await?;
        let decision_id = uuid::Uuid::new_v4().to_string();
        let request = RespondWorkflowTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: token,
            identity: IDENTITY.to_owned(),
            commands: decide(&history, &decision_id),
            sticky_attributes: dice.chance(70).then(|| StickyExecutionAttributes {
                worker_task_queue: sticky_queue(STICKY),
                schedule_to_start_timeout: milliseconds(TASK_TIMEOUT),
            }),
            return_new_workflow_task: dice.chance(50),
            ..RespondWorkflowTaskCompletedRequest::default()
        };
        let decision = Decision { run_id, based_on: history, acknowledged: false };
        self.journal.facts().decisions.insert(decision_id.clone(), decision);
        let send = async |stub: &mut super::client::Stub, request| stub.respond_workflow_task_completed(request).await;
        let (answer, repeats) = self.client.insist(request, send).await;
        self.journal.repeated("workflow tasks", repeats);
        // An error means that the task is not, or no longer, this worker's: another worker has it.
        let answer = answer.ok()?;
        self.journal.facts().decisions.get_mut(&decision_id).unwrap().acknowledged = true;
        answer.workflow_task
    }

    async fn fail(&self, task_token: Vec<u8>) {
        let request = RespondWorkflowTaskFailedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token,
            cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure as i32,
            identity: IDENTITY.to_owned(),
            ..RespondWorkflowTaskFailedRequest::default()
        };
        let send = self.client.insist(request, async |stub, request| stub.respond_workflow_task_failed(request).await);
        send.await.0.ok();
    }

    /// The history of a task: its events after the cached ones, or all of it from the engine. `None` if it is not
    /// available any more: a sticky task is dispatched before it is durable, and the engine may have been killed.
    async fn whole_history(&self, task: PollWorkflowTaskQueueResponse) -> Option<Vec<HistoryEvent>> {
        let run = task.workflow_execution.clone().unwrap();
        let mut came = task.history.unwrap_or_default().events;
        let mut page_token = task.next_page_token;
        while !page_token.is_empty() {
            let request = GetWorkflowExecutionHistoryRequest {
                namespace: NAMESPACE.to_owned(),
                execution: Some(run.clone()),
                next_page_token: page_token,
                ..GetWorkflowExecutionHistoryRequest::default()
            };
            let page = self.client.page(request).await.ok()?;
            came.extend(page.history.unwrap_or_default().events);
            page_token = page.next_page_token;
        }
        let first = came.first().map_or(1, |event| event.event_id);
        let cached = self.histories.lock().unwrap().remove(&run.run_id).unwrap_or_default();
        let mut history: Vec<_> = cached.into_iter().take_while(|event| event.event_id < first).collect();
        history.extend(came.iter().cloned());
        if !is_gapless(&history) {
            history = self.client.history(&run.workflow_id, &run.run_id).await;
            history.truncate(usize::try_from(first - 1).unwrap());
            history.extend(came);
        }
        if !is_gapless(&history) {
            return None;
        }
        assert_eq!(history.last().unwrap().event_id, task.started_event_id, "a history ends with the task's start");
        self.histories.lock().unwrap().insert(run.run_id, history.clone());
        Some(history)
    }

    async fn take_activities(&self, mut dice: Dice) {
        let request = PollActivityTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: queue(QUEUE),
            identity: IDENTITY.to_owned(),
            ..PollActivityTaskQueueRequest::default()
        };
        loop {
            let send = self.client.insist(request.clone(), async |stub, request| {
                stub.poll_activity_task_queue(patient(request, POLL_SECONDS)).await
            });
            let task = send.await.0.unwrap();
            if !task.task_token.is_empty() {
                self.carry_out(task, &mut dice).await;
            }
        }
    }

    async fn carry_out(&self, task: PollActivityTaskQueueResponse, dice: &mut Dice) {
        let run_id = task.workflow_execution.unwrap().run_id;
        {
            let mut facts = self.journal.facts();
            let attempt = (run_id.clone(), task.activity_id.clone(), task.attempt);
            *facts.hand_outs.entry(attempt).or_default() += 1;
            if task.activity_type.unwrap().name == ONCE {
                *facts.once.entry((run_id, task.activity_id)).or_default() += 1;
            }
        }
        if dice.chance(20) {
            let request = RespondActivityTaskFailedRequest {
                task_token: task.task_token,
                failure: Some(failure()),
                identity: IDENTITY.to_owned(),
                namespace: NAMESPACE.to_owned(),
                ..RespondActivityTaskFailedRequest::default()
            };
            let send =
                self.client.insist(request, async |stub, request| stub.respond_activity_task_failed(request).await);
            let (_, repeats) = send.await;
            self.journal.repeated("activities", repeats);
            return;
        }
        let result = uuid::Uuid::new_v4().to_string();
        self.journal.facts().results.insert(result.clone(), false);
        let request = RespondActivityTaskCompletedRequest {
            task_token: task.task_token,
            result: payloads(&result),
            identity: IDENTITY.to_owned(),
            namespace: NAMESPACE.to_owned(),
            ..RespondActivityTaskCompletedRequest::default()
        };
        let send =
            self.client.insist(request, async |stub, request| stub.respond_activity_task_completed(request).await);
        let (answer, repeats) = send.await;
        self.journal.repeated("activities", repeats);
        if answer.is_ok() {
            self.journal.facts().results.insert(result, true);
        }
    }
}

fn is_gapless(history: &[HistoryEvent]) -> bool {
    history.iter().zip(1..).all(|(event, id)| event.event_id == id)
}

fn failure() -> Failure {
    Failure {
        message: "the dice said so".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo::default())),
        ..Failure::default()
    }
}
