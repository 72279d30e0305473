//! Calls that are answered only after a worker did something: updates and queries. They run beside the script; the
//! script goes on when the server has them, and their answers are written down when they are due.

use std::time::{Duration, Instant};

use temporalio_protos::temporal::api::{
    enums::v1::{
        EventType, QueryRejectCondition, UpdateWorkflowExecutionLifecycleStage as Stage, WorkflowExecutionStatus,
    },
    history::v1::history_event::Attributes,
    query::v1::WorkflowQuery,
    update::v1::{self as api, UpdateRef, WaitPolicy},
    workflowservice::v1::{
        ExecuteMultiOperationRequest, ExecuteMultiOperationResponse, PollWorkflowExecutionUpdateRequest,
        QueryWorkflowRequest, QueryWorkflowResponse, RespondQueryTaskCompletedRequest, UpdateWorkflowExecutionRequest,
        UpdateWorkflowExecutionResponse,
        execute_multi_operation_request::{Operation, operation},
        execute_multi_operation_response::response,
    },
};
use tokio::{sync::watch, task::JoinHandle};
use tonic::{Response, Status};

use super::{
    PATIENCE, Player,
    names::{CLIENT, header, payloads},
    prompt,
    state::Task,
    tasks::query_result,
    timed,
};
use crate::diff::{
    peer::{Client, NAMESPACE},
    script::{Completion, QueryAnswer, Run, Start, Update, UpdateAnswer, Who},
};

pub(super) struct PendingUpdate {
    pub(super) who: Who,
    update: u8,
    wait: Stage,
    call: Call,
    sent: Instant,
    /// How long the script has let time pass since.
    waited: Duration,
}

/// An update request that waits for its answer in a task of its own.
struct Call {
    answer: Answer,
    /// Its sender is dropped when the answer has come.
    pending: watch::Receiver<()>,
}

enum Answer {
    Update(JoinHandle<Result<Response<UpdateWorkflowExecutionResponse>, Status>>),
    WithStart(JoinHandle<Result<Response<ExecuteMultiOperationResponse>, Status>>),
}

pub(super) struct PendingQuery {
    pub(super) answer: QueryAnswer,
    call: JoinHandle<Result<Response<QueryWorkflowResponse>, Status>>,
}

/// How long a call may wait for its worker.
const LONG_CALL: Duration = Duration::from_secs(60);

/// An answer that took longer came because a server does not wait for ever.
const LONG_POLL: Duration = Duration::from_secs(19);

/// A script does not let time pass for longer than this while an update waits. Its caller would ask again at the end of
/// the long poll, and whether the run takes the update then depends on which comes first, that or the next action.
const LONGEST_WAIT: Duration = Duration::from_secs(17);

/// How often a server is asked at most how far an update is, unless its call is answered before. No request waits for
/// the moment at which a server takes an update: `PollWorkflowExecutionUpdate` answers at once that it does not know it.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// Each poll for a query task; the empty answer comes one second earlier.
const QUERY_POLL: Duration = Duration::from_secs(3);

