//! Batch operations: what they refuse, what they do to runs, and what is shown of them.

use prost_wkt_types::FieldMask;
use temporalio_protos::temporal::api::{
    activity::v1::ActivityOptions,
    batch::v1::{
        BatchOperationCancellation, BatchOperationDeletion, BatchOperationReset, BatchOperationResetActivities,
        BatchOperationSignal, BatchOperationTermination, BatchOperationUnpauseActivities,
        BatchOperationUpdateActivityOptions, batch_operation_reset_activities as reset,
        batch_operation_unpause_activities as unpause, batch_operation_update_activity_options as update,
    },
    command::v1::ScheduleActivityTaskCommandAttributes,
    common::v1::{ActivityType, Execution, ResetOptions, WorkflowType, reset_options::Target},
    enums::v1::{BatchOperationState, EventType, ExecutionType},
    history::v1::HistoryEvent,
    workflow::v1::PendingActivityInfo,
    workflowservice::v1::{
        CountWorkflowExecutionsRequest, DescribeBatchOperationRequest, DescribeBatchOperationResponse,
        DescribeWorkflowExecutionRequest, ListBatchOperationsRequest, PauseActivityRequest, StartBatchOperationRequest,
        StartWorkflowExecutionRequest, StopBatchOperationRequest, pause_activity_request,
        start_batch_operation_request::Operation,
    },
};
use tonic::{Code, Status};

use super::{NAMESPACE, Peer, execution, peers, starts::command};
use crate::{
    engine::client::{milliseconds, queue},
    support::block_on,
};

const NAMES: [&str; 3] = ["a", "b", "c"];

#[test]
fn batches_do_to_runs_and_show_what_they_do_on_the_real_server() {
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            seen.push(Box::pin(story(&peer)).await);
        }
        println!("{:#?}", seen[0]);
        assert_eq!(seen[1], seen[0]);
    });
}

/// Everything that happens in one test, because a namespace has one batch at a time.
async fn story(peer: &Peer) -> Vec<String> {
    let mut told = Vec::new();
    for name in NAMES {
        begin(peer, name).await;
    }
    listed(peer, &running(peer), NAMES.len()).await;
    Box::pin(refusals(peer, &mut told)).await;

    let signal = || {
        Operation::SignalOperation(BatchOperationSignal {
            signal: "signal".to_owned(),
            identity: "operator".to_owned(),
            ..BatchOperationSignal::default()
        })
    };
    told.push(batch(peer, "signal", &running(peer), signal()).await);
    told.push(outcome(start(peer, request(peer, "signal", &running(peer), signal())).await));
    told.push(runs(peer).await);

    for name in NAMES {
        pause(peer, name).await;
    }
    listed(peer, &format!("TemporalPauseInfo = 'property:activityType=activity' AND {}", of(peer)), 3).await;
    let options = BatchOperationUpdateActivityOptions {
        identity: "operator".to_owned(),
        activity: Some(update::Activity::MatchAll(true)),
        activity_options: Some(ActivityOptions {
            heartbeat_timeout: milliseconds(30_000),
            ..ActivityOptions::default()
        }),
        update_mask: Some(FieldMask { paths: vec!["heartbeat_timeout".to_owned()] }),
        ..BatchOperationUpdateActivityOptions::default()
    };
    told.push(batch(peer, "options", &running(peer), Operation::UpdateActivityOptionsOperation(options)).await);
    let resets = BatchOperationResetActivities {
        identity: "operator".to_owned(),
        activity: Some(reset::Activity::Type("activity".to_owned())),
        keep_paused: true,
        ..BatchOperationResetActivities::default()
    };
    told.push(batch(peer, "reset activities", &running(peer), Operation::ResetActivitiesOperation(resets)).await);
    told.push(runs(peer).await);
    let unpaused = BatchOperationUnpauseActivities {
        identity: "operator".to_owned(),
        activity: Some(unpause::Activity::MatchAll(true)),
        ..BatchOperationUnpauseActivities::default()
    };
    told.push(batch(peer, "unpause", &running(peer), Operation::UnpauseActivitiesOperation(unpaused)).await);
    told.push(runs(peer).await);

    let cancel = Operation::CancellationOperation(BatchOperationCancellation { identity: "operator".to_owned() });
    told.push(batch(peer, "cancel", &running(peer), cancel).await);
    let reset = BatchOperationReset {
        identity: "operator".to_owned(),
        options: Some(ResetOptions { target: Some(Target::LastWorkflowTask(())), ..ResetOptions::default() }),
        ..BatchOperationReset::default()
    };
    let one = StartBatchOperationRequest {
        visibility_query: String::new(),
        target_executions: vec![target(&peer.id("a"))],
        ..request(peer, "reset", "", Operation::ResetOperation(reset))
    };
    told.push(whole(peer, one).await);
    told.push(runs(peer).await);

    let terminate =
        BatchOperationTermination { identity: "operator".to_owned(), ..BatchOperationTermination::default() };
    let named = StartBatchOperationRequest {
        visibility_query: String::new(),
        target_executions: vec![target(&peer.id("a")), target(&peer.id("none")), target(&peer.id("b"))],
        ..request(peer, "terminate", "", Operation::TerminationOperation(terminate))
    };
    told.push(whole(peer, named).await);
    told.push(runs(peer).await);

    let delete = Operation::DeletionOperation(BatchOperationDeletion { identity: "operator".to_owned() });
    told.push(batch(peer, "delete", &of(peer), delete).await);
    listed(peer, &of(peer), 0).await;
    told.push(batch(peer, "unknown attribute", "NoSuchAttribute = 'x'", signal()).await);
    told.push(jobs(peer).await);
    told.iter().map(|told| told.replace(&peer.prefix, "P")).collect()
}

