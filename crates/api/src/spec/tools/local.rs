//! `local`: a function of the caller's program.

use serde_json::Value;
use windlass_core::{
    agent::{ClientTool, ToolSpec},
    limits::{DESCRIPTION_CHARS, TOOL_SCHEMA_BYTES},
    time::Millis,
};

use super::{Fields, Invalid, arguments_schema, callers_tool, check_schema, plain_name};

/// The protocol's text, so that models do not repeat a pending call.
const LONG_RUNNING: &str = "NOTE: This is a long-running operation. Do not call this tool again if it has already returned \
                            an intermediate or pending status.";

#[derive(Debug, Clone, PartialEq)]
pub(in crate::spec) struct LocalTool {
    path: String,
    name: String,
    description: String,
    parameters: Value,
    output_schema: Option<Value>,
    read_only: bool,
}

pub(super) fn parse(item: &Fields<'_>) -> Result<LocalTool, Invalid> {
    let name = plain_name(item, "name")?.to_owned();
    let mut description = item.bounded_text("description", DESCRIPTION_CHARS)?.unwrap_or_default().to_owned();
    if item.flag("longRunning")? == Some(true) {
        if !description.is_empty() {
            description.push_str("\n\n");
        }
        description.push_str(LONG_RUNNING);
    }
    let parameters = arguments_schema(item, "parameters")?;
    let output_schema = item.get("outputSchema").cloned();
    if let Some(schema) = &output_schema {
        check_schema(item, "outputSchema", schema, TOOL_SCHEMA_BYTES)?;
    }
    let read_only = item.flag("readOnly")?.unwrap_or(false);
    Ok(LocalTool { path: item.path_of("name"), name, description, parameters, output_schema, read_only })
}

impl LocalTool {
    pub(super) fn spec(&self, timeout: Millis) -> (String, ToolSpec) {
        let mut spec = callers_tool(&self.name, ClientTool::Local {}, self.read_only, timeout);
        spec.description.clone_from(&self.description);
        spec.input_schema = Some(self.parameters.clone());
        spec.output_schema.clone_from(&self.output_schema);
        (self.path.clone(), spec)
    }
}
