//! Local workers end with the engine's process, and the next engine does not wait for them.

use std::time::{Duration, Instant};

use tempfile::TempDir;
use temporalio_protos::temporal::api::{
    enums::v1::{EventType, RetryState, TimeoutType},
    failure::v1::failure::FailureInfo,
    history::v1::history_event::Attributes,
};
use windlass_engine::Limits;

use super::{
    host::Host,
    plan::{AGAIN, ONCE, activity},
};
use crate::support::block_on;

/// Much less than the ten seconds of the workflow task timeout, and the minute of the activities here.
const AT_ONCE: Duration = Duration::from_secs(5);
const LONG: u64 = 60_000;

async fn soon<T>(task: impl Future<Output = Result<T, tonic::Status>>) -> T {
    tokio::time::timeout(AT_ONCE, task).await.expect("the next engine does not wait").unwrap()
}

#[test]
fn a_workflow_task_of_a_local_worker_is_dispatched_again_after_a_restart() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits::default()).await;
        host.begin("w").await.unwrap();
        let lost = host.workflow_task(true).await.unwrap();
        host.stop().await;

        let host = Host::start(&directory, Limits::default()).await;
        let task = soon(host.workflow_task(true)).await;
        assert_eq!((lost.attempt, task.attempt), (1, 2));
        let expected = [
            EventType::WorkflowExecutionStarted,
            EventType::WorkflowTaskScheduled,
            EventType::WorkflowTaskStarted,
            EventType::WorkflowTaskTimedOut,
            EventType::WorkflowTaskScheduled,
            EventType::WorkflowTaskStarted,
        ];
        assert_eq!(host.events("w").await, expected);
        assert_eq!(host.decide(&lost, Vec::new()).await.unwrap_err().code(), tonic::Code::NotFound);
        host.decide(&task, Vec::new()).await.unwrap();
        host.stop().await;
    });
}

#[test]
fn activities_of_a_local_worker_are_retried_after_a_restart_if_the_policy_allows() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits::default()).await;
        host.begin("w").await.unwrap();
        let task = host.workflow_task(true).await.unwrap();
        host.decide(&task, vec![activity(ONCE, "once", 1, LONG), activity(AGAIN, "again", 0, LONG)]).await.unwrap();
        for _ in 0..2 {
            host.activity(true).await.unwrap();
        }
        host.stop().await;

        let host = Host::start(&directory, Limits::default()).await;
        let (again, task) = tokio::join!(soon(host.activity(true)), soon(host.workflow_task(true)));
        assert_eq!((again.activity_id.as_str(), again.attempt), ("again", 2));
        let events = task.history.unwrap().events;
        let given_up: Vec<_> = events
            .iter()
            .filter_map(|event| match event.attributes.as_ref() {
                Some(Attributes::ActivityTaskTimedOutEventAttributes(a)) => {
                    let kind = match a.failure.as_ref().and_then(|failure| failure.failure_info.as_ref()) {
                        Some(FailureInfo::TimeoutFailureInfo(info)) => info.timeout_type(),
                        other => panic!("{other:?}"),
                    };
                    Some((kind, a.retry_state()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(given_up, [(TimeoutType::StartToClose, RetryState::MaximumAttemptsReached)]);
        host.stop().await;
    });
}

#[test]
fn remote_workers_keep_their_tasks_when_the_engine_restarts() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits::default()).await;
        host.begin("elsewhere").await.unwrap();
        let kept = host.workflow_task(false).await.unwrap();
        host.begin("inside").await.unwrap();
        host.workflow_task(true).await.unwrap();
        host.stop().await;

        let host = Host::start(&directory, Limits::default()).await;
        let begun = Instant::now();
        // When the local one has timed out, the remote one would have, too.
        soon(host.workflow_task(true)).await;
        host.decide(&kept, Vec::new()).await.unwrap();
        assert_eq!(host.events("elsewhere").await.last(), Some(&EventType::WorkflowTaskCompleted));
        assert!(begun.elapsed() < AT_ONCE);
        host.stop().await;
    });
}
