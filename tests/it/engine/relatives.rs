//! A parent and its child tell each other what they must, whichever commit is lost on the way.

use tempfile::TempDir;
use temporalio_protos::temporal::api::{enums::v1::EventType, workflowservice::v1::PollWorkflowTaskQueueResponse};
use tonic::Code;
use windlass_engine::Limits;

use super::{
    host::{Fault, Host, workflow_of},
    plan::{complete, start_child},
};
use crate::support::block_on;

/// More than it takes from the parent's decision to the child's end.
const COMMITS: usize = 14;

/// Lives the lives of a parent and its child. Returns the parent's events.
async fn live(host: &Host) -> Vec<EventType> {
    let mut initiated = false;
    loop {
        let task = host.insist_on_task().await;
        let commands = match workflow_of(&task).as_str() {
            "child" => vec![complete()],
            _ if has(&task, EventType::ChildWorkflowExecutionCompleted) => {
                host.disk.heal();
                return host.events("parent").await;
            }
            _ if !initiated => vec![start_child("child", "")],
            _ => Vec::new(),
        };
        let parent = workflow_of(&task) == "parent";
        match host.insist_on_decision(&task, commands).await {
            Ok(_) => initiated |= parent,
            // Another task took its place when the commit was lost.
            Err(status) => assert_eq!(status.code(), Code::NotFound, "{status}"),
        }
    }
}

fn has(task: &PollWorkflowTaskQueueResponse, kind: EventType) -> bool {
    task.history.as_ref().is_some_and(|history| history.events.iter().any(|event| event.event_type() == kind))
}

#[test]
fn a_child_begins_once_and_its_end_is_heard_once_whichever_commit_is_lost() {
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
                EventType::ChildWorkflowExecutionCompleted,
            ] {
                let times = events.iter().filter(|event| **event == kind).count();
                assert_eq!(times, 1, "{kind:?} when commit {lost} is lost: {events:?}");
            }
            assert_eq!(host.events("child").await[0], EventType::WorkflowExecutionStarted);
            host.stop().await;
        }
    });
}