async fn refusals(peer: &Peer, told: &mut Vec<String>) {
    let signal = |name: &str| {
        Some(Operation::SignalOperation(BatchOperationSignal { signal: name.to_owned(), ..Default::default() }))
    };
    let complete = StartBatchOperationRequest {
        namespace: NAMESPACE.to_owned(),
        job_id: peer.id("refused"),
        reason: "reason".to_owned(),
        visibility_query: running(peer),
        operation: signal("signal"),
        ..StartBatchOperationRequest::default()
    };
    let unpause = |activity| {
        Some(Operation::UnpauseActivitiesOperation(BatchOperationUnpauseActivities { activity, ..Default::default() }))
    };
    let change = BatchOperationUpdateActivityOptions {
        activity: Some(update::Activity::MatchAll(true)),
        ..BatchOperationUpdateActivityOptions::default()
    };
    for request in [
        StartBatchOperationRequest { operation: None, ..complete.clone() },
        StartBatchOperationRequest { reason: String::new(), ..complete.clone() },
        StartBatchOperationRequest { job_id: String::new(), ..complete.clone() },
        StartBatchOperationRequest { visibility_query: String::new(), ..complete.clone() },
        StartBatchOperationRequest { target_executions: vec![target("w")], ..complete.clone() },
        StartBatchOperationRequest { visibility_query: "(".to_owned(), ..complete.clone() },
        StartBatchOperationRequest { namespace: "absent".to_owned(), ..complete.clone() },
        StartBatchOperationRequest { operation: signal(""), ..complete.clone() },
        StartBatchOperationRequest { operation: unpause(None), ..complete.clone() },
        StartBatchOperationRequest { operation: unpause(Some(unpause::Activity::MatchAll(false))), ..complete.clone() },
        StartBatchOperationRequest {
            operation: Some(Operation::UpdateActivityOptionsOperation(change)),
            ..complete.clone()
        },
        StartBatchOperationRequest { job_id: peer.id("a"), ..complete.clone() },
    ] {
        told.push(outcome(start(peer, request).await));
    }
    for (job_id, reason) in [(peer.id("absent"), "reason"), (peer.id("absent"), ""), (String::new(), "reason")] {
        let describe = DescribeBatchOperationRequest { namespace: NAMESPACE.to_owned(), job_id: job_id.clone() };
        told.push(outcome(peer.stub.clone().describe_batch_operation(describe).await.map(drop)));
        let stop = StopBatchOperationRequest {
            namespace: NAMESPACE.to_owned(),
            job_id,
            reason: reason.to_owned(),
            ..StopBatchOperationRequest::default()
        };
        told.push(outcome(peer.stub.clone().stop_batch_operation(stop).await.map(drop)));
    }
}

/// A run with an activity that no worker takes.
async fn begin(peer: &Peer, name: &str) {
    let start = StartWorkflowExecutionRequest {
        workflow_type: Some(WorkflowType { name: peer.id("type") }),
        ..peer.start_request(name)
    };
    peer.start(start).await;
    let task = peer.task(name).await;
    let activity = ScheduleActivityTaskCommandAttributes {
        activity_id: "activity".to_owned(),
        activity_type: Some(ActivityType { name: "activity".to_owned() }),
        task_queue: queue("without a worker"),
        start_to_close_timeout: milliseconds(60_000),
        ..ScheduleActivityTaskCommandAttributes::default()
    };
    peer.decide(&task, vec![command(activity.into())], Vec::new()).await;
}

async fn pause(peer: &Peer, name: &str) {
    let request = PauseActivityRequest {
        namespace: NAMESPACE.to_owned(),
        execution: execution(&peer.id(name)),
        identity: "operator".to_owned(),
        activity: Some(pause_activity_request::Activity::Id("activity".to_owned())),
        ..PauseActivityRequest::default()
    };
    peer.stub.clone().pause_activity(request).await.unwrap();
}

fn of(peer: &Peer) -> String {
    format!("WorkflowType = '{}'", peer.id("type"))
}

