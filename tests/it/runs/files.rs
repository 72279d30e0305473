//! Files above the inline limit: stored once, seen by the model on every turn, kept while a message refers to them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rusqlite::Connection;
use serde_json::{Value, json};
use temporalio_client::UntypedWorkflow;
use windlass_core::{
    envelope::BlobRef,
    ids::{RunId, SessionId},
    message::{Content, ImageFormat, ImageSource, Message, Part, Role, stored_files},
    time::Timestamp,
};
use windlass_store::{Retention, Swept};

use crate::{
    api::rig::{Rig, WORKSPACE},
    support::{World, agent, block_on, calls, says, script, tools::incompressible, world::scripts},
};

const MEGABYTE: usize = 1 << 20;

/// What rows and index entries take in the store's file, without the free room of its pages.
fn stored_bytes(world: &World) -> u64 {
    let sql = Connection::open(world.directory().join("windlass.db")).unwrap();
    let bytes: i64 = sql.query_row("SELECT sum(pgsize - unused) FROM dbstat", [], |row| row.get(0)).unwrap();
    u64::try_from(bytes).unwrap()
}

/// How many copies of a file of this size the store has gained. Files are stored as compressed base64, which takes about what
/// the file takes if that cannot be compressed.
fn copies(world: &World, before: u64, file: usize) -> f64 {
    (stored_bytes(world) as f64 - before as f64) / file as f64
}

/// Pages of the SQLite file, events and rows take a little beside the file.
fn assert_about(copies: f64, expected: f64, what: &str) {
    println!("{what}: {copies:.3} copies");
    assert!((expected..expected + 0.1).contains(&copies), "{what}: {copies:.3} copies are stored");
}

async fn history_bytes(world: &World, run: &RunId) -> usize {
    let handle = world.ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
    handle.fetch_history(Default::default()).to_json().await.unwrap().len()
}

/// Deletes whatever has ended, as of now.
async fn sweep(world: &World) -> Swept {
    let store = world.ops.store();
    let before = Timestamp(windlass_store::system_clock()().0 + 1);
    let foreseen = store.would_sweep(before).await.unwrap();
    let mut all = Swept::default();
    loop {
        let swept = store.sweep(Retention { before, limit: 100 }).await.unwrap();
        all.runs += swept.runs;
        all.blobs += swept.blobs;
        if !swept.more {
            assert_eq!((all.runs, all.blobs), (foreseen.runs, foreseen.blobs));
            return all;
        }
    }
}

async fn is_stored(world: &World, blob: BlobRef) -> bool {
    world.ops.store().blob(&blob.digest).await.unwrap().is_some()
}

