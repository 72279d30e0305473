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

/// A tool of `windlass.toml`, which has its name as the key: of the kinds that need nothing else of an agent.
pub static CONFIGURED_TOOL: Record = Record(&[
    required("kind", Shape::Choice(&["http", "a2a", "temporal"]), "\"http\"").about("What the tool is."),
    optional("description", Shape::Text).about("What the model is told of the tool."),
    optional("inputSchema", Shape::Json).about("JSON Schema of the arguments."),
    optional("outputSchema", Shape::Json).about("JSON Schema of the result, which is checked."),
    optional("tags", Shape::List(&Shape::Text)).about("Words for approval rules and policies."),
    friendly("timeout", "timeoutMs", Shape::Duration).about("How long a call may take."),
    optional("idempotent", Shape::Flag).about("Whether a repeat is harmless, so that a lost call may be tried again."),
    optional("confirmation", Shape::Record(&CONFIRMATION)).about("Every call needs an approval."),
    optional("maxOutputBytes", Shape::Count).about("The model gets the beginning of a longer result."),
    optional("http", Shape::Record(&HTTP)).about("The endpoint of a tool of kind `http`."),
    optional("a2a", Shape::Record(&A2A)).about("The peer of a tool of kind `a2a`."),
    optional("temporal", Shape::Record(&TEMPORAL)).about("The activity or workflow of a tool of kind `temporal`."),
]);

static HTTP: Record = Record(&[
    optional("method", Shape::Text).about("`GET` if it is absent."),
    required("url", Shape::Text, "\"https://example.com/items/{id}\"")
        .about("With `{name}` for arguments in its path."),
    optional("query", Shape::Map(&Shape::Text)).about("Query parameters, with `{name}` for arguments."),
    optional("headerArguments", Shape::Map(&Shape::Text)).about("Headers whose values are made of arguments."),
    optional("body", Shape::Text).about("The argument that is the body."),
    optional("nextCursor", Shape::Text).about("JSON pointer to the cursor of the next page."),
    optional("headers", Shape::Map(&Shape::Text)).about("Headers: texts, which may refer to secrets."),
    optional("oauth", Shape::Record(&OAUTH)).about("A token by OAuth client credentials."),
    optional("allowPrivate", Shape::Flag).about("Whether the address may be in a private network."),
]);

static MCP_TOOL: Record =
    Record(&[required("toolset", Shape::Text, "\"files\""), required("tool", Shape::Text, "\"read_file\"")]);

static A2A: Record = Record(&[
    required("agentCardUrl", Shape::Text, "\"https://agents.example.com/planner\"")
        .about("Address of the peer's card."),
    optional("contextId", Shape::Text).about("The conversation at the peer."),
    optional("binding", Shape::Choice(&["JSONRPC", "HTTP+JSON", "GRPC"]))
        .about("How the peer is called; by default as its card says."),
    optional("headers", Shape::Map(&Shape::Text)).about("Headers: texts, which may refer to secrets."),
    optional("oauth", Shape::Record(&OAUTH)).about("A token by OAuth client credentials."),
    optional("allowPrivate", Shape::Flag).about("Whether the address may be in a private network."),
]);

static TEMPORAL: Record = Record(&[
    optional("activity", Shape::Text).about("Type of the activity."),
    optional("workflow", Shape::Text).about("Type of the workflow."),
    required("taskQueue", Shape::Text, "\"python-tools\"").about("Task queue of its worker."),
    friendly("heartbeatTimeout", "heartbeatTimeoutMs", Shape::Duration)
        .about("Silence for longer than this is the death of its worker."),
    optional("heartbeatTimeoutMs", Shape::Millis).about("As `heartbeat_timeout`, in milliseconds."),
    optional("retry", Shape::Record(&TEMPORAL_RETRY)).about("Temporal's retry policy."),
]);

static TEMPORAL_RETRY: Record = Record(&[
    optional("maxAttempts", Shape::Count).about("The most attempts."),
    friendly("initialInterval", "initialIntervalMs", Shape::Duration).about("Before the second attempt."),
    optional("initialIntervalMs", Shape::Millis).about("As `initial_interval`, in milliseconds."),
    friendly("maxInterval", "maxIntervalMs", Shape::Duration).about("The longest pause."),
    optional("maxIntervalMs", Shape::Millis).about("As `max_interval`, in milliseconds."),
    optional("nonRetryable", Shape::List(&Shape::Text)).about("Types of failures that are not retried."),
]);

static OAUTH: Record = Record(&[
    optional("tokenUrl", Shape::Text).about("Where tokens are issued; of an MCP server it can be found."),
    required("clientId", Shape::Text, "\"windlass\"").about("The id of the client."),
    required("clientSecret", Shape::Secret, "\"${secret:NAME}\"").about("Its secret, by reference."),
    optional("scope", Shape::Text).about("The scope of the token."),
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
    optional("title", Shape::Text).about("What the approver is shown first."),
    optional("prompt", Shape::Text).about("What the approver is asked."),
    friendly("expiresIn", "expiresInMs", Shape::Duration).about("How long the run waits for an answer."),
    optional("expiresInMs", Shape::Millis).about("As `expires_in`, in milliseconds."),
    optional("onExpiry", EXPIRY).about("What happens then."),
    optional("fourEyes", Shape::Flag).about("Whether the actor who started the run may not approve."),
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
