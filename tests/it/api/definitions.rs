//! Agent definitions in the store: an agent is stored once.

use rusqlite::Connection;
use serde_json::{Value, json};
use windlass_core::agent::{AgentDefinition, ToolSpec};

use super::rig::Rig;
use crate::support::world::scripts;

/// Runs an agent with the built-in tool `echo` to its end. The API knows these of the worker's tools.
async fn run_with_echo(known: impl Fn(&ToolSpec) -> bool) -> Rig {
    let calling = json!({"turns": [{"tool_calls": [{"name": "echo", "args": {"a": 1}}]}, {"text": "done"}]});
    let mut specs = Vec::new();
    let rig = Rig::with_world(scripts([("calling", calling)]), |world, options| {
        specs = world.ports.tools.builtins().specs().collect();
        options.builtins = specs.iter().filter(|spec| known(spec)).cloned().collect();
    })
    .await;
    let definition = json!({"id": "caller", "model": "script:calling", "tools": [{"name": "echo"}]});
    let run = rig.run(json!({"definition": definition, "prompt": "go"})).await;
    assert_eq!(rig.ending(&run).await["subtype"], "success");
    let row = rig.store().run(&run.as_str().into()).await.unwrap().unwrap();
    let pinned = rig.store().blob(&row.agent_digest.unwrap()).await.unwrap().unwrap();
    let pinned: AgentDefinition = pinned.decode().unwrap();
    let echo = specs.into_iter().find(|spec| spec.name.as_str() == "echo").unwrap();
    assert_eq!(pinned.tools, [echo], "the run has the tool's own defaults");
    rig
}

fn stored_definitions(rig: &Rig) -> Vec<AgentDefinition> {
    let sql = Connection::open(rig.world.directory().join("windlass.db")).unwrap();
    let mut bodies = sql.prepare("SELECT body FROM blobs").unwrap();
    let bodies = bodies.query_map([], |row| windlass_sqlite::pack::column(row, 0)).unwrap();
    // Definitions are stored whole; what does not read as JSON is stored in pieces.
    let all = bodies.filter_map(|body| serde_json::from_slice::<Value>(&body.unwrap()).ok());
    all.filter_map(|body| serde_json::from_value(body).ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_a_built_in_tool_is_stored_once() {
    let rig = run_with_echo(|_| true).await;
    assert_eq!(stored_definitions(&rig).len(), 1);
}

/// A client of an older build, or one with fewer tools than the worker, stores the definition as it is written.
#[tokio::test(flavor = "multi_thread")]
async fn the_worker_completes_a_definition_that_its_client_could_not_complete() {
    let rig = run_with_echo(|spec| spec.name.as_str() != "echo").await;
    let mut kept: Vec<bool> = stored_definitions(&rig).iter().map(|agent| agent.tools[0].tags.is_empty()).collect();
    kept.sort_unstable();
    assert_eq!(kept, [false, true]);
}
