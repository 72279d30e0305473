//! One log reader for all streams of a live run.
//!
//! A run with streams has a tail: one task that reads new events once, makes their frames once and sends the
//! same bytes to all readers, so a thousand readers cost the store what one does. The tail is only an optimization:
//! a reader that joins late, falls behind or sees a gap reads the log. The tail ends with its last reader.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::broadcast::{self, error::RecvError};
use windlass_core::ids::RunId;
use windlass_store::EventWatch;

use crate::log::{Form, Log, Page};

/// How many pages of a run are kept for slower readers. Readers that are slower still read the
/// log themselves.
const KEPT: usize = 32;

/// The tails of this process, by run and form.
#[derive(Default)]
pub(crate) struct Tails(Mutex<HashMap<(RunId, Form), Tail>>);

struct Tail {
    log: Arc<Log>,
    pages: broadcast::WeakSender<Page>,
}

/// A reader's subscription to a tail.
pub(crate) struct Following {
    pub(crate) log: Arc<Log>,
    pages: broadcast::Receiver<Page>,
}

/// What a subscriber receives.
pub(crate) enum Heard {
    Page(Page),
    /// Pages were missed, the log has them.
    Missed,
    /// The tail has ended. Unless the run has, another one can be followed.
    Ended,
}

impl Following {
    pub(crate) async fn next(&mut self) -> Heard {
        match self.pages.recv().await {
            Ok(page) => Heard::Page(page),
            Err(RecvError::Lagged(_)) => Heard::Missed,
            Err(RecvError::Closed) => Heard::Ended,
        }
    }
}

impl Tails {
    /// Subscribes to a run whose log reaches at least to `known`. Subscribe first, then read the log, so that no event is missed.
    pub(crate) fn follow(self: &Arc<Self>, log: &Arc<Log>, known: u64) -> Following {
        let mut tails = self.lock();
        let key = (log.run.clone(), log.form);
        if let Some(tail) = tails.get(&key)
            && let Some(pages) = tail.pages.upgrade()
        {
            return Following { log: Arc::clone(&tail.log), pages: pages.subscribe() };
        }
        let (pages, received) = broadcast::channel(KEPT);
        tails.insert(key, Tail { log: Arc::clone(log), pages: pages.downgrade() });
        drop(tails);
        let watch = log.store.watch(&log.run);
        tokio::spawn(Arc::clone(self).read(Arc::clone(log), watch, pages, known));
        Following { log: Arc::clone(log), pages: received }
    }

