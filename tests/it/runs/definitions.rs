//! Agents as they are defined: the files in `examples/agents` run as they are.

use serde_json::json;
use windlass_core::agent::{self, AgentDefinition};

use crate::support::{World, agent, block_on, world::scripts};

#[test]
fn every_example_is_well_formed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/agents");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let parsed: Result<AgentDefinition, _> = agent::file::parse(&path.display().to_string(), &text);
        assert!(parsed.is_ok(), "{}", parsed.unwrap_err());
        count += 1;
    }
    assert!(count >= 3);
}

#[test]
fn an_agent_whose_tool_the_worker_lacks_fails_at_once_and_says_which() {
    block_on(async {
        let world = World::new(scripts([])).await;
        let run = world.start(agent("x", json!([{"name": "teleport"}])), "go").await;
        let end = world.result(&run).await.unwrap_err();
        let message = "RUN0005: this worker has no tool `teleport`, which agent `test.x` uses";
        assert_eq!(end.to_string(), message);
    });
}
