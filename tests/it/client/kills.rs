//! `kill -9` of the server in the middle of everything, and the same client goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass_client::{Client, Event, Options, Tools, Update};

use super::{ask, event};
use crate::{
    sdk::dev::{Dev, KEY, WORKSPACE},
    support::world::within,
};

fn client(dev: &Dev) -> Client {
    Client::new(Options::new(dev.url.clone(), KEY.into(), WORKSPACE).longest_pause(Duration::from_millis(500))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_after_the_server_was_killed() {
    let mut dev = Dev::start("60s");
    let client = client(&dev);
    let run = client.start(&ask("very_slow"), &Tools::new()).await.unwrap();
    let mut stream = client.stream(&run, 0);
    let mut seen: Vec<Event> = Vec::new();
    while seen.iter().filter(|event| event.kind == "assistant_delta").count() < 3 {
        seen.extend(event(within("a delta", stream.next()).await.unwrap().unwrap()));
    }
    dev.kill();
    let lost = within("the loss", stream.next()).await.unwrap().unwrap();
    assert!(matches!(lost, Update::Lost(_)), "{lost:?}");
    dev.start_again();
    let rest: Vec<_> = within("the end", stream.map(Result::unwrap).collect()).await;
    assert!(rest.contains(&Update::Back));
    seen.extend(rest.into_iter().filter_map(event));
    let seqs: Vec<u64> = seen.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seen.len() as u64).collect::<Vec<_>>(), "no event is missing and none comes twice");
    assert_eq!(seen.last().unwrap().raw["text"], "abcdefghijklmnopqrstuvwxyz");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_executing_local_tool_survives_a_server_restart() {
    let mut dev = Dev::start("60s");
    let client = client(&dev);
    let calls = Arc::new(AtomicU32::new(0));
    let (at_work, mut began) = mpsc::unbounded_channel();
    let proceed = Arc::new(tokio::sync::Notify::new());
    let (counted, gate) = (Arc::clone(&calls), Arc::clone(&proceed));
    let add = move |args: Value| {
        counted.fetch_add(1, Ordering::SeqCst);
        at_work.send(()).unwrap();
        let gate = Arc::clone(&gate);
        async move {
            gate.notified().await;
            Ok::<_, String>(args["a"].as_i64().unwrap() + args["b"].as_i64().unwrap())
        }
    };
    let integers = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
    let tools = Tools::new().add("add", integers, "Adds.", add);
    let ran = tokio::spawn(async move { client.run(&ask("add"), &tools).await });
    within("the call", began.recv()).await.unwrap();
    dev.kill();
    // The result meets no server, and is brought again.
    proceed.notify_one();
    dev.start_again();
    let outcome = within("the answer", ran).await.unwrap().unwrap();
    assert_eq!((outcome.text.as_str(), calls.load(Ordering::SeqCst)), ("sum=5", 1));
}
