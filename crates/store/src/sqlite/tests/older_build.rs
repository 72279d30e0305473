//! A process of the build before runs referred to conversations, beside a process of this one. Its statements are here as it
//! sends them.

use rusqlite::{Connection, params};
use serde_json::json;
use tempfile::TempDir;
use windlass_core::{
    canonical::{self, CanonicalJson, Digest},
    envelope::TranscriptHead,
    ids::RunId,
    message::Message,
    run::RunStatus,
};

use super::{
    super::{MIGRATIONS, SCHEMA},
    file, open,
};
use crate::{
    Blobs as _, ErrorKind, NewRun, RecordBatch, Runs, Transcripts,
    sqlite::{Database, SqliteStore},
    suite::{batch, files::shows, head_of, new_run, session, workspace},
};

/// Migrations that the older build knows.
const KNOWN: usize = 5;

struct OlderBuild(Connection);

impl OlderBuild {
    fn transcript(&self, run: &str, len: u64) -> Vec<Message> {
        let mut rows = self
            .0
            .prepare_cached(
                "SELECT digest, body FROM transcript JOIN blobs USING (digest) WHERE run_id = ?1 AND idx < ?2 ORDER BY idx",
            )
            .unwrap();
        let rows = rows.query_map(params![run, len as i64], |row| row.get::<_, Vec<u8>>(1)).unwrap();
        rows.map(|body| serde_json::from_slice(&body.unwrap()).unwrap()).collect()
    }

    fn chain(&self, run: &str, idx: u64) -> String {
        let mut chain = self.0.prepare_cached("SELECT chain FROM transcript WHERE run_id = ?1 AND idx = ?2").unwrap();
        chain.query_row(params![run, idx as i64], |row| row.get(0)).unwrap()
    }

    fn append(&self, run: &str, head: TranscriptHead, message: &Message) -> TranscriptHead {
        let (digest, next) = self.put_message(message, head);
        self.0
            .prepare_cached("INSERT INTO transcript (run_id, idx, digest, chain) VALUES (?1, ?2, ?3, ?4)")
            .unwrap()
            .execute(params![run, head.len as i64, digest, next.digest.to_string()])
            .unwrap();
        self.0
            .execute(
                "UPDATE runs SET head_len = ?2, head_digest = ?3 WHERE id = ?1",
                params![run, next.len as i64, next.digest.to_string()],
            )
            .unwrap();
        next
    }

    fn add_to_conversation(&self, run: &str, head: TranscriptHead, message: &Message) {
        let (digest, _) = self.put_message(message, head);
        self.0
            .prepare_cached(
                "INSERT INTO session_messages (workspace, session, idx, digest, run_id) VALUES ('acme', 'chat', ?1, ?2, ?3)",
            )
            .unwrap()
            .execute(params![head.len as i64, digest, run])
            .unwrap();
    }

    fn put_message(&self, message: &Message, head: TranscriptHead) -> (String, TranscriptHead) {
        let (digest, body) = (Digest::of(message).unwrap(), canonical::bytes_of(message).unwrap());
        self.0
            .execute(
                "INSERT INTO blobs (digest, body) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                params![digest.to_string(), body],
            )
            .unwrap();
        (digest.to_string(), head.push(digest))
    }
}

async fn ask(store: &SqliteStore, id: &str, question: &str) -> TranscriptHead {
    let new = NewRun { session: Some(session()), continues_session: true, ..new_run(&RunId::new(id), &[question]) };
    store.open_run(new).await.unwrap()
}

async fn answer(store: &SqliteStore, id: &str, head: TranscriptHead, answer: &str) {
    let last = RecordBatch {
        messages: vec![Message::assistant(answer)],
        status: RunStatus::Completed,
        closes_session_turn: true,
        ..batch(&RunId::new(id), head)
    };
    store.record(last).await.unwrap();
}

