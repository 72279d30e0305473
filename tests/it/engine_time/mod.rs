//! Runs on an engine whose clock skips time: what takes people weeks takes the test no time.

mod push;
mod waits;

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tempfile::TempDir;
use temporalio_protos::temporal::api::enums::v1::IndexedValueType;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass::temporal::connect_embedded;
use windlass_core::{
    event::{Event, EventBody},
    ids::RunId,
    time::Timestamp,
};
use windlass_engine::{Clock as _, Engine, EngineError, NamespaceOptions, Options, SkippingClock};
use windlass_sqlite::Database;
use windlass_store::sqlite::SqliteStore;
use windlass_workflows::attributes;

use crate::support::{World, world::within};

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
pub(crate) const THREE_WEEKS: Duration = Duration::from_secs(21 * 24 * 3600);

/// An engine of its own, with a world on it whose worker runs. Unless a test wants otherwise, the store has the engine's
/// time.
pub(crate) struct Rig {
    pub(crate) world: World,
    pub(crate) clock: Arc<SkippingClock>,
    stop: CancellationToken,
    running: JoinHandle<Result<(), EngineError>>,
}

impl Rig {
    /// Time is locked at first.
    pub(crate) async fn new(scripts: Value) -> Self {
        Self::with_store(scripts, |clock, store| {
            let clock = Arc::clone(clock);
            store.clock = Arc::new(move || Timestamp(clock.now() as u64 / 1_000_000));
        })
        .await
    }

    pub(crate) async fn with_store(
        scripts: Value,
        change: impl FnOnce(&Arc<SkippingClock>, &mut windlass_store::sqlite::Options),
    ) -> Self {
        let (clock, dir) = (Arc::new(SkippingClock::new()), TempDir::new().unwrap());
        let database = Database::open(windlass_sqlite::Options::new(dir.path().join("engine.db"))).unwrap();
        let search_attributes = attributes::NAMES.map(|name| (name.to_owned(), IndexedValueType::Keyword)).into();
        let namespace = NamespaceOptions { name: "default".to_owned(), search_attributes };
        let options = Options { clock: clock.clone(), namespaces: vec![namespace], ..Options::new(database) };
        let (engine, handle) = Engine::open(options).unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(engine.run(stop.clone()));

        let client = within("the engine", connect_embedded(&handle, "default", "it")).await.unwrap();
        let mut options = windlass_store::sqlite::Options::new(dir.path().join("windlass.db"));
        change(&clock, &mut options);
        let store = Arc::new(SqliteStore::open(options).unwrap());
        let world = World::with_store(client, store, dir, scripts);
        world.start_worker();
        Self { world, clock, stop, running }
    }

    pub(crate) async fn close(self) {
        self.world.stop_worker().await;
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
    }

    /// Time between the first event that fits and the first of those after it that fits the other.
    pub(crate) async fn between(
        &self,
        run: &RunId,
        first: fn(&EventBody) -> bool,
        then: fn(&EventBody) -> bool,
    ) -> Duration {
        let events = self.world.events(run).await;
        let mut events = events.iter();
        let mut next = |fits: fn(&EventBody) -> bool| {
            events.find(|event: &&Event| fits(&event.body().unwrap())).expect("such an event").at
        };
        let (from, to) = (next(first), next(then));
        to.since(from).as_duration()
    }
}

/// Asserts that so much time passed, give or take what the test itself takes.
#[track_caller]
pub(crate) fn assert_passed(passed: Duration, expected: Duration) {
    assert!(passed.abs_diff(expected) < Duration::from_secs(30), "{passed:?} instead of {expected:?}");
}
