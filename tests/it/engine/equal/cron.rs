//! Workflows with a cron schedule: each run's first events, after completion, failure, retry and timeout.

use temporalio_protos::temporal::api::{
    command::v1::{
        Command, ContinueAsNewWorkflowExecutionCommandAttributes, FailWorkflowExecutionCommandAttributes,
        StartChildWorkflowExecutionCommandAttributes,
    },
    common::v1::{RetryPolicy, WorkflowType},
    enums::v1::EventType,
    failure::v1::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    history::v1::HistoryEvent,
    workflowservice::v1::{
        GetWorkflowExecutionHistoryRequest, SignalWithStartWorkflowExecutionRequest, StartWorkflowExecutionRequest,
        TerminateWorkflowExecutionRequest,
    },
};

use super::{
    NAMESPACE, Peer, execution, peers,
    starts::{command, complete},
};
use crate::{diff::normal::Normal, engine::client::queue, support::block_on};

const EVERY_SECOND: &str = "@every 1s";

fn seconds(seconds: i64) -> Option<prost_wkt_types::Duration> {
    Some(prost_wkt_types::Duration { seconds, nanos: 0 })
}

fn fail() -> Command {
    let info = FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo::default());
    let failure = Failure { message: "it broke".to_owned(), failure_info: Some(info), ..Failure::default() };
    command(FailWorkflowExecutionCommandAttributes { failure: Some(failure) }.into())
}

fn cron(peer: &Peer, name: &str) -> StartWorkflowExecutionRequest {
    StartWorkflowExecutionRequest { cron_schedule: EVERY_SECOND.to_owned(), ..peer.start_request(name) }
}

/// Plays the runs of a chain, one with each list of commands; without commands, a run times out.
async fn runs(peer: &Peer, name: &str, commands: Vec<Vec<Command>>) -> Vec<String> {
    let mut normal = Normal::new(&peer.prefix);
    let mut seen = Vec::new();
    for commands in commands {
        let task = peer.task(name).await;
        let events = &task.history.as_ref().unwrap().events;
        seen.extend(events.iter().take(2).map(|event| normal.message(event)));
        if !commands.is_empty() {
            let run_id = task.workflow_execution.clone().unwrap().run_id;
            peer.decide(&task, commands, Vec::new()).await;
            let ended = closing_event(peer, name, &run_id).await;
            seen.push(normal.message(&ended));
        }
    }
    let end = TerminateWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_execution: execution(&peer.id(name)),
        ..TerminateWorkflowExecutionRequest::default()
    };
    peer.stub.clone().terminate_workflow_execution(end).await.unwrap();
    seen
}

/// The closing event. A read of only this event would not show it as it is to a client that does not follow runs.
async fn closing_event(peer: &Peer, name: &str, run_id: &str) -> HistoryEvent {
    let mut execution = execution(&peer.id(name)).unwrap();
    run_id.clone_into(&mut execution.run_id);
    let request = GetWorkflowExecutionHistoryRequest {
        namespace: NAMESPACE.to_owned(),
        execution: Some(execution),
        ..GetWorkflowExecutionHistoryRequest::default()
    };
    let answer = peer.stub.clone().get_workflow_execution_history(request).await.unwrap().into_inner();
    answer.history.unwrap().events.pop().unwrap()
}

async fn results(peer: &Peer) -> Vec<String> {
    peer.start(cron(peer, "results")).await;
    runs(peer, "results", vec![vec![complete()], vec![fail()], vec![fail()], vec![complete()]]).await
}

async fn retries(peer: &Peer) -> Vec<String> {
    let policy = RetryPolicy { initial_interval: seconds(1), maximum_attempts: 2, ..RetryPolicy::default() };
    peer.start(StartWorkflowExecutionRequest { retry_policy: Some(policy), ..cron(peer, "retries") }).await;
    runs(peer, "retries", vec![vec![complete()], vec![fail()], vec![fail()], vec![complete()]]).await
}

async fn timeouts(peer: &Peer) -> Vec<String> {
    let request = StartWorkflowExecutionRequest { workflow_run_timeout: seconds(1), ..cron(peer, "timeouts") };
    peer.start(request).await;
    runs(peer, "timeouts", vec![Vec::new(), vec![complete()]]).await
}

