//! Which fields a definition file may have, and what each may hold.
//!
//! The table follows the definition's types field by field; a test holds the two together.

use crate::approval::APPROVAL_RULE;
use crate::{
    agent::SourceFields,
    file::{Record, Shape, friendly, optional, required},
};

pub(super) static AGENT: Record = Record(&[
    required("id", Shape::Text, "\"my-agent\""),
    optional("name", Shape::Text),
    optional("description", Shape::Text),
    required("model", Shape::Text, "\"script:demo\""),
    optional("fallback", Shape::List(&Shape::Text)),
    optional("systemPrompt", Shape::Text),
    optional("reasoningLevel", Shape::Count),
    optional("reasoningDecay", Shape::Record(&REASONING_DECAY)),
    optional("outputSchema", Shape::Record(&OUTPUT_SCHEMA)),
    optional("parameters", Shape::Record(&PARAMETERS)),
    optional("credentials", Shape::Secret),
    optional("tools", Shape::List(&Shape::Record(&TOOL))),
    optional("toolsets", Shape::List(&Shape::Record(&TOOLSET))),
    optional("approvals", Shape::List(&Shape::Record(&APPROVAL_RULE))),
    optional("policy", Shape::Record(&POLICY)),
    optional("guards", Shape::Record(&GUARDS)),
    optional("agents", Shape::List(&Shape::Record(&AGENT))),
]);

static TOOL: Record = Record(&[
    required("name", Shape::Text, "\"notes.add\""),
    optional("kind", Shape::Choice(&SourceFields::KINDS)),
    optional("description", Shape::Text),
    optional("inputSchema", Shape::Json),
    optional("tags", Shape::List(&Shape::Text)),
    friendly("timeout", "timeoutMs", Shape::Duration),
    optional("timeoutMs", Shape::Millis),
    optional("idempotent", Shape::Flag),
    optional("confirmation", Shape::Record(&CONFIRMATION)),
    optional("agent", Shape::Text),
    friendly("expiresIn", "expiresInMs", Shape::Duration),
    optional("expiresInMs", Shape::Millis),
    optional("onExpiry", EXPIRY),
    optional("client", Shape::Json),
    optional("readOnly", Shape::Flag),
    optional("outputSchema", Shape::Json),
    optional("maxOutputBytes", Shape::Count),
    optional("http", Shape::Record(&HTTP)),
    optional("mcp", Shape::Record(&MCP_TOOL)),
    optional("a2a", Shape::Record(&A2A)),
    optional("temporal", Shape::Record(&TEMPORAL)),
]);

static HTTP: Record = Record(&[
    optional("method", Shape::Text),
    required("url", Shape::Text, "\"https://example.com/items/{id}\""),
    optional("query", Shape::Map(&Shape::Text)),
    optional("headerArguments", Shape::Map(&Shape::Text)),
    optional("body", Shape::Text),
    optional("nextCursor", Shape::Text),
    optional("headers", Shape::Map(&Shape::Text)),
    optional("oauth", Shape::Record(&OAUTH)),
    optional("allowPrivate", Shape::Flag),
]);

static MCP_TOOL: Record =
    Record(&[required("toolset", Shape::Text, "\"files\""), required("tool", Shape::Text, "\"read_file\"")]);

static A2A: Record = Record(&[
    required("agentCardUrl", Shape::Text, "\"https://agents.example.com/planner\""),
    optional("contextId", Shape::Text),
    optional("binding", Shape::Choice(&["JSONRPC", "HTTP+JSON", "GRPC"])),
    optional("headers", Shape::Map(&Shape::Text)),
    optional("oauth", Shape::Record(&OAUTH)),
    optional("allowPrivate", Shape::Flag),
]);

static TEMPORAL: Record = Record(&[
    optional("activity", Shape::Text),
    optional("workflow", Shape::Text),
    required("taskQueue", Shape::Text, "\"python-tools\""),
    friendly("heartbeatTimeout", "heartbeatTimeoutMs", Shape::Duration),
    optional("heartbeatTimeoutMs", Shape::Millis),
    optional("retry", Shape::Record(&TEMPORAL_RETRY)),
]);

static TEMPORAL_RETRY: Record = Record(&[
    optional("maxAttempts", Shape::Count),
    friendly("initialInterval", "initialIntervalMs", Shape::Duration),
    optional("initialIntervalMs", Shape::Millis),
    friendly("maxInterval", "maxIntervalMs", Shape::Duration),
    optional("maxIntervalMs", Shape::Millis),
    optional("nonRetryable", Shape::List(&Shape::Text)),
]);