impl Player {
    fn update_request(&self, who: Who, update: Update) -> UpdateWorkflowExecutionRequest {
        UpdateWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: Some(self.execution(who, update.run)),
            wait_policy: Some(WaitPolicy { lifecycle_stage: update.wait as i32 }),
            request: Some(api::Request {
                meta: Some(api::Meta { update_id: update_id(update.update), identity: CLIENT.to_owned() }),
                input: Some(api::Input {
                    header: Some(header()),
                    name: if update.named { "change".to_owned() } else { String::new() },
                    args: Some(payloads("update")),
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// Whether a reset brought the update to the current run as an event, and the worker passed over it, as this one
    /// does: it answers messages only. Asked for it again, the real server takes it for completed, misses its outcome, and
    /// answers with an internal error.
    async fn was_passed_over(&mut self, who: Who, update: u8) -> bool {
        let id = update_id(update);
        let mut brought = false;
        for event in self.history(who, "").await {
            match event.attributes {
                Some(Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(admitted)) => {
                    brought |=
                        admitted.request.and_then(|request| request.meta).is_some_and(|meta| meta.update_id == id);
                }
                Some(Attributes::WorkflowTaskCompletedEventAttributes(_)) if brought => return true,
                _ => {}
            }
        }
        false
    }

    pub(super) async fn update(&mut self, who: Who, update: Update) {
        if self.was_passed_over(who, update.update).await {
            return self.note("update", "left out: a worker passed over it after a reset");
        }
        let request = self.update_request(who, update);
        let client = self.client.clone();
        let call = Call::spawn(wait_for_update(client, request), Answer::Update);
        self.send_update(who, update, call).await;
    }

    pub(super) async fn update_with_start(&mut self, start: &Start, update: Update) {
        if self.was_passed_over(start.who, update.update).await {
            return self.note("update with start", "left out: a worker passed over it after a reset");
        }
        let operations = vec![
            Operation { operation: Some(operation::Operation::StartWorkflow(self.start_request(start))) },
            Operation { operation: Some(operation::Operation::UpdateWorkflow(self.update_request(start.who, update))) },
        ];
        let request =
            ExecuteMultiOperationRequest { namespace: NAMESPACE.to_owned(), operations, ..Default::default() };
        let client = self.client.clone();
        let call = Call::spawn(wait_for_update_with_start(client, request), Answer::WithStart);
        self.send_update(start.who, update, call).await;
        // Present from now on, so that the player looks at it.
        self.memory.runs.entry(start.who).or_default();
    }

    /// Returns when the server knows the update, or has answered the call. The call has a deadline, `LONG_CALL`, and so
    /// has this.
    async fn send_update(&mut self, who: Who, update: Update, call: Call) {
        let mut pending = PendingUpdate {
            who,
            update: update.update,
            wait: update.wait,
            call,
            sent: Instant::now(),
            waited: Duration::ZERO,
        };
        while !pending.call.is_answered() && self.stage(who, update.update).await.is_err() {
            pending.call.answered_within(ASK_AGAIN).await;
        }
        self.memory.updates.push(pending);
    }

    /// How far the server says an update has come.
    async fn stage(&mut self, who: Who, update: u8) -> Result<Stage, Status> {
        let request = self.poll_update_request(who, update, Stage::Unspecified);
        let answer = self.client.poll_workflow_execution_update(prompt(request)).await?;
        Ok(answer.get_ref().stage())
    }

    fn poll_update_request(&self, who: Who, update: u8, wait: Stage) -> PollWorkflowExecutionUpdateRequest {
        PollWorkflowExecutionUpdateRequest {
            namespace: NAMESPACE.to_owned(),
            update_ref: Some(UpdateRef {
                workflow_execution: Some(self.execution(who, Run::Current)),
                update_id: update_id(update),
            }),
            identity: CLIENT.to_owned(),
            wait_policy: Some(WaitPolicy { lifecycle_stage: wait as i32 }),
        }
    }

    pub(super) async fn poll_update(&mut self, who: Who, update: u8, wait: Stage) {
        if self.was_passed_over(who, update).await {
            return self.note("poll update", "left out: a worker passed over it after a reset");
        }
        // Waiting for a stage that has not come would block the script.
        let wait = match self.stage(who, update).await {
            Ok(stage) if stage < wait => Stage::Unspecified,
            _ => wait,
        };
        let request = self.poll_update_request(who, update, wait);
        let answer = self.client.poll_workflow_execution_update(prompt(request)).await;
        self.saw("poll update", answer);
    }

    /// Whether the script may let that much time pass; if so, it is taken to do it.
    pub(super) fn may_let_time_pass(&mut self, time: Duration) -> bool {
        let may = self.memory.updates.iter().all(|pending| pending.waited + time <= LONGEST_WAIT);
        if may {
            self.memory.updates.iter_mut().for_each(|pending| pending.waited += time);
        }
        may
    }

    /// Whether an update waits that was not accepted and that this completion says nothing about.
    pub(super) fn leaves_an_update_waiting(&self, who: Who, task: &Task, with: &Completion) -> bool {
        let accepted = self.memory.accepted.get(&who).map(Vec::as_slice).unwrap_or_default();
        self.memory.updates.iter().filter(|pending| pending.who == who).any(|pending| {
            let id = update_id(pending.update);
            let seen = task.messages.iter().any(|message| message.protocol_instance_id == id);
            !(accepted.contains(&id) || seen && with.updates != UpdateAnswer::Ignore)
        })
    }

    /// Writes down the answers of updates that have come as far as their callers wait for, or are gone.
    pub(super) async fn collect_updates(&mut self) {
        for mut pending in std::mem::take(&mut self.memory.updates) {
            self.memory.changed_since_look = true;
            if !self.is_due(&mut pending).await {
                self.played.overtaken |= pending.sent.elapsed() > LONG_POLL;
                self.memory.updates.push(pending);
                continue;
            }
            let what = format!("answer to update {} of {:?}", pending.update, pending.who);
            match pending.call.answer {
                Answer::Update(answer) => drop(self.saw(&what, answer.await.unwrap())),
                Answer::WithStart(answer) => drop(self.saw(&what, answer.await.unwrap())),
            }
        }
    }

    /// Whether the call has its answer. A server that lost the update from memory takes it again from its waiting
    /// caller, so an update that is not there is either about to come back or about to be answered.
    async fn is_due(&mut self, pending: &mut PendingUpdate) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while !pending.call.is_answered() {
            match self.stage(pending.who, pending.update).await {
                Ok(stage) if stage < pending.wait.max(Stage::Accepted) => return false,
                _ if Instant::now() > deadline => {
                    let what = format!("answer to update {} of {:?}", pending.update, pending.who);
                    self.note(&what, "still waiting");
                    return false;
                }
                _ => pending.call.answered_within(ASK_AGAIN).await,
            }
        }
        true
    }

    pub(super) async fn query(&mut self, who: Who, reject: QueryRejectCondition, answer: QueryAnswer) {
        if self.memory.queries.contains_key(&who) {
            return self.note("query", "left out: another is under way");
        }
        let completed = |event: &temporalio_protos::temporal::api::history::v1::HistoryEvent| {
            event.event_type() == EventType::WorkflowTaskCompleted
        };
        let known = self.memory.states.contains_key(&who);
        let status = self.memory.status(who).unwrap_or_default();
        let open = status == WorkflowExecutionStatus::Running;
        let decided_once = known && self.history(who, "").await.iter().any(completed);
        if open && !decided_once {
            // It would wait for the first task to be completed, or fail, depending on when that happens.
            return self.note("query", "left out: no task was completed yet");
        }
        let request = QueryWorkflowRequest {
            namespace: NAMESPACE.to_owned(),
            execution: Some(self.execution(who, Run::Current)),
            query: Some(WorkflowQuery {
                query_type: "look".to_owned(),
                query_args: Some(payloads("query")),
                header: Some(header()),
            }),
            query_reject_condition: reject as i32,
        };
        let mut client = self.client.clone();
        let call = tokio::spawn(async move { client.query_workflow(timed(request, LONG_CALL)).await });
        let rejected = match reject {
            QueryRejectCondition::NotOpen => !open,
            QueryRejectCondition::NotCompletedCleanly => !open && status != WorkflowExecutionStatus::Completed,
            _ => false,
        };
        if !decided_once || rejected {
            let result = call.await.unwrap();
            self.saw("query", result);
            return;
        }
        self.memory.queries.insert(who, PendingQuery { answer, call });
    }

    /// To be called before a task is taken that is to carry the query, whether it was just asked or has to find its way
    /// again after a server forgot it.
    pub(super) async fn let_query_arrive(&mut self, who: Who) {
        if self.memory.queries.contains_key(&who) {
            for _ in 0..self.head_start {
                // Only that it was answered counts.
                self.describe(who, "").await.ok();
            }
        }
    }

    /// Whether a query was asked that has no answer yet.
    pub(super) fn awaits_query(&self, who: Who) -> bool {
        self.memory.queries.get(&who).is_some_and(|query| !query.call.is_finished())
    }

    /// Writes down the answer that a completed workflow task carried.
    pub(super) async fn collect_query(&mut self, who: Who) {
        if let Some(mut query) = self.memory.queries.remove(&who) {
            self.saw_query_answer(&mut query).await;
        }
    }

    async fn saw_query_answer(&mut self, query: &mut PendingQuery) {
        match tokio::time::timeout(PATIENCE, &mut query.call).await {
            Ok(answer) => drop(self.saw("answer to the query", answer.unwrap())),
            Err(_) => self.note("answer to the query", "still waiting"),
        }
    }

    /// Answers queries that no workflow task will carry.
    pub(super) async fn answer_queries(&mut self) {
        for (who, query) in std::mem::take(&mut self.memory.queries) {
            if self.memory.task_state(who).is_some() {
                self.memory.queries.insert(who, query);
            } else {
                self.answer_query(who, query).await;
            }
        }
    }

    async fn answer_query(&mut self, who: Who, mut query: PendingQuery) {
        for _ in 0..5 {
            if query.call.is_finished() {
                break;
            }
            let queue = self.queue_of_kind(who, self.memory.sticky.contains_key(&who));
            let polled = self.poll(queue, QUERY_POLL).await;
            if matches!(&polled, Ok(task) if task.get_ref().task_token.is_empty()) {
                continue;
            }
            let Some(task) = self.saw("poll for the query", polled) else { break };
            let result = query_result(Some(query.answer));
            let request = RespondQueryTaskCompletedRequest {
                namespace: NAMESPACE.to_owned(),
                task_token: task.task_token,
                completed_type: result.result_type,
                query_result: result.answer,
                error_message: result.error_message,
                failure: result.failure,
                ..Default::default()
            };
            let answer = self.client.respond_query_task_completed(prompt(request)).await;
            self.saw("answer the query", answer);
            break;
        }
        self.saw_query_answer(&mut query).await;
    }
}

/// A server answers after twenty seconds at the latest, with the stage reached so far; the caller asks again.
async fn wait_for_update(
    mut client: Client,
    request: UpdateWorkflowExecutionRequest,
) -> Result<Response<UpdateWorkflowExecutionResponse>, Status> {
    loop {
        let asked = Instant::now();
        let answer = client.update_workflow_execution(timed(request.clone(), LONG_CALL)).await?;
        let enough = if asked.elapsed() < LONG_POLL { Stage::Accepted } else { wanted(&request) };
        if answer.get_ref().stage() >= enough {
            return Ok(answer);
        }
    }
}

fn wanted(request: &UpdateWorkflowExecutionRequest) -> Stage {
    request.wait_policy.map_or(Stage::Accepted, |policy| policy.lifecycle_stage())
}

async fn wait_for_update_with_start(
    mut client: Client,
    request: ExecuteMultiOperationRequest,
) -> Result<Response<ExecuteMultiOperationResponse>, Status> {
    let asked = Instant::now();
    let mut answer = client.execute_multi_operation(timed(request.clone(), LONG_CALL)).await?;
    for (operation, response) in request.operations.into_iter().zip(&mut answer.get_mut().responses) {
        if let Some(operation::Operation::UpdateWorkflow(request)) = operation.operation
            && let Some(response::Response::UpdateWorkflow(update)) = &mut response.response
            && update.stage() < if asked.elapsed() < LONG_POLL { Stage::Accepted } else { wanted(&request) }
        {
            *update = wait_for_update(client.clone(), request).await?.into_inner();
        }
    }
    Ok(answer)
}

impl Call {
    fn spawn<T: Send + 'static>(
        call: impl Future<Output = T> + Send + 'static,
        answer: impl FnOnce(JoinHandle<T>) -> Answer,
    ) -> Self {
        let (under_way, pending) = watch::channel(());
        let task = tokio::spawn(async move {
            let answer = call.await;
            drop(under_way);
            answer
        });
        Self { answer: answer(task), pending }
    }

    fn is_answered(&self) -> bool {
        self.pending.has_changed().is_err()
    }

    /// Waits for the answer, but not for longer than this.
    async fn answered_within(&mut self, time: Duration) {
        tokio::time::timeout(time, self.pending.changed()).await.ok();
    }
}

fn update_id(update: u8) -> String {
    format!("update-{update}")
}
