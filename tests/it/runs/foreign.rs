//! Runs that meet a worker with another installation's store.

use futures_util::future::try_join_all;
use serde_json::{Value, json};
use windlass_core::{
    envelope::{Answer, AnswerBody},
    message::Message,
};
use windlass_ops::{Pairing, RunOps};

use crate::support::{
    World, agent, block_on, calls,
    process::Workshop,
    says, script, server,
    world::{scripts, within},
};

fn asking() -> Value {
    let turns = [
        json!({"await": {"kind": "clarification", "question": "city?"}}),
        calls(&[("echo", json!({"n": 1}))]),
        says("{{last_tool_result}}"),
    ];
    scripts([("asking", script(&turns))])
}

async fn world() -> World {
    let own = World::without_worker(asking()).await;
    own.ops.pair(Pairing::Claim).await.unwrap();
    own
}

/// Lets a worker with another store poll the same task queue until it notices and ends.
async fn let_a_stranger_work(own: &World) {
    let mut stranger = Workshop::new(&server::shared().address, &asking());
    stranger.task_queue.clone_from(&own.options.task_queue);
    let ended = tokio::task::spawn_blocking(move || stranger.spawn().exit_code());
    assert_eq!(within("the worker's end", ended).await.unwrap(), Some(1));
}

#[test]
fn installations_that_claim_task_queues_at_once_all_keep_theirs() {
    block_on(async {
        let world = World::without_worker(asking()).await;
        let (client, store) = (world.ops.client(), world.ops.store());
        let queues = (0..20).map(|index| format!("{}-{index}", world.options.task_queue));
        let installations: Vec<RunOps> =
            queues.map(|queue| RunOps::new(client.clone(), store.clone(), queue, "test".into())).collect();
        try_join_all(installations.iter().map(|ops| ops.pair(Pairing::Claim))).await.unwrap();
        for ops in &installations {
            assert!(ops.pair(Pairing::Look).await.unwrap().kept, "{} was forgotten", ops.task_queue());
        }
    });
}

#[test]
fn a_run_that_opens_at_a_worker_with_another_store_waits_for_its_own() {
    block_on(async {
        let own = world().await;
        let run = own.start(agent("asking", json!([{"name": "echo"}])), "go").await;
        let_a_stranger_work(&own).await;
        own.start_worker();
        own.opened(&run, 1).await;
        own.stop_worker().await;
    });
}

#[test]
fn a_run_that_goes_on_at_a_worker_with_another_store_waits_for_its_own() {
    block_on(async {
        let own = world().await;
        own.start_worker();
        let run = own.start(agent("asking", json!([{"name": "echo"}])), "go").await;
        let item = own.opened(&run, 1).await;
        own.stop_worker().await;
        let body = AnswerBody::Clarification { answer: "Bergen".to_owned() };
        own.ops.signal_answer(&run, Answer::new(item.id, "ann", body)).await.unwrap();
        let_a_stranger_work(&own).await;
        own.start_worker();
        let output = own.result(&run).await.unwrap();
        assert_eq!(output.final_message, Some(Message::assistant("{\"n\":1}")));
    });
}
