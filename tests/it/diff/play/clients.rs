//! What clients do: start, signal, cancel, terminate, reset, delete.

use std::time::Instant;

use temporalio_protos::temporal::api::{
    enums::v1::{EventType, PendingWorkflowTaskState, ResetReapplyType, WorkflowExecutionStatus},
    sdk::v1::UserMetadata,
    workflow::v1::OnConflictOptions,
    workflowservice::v1::{
        DeleteWorkflowExecutionRequest, RequestCancelWorkflowExecutionRequest, ResetStickyTaskQueueRequest,
        ResetWorkflowExecutionRequest, SignalWithStartWorkflowExecutionRequest, SignalWorkflowExecutionRequest,
        StartWorkflowExecutionRequest, TerminateWorkflowExecutionRequest,
    },
};

use super::{
    Player,
    names::{
        ATTRIBUTE, CLIENT, attributes, header, memo, millis, number_payload, payload, payloads, priority, retry,
        seconds, workflow_type,
    },
    prompt,
    state::{Echo, Task},
    tasks::SHORT_TASK_TIMEOUT,
};
use crate::diff::{
    peer::NAMESPACE,
    script::{ResetTo, Run, Start, StartExtra, Who},
};

/// Long enough that no task times out because the machine is busy.
const TASK_TIMEOUT: i64 = 96;

impl Player {
    pub(super) async fn start(&mut self, start: &Start) {
        let request = self.start_request(start);
        let answer = self.client.start_workflow_execution(prompt(request)).await;
        let Some(answer) = self.saw("start", answer) else { return };
        self.memory.see_run(start.who, &answer.run_id);
        if answer.started {
            self.expect_end(start, answer.run_id);
        }
        if let Some(task) = answer.eager_workflow_task {
            self.take_task(start.who, &task);
        }
    }

    fn expect_end(&mut self, start: &Start, run: String) {
        if start.extras.contains(&StartExtra::OneSecondRunTimeout) {
            self.memory.echoes.push(Echo::RunEnds { who: start.who, run });
        }
    }

    pub(super) async fn signal_with_start(&mut self, start: &Start) {
        let request = self.start_request(start);
        let request = SignalWithStartWorkflowExecutionRequest {
            namespace: request.namespace,
            workflow_id: request.workflow_id,
            workflow_type: request.workflow_type,
            task_queue: request.task_queue,
            input: request.input,
            workflow_execution_timeout: request.workflow_execution_timeout,
            workflow_run_timeout: request.workflow_run_timeout,
            workflow_task_timeout: request.workflow_task_timeout,
            identity: request.identity,
            request_id: request.request_id,
            workflow_id_reuse_policy: request.workflow_id_reuse_policy,
            workflow_id_conflict_policy: request.workflow_id_conflict_policy,
            signal_name: "hello".to_owned(),
            signal_input: Some(payloads("signal with start")),
            retry_policy: request.retry_policy,
            memo: request.memo,
            search_attributes: request.search_attributes,
            header: request.header,
            workflow_start_delay: request.workflow_start_delay,
            user_metadata: request.user_metadata,
            priority: request.priority,
            ..Default::default()
        };
        let answer = self.client.signal_with_start_workflow_execution(prompt(request)).await;
        let Some(answer) = self.saw("signal with start", answer) else { return };
        self.memory.see_run(start.who, &answer.run_id);
        if answer.started {
            self.expect_end(start, answer.run_id);
        }
    }