fn running(peer: &Peer) -> String {
    format!("{} AND ExecutionStatus = 'Running'", of(peer))
}

fn target(workflow_id: &str) -> Execution {
    let r#type = ExecutionType::Workflow as i32;
    Execution { r#type, business_id: workflow_id.to_owned(), run_id: String::new() }
}

/// Waits until lists show as many runs.
async fn listed(peer: &Peer, query: &str, runs: usize) {
    let request = || CountWorkflowExecutionsRequest { namespace: NAMESPACE.to_owned(), query: query.to_owned() };
    while usize::try_from(peer.stub.clone().count_workflow_executions(request()).await.unwrap().into_inner().count)
        != Ok(runs)
    {
        pause_between_reads().await;
    }
}

/// Nothing tells when the real server's lists have caught up or a batch is done, and it limits how often it may be asked.
async fn pause_between_reads() {
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

fn request(peer: &Peer, job: &str, query: &str, operation: Operation) -> StartBatchOperationRequest {
    StartBatchOperationRequest {
        namespace: NAMESPACE.to_owned(),
        job_id: peer.id(job),
        reason: format!("reason of {job}"),
        visibility_query: query.to_owned(),
        operation: Some(operation),
        ..StartBatchOperationRequest::default()
    }
}

async fn batch(peer: &Peer, job: &str, query: &str, operation: Operation) -> String {
    whole(peer, request(peer, job, query, operation)).await
}

/// Starts a batch when no other test has one, waits for its end and shows it.
async fn whole(peer: &Peer, request: StartBatchOperationRequest) -> String {
    let job_id = request.job_id.clone();
    start(peer, request).await.unwrap();
    let describe = || DescribeBatchOperationRequest { namespace: NAMESPACE.to_owned(), job_id: job_id.clone() };
    let described = loop {
        let described = peer.stub.clone().describe_batch_operation(describe()).await.unwrap().into_inner();
        if described.state() != BatchOperationState::Running {
            break described;
        }
        pause_between_reads().await;
    };
    let timed = (described.start_time.is_some(), described.close_time.is_some());
    let shown = DescribeBatchOperationResponse { start_time: None, close_time: None, ..described };
    format!("{timed:?} {shown:?}").replace(&peer.prefix, "P")
}

async fn start(peer: &Peer, request: StartBatchOperationRequest) -> Result<(), Status> {
    loop {
        match peer.stub.clone().start_batch_operation(request.clone()).await {
            Err(status) if status.code() == Code::ResourceExhausted => pause_between_reads().await,
            answer => return answer.map(drop),
        }
    }
}

/// Without ids that the server makes up.
fn outcome(answer: Result<(), Status>) -> String {
    let Err(status) = answer else { return "ok".to_owned() };
    let words = status.message().split(' ');
    let kept = words.map(|word| if uuid::Uuid::try_parse(word.trim_end_matches('.')).is_ok() { "ID" } else { word });
    format!("{:?}: {}", status.code(), kept.collect::<Vec<_>>().join(" "))
}

/// The events and the pending activities of the runs.
async fn runs(peer: &Peer) -> String {
    let mut shown = String::new();
    for name in NAMES {
        let events = peer.history(name).await;
        let kinds: Vec<EventType> = events.iter().map(HistoryEvent::event_type).collect();
        let request =
            DescribeWorkflowExecutionRequest { namespace: NAMESPACE.to_owned(), execution: execution(&peer.id(name)) };
        let described = peer.stub.clone().describe_workflow_execution(request).await.unwrap().into_inner();
        let pending = described.pending_activities.iter().map(pending);
        let status = described.workflow_execution_info.unwrap_or_default().status();
        shown += &format!("{name}: {status:?} {kinds:?} {:?}\n", pending.collect::<Vec<_>>());
    }
    shown
}

fn pending(activity: &PendingActivityInfo) -> String {
    let heartbeat = activity.activity_options.clone().unwrap_or_default().heartbeat_timeout;
    format!("{:?} {} {heartbeat:?}", activity.state(), activity.attempt)
}

/// What the list shows of the batches of this test.
async fn jobs(peer: &Peer) -> String {
    let mut request =
        ListBatchOperationsRequest { namespace: NAMESPACE.to_owned(), page_size: 3, ..Default::default() };
    let mut shown = Vec::new();
    loop {
        let page = peer.stub.clone().list_batch_operations(request.clone()).await.unwrap().into_inner();
        let ours = page.operation_info.iter().filter(|info| info.job_id.ends_with(&peer.prefix));
        shown.extend(ours.map(|info| {
            let timed = (info.start_time.is_some(), info.close_time.is_some());
            let job = info.job_id.replace(&peer.prefix, "P");
            format!("{job} {:?} {:?} {timed:?}", info.state(), info.operation_type())
        }));
        if page.next_page_token.is_empty() {
            return shown.join("\n");
        }
        request.next_page_token = page.next_page_token;
    }
}
