//! A store on a database that it shares: which writes wait for the disk, and what readers are shown before it is done.

use std::{
    io,
    pin::pin,
    sync::{Arc, Mutex, mpsc},
};

use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use windlass_core::{
    envelope::{CallStatus, ToolOutput},
    ids::CallId,
    message::Message,
    time::Timestamp,
};
use windlass_sqlite::{Database, Faults};

use super::{super::Ack, file};
use crate::{
    Blobs, CallJournal, Events, FinishedCall, Keys, ModelJournal, Notes, PlanBegin, Reservations, Result, Runs,
    Sessions,
    sqlite::SqliteStore,
    suite::{batch, calls::new_claim, code, keys::new_key, new_run, note, plans::response, run_id, session, workspace},
    testing::reserved,
};

/// A disk that asks before it syncs.
struct Disk {
    asks: UnboundedSender<()>,
    may: Mutex<mpsc::Receiver<()>>,
}

impl Faults for Disk {
    fn before_sync(&self) -> io::Result<()> {
        self.asks.send(()).map_err(io::Error::other)?;
        self.may.lock().unwrap().recv().map_err(io::Error::other)
    }
}

/// The database a store shares, and the say over its disk. The say is given up first, so that its readers do not wait.
struct Shared {
    allow: mpsc::Sender<()>,
    asked: UnboundedReceiver<()>,
    database: Database,
    _directory: TempDir,
}

impl Shared {
    fn open() -> (Self, SqliteStore) {
        let directory = TempDir::new().unwrap();
        let (asks, asked) = unbounded_channel();
        let (allow, may) = mpsc::channel();
        let faults: Arc<dyn Faults> = Arc::new(Disk { asks, may: Mutex::new(may) });
        // For the tables.
        allow.send(()).unwrap();
        let options =
            windlass_sqlite::Options { faults: Some(faults), ..windlass_sqlite::Options::new(file(&directory)) };
        let database = Database::open(options).unwrap();
        let mut shared = Self { allow, asked, database, _directory: directory };
        let store = shared.store(Ack::Relaxed);
        shared.asked.try_recv().expect("the tables were synced");
        (shared, store)
    }

    fn store(&self, relaxed: Ack) -> SqliteStore {
        SqliteStore::on(self.database.clone(), Arc::new(|| Timestamp(1)), relaxed).unwrap()
    }

    /// Carries out a write; returns its result and whether it was answered before the disk was allowed to sync.
    async fn write<T>(&mut self, write: impl Future<Output = Result<T>>) -> (T, bool) {
        let mut write = pin!(write);
        let early = tokio::select! {
            biased;
            answer = &mut write => Some(answer),
            _ = self.asked.recv() => {
                self.allow.send(()).unwrap();
                None
            }
        };
        let rode = early.is_some();
        let answer = match early {
            Some(answer) => {
                self.asked.recv().await.unwrap();
                self.allow.send(()).unwrap();
                answer
            }
            None => write.await,
        };
        self.database.synced().await.unwrap();
        (answer.unwrap(), rode)
    }
}