    pub(super) fn start_request(&self, start: &Start) -> StartWorkflowExecutionRequest {
        let mut request = StartWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_id: self.id(start.who),
            workflow_type: Some(workflow_type("Script")),
            task_queue: Some(self.queue(start.who)),
            workflow_task_timeout: Some(seconds(TASK_TIMEOUT)),
            identity: CLIENT.to_owned(),
            request_id: format!("start-{}", start.request),
            workflow_id_reuse_policy: start.reuse as i32,
            workflow_id_conflict_policy: start.conflict as i32,
            ..Default::default()
        };
        for extra in &start.extras {
            match extra {
                StartExtra::Input => request.input = Some(payloads("input")),
                StartExtra::Header => request.header = Some(header()),
                StartExtra::Memo => request.memo = Some(memo("at start")),
                StartExtra::Attributes => request.search_attributes = Some(attributes(ATTRIBUTE, payload("start"))),
                StartExtra::UnknownAttribute => request.search_attributes = Some(attributes("Nope", payload("start"))),
                StartExtra::IllTypedAttribute => {
                    request.search_attributes = Some(attributes(ATTRIBUTE, number_payload(5)));
                }
                StartExtra::Retry => request.retry_policy = Some(retry(3, &[])),
                StartExtra::RetryUnlessFatal => request.retry_policy = Some(retry(3, &["Fatal"])),
                StartExtra::InvalidRetry => request.retry_policy = Some(retry(-1, &[])),
                StartExtra::LongRunTimeout => request.workflow_run_timeout = Some(seconds(3000)),
                StartExtra::LongExecutionTimeout => request.workflow_execution_timeout = Some(seconds(4000)),
                StartExtra::ShortTaskTimeout => request.workflow_task_timeout = Some(seconds(SHORT_TASK_TIMEOUT)),
                StartExtra::DefaultTaskTimeout => request.workflow_task_timeout = None,
                StartExtra::NegativeTimeout => request.workflow_run_timeout = Some(seconds(-1)),
                StartExtra::OneSecondRunTimeout => request.workflow_run_timeout = Some(seconds(1)),
                StartExtra::Delay => request.workflow_start_delay = Some(millis(200)),
                StartExtra::Eager => request.request_eager_execution = true,
                StartExtra::Metadata => request.user_metadata = Some(metadata()),
                StartExtra::Priority => request.priority = Some(priority()),
                StartExtra::NoType => request.workflow_type = None,
                StartExtra::NoQueue => request.task_queue = None,
                StartExtra::NoRequestId => request.request_id.clear(),
                StartExtra::AttachRequestId => {
                    request.on_conflict_options =
                        Some(OnConflictOptions { attach_request_id: true, ..Default::default() });
                }
            }
        }
        request
    }

    pub(super) async fn signal(&mut self, who: Who, request: u8, run: Run) {
        let request = SignalWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: Some(self.execution(who, run)),
            signal_name: "hello".to_owned(),
            input: Some(payloads(&format!("signal {request}"))),
            identity: CLIENT.to_owned(),
            request_id: format!("signal-{request}"),
            header: Some(header()),
            ..Default::default()
        };
        let answer = self.client.signal_workflow_execution(prompt(request)).await;
        self.saw("signal", answer);
    }

    pub(super) async fn cancel(&mut self, who: Who, request: u8, run: Run) {
        let request = RequestCancelWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: Some(self.execution(who, run)),
            identity: CLIENT.to_owned(),
            request_id: format!("cancel-{request}"),
            reason: "enough".to_owned(),
            ..Default::default()
        };
        let answer = self.client.request_cancel_workflow_execution(prompt(request)).await;
        self.saw("cancel", answer);
    }

    pub(super) async fn terminate(&mut self, who: Who, run: Run) {
        let request = TerminateWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: Some(self.execution(who, run)),
            reason: "no more".to_owned(),
            details: Some(payloads("details")),
            identity: CLIENT.to_owned(),
            ..Default::default()
        };
        let answer = self.client.terminate_workflow_execution(prompt(request)).await;
        self.saw("terminate", answer);
    }

    #[expect(deprecated, reason = "the field that clients of every version know")]
    pub(super) async fn reset(&mut self, who: Who, to: ResetTo, request: u8, reapply: ResetReapplyType) {
        let events = self.history(who, "").await;
        let mut completed = events
            .iter()
            .filter(|event| event.event_type() == EventType::WorkflowTaskCompleted)
            .map(|event| event.event_id);
        let event = match to {
            ResetTo::FirstTask => completed.next().unwrap_or(4),
            ResetTo::LastTask => completed.next_back().unwrap_or(4),
            ResetTo::Event(event) => event,
        };
        let request = ResetWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: Some(self.execution(who, Run::Current)),
            reason: "again".to_owned(),
            workflow_task_finish_event_id: event,
            request_id: format!("reset-{request}"),
            reset_reapply_type: reapply as i32,
            identity: CLIENT.to_owned(),
            ..Default::default()
        };
        let answer = self.client.reset_workflow_execution(prompt(request)).await;
        if let Some(answer) = self.saw("reset", answer) {
            self.memory.reset.extend(self.memory.current_run(who).map(str::to_owned));
            let ended_children = Who::CHILDREN.map(|child| self.memory.ended_chain(child));
            let ended = ended_children.into_iter().chain([self.memory.ended_parent(who)]).flatten();
            self.memory.untold.extend(ended.map(|ended| (answer.run_id.clone(), ended)));
            self.memory.see_run(who, &answer.run_id);
        }
    }

    pub(super) async fn delete(&mut self, who: Who, run: Run) {
        let request = DeleteWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: Some(self.execution(who, run)),
        };
        // Deleting an open run terminates it first, in its own time; scripts delete closed ones.
        let target = match run {
            Run::Current => self.memory.current_run(who).unwrap_or_default().to_owned(),
            named => self.run_id(who, named),
        };
        let open = self.memory.current_run(who) == Some(target.as_str())
            && self.memory.status(who) == Some(WorkflowExecutionStatus::Running);
        if open {
            return self.note("delete", "left out: the run is open");
        }
        let answer = self.client.delete_workflow_execution(prompt(request)).await;
        if self.saw("delete", answer).is_some() {
            self.memory.echoes.push(Echo::Deleted { who, run: target });
        }
    }

    pub(super) async fn reset_sticky(&mut self, who: Who) {
        let scheduled = self.memory.task_state(who) == Some(PendingWorkflowTaskState::Scheduled);
        let waits = scheduled && self.waits_in_sticky_queue(who).await;
        let request = ResetStickyTaskQueueRequest {
            namespace: NAMESPACE.to_owned(),
            execution: Some(self.execution(who, Run::Current)),
        };
        let answer = self.client.reset_sticky_task_queue(prompt(request)).await;
        if self.saw("reset sticky queue", answer).is_some() {
            self.memory.sticky.remove(&who);
            if waits {
                self.memory.lost.insert(who);
            }
        }
    }

    pub(super) fn take_task(
        &mut self,
        who: Who,
        task: &temporalio_protos::temporal::api::workflowservice::v1::PollWorkflowTaskQueueResponse,
    ) {
        self.memory.taken_at.insert(who, Instant::now());
        let events = task.history.as_ref().map(|history| history.events.as_slice()).unwrap_or_default();
        self.memory.see_events(who, events);
        let mut queries: Vec<String> = task.queries.keys().cloned().collect();
        queries.sort();
        self.played.raced |= queries.is_empty() && self.awaits_query(who);
        let task =
            Task { token: task.task_token.clone(), messages: task.messages.clone(), queries, queries_forgotten: false };
        self.memory.tasks.entry(who).or_default().push(task);
    }
}

pub(super) fn metadata() -> UserMetadata {
    UserMetadata { summary: Some(payload("summary")), details: Some(payload("details")) }
}