async fn signalled(peer: &Peer) -> Vec<String> {
    let request = SignalWithStartWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_id: peer.id("signalled"),
        workflow_type: peer.start_request("signalled").workflow_type,
        task_queue: queue(&peer.id("signalled")),
        request_id: "signal".to_owned(),
        signal_name: "go".to_owned(),
        cron_schedule: EVERY_SECOND.to_owned(),
        ..SignalWithStartWorkflowExecutionRequest::default()
    };
    peer.stub.clone().signal_with_start_workflow_execution(request).await.unwrap();
    runs(peer, "signalled", vec![vec![complete()]]).await
}

async fn continued(peer: &Peer) -> Vec<String> {
    let next = ContinueAsNewWorkflowExecutionCommandAttributes {
        workflow_type: Some(WorkflowType { name: "test".to_owned() }),
        task_queue: queue(&peer.id("continued")),
        cron_schedule: EVERY_SECOND.to_owned(),
        ..ContinueAsNewWorkflowExecutionCommandAttributes::default()
    };
    peer.start(peer.start_request("continued")).await;
    let seen = runs(peer, "continued", vec![vec![command(next.into())], vec![complete()], vec![complete()]]).await;
    seen.iter().map(|note| without_pause(note)).collect()
}

/// Without the pause between runs that continue as new within a second of their start: it depends on how long the first one
/// took. Pauses of cron are whole seconds here.
fn without_pause(note: &str) -> String {
    let lines = note.lines().filter(|line| !line.starts_with("  first_workflow_task_backoff: 0."));
    lines.flat_map(|line| [line, "\n"]).collect()
}

async fn child(peer: &Peer) -> Vec<String> {
    let child = |cron: &str| StartChildWorkflowExecutionCommandAttributes {
        workflow_id: peer.id("child"),
        workflow_type: Some(WorkflowType { name: "test".to_owned() }),
        task_queue: queue(&peer.id("child")),
        cron_schedule: cron.to_owned(),
        ..StartChildWorkflowExecutionCommandAttributes::default()
    };
    peer.start(peer.start_request("parent")).await;
    let task = peer.task("parent").await;
    peer.decide(&task, vec![command(child(EVERY_SECOND).into())], Vec::new()).await;
    let mut seen = runs(peer, "child", vec![vec![complete()], vec![complete()]]).await;
    let mut normal = Normal::new(&peer.prefix);
    // The parent gets the start and the end of the chain only.
    loop {
        let events = peer.history("parent").await;
        let ended = events.iter().any(|event| event.event_type() == EventType::ChildWorkflowExecutionTerminated);
        if ended {
            let children = events.iter().filter(|event| event.event_type().as_str_name().contains("CHILD"));
            seen.extend(children.map(|event| normal.message(event)));
            return seen;
        }
        tokio::task::yield_now().await;
    }
}

async fn refused(peer: &Peer) -> Vec<String> {
    let mut normal = Normal::new(&peer.prefix);
    let mut seen = Vec::new();
    for expression in
        ["x", "60 * * * *", "* * * * 7", "@every", "@every 1d", "TZ=Nowhere * * * * *", "0 0 31 2 *", "1-2-3 * * * *"]
    {
        let request =
            StartWorkflowExecutionRequest { cron_schedule: expression.to_owned(), ..peer.start_request("refused") };
        seen.push(normal.status(&peer.stub.clone().start_workflow_execution(request).await.unwrap_err()));
    }
    let request = StartWorkflowExecutionRequest { workflow_start_delay: seconds(1), ..cron(peer, "refused") };
    seen.push(normal.status(&peer.stub.clone().start_workflow_execution(request).await.unwrap_err()));
    seen
}

#[test]
fn runs_by_cron_are_those_of_the_server() {
    block_on(async {
        let peers = peers().await;
        let play = async |peer: &Peer| {
            let seen = tokio::join!(
                results(peer),
                retries(peer),
                timeouts(peer),
                signalled(peer),
                continued(peer),
                child(peer),
                refused(peer)
            );
            let named = ["results", "retries", "timeouts", "signalled", "continued", "child", "refused"];
            let seen = [seen.0, seen.1, seen.2, seen.3, seen.4, seen.5, seen.6];
            named.into_iter().zip(seen).collect::<Vec<_>>()
        };
        let (real, engine) = tokio::join!(play(&peers[0]), play(&peers[1]));
        for ((name, real), (_, engine)) in real.iter().zip(&engine) {
            for (number, (real, engine)) in real.iter().zip(engine).enumerate() {
                assert_eq!(engine, real, "{name}, note {number}\n{engine}\ninstead of\n{real}");
            }
            assert_eq!(engine.len(), real.len(), "{name}");
        }
    });
}
