//! Whole runs through aimock, one for each wire format.

use super::{
    peers::Aimock,
    tide::{self, Provider},
};
use crate::support::block_on;

/// `base` is the path of the provider's URL, `path` is part of each request's.
fn goes_through(api: &str, model: &'static str, base: &str, path: &'static str) {
    let per_turn = if api == "openai-responses" { 2 } else { 1 };
    let asked_as = model.split_once(':').unwrap().1;
    let aimock = Aimock::start(&tide::fixtures(asked_as, per_turn));
    let config = format!("[providers.aimock]\napi = \"{api}\"\nbase_url = \"{}{base}\"\n", aimock.url);
    let provider = Provider { config, model, asked_as, per_turn, path, environment: Vec::new() };
    println!("{}", block_on(tide::run(&aimock, provider)));
}

#[test]
fn a_run_goes_through_aimock_by_openai_chat_and_a_killed_worker_repeats_only_the_turn_in_flight() {
    goes_through("openai-chat", "aimock:tide-chat", "/v1", "/v1/chat/completions");
}

#[test]
fn a_run_goes_through_aimock_by_openai_responses_and_a_killed_worker_repeats_only_the_turn_in_flight() {
    goes_through("openai-responses", "aimock:tide-responses", "/v1", "/v1/responses");
}

#[test]
fn a_run_goes_through_aimock_by_anthropic_and_a_killed_worker_repeats_only_the_turn_in_flight() {
    goes_through("anthropic", "aimock:tide-anthropic", "", "/v1/messages");
}

#[test]
fn a_run_goes_through_aimock_by_gemini_and_a_killed_worker_repeats_only_the_turn_in_flight() {
    goes_through("gemini", "aimock:tide-gemini", "", "tide-gemini:streamGenerateContent");
}
