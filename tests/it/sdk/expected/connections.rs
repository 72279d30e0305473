//! Connections that break and servers that die.

use serde_json::{Value, json};

use super::{log, with};
use crate::sdk::client::Sdk;

/// What the script `slow` says.
const SLOW: &str = "one two three four five six seven eight nine ten eleven twelve";

fn talk() -> Value {
    let types: Vec<&str> = [&["started"][..], &["assistant_delta"; 12], &["assistant_message", "result"]].concat();
    log(&types)
}

pub(super) fn cut(sdk: Sdk) -> Value {
    with(cut_async(sdk), json!({"text": SLOW}))
}

/// Four cuts, so five openings; the client received all that was sent.
pub(super) fn cut_async(_: Sdk) -> Value {
    with(json!({"openings": 5, "inOrder": true, "heard": SLOW}), talk())
}

pub(super) fn cut_in_tool(_: Sdk) -> Value {
    with(json!({"calls": 1, "openings": 2, "text": "sum=5"}), one_call())
}

pub(super) fn left_and_gone_on(_: Sdk) -> Value {
    json!({"history": ["?", SLOW]})
}

/// The turn in progress is streamed again from its beginning, and the log shows it.
pub(super) fn kill_stream(_: Sdk) -> Value {
    let facts = json!({"restarts": 1, "text": "abcdefghijklmnopqrstuvwxyz"});
    with(facts, log(&["started", "assistant_message", "result"]))
}

pub(super) fn kill_tool(_: Sdk) -> Value {
    with(json!({"calls": 1, "text": "sum=5"}), one_call())
}

fn one_call() -> Value {
    log(&super::tools::ONE_CALL)
}
