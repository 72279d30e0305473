//! Secrets of a run: used by the activity that needs them, and found nowhere else.

mod echo_server;
mod in_commands;
mod in_specs;
mod planted;
pub(crate) mod search;
mod with_tools;

use serde_json::json;
use windlass_core::secret::SecretRef;

use crate::support::{World, agent, block_on, script, world::scripts};

#[test]
fn credentials_reach_the_model_and_a_missing_one_fails_the_run_as_auth() {
    block_on(async {
        let turns = [json!({"text": "answered", "needs_credentials": true})];
        let world = World::new(scripts([("private", script(&turns))])).await;
        let mut agent = agent("private", json!([]));
        agent.credentials = Some(SecretRef::Secret("model.key".to_owned()));
        let run = world.start(agent.clone(), "go").await;
        let failure = world.result(&run).await.unwrap_err().to_string();
        assert!(failure.contains("STO0024") && failure.contains("model.key"), "{failure}");

        world.set_secret("model.key", "sk-1").await;
        let (_, output) = world.answer_of(agent, "go").await;
        assert_eq!(output.final_message.unwrap().plain_text(), "answered");
    });
}
