//! Tools that the caller of a run executes: who they are to the caller, and how their calls are handed out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the caller knows its tool again. The run itself only needs to know that it is the caller's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ClientTool {
    /// A function of the caller's program.
    Local {},
    /// An agent that only the caller can reach.
    A2aLocal { agent_card: Value },
    /// A tool of an MCP server that only the caller can reach.
    McpLocal {
        /// The caller's label for the server.
        server: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server_info: Option<Value>,
        /// The tool's name as the caller declared it.
        tool_name: String,
    },
}

impl ClientTool {
    /// The fields of a definition's `client` of this kind.
    pub(super) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Local {} => &["kind"],
            Self::A2aLocal { .. } => &["kind", "agentCard"],
            Self::McpLocal { .. } => &["kind", "server", "serverInfo", "toolName"],
        }
    }
}

/// When a call of a caller's tool is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandOut {
    /// After every call before it has its result.
    InTurn,
    /// At once, with others that change nothing.
    Together,
}
