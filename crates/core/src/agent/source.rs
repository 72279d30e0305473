//! What tools of each kind need: the fields of `http`, `mcp`, `a2a` and `temporal`, and how their servers are reached.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::is_default;
use crate::{
    secret::{SecretRef, SecretText},
    time::Millis,
};

/// How a server is reached over HTTP. The values of headers may refer to secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpAccess {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, SecretText>,
    /// A token by OAuth client credentials, sent as `Authorization: Bearer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuthClient>,
    /// Addresses of private networks may be reached. Only operators may say so.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_private: bool,
}

/// An OAuth client that gets its tokens by the client credentials grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OAuthClient {
    /// Where tokens are issued. Without it an MCP server is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    pub client_id: String,
    pub client_secret: SecretRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// One HTTP endpoint as a tool. `{name}` stands for an argument.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpSource {
    /// `GET` if it is empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// With `{name}` in its path; a value is percent-encoded.
    pub url: String,
    /// Query parameters. One whose argument is absent is left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// Headers whose values are templates of arguments. One whose argument is absent is left out.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub header_arguments: BTreeMap<String, String>,
    /// The argument that is the body. Without it the body of `POST`, `PUT` and `PATCH` is an object of the arguments
    /// that no template uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Where the result says how to get its next page, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    #[serde(flatten)]
    pub access: HttpAccess,
}

/// A tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpSource {
    /// The agent's toolset that the tool comes from.
    pub toolset: String,
    /// The tool's name at its server.
    pub tool: String,
}

/// Another agent, reached by A2A.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct A2aSource {
    /// The address of its card, or of the host that has it at `/.well-known/agent-card.json`.
    pub agent_card_url: String,
    /// The conversation at the peer. Without it, one per session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The one binding to use, as cards name it. Without it, the first of the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    #[serde(flatten)]
    pub access: HttpAccess,
}

/// An activity or a workflow on any task queue of the run's namespace. Exactly one of the two is named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemporalSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    pub task_queue: String,
    /// Activities only: silence for longer than this is the death of its worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<TemporalRetry>,
}

/// Temporal's retry policy for such a tool. Without it there is one attempt, or five if the tool is idempotent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TemporalRetry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_interval_ms: Option<Millis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_interval_ms: Option<Millis>,
    /// Failures of these types are not retried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub non_retryable: Vec<String>,
}
