//! Runs that meet a worker with another installation's store.

use serde_json::{Value, json};
use windlass::worker::WorkerError;
use windlass_core::{
    envelope::{Answer, AnswerBody},
    message::Message,
};
use windlass_ops::{Pairing, PairingError};

use crate::support::{World, agent, block_on, calls, says, script, world::scripts};

fn asking() -> Value {
    let turns = [
        json!({"await": {"kind": "clarification", "question": "city?"}}),
        calls(&[("echo", json!({"n": 1}))]),
        says("{{last_tool_result}}"),
    ];
    scripts([("asking", script(&turns))])
}

/// A world, and a worker on its task queue that has another store.
async fn worlds() -> (World, World) {
    let own = World::without_worker(asking()).await;
    own.ops.pair(Pairing::Claim).await.unwrap();
    let mut stranger = World::without_worker(asking()).await;
    stranger.options.task_queue.clone_from(&own.options.task_queue);
    (own, stranger)
}

/// Lets the stranger's worker run until it notices.
async fn let_it_notice(stranger: &World) {
    stranger.start_worker();
    let ended = stranger.worker_ended().await;
    assert!(matches!(ended, Err(WorkerError::Foreign(PairingError::Foreign { .. }))), "{ended:?}");
}

#[test]
fn a_run_that_opens_at_a_worker_with_another_store_waits_for_its_own() {
    block_on(async {
        let (own, stranger) = worlds().await;
        let run = own.start(agent("asking", json!([{"name": "echo"}])), "go").await;
        let_it_notice(&stranger).await;
        own.start_worker();
        own.opened(&run, 1).await;
        own.stop_worker().await;
    });
}

#[test]
fn a_run_that_goes_on_at_a_worker_with_another_store_waits_for_its_own() {
    block_on(async {
        let (own, stranger) = worlds().await;
        own.start_worker();
        let run = own.start(agent("asking", json!([{"name": "echo"}])), "go").await;
        let item = own.opened(&run, 1).await;
        own.stop_worker().await;
        let body = AnswerBody::Clarification { answer: "Bergen".to_owned() };
        own.ops.signal_answer(&run, Answer::new(item.id, "ann", body)).await.unwrap();
        let_it_notice(&stranger).await;
        own.start_worker();
        let output = own.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("{\"n\":1}")));
    });
}
