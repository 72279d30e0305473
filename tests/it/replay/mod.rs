//! Replay: the workflow of today must follow the histories of yesterday, event for event.
//!
//! `workflows/histories` holds one history per shape a released workflow can have. They are never re-recorded to make a
//! test pass: a change that cannot follow them needs a patch (see `docs/adr/0007`). `cargo xtask record-histories` adds
//! the shapes that are missing.

mod eviction;
pub(crate) mod shapes;

use std::path::PathBuf;

use serde_json::json;
use temporalio_client::{UntypedWorkflow, WorkflowHistory};
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use windlass_workflows::{PushWorkflow, RunWorkflow};

use self::shapes::SHAPES;
use crate::support::{World, agent, block_on, calls, script, world::scripts};

/// Histories that today's workflow would not write any more. It follows them because each change is behind a patch.
const OF_OLDER_RULES: [&str; 1] = ["before_stop_outcomes"];

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../workflows/histories"))
}

fn replayer() -> WorkflowReplayer {
    let options = WorkflowReplayerOptions::new().register_workflow::<RunWorkflow>().unwrap();
    let options = options.register_workflow::<PushWorkflow>().unwrap();
    WorkflowReplayer::new(options.build()).unwrap()
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
        for name in OF_OLDER_RULES {
            replay(name, &std::fs::read(folder().join(format!("{name}.json"))).unwrap()).await.unwrap();
            replayed.push(name);
        }
        let files = std::fs::read_dir(folder()).unwrap().count();
        assert_eq!(files, replayed.len(), "every file is replayed");
        println!("replay: {} recorded histories follow: {}", replayed.len(), replayed.join(", "));
    });
}

/// The same model responses, before and after the patch `stop-outcomes`: a call of a turn that was cut off was executed, and
/// an answer that the provider withheld was the run's answer. Now the call is refused and the run fails.
#[test]
fn a_patch_changes_new_runs_and_no_old_one() {
    let text = |name: &str| std::fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
    let executed = |json: &str| json.matches("windlass.tool\"").count() > 0;
    let patched = |json: &str| json.contains("core_patch");
    let (old, new) = (text("before_stop_outcomes"), text("stop_outcomes"));
    assert_eq!((executed(&old), patched(&old)), (true, false));
    assert_eq!((executed(&new), patched(&new)), (false, true));
    block_on(async {
        let mut cut = calls(&[("echo", json!({"n": 1}))]);
        cut["stop"] = json!("max_tokens");
        let turns = [cut, json!({"text": "withheld", "stop": "content_filter"})];
        let world = World::new(scripts([("stops", script(&turns))])).await;
        let run = world.start(agent("stops", json!([{"name": "echo"}])), "go").await;
        let failure = world.result(&run).await.unwrap_err().to_string();
        assert!(failure.contains("RUN0014"), "{failure}");
        assert_eq!(world.watch.count("echo"), 0);
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
