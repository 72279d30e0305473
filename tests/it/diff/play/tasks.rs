//! What a workflow worker does: take a task, hold it, complete it or fail it.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use temporalio_protos::temporal::api::{
    enums::v1::{
        EventType, PendingWorkflowTaskState, QueryResultType, TaskQueueKind, WorkflowExecutionStatus,
        WorkflowTaskFailedCause,
    },
    history::v1::history_event::Attributes,
    query::v1::WorkflowQueryResult,
    taskqueue::v1::{StickyExecutionAttributes, TaskQueue},
    workflowservice::v1::{
        PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse, RespondWorkflowTaskCompletedRequest,
        RespondWorkflowTaskFailedRequest, respond_workflow_task_completed_request::Capabilities,
    },
};
use tonic::{Code, Response, Status};

use super::{
    PATIENCE, Player,
    names::{WORKER, failure, payloads, seconds},
    prompt,
    state::{Task, activity_number},
    timed,
};
use crate::diff::{
    peer::{NAMESPACE, Peer},
    script::{Build, Completion, Do, QueryAnswer, Queue, Sticky, Token, Who},
};

/// The shortest deadline a poll may have is two seconds; the empty answer comes one second before it.
const SHORT_POLL: Duration = Duration::from_millis(2200);

/// The timeout of tasks that are awaited until they have timed out, in seconds.
pub(super) const SHORT_TASK_TIMEOUT: i64 = 8;

/// A task with that timeout that was held for so long may have timed out before its worker answers.
const TOO_LONG: Duration = Duration::from_secs(5);

/// A speculative task waits for five seconds.
const SPECULATIVE_TOO_LONG: Duration = Duration::from_secs(3);

/// From this attempt on a task has more time: five seconds for this one.
const FIRST_PATIENT_ATTEMPT: i32 = 4;
const LONGER_TASK_TIMEOUT: i64 = SHORT_TASK_TIMEOUT + 5;

/// The timeouts of later attempts are too long to wait for.
const LAST_AWAITED_ATTEMPT: i32 = 4;

/// A server stops using a sticky queue without a poll for ten seconds.
const STICKY_POLL_AGE: Duration = Duration::from_secs(5);

impl Player {
    pub(super) async fn poll_task(&mut self, who: Who) {
        match self.memory.task_state(who) {
            Some(PendingWorkflowTaskState::Scheduled) => {}
            state => return self.note("poll", format!("left out: the pending task is {state:?}")),
        }
        if self.memory.lost.contains(&who) {
            return self.poll_nothing(who, Queue::Sticky).await;
        }
        self.let_query_arrive(who).await;
        let queue = self.queue_of_next_task(who).await;
        let mut answer = self.poll(queue.clone(), PATIENCE).await;
        // Under load the real server can take longer than a poll to queue a task. The engine has no such excuse.
        for _ in 0..2 {
            if self.peer == Peer::Real && matches!(&answer, Ok(answer) if answer.get_ref().task_token.is_empty()) {
                answer = self.poll(queue.clone(), PATIENCE).await;
            }
        }
        if self.memory.forgotten.contains(&who) {
            // Updates that the real server forgot come back from their callers, each after a while of its own.
            answer = answer.map(|mut answer| {
                answer.get_mut().messages.sort_by(|one, other| one.id.cmp(&other.id));
                answer
            });
        }
        if let Some(task) = self.saw("poll", answer)
            && !task.task_token.is_empty()
        {
            self.take_task(who, &task);
        }
    }

    pub(super) async fn poll_nothing(&mut self, who: Who, queue: Queue) {
        let queue = match queue {
            Queue::Normal => self.queue(who),
            Queue::Sticky => self.sticky_queue(who),
        };
        let answer = self.poll(queue, SHORT_POLL).await;
        self.saw("poll for nothing", answer);
    }

