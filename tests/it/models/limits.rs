//! Limits of a run on real wire formats: money, tokens and the model's context window.

use serde_json::{Value, json};
use windlass_core::{agent::AgentDefinition, cost::Cost, envelope::FinalizeReason, event::EventBody};

use super::{
    formats::Format::{Anthropic, OpenAiChat},
    provider::{FakeProvider, Reply, models},
};
use crate::support::{World, block_on, checks::every_call_has_one_result};

async fn world_on(provider: &FakeProvider, model: &str) -> World {
    let config =
        format!("[providers.p]\napi = \"anthropic\"\nbase_url = \"{}\"\n[models.\"p:m\"]\n{model}\n", provider.url);
    let mut world = World::without_worker(json!({})).await;
    world.ports.models = models(&config);
    world.start_worker();
    world
}

fn agent(fields: Value) -> AgentDefinition {
    let mut definition = json!({"id": "thrifty", "model": "p:m", "tools": [{"name": "weather.get", "kind": "external", "client": {"kind": "local"}}]});
    definition.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(definition).unwrap()
}

#[test]
fn a_run_that_has_spent_its_money_gives_its_last_answer() {
    block_on(async {
        let provider =
            FakeProvider::start([Reply::cassette(Anthropic, "tool_call"), Reply::cassette(Anthropic, "stream")]).await;
        let world = world_on(&provider, "prices = { input = 3000, output = 15000 }").await;
        let run = world.start(agent(json!({"policy": {"maxCostUsd": 0.5}})), "What is the weather?").await;
        world.handed_out(&run, "call-0-0").await;
        world.give_result(&run, "call-0-0", json!({"result": "rain"})).await;
        let output = world.result(&run).await.unwrap();
        assert_eq!(output.finalized, Some(FinalizeReason::CostBudget));
        let cost = output.usage.unwrap().cost_usd.unwrap();
        assert!(cost > Cost::from_usd(0.5).unwrap(), "{cost}");
        let spent: Cost = world
            .bodies(&run)
            .await
            .iter()
            .filter_map(|body| match body {
                EventBody::Usage { usage, .. } => usage.cost_usd,
                _ => None,
            })
            .sum();
        assert_eq!(spent, cost, "the turns' costs are the run's");
        let last: Value = serde_json::from_str(&provider.requests()[1].body).unwrap();
        assert_eq!(last["tool_choice"], json!({"type": "none"}), "no tool can be called any more");
    });
}

#[test]
fn a_conversation_that_is_too_long_loses_its_oldest_results_or_fails() {
    block_on(async {
        let turns = 4;
        let replies =
            (0..turns).map(|_| Reply::cassette(OpenAiChat, "tool_call")).chain([Reply::cassette(OpenAiChat, "stream")]);
        let provider = FakeProvider::start(replies).await;
        let config = format!(
            "[providers.p]\napi = \"openai-chat\"\nbase_url = \"{}/v1\"\n[models.\"p:m\"]\ncontext_window = 6000\nmax_output_tokens = 1000\n",
            provider.url
        );
        let mut world = World::without_worker(json!({})).await;
        world.ports.models = models(&config);
        world.start_worker();
        let run = world.start(agent(json!({"guards": {"loopDetection": false}})), "Go on").await;
        for turn in 0..turns {
            let call = format!("call-{turn}-0");
            world.handed_out(&run, &call).await;
            world.give_result(&run, &call, json!({"result": "x".repeat(6000)})).await;
        }
        world.result(&run).await.unwrap();
        let trimmed: Vec<(u32, u32)> = world
            .bodies(&run)
            .await
            .iter()
            .filter_map(|body| match body {
                EventBody::ContextTrimmed { turn, results, tokens_after, context_window, .. } => {
                    assert!(tokens_after <= context_window, "{body:?}");
                    Some((*turn, *results))
                }
                _ => None,
            })
            .collect();
        assert_eq!(trimmed, [(3, 1), (4, 2)]);
        every_call_has_one_result(&world.transcript(&run).await);
        let last: Value = serde_json::from_str(&provider.requests()[turns].body).unwrap();
        let results: Vec<usize> = last["messages"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].to_string().len())
            .collect();
        assert_eq!(results.len(), turns, "every call has its result");
        assert!(results[0] < 200 && results[1] < 200 && results[3] > 6000, "{results:?}");

        let run = world.start(agent(json!({})), &"y".repeat(40_000)).await;
        let failure = world.result(&run).await.unwrap_err().to_string();
        assert!(failure.contains("context window"), "{failure}");
    });
}

#[test]
fn cached_input_is_counted_and_priced() {
    block_on(async {
        let provider = FakeProvider::start([Reply::cassette(Anthropic, "cached_usage")]).await;
        let world =
            world_on(&provider, "prices = { input = 3, output = 15, cache_read = 0.3, cache_write = 3.75 }").await;
        let (_, output) = world.answer_of(agent(json!({})), "Hello").await;
        let usage = output.usage.unwrap();
        assert!(usage.cache_read_tokens > 0 && usage.cache_write_tokens > 0, "{usage:?}");
        let fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens;
        let usd = fresh as f64 * 3e-6
            + usage.cache_read_tokens as f64 * 0.3e-6
            + usage.cache_write_tokens as f64 * 3.75e-6
            + usage.output_tokens as f64 * 15e-6;
        assert_eq!(usage.cost_usd, Cost::from_usd(usd));
        assert!(usage.cache_hit_ratio().unwrap() > 0.0);
    });
}
