//! Replay: the workflow of today must follow the histories of yesterday, event for event.
//!
//! `workflows/histories` holds one history per shape a released workflow can have. They are never re-recorded to make a
//! test pass: a change that cannot follow them needs a patch (see `docs/adr/0007`). `cargo xtask record-histories` adds
//! the shapes that are missing.

mod let_go;
pub(crate) mod shapes;

use std::path::PathBuf;

use temporalio_client::{UntypedWorkflow, WorkflowHistory};
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use windlass_workflows::RunWorkflow;

use self::shapes::SHAPES;
use crate::support::{World, block_on};

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../workflows/histories"))
}

fn replayer() -> WorkflowReplayer {
    WorkflowReplayer::new(WorkflowReplayerOptions::new().register_workflow::<RunWorkflow>().unwrap().build()).unwrap()
}

async fn replay(name: &str, json: &[u8]) -> Result<(), String> {
    let history = WorkflowHistory::from_json(json).map_err(|error| format!("{name}: {error}"))?;
    let replayed = replayer().replay_workflow(history).await;
    replayed.map(|_| ()).map_err(|error| format!("{name}: {error}"))
}

/// The history of a shape: made by a live run.
async fn live(name: &str, shape: shapes::Shape) -> Vec<u8> {
    let world = World::new(shapes::scripts_of(name)).await;
    let run = shape(&world).await;
    let handle = world.ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
    handle.fetch_history(Default::default()).to_json().await.unwrap()
}

#[test]
fn recorded_histories_replay() {
    block_on(async {
        let mut replayed = Vec::new();
        for (name, shape) in SHAPES {
            let path = folder().join(format!("{name}.json"));
            if std::env::var_os("WINDLASS_RECORD_HISTORIES").is_some() && !path.exists() {
                std::fs::write(&path, live(name, shape).await).unwrap();
            }
            let json = std::fs::read(&path)
                .unwrap_or_else(|_| panic!("{name} has no recorded history; run `cargo xtask record-histories`"));
            replay(name, &json).await.unwrap();
            replayed.push(name);
        }
        let files = std::fs::read_dir(folder()).unwrap().count();
        assert_eq!(files, replayed.len(), "every file is replayed");
        println!("replay: {} recorded histories follow: {}", replayed.len(), replayed.join(", "));
    });
}

#[test]
fn fresh_histories_replay() {
    block_on(async {
        for (name, shape) in SHAPES {
            replay(name, &live(name, shape).await).await.unwrap();
        }
    });
}

#[test]
fn a_workflow_that_does_something_else_is_caught() {
    block_on(async {
        let json = std::fs::read_to_string(folder().join("tools.json")).unwrap();
        let other = json.replace("windlass.tool", "windlass.fool");
        assert_ne!(json, other);
        let caught = replay("changed", other.as_bytes()).await.unwrap_err();
        assert!(caught.to_lowercase().contains("nondetermin"), "{caught}");
    });
}
