//! A failure that asks for a delay before the next attempt, also for none.

use prost_wkt_types::Duration;
use temporalio_protos::temporal::api::{
    command::v1::{FailWorkflowExecutionCommandAttributes, ScheduleActivityTaskCommandAttributes},
    common::v1::{ActivityType, RetryPolicy},
    enums::v1::RetryState,
    failure::v1::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    history::v1::history_event::Attributes,
    workflowservice::v1::{
        PollActivityTaskQueueRequest, RespondActivityTaskFailedRequest, StartWorkflowExecutionRequest,
    },
};

use super::{NAMESPACE, PATIENCE, Peer, peers, starts::command};
use crate::{
    engine::client::{milliseconds, patient, queue},
    support::block_on,
};

/// In milliseconds. The longest interval of the policy is 100 milliseconds.
const ACTIVITY_DELAYS: [u64; 3] = [0, 60, 900];
/// In milliseconds. No test waits that long. The longest interval of the policy is 100 seconds.
const RUN_DELAYS: [u64; 3] = [0, 60_000, 900_000];

#[test]
fn an_activity_that_asks_for_a_delay() {
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            let mut ends = Vec::new();
            for delay in ACTIVITY_DELAYS {
                ends.push(activity_after(&peer, delay).await);
            }
            println!("{}: {ends:?}", peer.name);
            seen.push(ends);
        }
        let not_retried = Err((1, RetryState::Timeout));
        assert_eq!(seen[0], [not_retried, Ok(2), Ok(2)]);
        assert_eq!(seen[1], seen[0]);
    });
}

/// The next attempt, or that there is none: the attempt that failed and why it was the last.
async fn activity_after(peer: &Peer, delay: u64) -> Result<i32, (i32, RetryState)> {
    let name = format!("activity delayed by {delay}");
    peer.start(peer.start_request(&name)).await;
    let task = peer.task(&name).await;
    let schedule = ScheduleActivityTaskCommandAttributes {
        activity_id: "activity".to_owned(),
        activity_type: Some(ActivityType { name: "activity".to_owned() }),
        task_queue: queue(&peer.id(&name)),
        start_to_close_timeout: milliseconds(60_000),
        retry_policy: policy(100),
        ..ScheduleActivityTaskCommandAttributes::default()
    };
    peer.decide(&task, vec![command(schedule.into())], Vec::new()).await;
    let poll = || PollActivityTaskQueueRequest {
        namespace: NAMESPACE.to_owned(),
        task_queue: queue(&peer.id(&name)),
        ..PollActivityTaskQueueRequest::default()
    };
    let mut stub = peer.stub.clone();
    let taken = stub.poll_activity_task_queue(patient(poll(), PATIENCE)).await.unwrap().into_inner();
    let failed = RespondActivityTaskFailedRequest {
        namespace: NAMESPACE.to_owned(),
        task_token: taken.task_token,
        failure: Some(failure(delay)),
        ..RespondActivityTaskFailedRequest::default()
    };
    stub.respond_activity_task_failed(failed).await.unwrap();
    if delay > 0 {
        let again = stub.poll_activity_task_queue(patient(poll(), PATIENCE)).await.unwrap().into_inner();
        return Ok(again.attempt);
    }
    let events = peer.history(&name).await;
    let end = events.iter().find_map(|event| match &event.attributes {
        Some(Attributes::ActivityTaskFailedEventAttributes(failed)) => Some(failed.retry_state()),
        _ => None,
    });
    Err((taken.attempt, end.expect("the activity has failed")))
}

#[test]
fn a_run_that_asks_for_a_delay() {
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            let mut waits = Vec::new();
            for delay in RUN_DELAYS {
                waits.push(run_after(&peer, delay).await);
            }
            println!("{}: {waits:?}", peer.name);
            seen.push(waits);
        }
        assert_eq!(seen[0], [100, 60, 100], "seconds");
        assert_eq!(seen[1], seen[0]);
    });
}

/// How long the next run waits, in seconds.
async fn run_after(peer: &Peer, delay: u64) -> i64 {
    let name = format!("run delayed by {delay}");
    let start = StartWorkflowExecutionRequest { retry_policy: policy(100_000), ..peer.start_request(&name) };
    peer.start(start).await;
    let task = peer.task(&name).await;
    let fail = FailWorkflowExecutionCommandAttributes { failure: Some(failure(delay)) };
    peer.decide(&task, vec![command(fail.into())], Vec::new()).await;
    let events = peer.history(&name).await;
    match events.first().and_then(|event| event.attributes.clone()) {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => {
            assert_eq!(started.attempt, 2);
            started.first_workflow_task_backoff.unwrap_or_default().seconds
        }
        other => panic!("{other:?}"),
    }
}

/// A fifth of the longest interval comes first; both in milliseconds.
fn policy(longest: u64) -> Option<RetryPolicy> {
    Some(RetryPolicy {
        initial_interval: milliseconds(longest / 5),
        maximum_interval: milliseconds(longest),
        backoff_coefficient: 1.0,
        ..RetryPolicy::default()
    })
}

fn failure(delay: u64) -> Failure {
    let next_retry_delay: Option<Duration> = milliseconds(delay);
    let info = ApplicationFailureInfo { next_retry_delay, ..ApplicationFailureInfo::default() };
    Failure {
        message: "later".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
        ..Failure::default()
    }
}
