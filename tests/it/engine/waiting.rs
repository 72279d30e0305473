//! What is in memory when a commit fails: tasks, timers, updates, repeated requests.

use std::{sync::atomic::Ordering, time::Duration};

use futures_util::poll;
use tempfile::TempDir;
use temporalio_protos::temporal::api::{
    enums::v1::{EventType, UpdateWorkflowExecutionLifecycleStage},
    update::v1::{Input, Meta, Request, WaitPolicy},
    workflowservice::v1::{
        SignalWorkflowExecutionResponse, UpdateWorkflowExecutionRequest, UpdateWorkflowExecutionResponse,
    },
};
use tonic::{Code, Status};
use windlass_engine::Limits;

use super::{
    client::{NAMESPACE, execution},
    host::{Host, workflow_of},
    plan::{complete, timer},
    script::{is_unavailable, signal},
};
use crate::support::block_on;

const PATIENCE: Duration = Duration::from_secs(20);

/// Makes the next commit fail, which is that of a signal.
async fn lose_a_commit(host: &Host, workflow_id: &str) {
    host.disk.failing.store(1, Ordering::SeqCst);
    let lost = host.signal(workflow_id, "lost").await;
    assert!(is_unavailable(&lost), "{lost:?}");
}

#[test]
fn an_operation_whose_commit_failed_can_be_repeated() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits::default()).await;
        host.begin("w").await.unwrap();
        let before = host.history("w").await;
        lose_a_commit(&host, "w").await;
        assert_eq!(host.history("w").await, before);

        host.disk.failing.store(1, Ordering::SeqCst);
        assert!(is_unavailable(&host.begin("other").await));
        assert_eq!(host.signal("other", "too early").await.unwrap_err().code(), Code::NotFound);

        host.signal("w", "lost").await.unwrap();
        host.signal("w", "lost").await.unwrap();
        host.begin("other").await.unwrap();
        let expected = [
            EventType::WorkflowExecutionStarted,
            EventType::WorkflowTaskScheduled,
            EventType::WorkflowExecutionSignaled,
        ];
        assert_eq!(host.events("w").await, expected);
        host.stop().await;
        let host = Host::start(&directory, Limits::default()).await;
        assert_eq!(host.events("w").await, expected);
        assert_eq!(host.events("other").await, expected[..2]);
        host.stop().await;
    });
}

#[test]
fn waiting_tasks_are_dispatched_after_a_failed_commit() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits::default()).await;
        host.begin("waiting").await.unwrap();
        lose_a_commit(&host, "waiting").await;
        assert_eq!(workflow_of(&host.insist_on_task().await), "waiting");
        host.stop().await;
    });
}

#[test]
fn a_timer_whose_commit_failed_fires_again() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits::default()).await;
        host.begin("w").await.unwrap();
        let task = host.workflow_task(false).await.unwrap();
        host.decide(&task, vec![timer("t".to_owned(), 100)]).await.unwrap();
        // Nothing else is written until the timer fires, and no request touches the run after that.
        host.disk.failing.store(1, Ordering::SeqCst);
        host.disk.failed(1).await;
        let task = host.insist_on_task().await;
        let events = task.history.unwrap().events;
        let fired = events.iter().filter(|event| event.event_type() == EventType::TimerFired).count();
        assert_eq!((fired, host.disk.failing.load(Ordering::SeqCst)), (1, 0));
        host.stop().await;
    });
}

#[test]
fn a_caller_that_waits_for_an_update_gets_unavailable_after_a_failed_commit() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits::default()).await;
        host.begin("w").await.unwrap();
        let request = UpdateWorkflowExecutionRequest {
            namespace: NAMESPACE.to_owned(),
            workflow_execution: execution("w", ""),
            wait_policy: Some(WaitPolicy { lifecycle_stage: UpdateWorkflowExecutionLifecycleStage::Completed as i32 }),
            request: Some(Request {
                meta: Some(Meta { update_id: "u".to_owned(), ..Meta::default() }),
                input: Some(Input { name: "change".to_owned(), ..Input::default() }),
                ..Request::default()
            }),
            ..UpdateWorkflowExecutionRequest::default()
        };
        let mut update =
            Box::pin(host.call::<UpdateWorkflowExecutionResponse>("UpdateWorkflowExecution", &request, false));
        assert!(poll!(&mut update).is_pending());
        lose_a_commit(&host, "w").await;
        let answer = tokio::time::timeout(PATIENCE, update).await.expect("an answer comes");
        assert!(is_unavailable(&answer), "{answer:?}");
        host.stop().await;
    });
}

/// The second of two equal requests finds the effect of the first in memory. It must not be acknowledged before the
/// first one is durable.
#[test]
fn a_repeated_signal_is_not_acknowledged_before_the_first_is_durable() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits::default()).await;
        host.begin("w").await.unwrap();
        let request = signal("w", "same");
        let send =
            || Box::pin(host.call::<SignalWorkflowExecutionResponse>("SignalWorkflowExecution", &request, false));
        for kept in [false, true] {
            let gate = host.disk.shut_gate();
            let (mut first, mut second) = (send(), send());
            assert!(poll!(&mut first).is_pending());
            tokio::task::block_in_place(|| gate.arrived.recv()).unwrap();
            assert!(poll!(&mut second).is_pending(), "the first signal is not kept yet");
            host.disk.failing.store(usize::from(!kept), Ordering::SeqCst);
            gate.open.send(()).unwrap();
            let answers: [Result<_, Status>; 2] = [first.await, second.await];
            assert_eq!(answers.map(|answer| answer.is_ok()), [kept; 2]);
        }
        let signals = host.events("w").await.into_iter().filter(|kind| *kind == EventType::WorkflowExecutionSignaled);
        assert_eq!(signals.count(), 1);
        host.stop().await;
    });
}

/// A worker with the run in its cache gets tasks before they are durable. Its completion for events that were lost must
/// not be applied to other events in their place.
#[test]
fn a_task_whose_start_was_not_committed_cannot_be_completed() {
    block_on(async {
        let directory = TempDir::new().unwrap();
        let host = Host::start(&directory, Limits::default()).await;
        host.begin("w").await.unwrap();
        let task = host.workflow_task(false).await.unwrap();
        let mut cached_task = Box::pin(host.task_of_kept_run());
        assert!(poll!(&mut cached_task).is_pending());
        host.keep(&task).await;

        let gate = host.disk.shut_gate();
        let mut lost = Box::pin(host.signal("w", "lost"));
        assert!(poll!(&mut lost).is_pending());
        let lost_task = cached_task.await.unwrap();
        host.disk.failing.store(1, Ordering::SeqCst);
        gate.open.send(()).unwrap();
        assert!(is_unavailable(&lost.await));

        host.signal("w", "kept").await.unwrap();
        let task = host.insist_on_task().await;
        assert_eq!(task.started_event_id, lost_task.started_event_id);
        assert_eq!(host.decide(&lost_task, vec![complete()]).await.unwrap_err().code(), Code::NotFound);
        host.decide(&task, vec![complete()]).await.unwrap();
        host.stop().await;
    });
}