#[test]
fn an_attachment_is_stored_once_for_a_whole_session_and_goes_with_it() {
    block_on(async {
        // Two turns each, so that the file is sent to the model six times.
        let turns = [json!({"text": "half, ", "stop": "pause_turn"}), says("{{file_bytes}} {{attachments}}")];
        let rig = Rig::new(scripts([("sees", script(&turns))])).await;
        let world = &rig.world;
        let spec = json!({"systemPrompt": "s", "modelId": "script:sees"});
        let session = rig.post("/agent-sessions", spec).await.body["sessionId"].as_str().unwrap().to_owned();
        let say = async |attachments: Value| {
            let message = json!({"role": "user", "content": "look", "attachments": attachments});
            let taken = rig.post(&format!("/agent-sessions/{session}/messages"), json!({"messages": [message]})).await;
            assert_eq!(taken.status, 202, "{taken:?}");
            let run = RunId::new(taken.body["runId"].as_str().unwrap());
            let text = rig.ending(run.as_str()).await["text"].as_str().unwrap().to_owned();
            assert!(history_bytes(world, &run).await < 100_000, "the file is not in the history");
            (run, text)
        };
        let image = incompressible(MEGABYTE);
        let file = |name: &str| {
            let data = BASE64_STANDARD.encode(&image);
            json!({"type": "input_file", "mimeType": "image/png", "filename": name, "data": data})
        };
        let before = stored_bytes(world);
        let (run, text) = say(json!([file("cat.png")])).await;
        assert!(text.ends_with(&format!("{MEGABYTE} image.png")), "{text}");
        assert_about(copies(world, before, MEGABYTE), 1.0, "one message");
        for _ in 0..2 {
            assert!(say(json!([])).await.1.ends_with(&format!("{MEGABYTE} image.png")), "later runs see it, too");
        }
        assert_about(copies(world, before, MEGABYTE), 1.0, "three messages, six turns");
        // The same file once more is the same body.
        assert!(
            say(json!([file("again.png")])).await.1.contains(&(2 * MEGABYTE).to_string()),
            "the model gets it twice"
        );
        assert_about(copies(world, before, MEGABYTE), 1.0, "sent twice");

        // Readers get the file's metadata.
        let summary = json!({"type": "input_file", "mimeType": "image/png", "filename": "cat.png", "size": MEGABYTE});
        let shown = rig.get(&format!("/agent-sessions/{session}")).await.body;
        assert_eq!(shown["messages"][0]["attachments"], json!([summary]));
        let events = rig.get(&format!("/agent-sessions/{session}/events")).await.body;
        assert_eq!(events["events"][0]["attachments"], json!([summary]));
        let transcript = rig.get(&format!("/agent-runs/{run}/transcript")).await.body;
        let parts = world.transcript(&run).await.swap_remove(0).parts;
        let [blob] = stored_files(&parts)[..] else { panic!("{parts:?}") };
        assert_eq!(transcript["messages"][0]["parts"][1]["source"], json!({"blob": blob}));

        // The runs go, the conversation keeps the file.
        assert_eq!(sweep(world).await.runs, 4);
        assert!(is_stored(world, blob).await);
        assert!(say(json!([])).await.1.contains(&(2 * MEGABYTE).to_string()), "a run after the sweep sees both");
        let (workspace, id) = (WORKSPACE.into(), SessionId::new(session.as_str()));
        world.ops.store().end_session(&workspace, &id).await.unwrap().unwrap();
        sweep(world).await;
        assert!(!is_stored(world, blob).await);
        assert!(copies(world, before, MEGABYTE) < 0.1, "its room is free again");
    });
}

#[test]
fn a_file_that_a_tool_returns_is_stored_once() {
    block_on(async {
        let turns = [
            calls(&[("report", json!({"imageBytes": MEGABYTE}))]),
            calls(&[("echo", json!({"n": 1}))]),
            calls(&[("echo", json!({"n": 2}))]),
            says("{{file_bytes}}"),
        ];
        let world = World::new(scripts([("draws", script(&turns))])).await;
        world.set_secret("report.key", "hunter2").await;
        let before = stored_bytes(&world);
        let (run, output) = world.answer_of(agent("draws", json!([{"name": "report"}, {"name": "echo"}])), "go").await;
        assert_eq!(output.final_message.unwrap().plain_text(), MEGABYTE.to_string());
        assert_about(copies(&world, before, MEGABYTE), 1.0, "four turns");
        assert!(history_bytes(&world, &run).await < 100_000);
        let parts = world.transcript(&run).await.swap_remove(2).parts;
        let [blob] = stored_files(&parts)[..] else { panic!("{parts:?}") };
        assert_eq!(sweep(&world).await.runs, 1);
        assert!(!is_stored(&world, blob).await);
    });
}

#[test]
fn a_file_that_a_model_writes_is_stored_and_a_small_one_stays_in_its_message() {
    block_on(async {
        let image = |bytes: usize| {
            let source = ImageSource::Bytes(BASE64_STANDARD.encode(incompressible(bytes)));
            Part::from(Content::Image { format: ImageFormat::Webp, source })
        };
        let turns = [
            json!({"parts": [Part::text("Here."), image(MEGABYTE / 8), image(100)], "stop": "pause_turn"}),
            says("{{file_bytes}}"),
        ];
        let world = World::new(scripts([("paints", script(&turns))])).await;
        let before = stored_bytes(&world);
        let change = |start: &mut windlass_ops::StartRun| {
            start.messages = vec![Message::new(Role::User, vec![Part::text("go"), image(300)])];
        };
        let run = world.start_with(agent("paints", json!([])), "", change).await;
        let answer = world.result(&run).await.unwrap().final_message.unwrap().plain_text();
        assert!(answer.ends_with(&(MEGABYTE / 8 + 400).to_string()), "{answer}");
        assert_about(copies(&world, before, MEGABYTE / 8), 1.0, "a model's image");
        let transcript = world.transcript(&run).await;
        let stored: Vec<usize> = transcript.iter().map(|message| stored_files(&message.parts).len()).collect();
        assert_eq!(stored, [0, 1, 0]);
        assert_eq!(transcript[1].parts[2], image(100));
    });
}