static OAUTH: Record = Record(&[
    optional("tokenUrl", Shape::Text),
    required("clientId", Shape::Text, "\"windlass\""),
    required("clientSecret", Shape::Secret, "\"${secret:NAME}\""),
    optional("scope", Shape::Text),
]);

static TOOLSET: Record = Record(&[
    required("name", Shape::Text, "\"files\""),
    optional("mcp", Shape::Record(&MCP_SERVER)),
    optional("openapi", Shape::Record(&OPENAPI)),
    optional("only", Shape::List(&Shape::Text)),
    optional("prefix", Shape::Text),
    optional("tags", Shape::List(&Shape::Text)),
    friendly("timeout", "timeoutMs", Shape::Duration),
    optional("timeoutMs", Shape::Millis),
    optional("confirmation", Shape::Record(&CONFIRMATION)),
    optional("maxOutputBytes", Shape::Count),
]);

static MCP_SERVER: Record = Record(&[
    optional("server", Shape::Text),
    optional("url", Shape::Text),
    optional("headers", Shape::Map(&Shape::Text)),
    optional("oauth", Shape::Record(&OAUTH)),
    optional("allowPrivate", Shape::Flag),
]);

static OPENAPI: Record = Record(&[
    optional("url", Shape::Text),
    optional("document", Shape::Json),
    optional("baseUrl", Shape::Text),
    optional("headers", Shape::Map(&Shape::Text)),
    optional("oauth", Shape::Record(&OAUTH)),
    optional("allowPrivate", Shape::Flag),
]);

static PARAMETERS: Record = Record(&[
    optional("maxOutputTokens", Shape::Count),
    optional("temperature", Shape::Amount),
    optional("topP", Shape::Amount),
    optional("stopSequences", Shape::List(&Shape::Text)),
    optional("providerOptions", Shape::Map(&Shape::Json)),
]);

static REASONING_DECAY: Record = Record(&[
    optional("afterTurn", Shape::Count),
    required("factor", Shape::Amount, "0.5"),
    optional("floor", Shape::Count),
]);

static OUTPUT_SCHEMA: Record = Record(&[
    optional("name", Shape::Text),
    required("schema", Shape::Json, "{ type = \"object\" }"),
    optional("enforcement", Shape::Choice(&["best_effort", "strict"])),
]);

static CONFIRMATION: Record = Record(&[
    optional("title", Shape::Text),
    optional("prompt", Shape::Text),
    friendly("expiresIn", "expiresInMs", Shape::Duration),
    optional("expiresInMs", Shape::Millis),
    optional("onExpiry", EXPIRY),
    optional("fourEyes", Shape::Flag),
]);

pub(crate) const EXPIRY: Shape = Shape::Choice(&["deny", "default", "replan", "fail"]);

pub(super) static POLICY: Record = Record(&[
    optional("perTurnMaxToolCalls", Shape::Count),
    optional("restrictToTool", Shape::Text),
    optional("allowedTags", Shape::List(&Shape::Text)),
    optional("deniedTags", Shape::List(&Shape::Text)),
    optional("maxToolCalls", Shape::Count),
    optional("maxToolTurns", Shape::Count),
    optional("maxConsecutiveFailedToolCalls", Shape::Count),
    friendly("maxCost", "maxCostUsd", Shape::Amount),
    optional("maxCostUsd", Shape::Amount),
    optional("maxTokens", Shape::Count),
    friendly("timeBudget", "timeBudgetMs", Shape::Duration),
    optional("timeBudgetMs", Shape::Millis),
    friendly("planTimeout", "planTimeoutMs", Shape::Duration),
    optional("planTimeoutMs", Shape::Millis),
    friendly("toolTimeout", "toolTimeoutMs", Shape::Duration),
    optional("toolTimeoutMs", Shape::Millis),
    friendly("perToolTimeout", "perToolTimeoutMs", Shape::Map(&Shape::Duration)),
    optional("perToolTimeoutMs", Shape::Map(&Shape::Millis)),
    friendly("finalizerGrace", "finalizerGraceMs", Shape::Duration),
    optional("finalizerGraceMs", Shape::Millis),
    optional("interruptsAllowed", Shape::Flag),
]);

static GUARDS: Record = Record(&[
    optional("loopDetection", Shape::FlagOr(&Shape::Record(&LOOP_DETECTION))),
    optional("toolBudgets", Shape::Map(&Shape::Record(&TOOL_BUDGET))),
]);

static LOOP_DETECTION: Record =
    Record(&[optional("consecutiveThreshold", Shape::Count), optional("hardCutoffThreshold", Shape::Count)]);

static TOOL_BUDGET: Record = Record(&[required("maxCalls", Shape::Count, "5")]);
