//! Files of the release before rows were compact.

use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;
use windlass_core::{
    canonical::{self, CanonicalJson, Digest},
    ids::{CallId, RunId},
    message::Message,
    row::RunRow,
    time::Timestamp,
};
use windlass_sqlite::Progress;

use super::{
    super::{Ack, Database, MIGRATIONS, SCHEMA, SqliteStore, upgrade},
    file, open,
};
use crate::{
    Blobs as _, CallClaim, CallJournal as _, ErrorKind, Events as _, Housekeeping as _, ModelJournal as _,
    PendingStart, Reservations as _, Retention, Runs as _, StoreError, Transcripts as _,
    sqlite::examine,
    suite::{calls::new_claim, files::shows, head_of, session, workspace},
    system_clock,
};

/// Migrations that the release before knows.
const KNOWN: usize = 10;

/// A file of that release, with rows of every kind that have changed.
fn older_file(directory: &TempDir) {
    let path = file(directory);
    let database = Database::open(windlass_sqlite::Options::new(&path)).unwrap();
    database.migrate(SCHEMA.0, &MIGRATIONS[..KNOWN]).unwrap();
    drop(database);
    let sql = Connection::open(&path).unwrap();
    let put = |body: &[u8]| {
        let digest = Digest::of_bytes(body).to_string();
        let inserted = sql.execute("INSERT INTO blobs (digest, body) VALUES (?1, ?2)", (&digest, body));
        inserted.map(|_| digest).unwrap()
    };
    let spec = put(br#"{"name":"clerk"}"#);
    let result = put(br#"{"found":3}"#);
    put(image().as_str().as_bytes());
    let texts = messages().map(|message| put(&canonical::bytes_of(&message).unwrap()));
    let chains: Vec<String> = (1..=3).map(|len| head_of(&messages()[..len]).digest.to_string()).collect();
    let zero = Digest::ZERO.to_string();
    sql.execute_batch(&format!(
        "INSERT INTO sessions (workspace, id, created_at, spec) VALUES ('acme', 'chat', 5, '{spec}');
         INSERT INTO runs (id, workspace, session, execution, agent_id, agent_digest, model_id, labels, metadata, status, phase,
             input_preview, created_at, updated_at, closed_at, opening_len, new_messages, prefix_len, head_len, head_digest,
             last_seq, spec, root_agent, request, ending)
         VALUES ('one', 'acme', 'chat', 'e1', 'clerk', '{spec}', 'm', '{{}}', '{{}}', 'completed', 'done', 'hi', 10, 20, 20, 1, 1,
                 0, 2, '{chain1}', 2, '{spec}', 'clerk', '{spec}', '{{}}'),
             ('two', 'acme', 'chat', 'e2', 'clerk', '{spec}', 'm', '{{}}', '{{}}', 'running', 'planning', 'hi', 30, 30, NULL, 3, 1,
                 2, 3, '{chain2}', 1, NULL, 'clerk', NULL, NULL),
             ('three', 'acme', NULL, '', 'clerk', '', 'm', '{{}}', '{{}}', 'queued', 'planning', 'hi', 40, 40, NULL, 0, 0,
                 0, 0, '{zero}', 0, '{spec}', 'clerk', '{spec}', NULL);
         INSERT INTO run_messages VALUES ('one', 0, '{text0}', '{chain0}'), ('one', 1, '{text1}', '{chain1}'),
             ('two', 2, '{text2}', '{chain2}');
         INSERT INTO session_messages (workspace, session, idx, digest, run_id, chain)
         VALUES ('acme', 'chat', 0, '{text0}', 'one', '{chain0}'), ('acme', 'chat', 1, '{text1}', 'one', '{chain1}');
         INSERT INTO events (number, run_id, seq, key, at, type, data)
         VALUES (7, 'one', 1, 'started', 10, 'started', '{{}}'), (8, 'two', 1, 'started', 30, 'started', '{{\"a\":1}}'),
             (9, 'one', 2, 'end', 20, 'result', '{{\"text\":\"hello\"}}');
         INSERT INTO plans (run_id, turn, output) VALUES ('one', 1, '{plan}'), ('two', 0, NULL);
         INSERT INTO tool_calls (run_id, call_id, dispatch, state, output, result, late_output)
         VALUES ('one', 'done', 1, 'finished', '{{\"status\":\"ok\"}}', '{result}', NULL),
             ('two', 'free', 2, 'released', NULL, NULL, NULL), ('two', 'begun', 1, 'started', NULL, NULL, NULL),
             ('two', 'lost', 1, 'unknown', NULL, NULL, '{{\"status\":\"failed\"}}');
         INSERT INTO starts VALUES ('three', '{{\"go\":true}}');
         UPDATE schema_versions SET version = {KNOWN} WHERE component = 'store';",
        chain0 = chains[0],
        chain1 = chains[1],
        chain2 = chains[2],
        text0 = texts[0],
        text1 = texts[1],
        text2 = texts[2],
        plan = json!({"head": head_of(&messages()[..2]), "finishReason": "stop", "result": {"text": "hello"}, "v": 1}),
    ))
    .unwrap();
}

fn image() -> CanonicalJson {
    json!("base64").into()
}

fn messages() -> [Message; 3] {
    [shows("hi", &image()), Message::assistant("hello"), Message::user("hi again")]
}

fn problems(directory: &TempDir) -> Vec<String> {
    let found = examine(&Connection::open(file(directory)).unwrap(), &Progress::default()).unwrap();
    found.into_iter().flat_map(|part| part.problems).collect()
}

async fn row(store: &SqliteStore, run: &str) -> RunRow {
    store.run(&RunId::new(run)).await.unwrap().unwrap()
}

#[tokio::test]
async fn everything_of_the_release_before_is_there() {
    let directory = TempDir::new().unwrap();
    older_file(&directory);
    let store = open(&file(&directory));
    assert_eq!(problems(&directory), Vec::<String>::new());

    let spec = Digest::of_bytes(br#"{"name":"clerk"}"#);
    let (one, two, three) = (row(&store, "one").await, row(&store, "two").await, row(&store, "three").await);
    assert_eq!((one.spec, one.agent_digest, three.agent_digest), (Some(spec), Some(spec), None));
    assert_eq!(store.transcript(&one.id, one.head).await.unwrap(), messages()[..2]);
    assert_eq!(store.transcript(&two.id, two.head).await.unwrap(), messages());
    assert_eq!(store.session_messages(&workspace(), &session()).await.unwrap(), messages()[..2]);
    let log = store.events(&one.id, 0, 10).await.unwrap();
    let log: Vec<_> = log.iter().map(|event| (event.seq, event.key.as_str(), event.kind.as_str())).collect();
    assert_eq!(log, [(1, "started", "started"), (2, "end", "result")]);
    assert_eq!(store.final_text(&one.id).await.unwrap().as_deref(), Some("hello"));
    assert_eq!(store.settle_plan(&one.id, 1).await.unwrap().unwrap().output.head, head_of(&messages()[..2]));
    assert_eq!(store.settle_plan(&two.id, 0).await.unwrap(), None);
    let claim = async |run: &str, call, dispatch| {
        store.claim_call(new_claim(&RunId::new(run), call, dispatch, false)).await.unwrap()
    };
    assert_eq!(claim("two", "free", 3).await, CallClaim::Execute { again: false });
    assert_eq!(claim("two", "begun", 1).await, CallClaim::Unknown);
    assert_eq!(claim("two", "lost", 1).await, CallClaim::Fenced);
    store.settle_call(&one.id, &CallId::new("done"), 1).await.unwrap();
    let pending = PendingStart { run: three.id, plan: Some(json!({"go": true})) };
    assert_eq!(store.pending_starts(Timestamp(100), 10).await.unwrap(), [pending]);

    // What rows refer to is kept, and the file of a message with the message.
    let sweep = async |before| store.sweep(Retention { before: Timestamp(before), limit: 10 }).await.unwrap();
    assert_eq!((sweep(25).await.runs, store.blob(&image().digest()).await.unwrap()), (1, Some(image())));
    assert_eq!(problems(&directory), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_in_use_is_not_upgraded() {
    let directory = TempDir::new().unwrap();
    older_file(&directory);
    let path = file(&directory);
    let older = Connection::open(&path).unwrap();
    let runs =
        || older.query_row("SELECT group_concat(id) FROM (SELECT id FROM runs ORDER BY id)", [], |row| row.get(0));
    let before: String = runs().unwrap();
    let refused = upgrade(&path).unwrap_err();
    assert_eq!((refused.code(), refused.kind(), refused.retryable()), ("STO0028", ErrorKind::Invalid, false));
    assert_eq!(
        refused.to_string(),
        format!(
            "{} is used by another process, and its tables can only be upgraded by one that is alone; stop all processes \
             that use it, then start again",
            path.display()
        )
    );
    assert_eq!(runs().unwrap(), before);
    older.execute("UPDATE run_messages SET chain = chain", []).unwrap();

    // A process that has the file open itself is not alone either.
    let database = Database::open(windlass_sqlite::Options::new(&path)).unwrap();
    let refused = SqliteStore::on(database, system_clock(), Ack::Relaxed).unwrap_err();
    assert!(matches!(refused, StoreError::InUse { .. }), "{refused}");
    drop(older);
    let store = open(&path);
    assert_eq!(row(&store, "one").await.last_seq, 2);
}

#[tokio::test]
async fn of_several_processes_that_start_at_once_one_upgrades() {
    let directory = TempDir::new().unwrap();
    older_file(&directory);
    let path = file(&directory);
    let opened: Vec<_> = std::thread::scope(|threads| {
        let starts: Vec<_> = (0..3).map(|_| threads.spawn(|| open(&path))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    for store in opened {
        assert_eq!(row(&store, "two").await.last_seq, 1);
    }
}

#[test]
fn a_process_of_an_older_build_does_not_start_on_newer_tables() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory);
    drop(open(&path));
    let database = Database::open(windlass_sqlite::Options::new(&path)).unwrap();
    let refused = database.migrate(SCHEMA.0, &MIGRATIONS[..KNOWN]).unwrap_err();
    let refused = StoreError::from(refused);
    assert_eq!((refused.code(), refused.kind()), ("STO0010", ErrorKind::Invalid));
}