#[tokio::test]
async fn a_process_that_was_running_when_the_tables_changed_goes_on() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory);
    let database = Database::open(windlass_sqlite::Options::new(&path)).unwrap();
    database.migrate(SCHEMA.0, &MIGRATIONS[..KNOWN]).unwrap();
    let older = OlderBuild(Connection::open(&path).unwrap());
    // It has prepared its statements before the tables change.
    assert_eq!(older.transcript("two", 1), []);

    let store = open(&path);
    let head = ask(&store, "one", "1?").await;
    answer(&store, "one", head, "1!").await;
    let two = ask(&store, "two", "2?").await;
    let mut all = vec![Message::user("1?"), Message::assistant("1!"), Message::user("2?")];
    assert_eq!(older.transcript("two", 3), all, "it reads what the run only refers to");
    for len in 1..=3 {
        assert_eq!(older.chain("two", len - 1), head_of(&all[..len as usize]).digest.to_string());
    }
    // It goes on with the run, and this build reads what it wrote.
    all.push(Message::assistant("2!"));
    let ended = older.append("two", two, &all[3]);
    assert_eq!(store.transcript(&RunId::new("two"), ended).await.unwrap(), all);
    // It adds to the conversation, without a chain.
    older.add_to_conversation("two", head_of(&all[..2]), &all[2]);
    older.add_to_conversation("two", head_of(&all[..3]), &all[3]);
    assert_eq!(store.session_messages(&workspace(), &session()).await.unwrap(), all);
    let three = ask(&store, "three", "3?").await;
    all.push(Message::user("3?"));
    assert_eq!(three, head_of(&all));
    assert_eq!(older.transcript("three", 5), all);
    // It opens a run with a copy of the conversation, and this build ends it: the conversation gains the new messages.
    all.pop();
    all.push(Message::user("4?"));
    older
        .0
        .execute_batch(
            "INSERT INTO runs (id, workspace, session, execution, agent_id, agent_digest, model_id, labels, metadata, status,
                 phase, input_preview, created_at, updated_at, opening_len, new_messages, head_len, head_digest, last_seq)
             VALUES ('four', 'acme', 'chat', 'execution-1', 'clerk', '', 'script:demo', '{}', '{}', 'running',
                 'planning', '4?', 10, 10, 5, 1, 0, '', 0)",
        )
        .unwrap();
    let opened = all.iter().fold(TranscriptHead::default(), |head, message| older.append("four", head, message));
    assert_eq!(store.transcript(&RunId::new("four"), opened).await.unwrap(), all);
    answer(&store, "four", opened, "4!").await;
    all.push(Message::assistant("4!"));
    assert_eq!(store.session_messages(&workspace(), &session()).await.unwrap(), all);

    // It sweeps a run, and no message of the conversation goes with it.
    older.0.execute("DELETE FROM transcript WHERE run_id = ?1", ["two"]).unwrap();
    assert_eq!(store.session_messages(&workspace(), &session()).await.unwrap(), all);
    let own: i64 =
        older.0.query_row("SELECT count(*) FROM run_messages WHERE run_id = 'two'", [], |row| row.get(0)).unwrap();
    assert_eq!(own, 0);
}

impl OlderBuild {
    /// Deletes a body as its sweep does, and returns whether it was deleted.
    fn delete_body(&self, digest: &str) -> bool {
        let deleted = self.0.execute(
            "DELETE FROM blobs WHERE digest = ?1 AND (put_at IS NULL OR put_at < ?2)
                 AND NOT EXISTS (SELECT 1 FROM transcript WHERE digest = ?1)
                 AND NOT EXISTS (SELECT 1 FROM session_messages WHERE digest = ?1)
                 AND NOT EXISTS (SELECT 1 FROM tool_calls WHERE result = ?1)",
            params![digest, i64::MAX],
        );
        deleted.unwrap() == 1
    }

    /// The bodies that its next sweep looks at.
    fn put(&self) -> Vec<String> {
        let mut put = self.0.prepare("SELECT digest FROM blobs WHERE put_at < ?1").unwrap();
        put.query_map([i64::MAX], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

#[tokio::test]
async fn a_process_of_an_older_build_writes_and_sweeps_messages_with_files() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory);
    let database = Database::open(windlass_sqlite::Options::new(&path)).unwrap();
    database.migrate(SCHEMA.0, &MIGRATIONS[..KNOWN]).unwrap();
    let older = OlderBuild(Connection::open(&path).unwrap());
    assert_eq!(older.put(), Vec::<String>::new());
    let store = open(&path);
    let file = CanonicalJson::from(json!("base64"));
    store.put_blob(file.clone()).await.unwrap();
    let digest = file.digest().to_string();
    let head = ask(&store, "one", "1?").await;
    let message = shows("look", &file);
    older.append("one", head, &message);
    assert!(!older.delete_body(&digest), "a message refers to it");
    older.0.execute("UPDATE blobs SET put_at = NULL WHERE digest = ?1", [&digest]).unwrap();

    older.0.execute("DELETE FROM transcript WHERE run_id = 'one'", []).unwrap();
    assert!(older.delete_body(&Digest::of(&message).unwrap().to_string()));
    assert_eq!(older.put(), std::slice::from_ref(&digest), "it is looked at again");
    assert!(older.delete_body(&digest));
    assert_eq!(store.blob(&file.digest()).await.unwrap(), None);
}

#[test]
fn a_process_of_an_older_build_does_not_start_on_newer_tables() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory);
    drop(open(&path));
    let database = Database::open(windlass_sqlite::Options::new(&path)).unwrap();
    let refused = database.migrate(SCHEMA.0, &MIGRATIONS[..KNOWN]).unwrap_err();
    let refused = crate::StoreError::from(refused);
    assert_eq!((refused.code(), refused.kind()), ("STO0010", ErrorKind::Invalid));
}