    pub(super) async fn poll(
        &mut self,
        queue: TaskQueue,
        timeout: Duration,
    ) -> Result<Response<PollWorkflowTaskQueueResponse>, Status> {
        let request = PollWorkflowTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            task_queue: Some(queue),
            identity: WORKER.to_owned(),
            ..Default::default()
        };
        self.client.poll_workflow_task_queue(timed(request, timeout)).await
    }

    async fn queue_of_next_task(&mut self, who: Who) -> TaskQueue {
        let sticky = self.waits_in_sticky_queue(who).await;
        self.queue_of_kind(who, sticky)
    }

    /// Where the scheduled task waits. A speculative task is not in the history; it goes where the last completion said.
    pub(super) async fn waits_in_sticky_queue(&mut self, who: Who) -> bool {
        if !self.memory.ever_sticky {
            return false;
        }
        let events = self.history(who, "").await;
        let last = events.iter().rev().find(|event| {
            matches!(
                event.event_type(),
                EventType::WorkflowTaskScheduled
                    | EventType::WorkflowTaskStarted
                    | EventType::WorkflowTaskCompleted
                    | EventType::WorkflowTaskFailed
                    | EventType::WorkflowTaskTimedOut
            )
        });
        match last.and_then(|event| event.attributes.as_ref()) {
            Some(Attributes::WorkflowTaskScheduledEventAttributes(scheduled)) => {
                scheduled.task_queue.as_ref().is_some_and(|queue| queue.kind() == TaskQueueKind::Sticky)
            }
            _ => self.memory.sticky.contains_key(&who),
        }
    }

    pub(super) fn queue_of_kind(&mut self, who: Who, sticky: bool) -> TaskQueue {
        if sticky {
            self.memory.sticky.insert(who, Instant::now());
            self.sticky_queue(who)
        } else {
            self.queue(who)
        }
    }

    pub(super) async fn keep_sticky_queues_polled(&mut self) {
        let stale = |polled: &Instant| polled.elapsed() > STICKY_POLL_AGE;
        let whos: Vec<Who> =
            self.memory.sticky.iter().filter(|(_, polled)| stale(polled)).map(|(who, _)| *who).collect();
        for who in whos {
            if self.memory.task_state(who).is_none() {
                self.poll_sticky_queue(who).await;
            }
        }
    }

    async fn poll_sticky_queue(&mut self, who: Who) {
        let queue = self.sticky_queue(who);
        let answer = self.poll(queue, SHORT_POLL).await;
        let empty = matches!(&answer, Ok(answer) if answer.get_ref().task_token.is_empty());
        if !empty {
            self.saw("keeping the sticky queue polled", answer);
        }
        self.memory.sticky.insert(who, Instant::now());
    }

    fn task(&self, who: Who, token: Token) -> Option<Task> {
        let tasks = self.memory.tasks.get(&who)?;
        match token {
            Token::Last => tasks.last().cloned(),
            Token::Previous => tasks.iter().rev().nth(1).cloned(),
            Token::First => tasks.first().cloned(),
        }
    }

    #[expect(deprecated, reason = "older workers still send their binary checksum")]
    pub(super) async fn complete_task(&mut self, who: Who, token: Token, with: &Completion) {
        let Some(task) = self.task(who, token) else {
            return self.note("complete", "left out: no task was taken");
        };
        if with.may_go_on() && self.leaves_an_update_waiting(who, &task, with) {
            // The real server sends it to the next run, or refuses it, depending on which of two threads is faster.
            return self.note("complete", "left out: an update waits for another run");
        }
        let carries = !task.queries.is_empty() && !task.queries_forgotten;
        if self.memory.queries.contains_key(&who) && !carries && with.commands.iter().any(Do::has_an_echo) {
            // The query goes to the queue on its own when the task is complete, and so does the task that comes of the
            // echo. Which of them a poll takes is chance.
            return self.note("complete", "left out: a query waits beside the task");
        }
        let was_sticky = self.memory.sticky.contains_key(&who);
        let polled = self.memory.sticky.get(&who).is_some_and(|polled| polled.elapsed() < STICKY_POLL_AGE);
        if with.sticky.is_some() && !polled {
            self.memory.ever_sticky = true;
            self.poll_sticky_queue(who).await;
        }
        self.let_query_arrive(who).await;
        let (commands, messages) = self.commands(who, &task, with);
        let sticky = with.sticky.map(|sticky| StickyExecutionAttributes {
            worker_task_queue: Some(self.sticky_queue(who)),
            schedule_to_start_timeout: Some(match sticky {
                Sticky::Long => seconds(100),
                Sticky::Short => seconds(SHORT_TASK_TIMEOUT),
            }),
        });
        let answers = self.memory.queries.get(&who).map(|query| query.answer);
        let query_results: HashMap<_, _> = task.queries.iter().map(|id| (id.clone(), query_result(answers))).collect();
        let request = RespondWorkflowTaskCompletedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.token,
            commands,
            messages,
            identity: WORKER.to_owned(),
            sticky_attributes: sticky,
            return_new_workflow_task: with.inline,
            force_create_new_workflow_task: with.force,
            query_results,
            capabilities: Some(Capabilities { discard_speculative_workflow_task_with_events: with.may_discard }),
            binary_checksum: with.build.checksum(),
            worker_version_stamp: with.build.stamp(),
            deployment_options: with.build.deployment(),
            sdk_metadata: with.build.sdk(),
            metering_metadata: with.build.metering(),
            ..Default::default()
        };
        let run = self.memory.current_run(who).map(str::to_owned);
        let answer = self.client.respond_workflow_task_completed(prompt(request)).await;
        let refused = answer.as_ref().err().map(Status::code);
        let answer = self.saw("complete", answer);
        if refused == Some(Code::InvalidArgument) {
            self.memory.forgotten.insert(who);
            self.memory.tasks.entry(who).or_default().iter_mut().for_each(|task| task.queries_forgotten = true);
        }
        if with.sticky.is_some() && refused.is_none() {
            self.memory.sticky.entry(who).or_insert_with(Instant::now);
            match with.sticky {
                Some(Sticky::Short) => self.memory.impatient.insert(who),
                _ => self.memory.impatient.remove(&who),
            };
        } else if refused != Some(Code::NotFound) || !was_sticky {
            // Polled for a completion that did not come about.
            self.memory.sticky.remove(&who);
        }
        let Some(answer) = answer else { return };
        if carries {
            self.collect_query(who).await;
        }
        self.expect_echoes(who, run.unwrap_or_default(), &with.commands);
        self.settle_updates(who, &task.messages, with);
        for activity in answer.activity_tasks {
            if let Some(number) = activity_number(&activity.activity_id) {
                self.take_activity(who, number, activity.task_token);
            }
        }
        if let Some(task) = answer.workflow_task {
            self.take_task(who, &task);
        }
    }

    #[expect(deprecated, reason = "older workers still send their binary checksum")]
    pub(super) async fn fail_task(&mut self, who: Who, token: Token, cause: WorkflowTaskFailedCause, build: Build) {
        let Some(task) = self.task(who, token) else {
            return self.note("fail", "left out: no task was taken");
        };
        let request = RespondWorkflowTaskFailedRequest {
            namespace: NAMESPACE.to_owned(),
            task_token: task.token,
            cause: cause as i32,
            failure: Some(failure("Task", false)),
            identity: WORKER.to_owned(),
            binary_checksum: build.checksum(),
            worker_version: build.stamp(),
            deployment_options: build.deployment(),
            ..Default::default()
        };
        let answer = self.client.respond_workflow_task_failed(prompt(request)).await;
        if self.saw("fail", answer).is_some() {
            self.memory.sticky.remove(&who);
        }
    }

    pub(super) async fn let_task_time_out(&mut self, who: Who) {
        let Some(task) = self.memory.states.get(&who).and_then(|state| state.pending_workflow_task) else {
            return self.note("let the task time out", "left out: no task is pending");
        };
        let about_to = match task.state() {
            PendingWorkflowTaskState::Started => {
                let config = self.memory.states[&who].execution_config.as_ref();
                let timeout = config.and_then(|config| config.default_workflow_task_timeout).unwrap_or_default();
                timeout.seconds <= SHORT_TASK_TIMEOUT && task.attempt <= LAST_AWAITED_ATTEMPT
            }
            _ => self.waits_for_a_few_seconds(who, task.attempt).await,
        };
        if !about_to {
            return self.note("let the task time out", "left out: no task is about to");
        }
        let longest = if task.attempt < FIRST_PATIENT_ATTEMPT { SHORT_TASK_TIMEOUT } else { LONGER_TASK_TIMEOUT };
        if !self.may_let_time_pass(Duration::from_secs(longest.unsigned_abs())) {
            return self.note("let the task time out", "left out: an update has waited for long");
        }
        self.memory.hurried_since.remove(&who);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && self.memory.states[&who].pending_workflow_task == Some(task) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.look().await;
        }
        self.memory.sticky.remove(&who);
        self.memory.lost.remove(&who);
    }
}

