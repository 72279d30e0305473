use std::{sync::Mutex, time::Duration};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use windlass_client::{Address, Client, Error, Event, Tools, Update};
use windlass_core::ids::RunId;

use super::{ask, client, client_at, event, events, options, proxy::breaking, updates};
use crate::{
    api::rig::Rig,
    support::world::{scripts, within},
};

fn talking() -> Value {
    let many: Vec<String> = (0..100).map(|index| format!("{index} ")).collect();
    scripts([
        ("many", json!({"turns": [{"deltas": many}]})),
        ("slow", json!({"turns": [{"deltas": ["a", "b"], "delta_delay_ms": 60_000}]})),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_connections_lose_and_repeat_no_event() {
    let rig = Rig::new(talking()).await;
    let run = client(&rig).start(&ask("many"), &Tools::new()).await.unwrap();
    let whole = events(&client(&rig), &run, 0).await;
    let cuts = [0, 1, 300, 301, 700, 1111, 2000, 3333];
    let told = updates(&client_at(&rig, breaking(rig.address, cuts.to_vec()).await), &run, 0).await;
    let losses = told.iter().filter(|update| matches!(update, Update::Lost(_))).count();
    let seen: Vec<_> = told.into_iter().filter_map(event).collect();
    assert_eq!((seen, losses), (whole.clone(), cuts.len()));

    let seqs: Vec<u64> = whole.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=whole.len() as u64).collect::<Vec<_>>());
    let last = whole.len() as u64;
    assert_eq!(events(&client(&rig), &run, last - 2).await, whole[whole.len() - 2..]);
    assert_eq!(events(&client(&rig), &run, last).await, [], "a reader who has seen the end sees nothing more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_waits_for_a_server_that_is_unreachable() {
    let mut rig = Rig::new(talking()).await;
    let client = client(&rig);
    let run = client.start(&ask("slow"), &Tools::new()).await.unwrap();
    let mut stream = client.stream(&run, 0);
    let mut next = async || within("news", stream.next()).await.unwrap().unwrap();
    let mut last_seq = 0;
    while let Update::Event(event) = next().await {
        last_seq = event.seq;
        if event.kind == "assistant_delta" {
            break;
        }
    }
    rig.stop().await;
    let Update::Lost(lost) = next().await else { panic!("the loss is told") };
    assert!(lost.next_try_in <= Duration::from_millis(500), "{lost:?}");
    rig.start_again().await;
    while next().await != Update::Back {}
    client.cancel(&run).await.unwrap();
    let Update::Event(event) = next().await else { panic!("the events go on") };
    assert!(event.seq == last_seq + 1, "{event:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_finds_a_server_that_moved() {
    let (rig, stranger) = (Rig::new(talking()).await, Rig::new(talking()).await);
    let run = client(&rig).start(&ask("many"), &Tools::new()).await.unwrap();
    let whole = events(&client(&rig), &run, 0).await;
    let at = |rig: &Rig, key: &str| Address { base_url: format!("http://{}", rig.address), api_key: key.into() };
    // First no address, then a server that knows neither the key nor the run, then the right one.
    let known = [None, Some(at(&stranger, rig.key.reveal())), Some(at(&stranger, stranger.key.reveal()))];
    let known = Mutex::new(known.into_iter().chain([Some(at(&rig, rig.key.reveal()))]));
    let first = breaking(rig.address, vec![700, 0]).await;
    let options = options(first, rig.key.reveal()).address_lookup(move || known.lock().unwrap().next().unwrap());
    let told = updates(&Client::new(options).unwrap(), &run, 0).await;
    let reasons: Vec<String> = told.iter().filter_map(lost).collect();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    assert!(reasons[2].contains("401") && reasons[3].contains("404"), "{reasons:?}");
    assert_eq!(told.into_iter().filter_map(event).collect::<Vec<_>>(), whole);
}

fn lost(update: &Update<Event>) -> Option<String> {
    match update {
        Update::Lost(lost) => Some(lost.reason.clone()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn patience_has_an_end() {
    let mut rig = Rig::new(talking()).await;
    rig.stop().await;
    let patience = Duration::from_millis(300);
    let client = Client::new(options(rig.address, rig.key.reveal()).give_up_after(patience)).unwrap();
    let told: Vec<_> = within("giving up", client.stream(&RunId::new("run-1"), 0).collect()).await;
    let (last, before): (_, &[_]) = told.split_last().unwrap();
    assert!(matches!(last, Err(Error::GaveUp { away, .. }) if *away >= patience), "{last:?}");
    assert!(before.iter().all(|update| matches!(update, Ok(Update::Lost(_)))) && !before.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_final() {
    let rig = Rig::new(talking()).await;
    let told: Vec<_> = client(&rig).stream(&RunId::new("run-nope"), 0).collect().await;
    let [Err(Error::Refused(refusal))] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((refusal.status, refusal.code.as_str()), (404, "not_found"));
    let stranger = Client::new(options(rig.address, "wl_unknown")).unwrap();
    let told: Vec<_> = stranger.stream(&RunId::new("run-nope"), 0).collect().await;
    let [Err(Error::Refused(refusal))] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((refusal.status, refusal.code.as_str()), (401, "unauthorized"));
    let started = stranger.start(&ask("many"), &Tools::new()).await.unwrap_err();
    assert_eq!(started.status(), Some(401));
    assert!(!format!("{stranger:?}").contains("wl_unknown"), "a key is never shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_format_has_the_stored_entries() {
    let rig = Rig::new(talking()).await;
    let client = client_at(&rig, breaking(rig.address, vec![1500]).await);
    let run = client.start(&ask("many"), &Tools::new()).await.unwrap();
    let told: Vec<_> = within("the run's end", client.log(&run, 0).map(Result::unwrap).collect()).await;
    let told = told.into_iter().filter_map(|update| match update {
        Update::Event(event) => Some(event),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), rig.store().events(&run, 0, 1000).await.unwrap());
}
