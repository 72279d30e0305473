//! Reading: descriptions, histories in every way the API offers, lists.

use std::time::Duration;

use temporalio_protos::temporal::api::{
    common::v1::WorkflowExecution,
    enums::v1::{HistoryEventFilterType, WorkflowExecutionStatus},
    history::v1::HistoryEvent,
    workflowservice::v1::{
        DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse, GetWorkflowExecutionHistoryRequest,
        GetWorkflowExecutionHistoryReverseRequest,
    },
};
use tonic::{Response, Status};

use super::{Player, prompt, timed};
use crate::diff::{
    peer::NAMESPACE,
    script::{HistoryRead, Run, Who},
};

const CLOSE_EVENT_DEADLINE: Duration = Duration::from_secs(3);

impl Player {
    pub(super) async fn describe(
        &mut self,
        who: Who,
        run: &str,
    ) -> Result<Response<DescribeWorkflowExecutionResponse>, Status> {
        let request = DescribeWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            execution: Some(WorkflowExecution { workflow_id: self.id(who), run_id: run.to_owned() }),
        };
        self.client.describe_workflow_execution(prompt(request)).await
    }

    /// All events of a run; of the current one if none is named. Empty if there is no such run.
    pub(super) async fn history(&mut self, who: Who, run: &str) -> Vec<HistoryEvent> {
        self.pages(who, run, 0).await.unwrap_or_default()
    }

    async fn pages(&mut self, who: Who, run: &str, page_size: i32) -> Result<Vec<HistoryEvent>, Status> {
        let mut events = Vec::new();
        let mut token = Vec::new();
        loop {
            let request = GetWorkflowExecutionHistoryRequest {
                namespace: NAMESPACE.to_owned(),
                execution: Some(WorkflowExecution { workflow_id: self.id(who), run_id: run.to_owned() }),
                maximum_page_size: page_size,
                next_page_token: token,
                ..Default::default()
            };
            let page = self.client.get_workflow_execution_history(prompt(request)).await?.into_inner();
            events.extend(page.history.map(|history| history.events).unwrap_or_default());
            token = page.next_page_token;
            if token.is_empty() {
                return Ok(events);
            }
        }
    }

    async fn reversed(&mut self, who: Who) -> Result<Vec<HistoryEvent>, Status> {
        let mut events = Vec::new();
        let mut token = Vec::new();
        loop {
            let request = GetWorkflowExecutionHistoryReverseRequest {
                namespace: NAMESPACE.to_owned(),
                execution: Some(self.execution(who, Run::Current)),
                maximum_page_size: 3,
                next_page_token: token,
            };
            let page = self.client.get_workflow_execution_history_reverse(prompt(request)).await?.into_inner();
            events.extend(page.history.map(|history| history.events).unwrap_or_default());
            token = page.next_page_token;
            if token.is_empty() {
                return Ok(events);
            }
        }
    }

    pub(super) async fn read_history(&mut self, who: Who, how: HistoryRead) {
        match how {
            // Where a page ends is the server's affair: only what the pages hold together is compared.
            HistoryRead::Paged => {
                let events = self.pages(who, "", 2).await;
                self.saw_events("paged history", events);
            }
            HistoryRead::Reverse => {
                let events = self.reversed(who).await;
                self.saw_events("reversed history", events);
            }
            HistoryRead::CloseEvent | HistoryRead::Wait => self.wait_for_history(who, how).await,
        }
    }

    async fn wait_for_history(&mut self, who: Who, how: HistoryRead) {
        let open = self.memory.status(who) == Some(WorkflowExecutionStatus::Running);
        let filter = match how {
            HistoryRead::CloseEvent => HistoryEventFilterType::CloseEvent,
            _ => HistoryEventFilterType::AllEvent,
        };
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: NAMESPACE.to_owned(),
            execution: Some(self.execution(who, Run::Current)),
            wait_new_event: how == HistoryRead::Wait || !open,
            history_event_filter_type: filter as i32,
            ..Default::default()
        };
        // Who asks for the last event of an open run is answered a second before the deadline.
        if open && how == HistoryRead::CloseEvent && !self.may_let_time_pass(CLOSE_EVENT_DEADLINE) {
            return self.note("history", "left out: an update has waited for long");
        }
        let answer = self.client.get_workflow_execution_history(timed(request, CLOSE_EVENT_DEADLINE)).await;
        self.saw("history", answer);
    }

    fn saw_events(&mut self, what: &str, events: Result<Vec<HistoryEvent>, Status>) {
        let seen = match events {
            Ok(events) => self.show_events(&events),
            Err(status) => self.normal.status(&status),
        };
        self.note(what, seen);
    }

    pub(super) fn show_events(&mut self, events: &[HistoryEvent]) -> String {
        events.iter().map(|event| format!("{}\n", self.normal.message(event))).collect()
    }
}
