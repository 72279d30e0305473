//! Real peers behind the caller's tools.

use serde_json::{Value, json};

use super::{log, tools::ONE_CALL, with};
use crate::sdk::client::Sdk;

pub(super) fn mcp(_: Sdk) -> Value {
    let args = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let call = json!({
        "name": "clock_convert_time", "kind": "mcp_local", "mcpServer": "clock", "mcpToolName": "clock_convert_time",
        "args": args,
    });
    with(json!({"calls": [call], "answered": true, "again": true}), log(&ONE_CALL))
}

pub(super) fn mcp_error(_: Sdk) -> Value {
    with(json!({"told": true}), log(&ONE_CALL))
}

pub(super) fn a2a(_: Sdk) -> Value {
    let call = json!({"name": "shouter", "kind": "a2a_local", "agentCard": "Shouter", "args": {"message": "hello"}});
    with(json!({"calls": [call], "text": "HELLO"}), log(&ONE_CALL))
}

pub(super) fn a2a_async(_: Sdk) -> Value {
    json!({"text": "HELLO"})
}

pub(super) fn a2a_described(_: Sdk) -> Value {
    json!({"described": "Delegate a task to Shouter: Says it louder\n\nSkills:\n- shout: Upper case"})
}

pub(super) fn a2a_error(_: Sdk) -> Value {
    let said = "Local tool 'shouter' failed: A2A peer reported error -32603: 'the peer has lost its voice'";
    json!({"text": format!("ERROR: {said}")})
}
