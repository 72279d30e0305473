//! Whole runs through the proxy of litellm: it answers by itself, and it translates to another vendor's format, which aimock
//! speaks.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_core::agent::AgentDefinition;

use super::{
    peers::{Aimock, Litellm},
    provider::models,
    tide::{self, Provider},
};
use crate::support::{World, block_on};

const PLAIN: &str = "High tide is at six in the evening, as litellm says.";

#[test]
fn a_run_goes_through_litellm_and_a_killed_worker_repeats_only_the_turn_in_flight() {
    let aimock = Aimock::start(&tide::fixtures("tide-litellm", 1));
    let through = block_on(async {
        let litellm = Litellm::start(&BTreeMap::from([(
            "tide",
            json!({"model": "anthropic/tide-litellm", "api_base": aimock.url, "api_key": "unused"}),
        )]))
        .await;
        let config = config(&litellm, "key = \"${env:IT_LITELLM_KEY}\"");
        let environment = vec![("IT_LITELLM_KEY", litellm.key.clone())];
        let provider = Provider {
            config,
            model: "gateway:tide",
            asked_as: "tide-litellm",
            per_turn: 1,
            path: "/v1/messages",
            environment,
        };
        Box::pin(tide::run(&aimock, provider)).await
    });
    println!("litellm, which asks aimock in Anthropic's format, {through}");
}

#[test]
fn a_run_gets_an_answer_of_litellm_itself() {
    block_on(async {
        let mock = json!({"model": "openai/plain", "api_key": "unused", "mock_response": PLAIN});
        let litellm = Litellm::start(&BTreeMap::from([("plain", mock)])).await;
        let mut world = World::without_worker(json!({})).await;
        world.ports.models = models(&config(&litellm, "key = \"${secret:litellm}\""));
        world.set_secret("litellm", &litellm.key).await;
        world.start_worker();
        let agent: AgentDefinition = serde_json::from_value(json!({"id": "plain", "model": "gateway:plain"})).unwrap();
        let (run, output) = world.answer_of(agent, "When is high tide?").await;
        assert_eq!(output.final_message.unwrap().plain_text(), PLAIN);
        let deltas = world.kinds(&run).await.iter().filter(|kind| *kind == "assistant_delta").count();
        assert!(deltas > 1, "it streams");
        println!("litellm by itself: {deltas} deltas of {} bytes", PLAIN.len());
    });
}

fn config(litellm: &Litellm, key: &str) -> String {
    format!("[providers.gateway]\napi = \"openai-chat\"\nbase_url = \"{}/v1\"\n{key}\n", litellm.url)
}
