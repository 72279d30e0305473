//! Guards that keep a run from going round in circles.

use serde_json::{Value, json};

use super::{log, tools::CALL, with};
use crate::sdk::client::Sdk;

fn caught(count: u32, hard_cutoff: bool) -> Value {
    json!({"consecutiveCount": count, "hardCutoff": hard_cutoff, "tools": ["probe"]})
}

/// Two calls run, the third is caught, the sixth ends it with a seventh turn.
pub(super) fn endless(_: Sdk) -> Value {
    let call = [&["assistant_message"][..], &CALL].concat();
    let skipped = ["assistant_message", "tool_result"];
    let types: Vec<&str> = [
        &["started"][..],
        &call,
        &call,
        &skipped,
        &["loop_detected"],
        &skipped,
        &skipped,
        &skipped,
        &["loop_detected", "assistant_delta", "assistant_message", "result"],
    ]
    .concat();
    let facts = json!({"calls": 2, "loops": [caught(3, false), caught(6, true)], "text": "stopped, nudged: yes"});
    with(facts, log(&types))
}

pub(super) fn thresholds(_: Sdk) -> Value {
    json!({"calls": 1, "loops": [caught(2, false), caught(3, true)], "text": "stopped, nudged: yes"})
}

pub(super) fn off(_: Sdk) -> Value {
    json!({"calls": 8, "loops": [], "text": "stopped, nudged: no"})
}

pub(super) fn budget(_: Sdk) -> Value {
    let call = [&["assistant_message"][..], &CALL].concat();
    let types: Vec<&str> = [
        &["started"][..],
        &call,
        &call,
        &["assistant_message", "tool_result", "tool_budget_exceeded", "assistant_delta", "assistant_message", "result"],
    ]
    .concat();
    let facts = json!({
        "calls": 2,
        "exceeded": [{"tool": "probe", "maxCalls": 2, "callIndex": 3}],
        "told": ["seen 1", "seen 2", "tool_budget_exceeded"],
    });
    with(facts, log(&types))
}