impl Player {
    /// Notices tasks that were held or waited for until they may have timed out, though the script did not let them.
    pub(super) fn watch_hurried_tasks(&mut self) {
        for who in Who::ALL {
            let task = self.memory.states.get(&who).and_then(|state| state.pending_workflow_task.as_ref());
            let started = task.is_some_and(|task| task.state() == PendingWorkflowTaskState::Started);
            let config = self.memory.states.get(&who).and_then(|state| state.execution_config.as_ref());
            let timeout = config.and_then(|config| config.default_workflow_task_timeout).unwrap_or_default();
            let speculates = !started && self.memory.updates.iter().any(|update| update.who == who);
            let hurried = if started {
                timeout.seconds <= SHORT_TASK_TIMEOUT
            } else {
                speculates || self.memory.impatient.contains(&who) && self.memory.sticky.contains_key(&who)
            };
            let limit = if speculates { SPECULATIVE_TOO_LONG } else { TOO_LONG };
            let running = self.memory.status(who) == Some(WorkflowExecutionStatus::Running);
            let since = self.memory.hurried_since.remove(&who);
            self.played.overtaken |= since.is_some_and(|since| since.elapsed() > limit);
            if running && task.is_some() && hurried {
                let taken = self.memory.taken_at.get(&who).copied().filter(|_| started);
                self.memory.hurried_since.insert(who, taken.or(since).unwrap_or_else(Instant::now));
            }
        }
    }

