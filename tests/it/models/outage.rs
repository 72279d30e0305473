//! Providers that fail: the run goes on by retry or on a fallback model, and its log explains why.

use serde_json::json;
use windlass_core::{
    agent::AgentDefinition,
    cost::Cost,
    event::{Event, EventBody},
    time::Millis,
};

use super::{
    formats::Format::{Anthropic, Gemini, OpenAiChat},
    provider::{FakeProvider, Reply, models},
};
use crate::support::{World, block_on};

fn config(primary: &FakeProvider, second: &FakeProvider, third: &FakeProvider) -> String {
    format!(
        r#"
[providers.first]
api = "anthropic"
base_url = "{}"
silence_timeout = "300ms"

[providers.second]
api = "openai-chat"
base_url = "{}/v1"

[providers.third]
api = "gemini"
base_url = "{}"

[models."first:large"]
prices = {{ input = 1000, output = 5000 }}

[models."third:small"]
prices = {{ input = 100, output = 1000 }}
"#,
        primary.url, second.url, third.url
    )
}

fn agent(fallback: &[&str]) -> AgentDefinition {
    serde_json::from_value(json!({"id": "careful", "model": "first:large", "fallback": fallback})).unwrap()
}

/// What the log says about attempts and models, in words.
fn story(log: &[Event]) -> Vec<String> {
    let told = log.iter().filter_map(|event| match event.body().unwrap() {
        EventBody::AttemptFailed { turn, attempt, model, error_class, retry_after_ms, .. } => {
            let wait = retry_after_ms.map(|Millis(wait)| format!(", wait {wait} ms")).unwrap_or_default();
            Some(format!("{turn}.{attempt} {model}: {error_class}{wait}"))
        }
        EventBody::TurnRestarted { turn, attempt } => Some(format!("{turn}.{attempt} begins")),
        EventBody::ModelFallback { model, primary_model_id, error_class, .. } => {
            Some(format!("{primary_model_id} → {model} ({error_class})"))
        }
        EventBody::AssistantMessage { model, .. } => Some(format!("{model} answers")),
        _ => None,
    });
    told.collect()
}

fn at(log: &[Event], fits: impl Fn(&EventBody) -> bool) -> Millis {
    let event = log.iter().find(|event| fits(&event.body().unwrap())).unwrap();
    Millis(event.at.0)
}

#[test]
fn a_run_gets_through_an_outage_on_its_fallback_models() {
    block_on(async {
        let first = FakeProvider::start([
            Reply::cassette(Anthropic, "rate_limit").with_header("retry-after", "1"),
            Reply::Hang,
            // The input was counted; no text was shown.
            Reply::cassette(Anthropic, "stream").cut_after(1),
        ])
        .await;
        let second = FakeProvider::start([Reply::cassette(OpenAiChat, "ollama_error").with_status(400)]).await;
        let third = FakeProvider::start([Reply::cassette(Gemini, "stream")]).await;
        let mut world = World::without_worker(json!({})).await;
        world.ports.models = models(&config(&first, &second, &third));
        world.start_worker();

        let (run, output) = world.answer_of(agent(&["second:medium", "third:small"]), "When is high tide?").await;
        let log = world.events(&run).await;
        assert_eq!(
            story(&log),
            [
                "0.1 first:large: rate_limit, wait 1000 ms",
                "0.2 begins",
                "0.2 first:large: timeout",
                "0.3 begins",
                "0.3 first:large: server",
                "first:large → second:medium (server)",
                "1.1 second:medium: invalid_request",
                "first:large → third:small (invalid_request)",
                "third:small answers",
            ]
        );
        assert_eq!((first.requests().len(), second.requests().len(), third.requests().len()), (3, 1, 1));

        // The provider asked for one second, and Temporal waited for it.
        let failed = at(&log, |body| matches!(body, EventBody::AttemptFailed { attempt: 1, .. }));
        let again = at(&log, |body| matches!(body, EventBody::TurnRestarted { attempt: 2, .. }));
        assert!(again.saturating_sub(failed) >= Millis(1000), "{failed:?} {again:?}");

        // 25 tokens of input at $1,000 a million that came to nothing, and the answer's 21 in and 19 out.
        let usage = output.usage.unwrap();
        let expected = Cost::from_usd(25e-6 * 1000.0 + 5000e-6 + 21e-6 * 100.0 + 19e-6 * 1000.0).unwrap();
        assert_eq!((usage.cost_usd, usage.total_tokens), (Some(expected), 25 + 1 + 40));
    });
}

#[test]
fn a_run_without_fallback_gets_through_by_retry() {
    block_on(async {
        let first = FakeProvider::start([
            Reply::cassette(Anthropic, "rate_limit").with_header("retry-after", "0"),
            Reply::Hang,
            Reply::cassette(Anthropic, "cut_stream"),
            Reply::cassette(Anthropic, "overloaded"),
            Reply::cassette(Anthropic, "stream"),
        ])
        .await;
        let none = FakeProvider::start([]).await;
        let mut world = World::without_worker(json!({})).await;
        world.ports.models = models(&config(&first, &none, &none));
        world.start_worker();
        let (run, _) = world.answer_of(agent(&[]), "Hello").await;
        let classes = ["rate_limit, wait 0 ms", "timeout", "server", "overloaded"];
        let mut expected = Vec::new();
        for (attempt, class) in (1..).zip(classes) {
            expected.push(format!("0.{attempt} first:large: {class}"));
            expected.push(format!("0.{} begins", attempt + 1));
        }
        expected.push("first:large answers".to_owned());
        assert_eq!(story(&world.events(&run).await), expected);
        assert_eq!(first.requests().len(), 5);
    });
}

#[test]
fn an_invalid_request_is_neither_retried_nor_sent_to_another_model() {
    block_on(async {
        let first = FakeProvider::start([Reply::cassette(Anthropic, "schema_rejected")]).await;
        let second = FakeProvider::start([Reply::cassette(OpenAiChat, "stream")]).await;
        let mut world = World::without_worker(json!({})).await;
        world.ports.models = models(&config(&first, &second, &second));
        world.start_worker();
        let run = world.start(agent(&["second:medium"]), "Hello").await;
        world.result(&run).await.unwrap_err();
        assert_eq!((first.requests().len(), second.requests().len()), (1, 0));
    });
}
