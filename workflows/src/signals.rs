//! Signals: their names, and reading their payloads without ever failing the workflow.
//!
//! A payload the SDK cannot decode would fail the workflow task for ever, so handlers take raw payloads and decode here.

use serde::de::DeserializeOwned;
use serde_json::{Value, error::Category};
use temporalio_common::data_converters::RawValue;
use windlass_core::envelope::from_go_names;

pub const PAUSE: &str = "windlass.pause";
pub const RESUME: &str = "windlass.resume";
pub const CLARIFICATION: &str = "windlass.provide_clarification";
pub const TOOL_RESULTS: &str = "windlass.provide_tool_results";
pub const CONFIRMATION: &str = "windlass.provide_confirmation";
pub const STEER: &str = "windlass.steer";

/// The signals that a run takes.
pub const OWN: [&str; 6] = [PAUSE, RESUME, STEER, CLARIFICATION, TOOL_RESULTS, CONFIRMATION];

/// The names that loom-mcp has for them; it has none for steering.
pub const OF_LOOM_MCP: [&str; 5] = [
    "loom_mcp.runtime.pause",
    "loom_mcp.runtime.resume",
    "loom_mcp.runtime.provide.clarification",
    "loom_mcp.runtime.provide.toolresults",
    "loom_mcp.runtime.provide.confirmation",
];

/// The update that answers an await and replies at once.
pub const ANSWER: &str = "windlass.answer";
/// The update that gives the result of one call, addressed by the call, and replies at once.
pub const TOOL_RESULT: &str = "windlass.tool_result";
pub const STATUS: &str = "windlass.status";
pub const AWAITS: &str = "windlass.awaits";

/// Whether a run has a handler for signals of this name.
pub fn is_known(name: &str) -> bool {
    OWN.contains(&name) || OF_LOOM_MCP.contains(&name)
}

/// Which field names a signal uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// camelCase.
    Own,
    /// loom-mcp's Go field names; camelCase passes too.
    LoomMcp,
}

/// A signal's payload as `T`; the error is for the event log.
pub(crate) fn decode<T: DeserializeOwned>(raw: &RawValue, dialect: Dialect) -> Result<T, String> {
    let bytes = raw.payloads.first().map_or(&b"{}"[..], |payload| &payload.data);
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    let decoded = match dialect {
        Dialect::Own => serde_json::from_slice(bytes),
        Dialect::LoomMcp => {
            serde_json::from_slice(bytes).and_then(|value: Value| serde_json::from_value(from_go_names(value)))
        }
    };
    decoded.map_err(|error| match error.classify() {
        Category::Data => format!("its payload does not fit: {error}"),
        Category::Syntax | Category::Eof | Category::Io => format!("its payload is not JSON ({error})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_handler_of_a_signal_is_listed() {
        let handlers = include_str!("run.rs").matches("#[signal(").count();
        assert_eq!(OWN.len() + OF_LOOM_MCP.len(), handlers);
    }
}
