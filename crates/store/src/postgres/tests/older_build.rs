//! A process of the build before runs referred to conversations, beside a process of this one. Its statements are here as it
//! sends them.

use serde_json::json;
use tokio_postgres::{Client, Statement};
use windlass_core::{
    canonical,
    canonical::{CanonicalJson, Digest},
    envelope::TranscriptHead,
    ids::RunId,
    message::Message,
    run::RunStatus,
};

use super::{
    super::{migrate::MIGRATIONS, testing::TestServer},
    open, shell,
};
use crate::{
    Blobs as _, NewRun, RecordBatch, Runs, Transcripts,
    postgres::PostgresStore,
    suite::{batch, files::shows, head_of, new_run, session, workspace},
};

/// Migrations that the older build knows.
const KNOWN: usize = 3;

/// What it compares when it starts.
const VERSION: &str = "SELECT version FROM schema_versions WHERE component = 'store'";

struct OlderBuild {
    client: Client,
    read: Statement,
    insert: Statement,
    close: Statement,
    delete: Statement,
}

impl OlderBuild {
    /// Creates its tables and prepares its statements.
    async fn start(client: Client) -> Self {
        for migration in &MIGRATIONS[..KNOWN] {
            client.batch_execute(migration).await.unwrap();
        }
        client
            .batch_execute(
                "CREATE TABLE schema_versions (component TEXT NOT NULL PRIMARY KEY, version BIGINT NOT NULL);
                 INSERT INTO schema_versions VALUES ('store', 3)",
            )
            .await
            .unwrap();
        let read = "SELECT transcript.digest, body, chain FROM transcript LEFT JOIN blobs USING (digest)
             WHERE run_id = $1 AND idx < $2 ORDER BY idx";
        let insert = "INSERT INTO transcript (run_id, idx, digest, chain)
         SELECT $1, * FROM unnest($2::BIGINT[], $3::TEXT[], $4::TEXT[])";
        let close = "INSERT INTO session_messages (workspace, session, idx, digest, run_id)
         SELECT $1, $2, next.idx + row_number() OVER (ORDER BY added.idx) - 1, added.digest, $3
         FROM (SELECT coalesce(max(idx) + 1, 0) AS idx FROM session_messages WHERE workspace = $1 AND session = $2) AS next,
              (SELECT idx, digest FROM transcript WHERE run_id = $3 AND (idx >= $4 AND idx < $5 OR idx = $6)) AS added";
        let delete = "DELETE FROM transcript WHERE run_id = ANY($1)";
        Self {
            read: client.prepare(read).await.unwrap(),
            insert: client.prepare(insert).await.unwrap(),
            close: client.prepare(close).await.unwrap(),
            delete: client.prepare(delete).await.unwrap(),
            client,
        }
    }

    /// The messages and the digest of the head after them.
    async fn transcript(&self, run: &str, len: i64) -> (Vec<Message>, Option<String>) {
        let rows = self.client.query(&self.read, &[&run, &len]).await.unwrap();
        let message = |row: &tokio_postgres::Row| serde_json::from_slice(row.get("body")).unwrap();
        (rows.iter().map(message).collect(), rows.last().map(|row| row.get("chain")))
    }

    async fn append(&self, run: &str, head: TranscriptHead, message: &Message) -> TranscriptHead {
        let (digest, body) = (Digest::of(message).unwrap(), canonical::bytes_of(message).unwrap());
        let (next, put) =
            (head.push(digest), "INSERT INTO blobs (digest, body) VALUES ($1, $2) ON CONFLICT DO NOTHING");
        self.client.execute(put, &[&digest.to_string(), &body]).await.unwrap();
        let (idx, digests, chains) = (vec![head.len as i64], vec![digest.to_string()], vec![next.digest.to_string()]);
        let inserted = self.client.execute(&self.insert, &[&run, &idx, &digests, &chains]).await.unwrap();
        assert_eq!(inserted, 1);
        let update = "UPDATE runs SET head_len = $2, head_digest = $3 WHERE id = $1";
        self.client.execute(update, &[&run, &(next.len as i64), &chains[0]]).await.unwrap();
        next
    }
}

