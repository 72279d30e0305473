//! One conversation that several providers answer in turn. What a provider signed comes back to it, byte for byte, and to
//! no other.

use serde_json::{Value, json};
use windlass_core::{agent::AgentDefinition, ids::SessionId};

use super::{
    formats::Format::{Anthropic, Gemini, OpenAiResponses},
    provider::{FakeProvider, Reply, models},
};
use crate::support::{World, block_on};

#[test]
fn a_conversation_changes_its_provider_and_each_gets_its_own_items_back() {
    block_on(async {
        let anthropic = FakeProvider::start([
            Reply::cassette(Anthropic, "redacted_thinking"),
            Reply::cassette(Anthropic, "stream"),
        ])
        .await;
        let openai = FakeProvider::start([Reply::cassette(OpenAiResponses, "redacted_thinking")]).await;
        let gemini = FakeProvider::start([Reply::cassette(Gemini, "signed_text")]).await;
        let config = format!(
            "[providers.a]\napi = \"anthropic\"\nbase_url = \"{}\"\n\
             [providers.o]\napi = \"openai-responses\"\nbase_url = \"{}/v1\"\n\
             [providers.g]\napi = \"gemini\"\nbase_url = \"{}\"\n\
             [models.\"o:x\"]\nreasoning = \"effort\"\n",
            anthropic.url, openai.url, gemini.url
        );
        let mut world = World::without_worker(json!({})).await;
        world.ports.models = models(&config);
        world.start_worker();
        let agent: AgentDefinition =
            serde_json::from_value(json!({"id": "chatty", "model": "a:x", "reasoningLevel": 50})).unwrap();
        let mut items: Vec<(String, String)> = Vec::new();
        for model in ["a:x", "o:x", "g:x", "a:x"] {
            let run = world
                .start_with(agent.clone(), &format!("Ask {model}"), |start| {
                    start.session_id = Some(SessionId::new("talk"));
                    start.model_id = Some(model.to_owned());
                })
                .await;
            world.result(&run).await.unwrap_or_else(|error| panic!("{model}: {error}"));
            let transcript = world.transcript(&run).await;
            let parts = transcript.iter().flat_map(|message| &message.parts);
            let own = parts.filter_map(|part| part.provider_item.as_ref());
            items = own.map(|item| (item.provider.clone(), item.item.clone())).collect();
        }
        let of = |provider: &str| -> Vec<&str> {
            items.iter().filter(|(of, _)| of == provider).map(|(_, item)| item.as_str()).collect()
        };
        for provider in ["a", "o", "g"] {
            assert!(!of(provider).is_empty(), "{provider} has items of its own: {items:?}");
        }
        let sent = |provider: &FakeProvider, number: usize| provider.requests()[number].body.clone();
        let last = sent(&anthropic, 1);
        // The last message of the transcript is the answer to this request.
        let before = of("a").len() - 1;
        for item in &of("a")[..before] {
            assert!(last.contains(*item), "what it signed comes back as it was: {item}\n{last}");
        }
        for other in of("o").iter().chain(&of("g")) {
            assert!(!last.contains(*other), "{other}");
        }
        for (request, own) in [(sent(&openai, 0), "o"), (sent(&gemini, 0), "g")] {
            for (provider, item) in items.iter().filter(|(provider, _)| provider != own) {
                let is_thinking = item.contains("thinking") || item.contains("encrypted") || item.contains("Signature");
                assert!(!is_thinking || !request.contains(item.as_str()), "{provider}'s {item} in {own}'s request");
            }
            // The words of the others are there in canonical form.
            let body: Value = serde_json::from_str(&request).unwrap();
            assert!(body.to_string().contains("Ask a:x"));
        }
    });
}
