//! A parent and its child exchange their messages, whichever commit fails.

use tempfile::TempDir;
use temporalio_protos::temporal::api::{
    common::v1::WorkflowExecution, enums::v1::EventType, workflowservice::v1::PollWorkflowTaskQueueResponse,
};
use tonic::Code;
use windlass_engine::Limits;

use super::{
    host::{Fault, Host, workflow_of},
    plan::{complete, signal_child, start_child},
};
use crate::support::block_on;

/// More than it takes from the parent's decision to the child's end.
const COMMITS: usize = 18;

/// Runs a parent and its child, which completes on a signal of its parent. Returns the parent's events.
async fn live(host: &Host) -> Vec<EventType> {
    let child = WorkflowExecution { workflow_id: "child".to_owned(), ..WorkflowExecution::default() };
    loop {
        let task = host.insist_on_task().await;
        let commands = match workflow_of(&task).as_str() {
            "child" if has(&task, EventType::WorkflowExecutionSignaled) => vec![complete()],
            "child" => Vec::new(),
            // The result of the signal may come after the child's end.
            _ if has(&task, EventType::ChildWorkflowExecutionCompleted)
                && has(&task, EventType::ExternalWorkflowExecutionSignaled) =>
            {
                host.disk.heal();
                return host.events("parent").await;
            }
            _ if !has(&task, EventType::StartChildWorkflowExecutionInitiated) => vec![start_child("child", "")],
            _ if has(&task, EventType::ChildWorkflowExecutionStarted)
                && !has(&task, EventType::SignalExternalWorkflowExecutionInitiated) =>
            {
                vec![signal_child(&child)]
            }
            _ => Vec::new(),
        };
        if let Err(status) = host.insist_on_decision(&task, commands).await {
            // Another task took its place after the failed commit.
            assert_eq!(status.code(), Code::NotFound, "{status}");
        }
    }
}

fn has(task: &PollWorkflowTaskQueueResponse, kind: EventType) -> bool {
    task.history.as_ref().is_some_and(|history| history.events.iter().any(|event| event.event_type() == kind))
}

#[test]
fn a_child_is_started_signalled_and_reported_once_whichever_commit_fails() {
    block_on(async {
        for lost in 0..COMMITS {
            let directory = TempDir::new().unwrap();
            let host = Host::start(&directory, Limits::default()).await;
            host.begin("parent").await.unwrap();
            let mut commits = 0..;
            host.disk.choose(move || if commits.next() == Some(lost) { Fault::LostCommit } else { Fault::None });
            let events = live(&host).await;
            for kind in [
                EventType::StartChildWorkflowExecutionInitiated,
                EventType::ChildWorkflowExecutionStarted,
                EventType::ExternalWorkflowExecutionSignaled,
                EventType::ChildWorkflowExecutionCompleted,
            ] {
                let times = events.iter().filter(|event| **event == kind).count();
                assert_eq!(times, 1, "{kind:?} when commit {lost} is lost: {events:?}");
            }
            let of_child = host.events("child").await;
            let signals = of_child.iter().filter(|event| **event == EventType::WorkflowExecutionSignaled);
            assert_eq!(signals.count(), 1, "when commit {lost} is lost");
            // No run had to wait for the timeout of a lost task.
            for events in [events, of_child] {
                assert!(!events.contains(&EventType::WorkflowTaskTimedOut), "when commit {lost} is lost: {events:?}");
            }
            host.stop().await;
        }
    });
}