async fn ask(store: &PostgresStore, id: &str, question: &str) -> TranscriptHead {
    let new = NewRun { session: Some(session()), continues_session: true, ..new_run(&RunId::new(id), &[question]) };
    store.open_run(new).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_the_older_build_goes_on_beside_this_one_and_may_start_again() {
    let url = TestServer::shared().database().await;
    let older = OlderBuild::start(shell(&url).await).await;
    assert_eq!(older.transcript("two", 1).await, (Vec::new(), None));

    let store = open(url.clone()).await;
    let head = ask(&store, "one", "1?").await;
    let last = RecordBatch {
        messages: vec![Message::assistant("1!")],
        status: RunStatus::Completed,
        closes_session_turn: true,
        ..batch(&RunId::new("one"), head)
    };
    store.record(last).await.unwrap();
    let two = ask(&store, "two", "2?").await;
    let mut all = vec![Message::user("1?"), Message::assistant("1!"), Message::user("2?")];
    let head = two.digest.to_string();
    assert_eq!(older.transcript("two", 3).await, (all.clone(), Some(head)), "it reads what the run only refers to");
    // It goes on with the run, and this build reads what it wrote.
    all.push(Message::assistant("2!"));
    let ended = older.append("two", two, &all[3]).await;
    assert_eq!(store.transcript(&RunId::new("two"), ended).await.unwrap(), all);
    // It adds to the conversation, without a chain.
    let (first, opening, answer) = (2_i64, 3_i64, Some(3_i64));
    let added =
        older.client.execute(&older.close, &[&"acme", &"chat", &"two", &first, &opening, &answer]).await.unwrap();
    assert_eq!(added, 2);
    assert_eq!(store.session_messages(&workspace(), &session()).await.unwrap(), all);
    let three = ask(&store, "three", "3?").await;
    all.push(Message::user("3?"));
    assert_eq!(three, head_of(&all));
    assert_eq!(older.transcript("three", 5).await.0, all);
    // It sweeps a run, and no message of the conversation goes with it.
    older.client.execute(&older.delete, &[&vec!["two"]]).await.unwrap();
    assert_eq!(store.session_messages(&workspace(), &session()).await.unwrap(), all[..4]);
    let own = older.client.query_one("SELECT count(*) FROM run_messages WHERE run_id = 'two'", &[]).await.unwrap();
    assert_eq!(own.get::<_, i64>(0), 0);

    // Started again, it finds the version that it knows.
    assert_eq!(older.client.query_one(VERSION, &[]).await.unwrap().get::<_, i64>(0), KNOWN as i64);
    drop(open(url).await);
}

impl OlderBuild {
    /// Deletes a body as its sweep does, and returns whether it was deleted.
    async fn delete_body(&self, digest: &str) -> bool {
        let delete = "DELETE FROM blobs WHERE digest = ANY($1) AND (put_at IS NULL OR put_at < $2)
             AND NOT EXISTS (SELECT 1 FROM transcript WHERE transcript.digest = blobs.digest)
             AND NOT EXISTS (SELECT 1 FROM session_messages WHERE session_messages.digest = blobs.digest)
             AND NOT EXISTS (SELECT 1 FROM tool_calls WHERE tool_calls.result = blobs.digest)";
        self.client.execute(delete, &[&vec![digest], &i64::MAX]).await.unwrap() == 1
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_the_older_build_writes_and_sweeps_messages_with_files() {
    let url = TestServer::shared().database().await;
    let older = OlderBuild::start(shell(&url).await).await;
    let store = open(url.clone()).await;
    let file = CanonicalJson::from(json!("base64"));
    store.put_blob(file.clone()).await.unwrap();
    let digest = file.digest().to_string();
    let head = ask(&store, "one", "1?").await;
    let message = shows("look", &file);
    older.append("one", head, &message).await;
    assert!(!older.delete_body(&digest).await, "a message refers to it");
    older.client.execute("UPDATE blobs SET put_at = NULL WHERE digest = $1", &[&digest]).await.unwrap();

    older.client.execute(&older.delete, &[&vec!["one"]]).await.unwrap();
    assert!(older.delete_body(&Digest::of(&message).unwrap().to_string()).await);
    let put = older.client.query("SELECT digest FROM blobs WHERE put_at < $1", &[&i64::MAX]).await.unwrap();
    let put: Vec<String> = put.iter().map(|row| row.get(0)).collect();
    assert_eq!(put, std::slice::from_ref(&digest), "it is looked at again");
    assert!(older.delete_body(&digest).await);
    assert_eq!(store.blob(&file.digest()).await.unwrap(), None);
}
