//! A workflow task that no worker gets done in time.

use prost_wkt_types::Duration;
use temporalio_protos::temporal::api::{
    command::v1::StartTimerCommandAttributes,
    enums::v1::{EventType, WorkflowTaskFailedCause},
    history::v1::{HistoryEvent, WorkflowTaskScheduledEventAttributes, history_event::Attributes},
    workflowservice::v1::{
        DescribeWorkflowExecutionRequest, RespondWorkflowTaskFailedRequest, StartWorkflowExecutionRequest,
    },
};

use super::{NAMESPACE, Peer, execution, peers, starts::command};
use crate::{engine::client::milliseconds, support::block_on};

/// Attempts from which on the timeout is longer.
const PATIENT_FROM: i32 = 4;

#[test]
fn a_task_that_keeps_timing_out_gets_a_longer_timeout() {
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            let start = StartWorkflowExecutionRequest {
                workflow_task_timeout: milliseconds(1000),
                ..peer.start_request("slow")
            };
            peer.start(start).await;
            let mut timeouts = Vec::new();
            for _ in 0..PATIENT_FROM {
                let task = peer.task("slow").await;
                let scheduled = scheduled(&task.history.unwrap_or_default().events);
                timeouts.push((task.attempt, rounded(scheduled.start_to_close_timeout)));
            }
            println!("{}: {timeouts:?}", peer.name);
            seen.push(timeouts);
        }
        // The fourth attempt has four to five seconds more, by chance.
        assert_eq!(seen[0], [(1, 1), (2, 1), (3, 1), (4, 5)]);
        assert_eq!(seen[1], seen[0]);
    });
}

/// A worker that reports its failures is repeated at once, however often it fails.
#[test]
fn a_task_that_keeps_failing_counts_its_attempts_and_shows_the_problem() {
    const FAILURES: usize = 6;
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            peer.start(peer.start_request("fails")).await;
            let mut attempts = Vec::new();
            for _ in 0..FAILURES {
                let task = peer.task("fails").await;
                attempts.push((task.attempt, problems(&peer).await));
                let failed = RespondWorkflowTaskFailedRequest {
                    namespace: NAMESPACE.to_owned(),
                    task_token: task.task_token,
                    cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure as i32,
                    ..RespondWorkflowTaskFailedRequest::default()
                };
                peer.stub.clone().respond_workflow_task_failed(failed).await.unwrap();
            }
            let task = peer.task("fails").await;
            attempts.push((task.attempt, problems(&peer).await));
            let timer = StartTimerCommandAttributes {
                timer_id: "timer".to_owned(),
                start_to_fire_timeout: milliseconds(3_600_000),
            };
            peer.decide(&task, vec![command(timer.into())], Vec::new()).await;
            attempts.push((0, problems(&peer).await));
            let history = peer.history("fails").await;
            let last = scheduled(&history);
            let kinds: Vec<EventType> = history.iter().map(HistoryEvent::event_type).collect();
            seen.push((attempts, kinds, last.attempt, rounded(last.start_to_close_timeout) > 10));
        }
        println!("{:#?}", seen[0]);
        assert_eq!(seen[1], seen[0]);
    });
}

/// What lists show of a run whose task fails again and again.
async fn problems(peer: &Peer) -> String {
    let request =
        DescribeWorkflowExecutionRequest { namespace: NAMESPACE.to_owned(), execution: execution(&peer.id("fails")) };
    let described = peer.stub.clone().describe_workflow_execution(request).await.unwrap().into_inner();
    let attributes = described.workflow_execution_info.unwrap_or_default().search_attributes.unwrap_or_default();
    let problems = attributes.indexed_fields.get("TemporalReportedProblems");
    problems.map(|problems| String::from_utf8_lossy(&problems.data).into_owned()).unwrap_or_default()
}

fn scheduled(events: &[HistoryEvent]) -> WorkflowTaskScheduledEventAttributes {
    let scheduled = events.iter().rev().find_map(|event| match &event.attributes {
        Some(Attributes::WorkflowTaskScheduledEventAttributes(scheduled)) => Some(scheduled.clone()),
        _ => None,
    });
    scheduled.expect("a task was scheduled")
}

fn rounded(span: Option<Duration>) -> i64 {
    span.unwrap_or_default().seconds
}
