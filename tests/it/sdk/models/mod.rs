//! The unmodified SDK on models of providers: attachments, fallback models, reasoning and structured output.
//!
//! The providers of `windlass dev` are in this process (`provider.rs`). They answer with the vendors' bytes of
//! `tests/cassettes/`, and record what they are asked. A case compares what the SDK gave its caller, and what is
//! interesting in the requests.

mod expected;
mod provider;

use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use serde_json::{Value, json};

use self::{
    expected::{CASES, Case, Look},
    provider::Providers,
};
use super::{
    AT_ONCE,
    client::{Scenario, Sdk},
    dev::Dev,
    table::differences,
};

/// Where a scenario found something else than it should.
fn judge(case: &Case, providers: &Providers, facts: Result<Value, String>) -> Vec<String> {
    let facts = match facts {
        Ok(facts) => facts,
        Err(why) => return vec![why],
    };
    let asked =
        |(name, look): &(&str, Look)| ((*name).to_owned(), providers.asked(name).iter().map(look).collect::<Value>());
    let asked: Value = Value::Object(case.asked.iter().map(asked).collect());
    differences(&(case.expected)(), &json!({"facts": facts, "asked": asked}))
}

#[test]
fn the_unmodified_sdk_works_on_the_models_of_providers() {
    let began = Instant::now();
    let providers = Providers::start();
    let dev = Dev::start_in(provider::KEYS, providers.options());
    let (waiting, failures) = (Mutex::new(CASES.iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = next() {
                    let facts = Scenario::start(case.name, Sdk::V2026, &dev.url, "").facts();
                    let wrong = judge(case, &providers, facts);
                    let line = if wrong.is_empty() { "ok" } else { "FAILED" };
                    println!("{:<26}{line}", case.name);
                    if !wrong.is_empty() {
                        let text = format!("{}:\n{}\n", case.name, wrong.join("\n"));
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                    }
                }
            });
        }
    });
    println!(
        "{} scenarios of mantyx-sdk {} on cassettes, {} model requests, in {:.0} s",
        CASES.len(),
        Sdk::V2026.version(),
        providers.all_asked(),
        began.elapsed().as_secs_f64()
    );
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
