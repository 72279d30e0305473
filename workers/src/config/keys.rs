//! The keys of `windlass.toml`. The reader, the suggestions for misspelt keys and the JSON Schema come from this table.
//!
//! The names are camelCase as [`Record`] wants them; the file writes them in snake_case.

use windlass_core::agent::file::CONFIGURED_TOOL;
use windlass_core::approval::APPROVAL_RULE;
use windlass_core::file::{Record, Shape, friendly, optional};

pub(super) static ROOT: Record = Record(&[
    optional("providers", Shape::Map(&Shape::Record(&PROVIDER)))
        .about("Providers of models, by name. A model id begins with the name of its provider: `anthropic:claude-…`."),
    optional("models", Shape::Map(&Shape::Record(&MODEL))).about(
        "What is known of a model, under its id (`[models.\"ollama:llama3\"]`), or another name for a model \
         (`[models.fast]`).",
    ),
    optional("defaults", Shape::Record(&DEFAULTS)).about("What is used if a request names nothing else."),
    optional("server", Shape::Record(&SERVER)).about("The API server of `windlass dev` and `windlass serve`."),
    optional("temporal", Shape::Record(&TEMPORAL)).about("The Temporal server that all commands use."),
    optional("store", Shape::Record(&STORE)).about("Where runs are stored."),
    optional("agents", Shape::Record(&AGENTS)).about("The agents of `windlass dev`, `serve` and `worker`."),
    optional("mcp", Shape::Map(&Shape::Record(&MCP)))
        .about("MCP servers that agents name in their toolsets: `mcp.server = \"files\"`."),
    optional("tools", Shape::Map(&Shape::Record(&CONFIGURED_TOOL)))
        .about("Tools that agents and requests name, as an agent file has them: `[tools.weather]`."),
    optional("approvals", Shape::List(&Shape::Record(&APPROVAL_RULE)))
        .about("Approval rules for all agents. They come before an agent's own."),
    optional("egress", Shape::Record(&EGRESS)).about("Which addresses tools may reach."),
]);

/// The words for wire formats; [`super::Api`] has the same.
pub(super) const APIS: [&str; 4] = ["anthropic", "openai-responses", "openai-chat", "gemini"];

static PROVIDER: Record = Record(&[
    optional("api", Shape::Choice(&APIS)).about("The wire format that the provider speaks."),
    optional("baseUrl", Shape::Text).about("URL below which the wire format's paths are: `https://api.openai.com/v1`."),
    optional("key", Shape::Secret).about("The API key, by reference: `${env:NAME}` or `${secret:NAME}`."),
    optional("keyRequired", Shape::Flag)
        .about("Whether calls need the key. If false, a variable that is not set is left out. Default: true."),
    optional("keyHeader", Shape::Text)
        .about("The header for the key instead of the wire format's own, such as `api-key` for Azure."),
    optional("headers", Shape::Map(&Shape::Text)).about("Headers of every request: a text, or `${env:NAME}`."),
    optional("query", Shape::Map(&Shape::Text)).about("Query parameters of every request, such as `api-version`."),
    friendly("silenceTimeout", "silenceTimeoutMs", Shape::Duration)
        .about("How long the provider may send nothing before the call fails and is retried. Default: 90s."),
    optional("maxConcurrent", Shape::Count).about("The most calls at once, in one worker process."),
    optional("requestsPerMinute", Shape::Count).about("The most calls in a minute, in one worker process."),
    optional("tokensPerMinute", Shape::Count)
        .about("The most tokens of input and output in a minute, in one worker process."),
]);

static MODEL: Record = Record(&[
    optional("model", Shape::Text).about("For another name: the id of the model that it stands for."),
    optional("contextWindow", Shape::Count).about("Tokens that the conversation and the answer may have together."),
    optional("maxOutputTokens", Shape::Count).about("The most tokens of one answer."),
    optional("images", Shape::Flag).about("Whether the model reads images. Default: true."),
    optional("documents", Shape::Flag).about("Whether the model reads PDF files. Default: true."),
    optional("sampling", Shape::Flag).about("Whether the model accepts `temperature` and `top_p`. Default: true."),
    optional("reasoning", Shape::Choice(&["none", "effort", "budget"]))
        .about("How the model is told how hard to think: not at all, by a word, or by a number of tokens."),
    optional("structuredOutput", Shape::Choice(&["native", "tool", "instruction"])).about(
        "How an output schema is enforced: by the provider, by a tool whose arguments are the answer, or by an \
         instruction in the prompt.",
    ),
    optional("parameters", Shape::Record(&PARAMETERS)).about("Parameters of calls, for agents that do not set them."),
    optional("prices", Shape::Record(&PRICES)).about("Prices in US dollars for a million tokens."),
]);

