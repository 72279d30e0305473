//! A start that brings an update or a signal: the first task that a worker gets has it.

use prost::{Message as _, Name};
use temporalio_protos::temporal::api::{
    command::v1::{
        Command, CommandAttributesExt as _, CompleteWorkflowExecutionCommandAttributes,
        ProtocolMessageCommandAttributes, command::Attributes,
    },
    enums::v1::{EventType, WorkflowIdConflictPolicy},
    protocol::v1::{Message, message::SequencingId},
    update::v1::{Acceptance, Meta, Outcome, Request, Response, outcome},
    workflowservice::v1::{
        ExecuteMultiOperationResponse, PollWorkflowTaskQueueResponse, SignalWithStartWorkflowExecutionRequest,
        StartWorkflowExecutionRequest, execute_multi_operation_response::response,
    },
};
use tonic::Status;

use super::{NAMESPACE, Peer, peers};
use crate::{
    engine::client::{payloads, queue},
    support::block_on,
};

const RUNS: usize = 60;

#[test]
fn update_with_start_reaches_a_workflow_that_ends_in_its_first_task() {
    block_on(async {
        let mut reached = Vec::new();
        for peer in peers().await {
            let mut answered = 0;
            for run in 0..RUNS {
                let name = format!("ends at once {run}");
                let (updated, ()) = tokio::join!(
                    peer.update_with_start(fails_beside_others(&peer, &name), "update"),
                    end_in_first_task(&peer, &name)
                );
                answered += usize::from(updated.is_ok());
            }
            println!("{}: {answered} of {RUNS} updates were answered", peer.name);
            reached.push((peer.name, answered));
        }
        assert_eq!(reached, [("real server", RUNS), ("engine", RUNS)]);
    });
}

/// A worker that answers the updates it was given and ends the run.
async fn end_in_first_task(peer: &Peer, name: &str) {
    let task = peer.task(name).await;
    let (mut commands, messages) = answers(&task);
    commands.push(complete());
    peer.decide(&task, commands, messages).await;
}

#[test]
fn update_with_start_chooses_the_run_by_policies_and_request_id() {
    use WorkflowIdConflictPolicy as Conflict;
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            let mut cases = Vec::new();
            // With a conflict policy, and whether the start repeats the request that has started the run.
            for (name, conflict, repeated) in [
                ("used", Conflict::UseExisting, false),
                ("replaced", Conflict::TerminateExisting, false),
                ("refused", Conflict::Fail, false),
                ("deduplicated", Conflict::Fail, true),
                ("deduplicated before it is replaced", Conflict::TerminateExisting, true),
            ] {
                let first = fails_beside_others(&peer, name);
                let run_id = peer.start(first.clone()).await;
                // The first run is open and waits for nothing.
                peer.decide(&peer.task(name).await, Vec::new(), Vec::new()).await;
                let request_id = if repeated { first.request_id.clone() } else { "another request".to_owned() };
                let start =
                    StartWorkflowExecutionRequest { request_id, workflow_id_conflict_policy: conflict as i32, ..first };
                let updated = peer.update_with_start(start, "update");
                let updated = match conflict {
                    Conflict::Fail if !repeated => updated.await,
                    _ => tokio::join!(updated, end_in_first_task(&peer, name)).0,
                };
                cases.push((name, outcome(updated, &run_id)));
            }
            seen.push(cases);
        }
        println!("{:#?}", seen[0]);
        assert_eq!(seen[1], seen[0]);
    });
}

/// Whether the run was started by this request, whether it is the first one, and how far the update came.
fn outcome(updated: Result<ExecuteMultiOperationResponse, Status>, first_run: &str) -> String {
    let updated = match updated {
        Ok(updated) => updated,
        Err(status) => return format!("{:?}: {}", status.code(), status.message()),
    };
    let parts = updated.responses.into_iter().map(|part| match part.response {
        Some(response::Response::StartWorkflow(start)) => {
            format!("started: {}, the first run: {}", start.started, start.run_id == first_run)
        }
        Some(response::Response::UpdateWorkflow(update)) => {
            format!("update at stage {}, answered: {}", update.stage, update.outcome.is_some())
        }
        None => "nothing".to_owned(),
    });
    parts.collect::<Vec<_>>().join("; ")
}

#[test]
fn signal_with_start_is_in_the_first_task() {
    const RUNS: usize = 20;
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            let mut signalled = 0;
            for run in 0..RUNS {
                let name = format!("signalled {run}");
                let request = SignalWithStartWorkflowExecutionRequest {
                    namespace: NAMESPACE.to_owned(),
                    workflow_id: peer.id(&name),
                    workflow_type: peer.start_request(&name).workflow_type,
                    task_queue: queue(&peer.id(&name)),
                    request_id: name.clone(),
                    signal_name: "go".to_owned(),
                    ..SignalWithStartWorkflowExecutionRequest::default()
                };
                let mut stub = peer.stub.clone();
                let (started, task) =
                    tokio::join!(stub.signal_with_start_workflow_execution(request), peer.task(&name));
                started.unwrap();
                let events = task.history.unwrap_or_default().events;
                let has_signal = events.iter().any(|event| event.event_type() == EventType::WorkflowExecutionSignaled);
                signalled += usize::from(has_signal);
            }
            seen.push((peer.name, signalled));
        }
        assert_eq!(seen, [("real server", RUNS), ("engine", RUNS)]);
    });
}

fn fails_beside_others(peer: &Peer, name: &str) -> StartWorkflowExecutionRequest {
    let workflow_id_conflict_policy = WorkflowIdConflictPolicy::Fail as i32;
    StartWorkflowExecutionRequest { workflow_id_conflict_policy, ..peer.start_request(name) }
}

/// Accepts and answers every update of a task.
fn answers(task: &PollWorkflowTaskQueueResponse) -> (Vec<Command>, Vec<Message>) {
    let messages: Vec<Message> = task.messages.iter().flat_map(answered).collect();
    let refer = |message: &Message| command(ProtocolMessageCommandAttributes { message_id: message.id.clone() }.into());
    (messages.iter().map(refer).collect(), messages)
}

fn answered(request: &Message) -> [Message; 2] {
    let update = &request.protocol_instance_id;
    let body = request.body.as_ref().map(|body| body.value.as_slice()).unwrap_or_default();
    let sequencing = match request.sequencing_id {
        Some(SequencingId::EventId(event)) => event,
        _ => 0,
    };
    let acceptance = Acceptance {
        accepted_request_message_id: request.id.clone(),
        accepted_request_sequencing_event_id: sequencing,
        accepted_request: Some(Request::decode(body).expect("an update's message has its request")),
    };
    let value = payloads("\"updated\"").map(outcome::Value::Success);
    let meta = Meta { update_id: update.clone(), identity: "worker".to_owned() };
    let response = Response { meta: Some(meta), outcome: Some(Outcome { value }) };
    [message(update, "accept", &acceptance), message(update, "complete", &response)]
}

fn message<M: prost::Message + Name>(update: &str, step: &str, body: &M) -> Message {
    Message {
        id: format!("{update}/{step}"),
        protocol_instance_id: update.to_owned(),
        body: Some(prost_wkt_types::Any {
            type_url: format!("type.googleapis.com/{}", M::full_name()),
            value: body.encode_to_vec(),
        }),
        ..Message::default()
    }
}

pub(in crate::engine) fn complete() -> Command {
    command(CompleteWorkflowExecutionCommandAttributes { result: payloads("\"done\"") }.into())
}

pub(super) fn command(attributes: Attributes) -> Command {
    Command { command_type: attributes.as_type() as i32, attributes: Some(attributes), ..Command::default() }
}
