//! Files of messages: bodies that other bodies refer to.

use serde_json::{Value, json};
use windlass_core::{
    canonical::{CanonicalJson, Digest},
    envelope::BlobRef,
    ids::{CallId, RunId},
    message::{Content, ImageFormat, ImageSource, Message, Part, Role, stored_files},
    run::RunStatus,
    time::Timestamp,
};

use super::{Bench, batch, endings::result, new_run, session, workspace};
use crate::{NewRun, RecordBatch, Retention, Swept};

const DAY: u64 = 24 * 60 * 60 * 1000;

fn bytes(name: &str) -> CanonicalJson {
    Value::from(format!("base64 of {name}")).into()
}

/// A message with an image in the store.
pub(crate) fn shows(text: &str, file: &CanonicalJson) -> Message {
    Message::new(Role::User, vec![Part::text(text), image(file)])
}

fn image(file: &CanonicalJson) -> Part {
    Content::Image { format: ImageFormat::Png, source: ImageSource::Blob(BlobRef::of(file)) }.into()
}

async fn stored(bench: &Bench, file: &CanonicalJson) -> bool {
    bench.store.blob(&file.digest()).await.unwrap().is_some()
}

/// A run that begins with these messages, answers, and ends.
async fn finished_run(bench: &Bench, id: &str, messages: Vec<Message>, in_session: bool) {
    let run = RunId::new(id);
    let session = in_session.then(session);
    let new = NewRun { messages, continues_session: in_session, session, ..new_run(&run, &[]) };
    let head = bench.store.open_run(new).await.unwrap();
    let last = RecordBatch {
        messages: vec![Message::assistant(format!("answer of {id}"))],
        events: vec![result("done")],
        status: RunStatus::Completed,
        closes_session_turn: in_session,
        ..batch(&run, head)
    };
    bench.store.record(last).await.unwrap();
}

/// Sweeps until nothing is left, and checks that it is what was counted.
async fn sweep(bench: &Bench, before: u64) -> Swept {
    let before = Timestamp(before);
    let counted = bench.store.would_sweep(before).await.unwrap();
    let mut all = Swept::default();
    loop {
        let swept = bench.store.sweep(Retention { before, limit: 100 }).await.unwrap();
        all.runs += swept.runs;
        all.events += swept.events;
        all.sessions += swept.sessions;
        all.blobs += swept.blobs;
        if !swept.more {
            assert_eq!(all, counted);
            return all;
        }
    }
}

pub(crate) async fn a_file_is_kept_while_a_message_of_a_session_refers_to_it(bench: Bench) {
    let file = bytes("a cat");
    bench.at(DAY);
    bench.store.put_blob(file.clone()).await.unwrap();
    finished_run(&bench, "one", vec![shows("look", &file)], true).await;
    bench.at(100 * DAY);
    // The run goes. Its question is in the conversation, and so is the file.
    assert_eq!(sweep(&bench, 50 * DAY).await, Swept { runs: 1, events: 2, ..Swept::default() });
    assert!(stored(&bench, &file).await);
    let said = bench.store.session_messages(&workspace(), &session()).await.unwrap();
    assert_eq!(stored_files(&said[0].parts), [BlobRef::of(&file)]);

    bench.store.end_session(&workspace(), &session()).await.unwrap();
    bench.at(200 * DAY);
    // Question, answer and file.
    assert_eq!(sweep(&bench, 150 * DAY).await, Swept { sessions: 1, blobs: 3, ..Swept::default() });
    assert!(!stored(&bench, &file).await);
}

pub(crate) async fn a_shared_file_goes_with_the_last_message_that_refers_to_it(bench: Bench) {
    let file = bytes("a dog");
    bench.at(DAY);
    bench.store.put_blob(file.clone()).await.unwrap();
    finished_run(&bench, "one", vec![shows("first", &file)], false).await;
    bench.at(30 * DAY);
    let nested = Content::ToolResult {
        tool_use_id: CallId::new("c"),
        content: CanonicalJson::null(),
        parts: vec![image(&file)],
        is_error: false,
    };
    finished_run(&bench, "two", vec![Message::new(Role::User, vec![nested.into()])], false).await;
    bench.at(100 * DAY);
    assert_eq!(sweep(&bench, 20 * DAY).await, Swept { runs: 1, events: 2, blobs: 2, ..Swept::default() });
    assert!(stored(&bench, &file).await);
    assert_eq!(sweep(&bench, 40 * DAY).await, Swept { runs: 1, events: 2, blobs: 3, ..Swept::default() });
    assert!(!stored(&bench, &file).await);
}