static PARAMETERS: Record = Record(&[
    optional("maxOutputTokens", Shape::Count).about("The output of one turn ends here."),
    optional("temperature", Shape::Amount).about("Sampling temperature."),
    optional("topP", Shape::Amount).about("Nucleus sampling."),
    optional("stopSequences", Shape::List(&Shape::Text)).about("Texts at which the output ends."),
    optional("providerOptions", Shape::Map(&Shape::Json)).about("Options of the provider, by its name or format."),
]);

static PRICES: Record = Record(&[
    optional("input", Shape::Amount).about("Input that is not cached."),
    optional("output", Shape::Amount).about("Output, with reasoning."),
    optional("cacheRead", Shape::Amount).about("Input read from the provider's cache. Default: as `input`."),
    optional("cacheWrite", Shape::Amount).about("Input written to the provider's cache. Default: as `input`."),
]);

static DEFAULTS: Record =
    Record(&[optional("model", Shape::Text).about("The model of API requests that name none: an id or another name.")]);

static SERVER: Record = Record(&[
    optional("listen", Shape::Text).about("Address of the API: `127.0.0.1:8080`. As --listen."),
    optional("publicUrl", Shape::Text)
        .about("The address that clients use, behind a proxy: cards of agents name it. Default: the request's host."),
    optional("publicCards", Shape::Flag)
        .about("Whether cards of agents (A2A) can be read without a key. Default: false."),
]);

static TEMPORAL: Record = Record(&[
    optional("address", Shape::Text).about("Temporal server, as `HOST:PORT`. As --temporal."),
    optional("namespace", Shape::Text).about("Temporal namespace. As --namespace."),
    optional("taskQueue", Shape::Text).about("Task queue that workers poll and runs are started on. As --task-queue."),
]);

static STORE: Record =
    Record(&[optional("dataDir", Shape::Text).about("Directory of the store, relative to this file. As --data-dir.")]);

static AGENTS: Record = Record(&[optional("paths", Shape::List(&Shape::Text))
    .about("Agent files, or directories of them, relative to this file. As --agents.")]);

static MCP: Record = Record(&[
    optional("command", Shape::List(&Shape::Text))
        .about("The program and its arguments, for a server that speaks over stdio. Workers start and supervise it."),
    optional("env", Shape::Map(&Shape::Text))
        .about("Variables of the program: texts, which may refer to secrets: `${secret:NAME}`, `${env:NAME}`."),
    optional("cwd", Shape::Text).about("Working directory of the program, relative to this file."),
    optional("url", Shape::Text).about("The address of a server that speaks Streamable HTTP."),
    optional("headers", Shape::Map(&Shape::Text))
        .about("Headers of every request: texts, which may refer to secrets: `Bearer ${secret:NAME}`."),
    optional("oauth", Shape::Record(&OAUTH)).about("A token by OAuth client credentials."),
    optional("allowPrivate", Shape::Flag).about("Whether the address may be in a private network. Default: false."),
]);

static OAUTH: Record = Record(&[
    optional("tokenUrl", Shape::Text).about("Where tokens are issued. Default: where the server says."),
    optional("clientId", Shape::Text).about("The id of the client."),
    optional("clientSecret", Shape::Secret).about("Its secret, by reference: `${env:NAME}` or `${secret:NAME}`."),
    optional("scope", Shape::Text).about("The scope of the token."),
]);

static EGRESS: Record = Record(&[optional("allow", Shape::List(&Shape::Text))
    .about("Private networks and hosts that tools may reach: `10.0.0.0/8`, `tickets.internal`, `localhost:8080`.")]);
