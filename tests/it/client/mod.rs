//! The Rust client against the API: in this process, through connections that are cut, and through `kill -9`.

mod kills;
mod operating;
mod proxy;
mod runs;
mod sessions;
mod streams;
mod tools;

use std::{net::SocketAddr, time::Duration};

use futures_util::StreamExt as _;
use windlass_client::{Client, Event, EventBody, Options, RunSpec, Update};
use windlass_core::ids::RunId;

use crate::{
    api::rig::{Rig, WORKSPACE},
    support::world::within,
};

fn options(address: SocketAddr, key: &str) -> Options {
    Options::new(format!("http://{address}"), key.into(), WORKSPACE).longest_pause(Duration::from_millis(500))
}

fn client_at(rig: &Rig, address: SocketAddr) -> Client {
    Client::new(options(address, rig.key.reveal())).unwrap()
}

fn client(rig: &Rig) -> Client {
    client_at(rig, rig.address)
}

fn ask(script: &str) -> RunSpec {
    RunSpec::new("go").system_prompt("You are a test agent.").model(format!("script:{script}"))
}

/// Everything a run says after an event, to its end.
async fn events(client: &Client, run: &RunId, after: u64) -> Vec<Event> {
    updates(client, run, after).await.into_iter().filter_map(event).collect()
}

async fn updates(client: &Client, run: &RunId, after: u64) -> Vec<Update<Event>> {
    let all = client.stream(run, after).map(Result::unwrap).collect();
    within("the run's end", all).await
}

fn event(update: Update<Event>) -> Option<Event> {
    match update {
        Update::Event(event) => Some(event),
        _ => None,
    }
}

/// The first event that says what is looked for.
async fn until<T>(client: &Client, run: &RunId, looked_for: impl Fn(&EventBody) -> Option<T>) -> T {
    let mut stream = client.stream(run, 0);
    let found = async {
        loop {
            let update = stream.next().await.expect("the run says it before it ends").unwrap();
            if let Some(found) = event(update).and_then(|event| looked_for(&event.body)) {
                return found;
            }
        }
    };
    within("an event", found).await
}