#[tokio::test]
async fn what_belongs_to_a_run_rides_unless_it_must_not_be_forgotten() {
    let (mut shared, store) = Shared::open();
    let (run, call) = (run_id(), CallId::new("once"));
    let (head, opening) = shared.write(store.open_run(new_run(&run, &["hello"]))).await;
    let finished = FinishedCall {
        run: run.clone(),
        call: call.clone(),
        dispatch: 1,
        idempotent: false,
        output: ToolOutput::new(CallStatus::Ok),
        body: None,
        event: note("result", "x"),
    };
    let repeatable = FinishedCall {
        call: CallId::new("any"),
        idempotent: true,
        event: note("another result", "x"),
        ..finished.clone()
    };
    let messages = vec![Message::assistant("hi")];
    let begin = PlanBegin {
        run: run.clone(),
        workspace: "acme".into(),
        session: None,
        turn: 1,
        head,
        messages,
        events: Vec::new(),
    };
    let rode = [
        ("open_run", opening),
        ("begin_plan", shared.write(store.begin_plan(begin)).await.1),
        ("append_events", shared.write(store.append_events(&run, vec![note("a", "x")])).await.1),
        ("record", shared.write(store.record(batch(&run, head))).await.1),
        ("commit_plan", shared.write(store.commit_plan(response(&run, head, "hi"))).await.1),
        ("settle_plan", shared.write(store.settle_plan(&run, 2)).await.1),
        ("claim of a repeatable call", shared.write(store.claim_call(new_claim(&run, "any", 1, true))).await.1),
        ("claim of a call that runs once", shared.write(store.claim_call(new_claim(&run, "once", 1, false))).await.1),
        ("result of a repeatable call", shared.write(store.finish_call(&repeatable)).await.1),
        ("result of a call that runs once", shared.write(store.finish_call(&finished)).await.1),
        ("settle_call", shared.write(store.settle_call(&run, &CallId::new("any"), 1)).await.1),
        ("reserve_run", shared.write(store.reserve_run(reserved("run-2", "hello"))).await.1),
        ("put_blob", shared.write(store.put_blob(json!("body").into())).await.1),
        ("ensure_session", shared.write(store.ensure_session(&workspace(), &session())).await.1),
        ("create_key", shared.write(store.create_key(new_key("key"))).await.1),
        ("put_note", shared.write(store.put_note(&workspace(), "key", "text")).await.1),
    ];
    let waited: Vec<_> = rode.into_iter().filter(|(_, rode)| !rode).map(|(name, _)| name).collect();
    let expected = [
        "claim of a call that runs once",
        "result of a call that runs once",
        "ensure_session",
        "create_key",
        "put_note",
    ];
    assert_eq!(waited, expected);
}

#[tokio::test]
async fn neither_a_tool_nor_a_model_is_called_before_the_response_is_synced() {
    for kept in [true, false] {
        let (mut shared, store) = Shared::open();
        let run = run_id();
        let (head, _) = shared.write(store.open_run(new_run(&run, &["hello"]))).await;
        store.commit_plan(response(&run, head, "hi")).await.unwrap();
        shared.asked.recv().await.unwrap();
        let next = PlanBegin {
            run: run.clone(),
            workspace: "acme".into(),
            session: None,
            turn: 2,
            head,
            messages: Vec::new(),
            events: Vec::new(),
        };
        let mut claimed = pin!(store.claim_call(new_claim(&run, "any", 1, true)));
        let mut begun = pin!(store.begin_plan(next));
        let others = async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = &mut claimed => panic!("a tool is called"),
            _ = &mut begun => panic!("a model is called"),
            () = others => {}
        }
        if kept {
            shared.allow.send(()).unwrap();
            claimed.await.unwrap();
            begun.await.unwrap();
        } else {
            drop(shared.allow);
            assert_eq!((code(claimed.await), code(begun.await)), ("STO0009", "STO0009"));
        }
    }
}

#[tokio::test]
async fn no_event_is_shown_before_it_is_safe() {
    let (mut shared, store) = Shared::open();
    let mut watch = store.watch(&run_id());
    // Answered, and not yet synced: from here on the disk holds the writer up.
    store.open_run(new_run(&run_id(), &["hello"])).await.unwrap();
    shared.asked.recv().await.unwrap();
    let run = run_id();
    let mut reading = pin!(store.events(&run, 0, 10));
    let others = async {
        // Enough of them that a log which did not wait would have been read long before the last.
        for _ in 0..20 {
            assert_eq!(store.run(&run).await.unwrap().unwrap().last_seq, 1);
        }
    };
    tokio::select! {
        biased;
        _ = &mut reading => panic!("an unsynced event was shown"),
        () = others => {}
    }
    shared.allow.send(()).unwrap();
    assert_eq!(reading.await.unwrap().len(), 1);
    watch.changed().await;
}

#[tokio::test]
async fn a_store_that_is_closed_leaves_its_database_open() {
    let (mut shared, store) = Shared::open();
    let mut watch = store.watch(&run_id());
    store.close().await.unwrap();
    watch.changed().await;
    assert_eq!(code(store.put_blob(json!(1).into()).await), "STO0009");
    assert_eq!(code(store.events(&run_id(), 0, 1).await), "STO0009");
    let other = shared.store(Ack::Durable);
    let (reference, rode) = shared.write(other.put_blob(json!(1).into())).await;
    assert_eq!((other.blob(&reference.digest).await.unwrap(), rode), (Some(json!(1).into()), false));
}