    /// Whether the scheduled task is given up soon if no worker takes it: one in a sticky queue that is kept for a short
    /// time, or a speculative one.
    async fn waits_for_a_few_seconds(&mut self, who: Who, attempt: i32) -> bool {
        if self.memory.lost.contains(&who) || self.memory.sticky.contains_key(&who) {
            return self.memory.impatient.contains(&who);
        }
        let events = self.history(who, "").await;
        let last = events.iter().rev().map(|event| event.event_type());
        let last =
            last.filter(|kind| matches!(kind, EventType::WorkflowTaskScheduled | EventType::WorkflowTaskStarted));
        let is_written = attempt > 1 || last.take(1).any(|kind| kind == EventType::WorkflowTaskScheduled);
        !is_written
    }
}

pub(super) fn query_result(answer: Option<QueryAnswer>) -> WorkflowQueryResult {
    match answer {
        Some(QueryAnswer::Failed) => WorkflowQueryResult {
            result_type: QueryResultType::Failed as i32,
            error_message: "cannot say".to_owned(),
            failure: Some(failure("Query", false)),
            ..Default::default()
        },
        _ => WorkflowQueryResult {
            result_type: QueryResultType::Answered as i32,
            answer: Some(payloads("answer")),
            ..Default::default()
        },
    }
}