    /// Reads until the run ends or has no more subscribers.
    async fn read(
        self: Arc<Self>,
        log: Arc<Log>,
        mut watch: EventWatch,
        pages: broadcast::Sender<Page>,
        mut after: u64,
    ) {
        loop {
            match log.after(after).await {
                Ok(Some(page)) => {
                    let (full, terminal) = (page.full, page.terminal);
                    after = page.last;
                    // There may be no subscriber at the moment.
                    let _ = pages.send(page);
                    if terminal {
                        break;
                    }
                    if full {
                        continue;
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(run = %log.run, %error, "cannot read the log");
                    break;
                }
            }
            tokio::select! {
                () = watch.changed() => {}
                () = pages.closed() => {}
            }
            if self.left(&log, &pages) {
                return;
            }
        }
        self.lock().remove(&(log.run.clone(), log.form));
    }

    /// Removes the tail if it has no subscriber. The lock keeps new ones out meanwhile.
    fn left(&self, log: &Log, pages: &broadcast::Sender<Page>) -> bool {
        let mut tails = self.lock();
        let left = pages.receiver_count() == 0;
        if left {
            tails.remove(&(log.run.clone(), log.form));
        }
        left
    }

    /// A panic elsewhere leaves the map whole: every change to it is a single step.
    fn lock(&self) -> MutexGuard<'_, HashMap<(RunId, Form), Tail>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;
    use windlass_core::{
        envelope::TokenUsage,
        event::{EventBody, NewEvent},
        time::Millis,
    };
    use windlass_store::{
        Reservations, Store,
        sqlite::{Options, SqliteStore},
        testing::reserved,
    };

    use super::*;

    /// Only a bug makes a test wait this long.
    const PATIENCE: Duration = Duration::from_secs(30);

    struct World {
        store: Arc<dyn Store>,
        tails: Arc<Tails>,
        run: RunId,
        _home: TempDir,
    }

    impl World {
        async fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let store = SqliteStore::open(Options::new(home.path().join("windlass.db"))).unwrap();
            let run = RunId::new("run-1");
            store.reserve_run(reserved("run-1", "hello")).await.unwrap();
            Self { store: Arc::new(store), tails: Arc::default(), run, _home: home }
        }

        fn follow(&self) -> Following {
            self.follow_as(Form::Frames)
        }

        fn follow_as(&self, form: Form) -> Following {
            let log = Log::new(Arc::clone(&self.store), Arc::default(), self.run.clone(), form);
            self.tails.follow(&Arc::new(log), 0)
        }

        async fn say(&self, text: &str) {
            let said = NewEvent::new(text, EventBody::PlannerNote { text: text.to_owned() });
            self.store.append_events(&self.run, vec![said]).await.unwrap();
        }

        async fn cancel(&self) {
            let body = EventBody::Cancelled {
                reason: "enough".to_owned(),
                turns: 1,
                tool_calls: 0,
                active_ms: Millis(5),
                usage: TokenUsage::default(),
                model: None,
                structured_output: None,
            };
            self.store.append_events(&self.run, vec![NewEvent::new("end", body)]).await.unwrap();
        }

        async fn until_nothing_is_followed(&self) {
            let gone = async {
                while !self.tails.lock().is_empty() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(PATIENCE, gone).await.expect("the tail stays");
        }
    }

    async fn heard(following: &mut Following) -> Heard {
        tokio::time::timeout(PATIENCE, following.next()).await.expect("nothing is heard")
    }

    async fn page(following: &mut Following) -> Page {
        match heard(following).await {
            Heard::Page(page) => page,
            Heard::Missed => panic!("pages were missed"),
            Heard::Ended => panic!("the tail has ended"),
        }
    }

    #[tokio::test]
    async fn readers_of_a_run_get_the_same_bytes() {
        let world = World::new().await;
        let (mut one, mut other) = (world.follow(), world.follow());
        for seq in 1..=3 {
            world.say(&format!("word {seq}")).await;
            let (one, other) = (page(&mut one).await, page(&mut other).await);
            assert_eq!((one.first, one.last, one.full, one.terminal), (seq, seq, false, false));
            assert!(one.frames.starts_with(format!("id: {seq}\n").as_bytes()), "{:?}", one.frames);
            assert_eq!(one.frames.as_ptr(), other.frames.as_ptr(), "read and written once for both");
        }
    }

    #[tokio::test]
    async fn readers_of_frames_and_of_entries_each_get_their_own() {
        let world = World::new().await;
        let (mut frames, mut entries) = (world.follow(), world.follow_as(Form::Entries));
        world.say("word").await;
        let (frame, entry) = (page(&mut frames).await, page(&mut entries).await);
        assert_eq!((frame.first, frame.last), (entry.first, entry.last));
        assert_ne!(frame.frames, entry.frames);
    }

    #[tokio::test]
    async fn a_reader_that_falls_behind_is_told_so() {
        let world = World::new().await;
        let (mut slow, mut quick) = (world.follow(), world.follow());
        for word in 0..=KEPT {
            world.say(&word.to_string()).await;
            page(&mut quick).await;
        }
        assert!(matches!(heard(&mut slow).await, Heard::Missed));
        assert_eq!(page(&mut slow).await.first, 2, "what is kept comes after it");
    }

    #[tokio::test]
    async fn a_tail_ends_with_its_last_reader_and_starts_again_with_the_next() {
        let world = World::new().await;
        let (one, other) = (world.follow(), world.follow());
        drop((one, other));
        world.until_nothing_is_followed().await;
        let mut next = world.follow();
        world.say("word").await;
        assert_eq!(page(&mut next).await.last, 1);
    }

    #[tokio::test]
    async fn the_terminal_event_is_the_last_page() {
        let world = World::new().await;
        let mut following = world.follow();
        world.cancel().await;
        assert!(page(&mut following).await.terminal);
        assert!(matches!(heard(&mut following).await, Heard::Ended));
        world.until_nothing_is_followed().await;
    }
}