pub(crate) async fn a_file_that_was_put_again_outlives_the_message_that_referred_to_it(bench: Bench) {
    let file = bytes("a bird");
    bench.at(DAY);
    bench.store.put_blob(file.clone()).await.unwrap();
    finished_run(&bench, "one", vec![shows("look", &file)], false).await;
    bench.at(60 * DAY);
    // For a run that is about to start.
    bench.store.put_blob(file.clone()).await.unwrap();
    assert_eq!(sweep(&bench, 50 * DAY).await, Swept { runs: 1, events: 2, blobs: 2, ..Swept::default() });
    assert!(stored(&bench, &file).await);
    bench.at(100 * DAY);
    assert_eq!(sweep(&bench, 90 * DAY).await, Swept { blobs: 1, ..Swept::default() });
}

pub(crate) async fn messages_that_were_put_keep_their_files_too(bench: Bench) {
    let (file, other) = (bytes("a fish"), bytes("another fish"));
    bench.at(DAY);
    for file in [&file, &other] {
        bench.store.put_blob(file.clone()).await.unwrap();
    }
    bench.at(3 * DAY);
    let messages = CanonicalJson::of(&[shows("one", &file), shows("two", &other), shows("three", &file)]).unwrap();
    bench.store.put_blob(messages.clone()).await.unwrap();
    bench.at(100 * DAY);
    assert_eq!(sweep(&bench, 2 * DAY).await, Swept::default());
    assert!(stored(&bench, &file).await && stored(&bench, &other).await);
    assert_eq!(sweep(&bench, 50 * DAY).await, Swept { blobs: 3, ..Swept::default() });
}

pub(crate) async fn what_only_looks_like_a_reference_keeps_nothing(bench: Bench) {
    let file = bytes("a cow");
    bench.at(DAY);
    bench.store.put_blob(file.clone()).await.unwrap();
    let written = format!(r#""blob":{}"#, CanonicalJson::of(&BlobRef::of(&file)).unwrap());
    let digest = file.digest().to_string();
    let bodies = [json!({"blob": digest}), json!({"blob": {"digest": 5}}), json!({"blob": {"digest": "short\u{0}"}})];
    for body in bodies {
        bench.store.put_blob(body.into()).await.unwrap();
    }
    bench.at(10 * DAY);
    finished_run(&bench, "one", vec![Message::user(written)], false).await;
    bench.at(100 * DAY);
    assert_eq!(sweep(&bench, 5 * DAY).await, Swept { blobs: 4, ..Swept::default() });
    assert!(!stored(&bench, &file).await);
}

pub(crate) async fn a_reference_to_a_file_that_is_missing_is_stored_like_any_other(bench: Bench) {
    let file = bytes("nothing");
    bench.at(DAY);
    let message = shows("a\u{0}b \"é\" \\", &file);
    finished_run(&bench, "one", vec![message.clone(), message.clone()], false).await;
    let row = bench.store.run(&RunId::new("one")).await.unwrap().unwrap();
    assert_eq!(bench.store.transcript(&RunId::new("one"), row.head).await.unwrap()[..2], [message.clone(), message]);
    // The file comes later, and is kept.
    bench.store.put_blob(file.clone()).await.unwrap();
    bench.at(100 * DAY);
    bench.open(&RunId::new("still open")).await;
    assert_eq!(sweep(&bench, DAY).await, Swept::default());
    assert_eq!(sweep(&bench, 50 * DAY).await, Swept { runs: 1, events: 2, blobs: 3, ..Swept::default() });
    assert_eq!(bench.store.blob(&Digest::of(&file).unwrap()).await.unwrap(), None);
}
