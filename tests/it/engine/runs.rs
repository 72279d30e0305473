//! Agent runs whose store shares the engine's failing disk: what an activity stored and its result in history are lost
//! together or kept together.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use tempfile::TempDir;
use temporalio_client::Client;
use windlass::temporal::connect_embedded;
use windlass_core::{ids::RunId, message::Message};
use windlass_engine::Limits;
use windlass_store::{
    sqlite::{Ack, SqliteStore},
    system_clock,
};

use super::host::{Fault, Host};
use crate::{
    proofs::dice::Dice,
    support::{
        World, agent, block_on, calls,
        checks::{every_call_has_one_result, log_is_gapless_with_one_terminal_event_at_its_end},
        says, script,
        world::{client_at, scripts},
    },
};

const RUNS: usize = 4;
const TURNS: usize = 8;

/// The conversation of a closed run, after a check of its log.
async fn conversation(world: &World, run: &RunId) -> Vec<Message> {
    log_is_gapless_with_one_terminal_event_at_its_end(&world.events(run).await);
    let transcript = world.transcript(run).await;
    every_call_has_one_result(&transcript);
    transcript
}

/// A local worker continues before its completions are durable.
#[test]
fn runs_on_a_failing_disk_have_the_same_results() {
    block_on(play(async |host: &Host| connect_embedded(&host.handle, "default", "it").await.unwrap()));
}

/// A remote worker does not.
#[test]
fn runs_of_a_remote_worker_on_a_failing_disk_have_the_same_results() {
    block_on(play(async |host: &Host| client_at(&host.address()).await));
}

async fn play(connect: impl AsyncFnOnce(&Host) -> Client) {
    let directory = TempDir::new().unwrap();
    let host = Host::start(&directory, Limits::default()).await;
    let store = SqliteStore::on(host.handle.database().clone(), system_clock(), Ack::Relaxed).unwrap();
    let mut turns = vec![calls(&[("echo", json!({"n": 1})), ("echo", json!({"n": 2}))]); TURNS];
    turns.push(says("{{all_tool_results}}"));
    let scripts = scripts([("works", script(&turns))]);
    let client = connect(&host).await;
    let world = World::with_store(client, Arc::new(store), TempDir::new().unwrap(), scripts);
    let definition = agent("works", json!([{"name": "echo"}]));
    world.start_worker();
    let (run, output) = world.answer_of(definition.clone(), "go").await;
    let expected = (output.final_message, conversation(&world, &run).await);
    world.stop_worker().await;

    let runs = join_all((0..RUNS).map(|_| world.start(definition.clone(), "go"))).await;
    let mut dice = Dice::seeded(11);
    host.disk.choose(move || match dice.roll(100) {
        0..15 => Fault::LostCommit,
        15..25 => Fault::Full,
        _ => Fault::None,
    });
    world.start_worker();
    let outputs = join_all(runs.iter().map(|run| world.result(run))).await;
    host.disk.heal();
    let losses = host.disk.losses();
    println!("{RUNS} runs, {losses} batches failed in the commit or on a full disk");
    assert!(losses > 0);
    for (run, output) in runs.iter().zip(outputs) {
        assert_eq!((output.unwrap().final_message, conversation(&world, run).await), expected);
    }
    world.stop_worker().await;
    host.stop().await;
}
