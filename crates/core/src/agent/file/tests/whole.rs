//! Whole files: what they mean, that nothing of a definition is out of a file's reach, and that nothing panics.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    agent::{
        A2aSource, AgentDefinition, ClientTool, ConfirmationSpec, Enforcement, HttpAccess, HttpSource, McpServer,
        McpSource, ModelParameters, OAuthClient, OpenApiSource, OutputSchema, ReasoningDecay, TemporalRetry,
        TemporalSource, ToolSource, ToolSpec, Toolset, Waiting,
        file::{parse, shape::AGENT},
    },
    approval::{ApprovalOutcome, ApprovalRule, ArgumentOp, ArgumentTest, AskTerms},
    awaits::ExpiryOutcome,
    cost::Cost,
    envelope::{Extra, GuardOverrides, LoopDetection, LoopThresholds, PolicyOverrides, ToolBudget},
    file::{Record, Shape},
    secret::{SecretRef, SecretText},
    time::Millis,
};

/// Every field of every type, spelt out so that a new field does not compile until it is here.
fn full() -> AgentDefinition {
    let confirmation = ConfirmationSpec {
        title: Some("Keep it?".to_owned()),
        prompt: Some("Keep {text}?".to_owned()),
        expires_in_ms: Some(Millis::from_secs(3600)),
        on_expiry: Some(ExpiryOutcome::Deny),
        four_eyes: true,
    };
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}, "max_size": {"maxLength": 3}}});
    let desk = ClientTool::McpLocal { server: "desk".to_owned(), server_info: None, tool_name: "desk_sign".to_owned() };
    let wait = Waiting { expires_in_ms: Some(Millis::from_secs(7 * 86_400)), on_expiry: Some(ExpiryOutcome::Replan) };
    let tools = vec![
        ToolSpec {
            name: "notes.add".into(),
            source: ToolSource::Builtin,
            description: "Adds a note.".to_owned(),
            input_schema: Some(schema),
            tags: vec!["write".to_owned()],
            timeout_ms: Some(Millis::from_secs(30)),
            idempotent: true,
            confirmation: Some(confirmation),
            output_schema: Some(json!({"type": "string"})),
            max_output_bytes: Some(4000),
            extra: Extra::new(),
        },
        ToolSpec::new("ask".into(), ToolSource::Agent { agent: "helper".into() }),
        ToolSpec::new("sign".into(), ToolSource::Client { tool: desk, read_only: true, wait }),
        ToolSpec {
            input_schema: Some(json!({"type": "object", "properties": {"id": {}, "page": {}, "etag": {}, "item": {}}})),
            ..ToolSpec::new("item".into(), ToolSource::Http(Box::new(http())))
        },
        ToolSpec::new("peer".into(), ToolSource::A2a(Box::new(a2a()))),
        ToolSpec::new("score".into(), ToolSource::Temporal(Box::new(temporal()))),
        ToolSpec::new(
            "report".into(),
            ToolSource::Temporal(Box::new(TemporalSource {
                workflow: Some("Report".to_owned()),
                task_queue: "node".to_owned(),
                ..TemporalSource::default()
            })),
        ),
        ToolSpec::new("read".into(), ToolSource::Mcp(McpSource { toolset: "files".into(), tool: "read".into() })),
    ];
    let policy = PolicyOverrides {
        per_turn_max_tool_calls: Some(4),
        restrict_to_tool: Some("notes.add".into()),
        allowed_tags: Some(vec!["write".to_owned()]),
        denied_tags: Some(vec!["slow".to_owned()]),
        max_tool_calls: Some(100),
        max_tool_turns: Some(50),
        max_consecutive_failed_tool_calls: Some(3),
        max_cost_usd: Cost::from_usd(0.5),
        max_tokens: Some(200_000),
        time_budget_ms: Some(Millis::from_secs(600)),
        plan_timeout_ms: Some(Millis::from_secs(90)),
        tool_timeout_ms: Some(Millis::from_secs(20)),
        per_tool_timeout_ms: Some(BTreeMap::from([("notes.*".to_owned(), Millis::from_secs(5))])),
        finalizer_grace_ms: Some(Millis::from_secs(15)),
        interrupts_allowed: Some(false),
        extra: Extra::new(),
    };
    let thresholds = LoopThresholds { consecutive_threshold: Some(4), hard_cutoff_threshold: Some(8) };
    let guards = GuardOverrides {
        loop_detection: Some(LoopDetection::Thresholds(thresholds)),
        tool_budgets: Some(BTreeMap::from([("notes.add".to_owned(), ToolBudget { max_calls: 7 })])),
    };
    let helper = AgentDefinition {
        id: "helper".into(),
        name: None,
        description: String::new(),
        model: "script:echo".to_owned(),
        fallback: Vec::new(),
        system_prompt: String::new(),
        reasoning_level: None,
        reasoning_decay: None,
        output_schema: None,
        parameters: ModelParameters::default(),
        credentials: None,
        tools: Vec::new(),
        toolsets: Vec::new(),
        approvals: Vec::new(),
        policy: PolicyOverrides::default(),
        guards: GuardOverrides { loop_detection: Some(LoopDetection::Enabled(false)), tool_budgets: None },
        agents: Vec::new(),
        extra: Extra::new(),
    };
    let provider_options = Extra::from([("anthropic".to_owned(), json!({"beta": ["x"]}))]);
    let parameters = ModelParameters {
        max_output_tokens: Some(4096),
        temperature: Some(0.5),
        top_p: Some(0.9),
        stop_sequences: vec!["END".to_owned()],
        provider_options,
    };
    AgentDefinition {
        id: "everything".into(),
        name: Some("Everything".to_owned()),
        description: "Uses every field.".to_owned(),
        model: "script:demo".to_owned(),
        fallback: vec!["script:echo".to_owned()],
        system_prompt: "Be brief.".to_owned(),
        reasoning_level: Some(30),
        reasoning_decay: Some(ReasoningDecay { after_turn: 2, factor: 0.5, floor: 10 }),
        output_schema: Some(OutputSchema {
            name: "report".to_owned(),
            schema: json!({"type": "object"}),
            enforcement: Enforcement::Strict,
        }),
        parameters,
        credentials: Some(SecretRef::Secret("model.key".to_owned())),
        tools,
        toolsets: toolsets(),
        approvals: approvals(),
        policy,
        guards,
        agents: vec![helper],
        extra: Extra::new(),
    }
}

fn access() -> HttpAccess {
    HttpAccess {
        headers: BTreeMap::from([("X-Api-Key".to_owned(), SecretText::new("${secret:token}"))]),
        oauth: Some(OAuthClient {
            token_url: Some("https://auth.example/token".to_owned()),
            client_id: "windlass".to_owned(),
            client_secret: SecretRef::Secret("client".to_owned()),
            scope: Some("read".to_owned()),
        }),
        allow_private: true,
    }
}

fn http() -> HttpSource {
    HttpSource {
        method: "PUT".to_owned(),
        url: "https://api.example/items/{id}".to_owned(),
        query: BTreeMap::from([("page".to_owned(), "{page}".to_owned())]),
        header_arguments: BTreeMap::from([("If-Match".to_owned(), "{etag}".to_owned())]),
        body: Some("item".to_owned()),
        next_cursor: Some("/next".to_owned()),
        access: access(),
    }
}

fn a2a() -> A2aSource {
    A2aSource {
        agent_card_url: "https://agents.example/planner".to_owned(),
        context_id: Some("c1".to_owned()),
        binding: Some("GRPC".to_owned()),
        access: access(),
    }
}

fn temporal() -> TemporalSource {
    TemporalSource {
        activity: Some("score".to_owned()),
        workflow: None,
        task_queue: "python".to_owned(),
        heartbeat_timeout_ms: Some(Millis::from_secs(10)),
        retry: Some(TemporalRetry {
            max_attempts: Some(3),
            initial_interval_ms: Some(Millis::from_secs(1)),
            max_interval_ms: Some(Millis::from_secs(60)),
            non_retryable: vec!["BadInput".to_owned()],
        }),
    }
}

fn approvals() -> Vec<ApprovalRule> {
    let rule = ApprovalRule {
        name: Some("small".to_owned()),
        tool: Some("notes.*".to_owned()),
        tags: vec!["write".to_owned()],
        source: Some("builtin".to_owned()),
        read_only: Some(false),
        when: vec![ArgumentTest { at: "/n".to_owned(), op: ArgumentOp::AtMost, value: Some(json!(50)) }],
        caller: Some("key-*".to_owned()),
        cost_at_least: Cost::from_usd(0.25),
        outcome: ApprovalOutcome::Ask,
        terms: AskTerms {
            roles: Vec::new(),
            expires_in_ms: Some(Millis::from_secs(3600)),
            on_expiry: Some(ExpiryOutcome::Deny),
            four_eyes: true,
            edit: true,
            title: Some("Sure?".to_owned()),
            prompt: Some("Keep it?".to_owned()),
        },
        extra: Extra::new(),
    };
    vec![rule]
}

fn toolsets() -> Vec<Toolset> {
    let mcp = McpServer { server: None, url: Some("https://mcp.example/mcp".to_owned()), access: access() };
    let openapi = OpenApiSource {
        url: Some("https://api.example/openapi.json".to_owned()),
        // In another toolset: a document comes from one place.
        document: None,
        base_url: Some("https://api.example".to_owned()),
        access: access(),
    };
    vec![
        Toolset {
            name: "files".to_owned(),
            mcp: Some(mcp),
            openapi: None,
            only: vec!["read_*".to_owned()],
            prefix: Some(String::new()),
            tags: vec!["files".to_owned()],
            timeout_ms: Some(Millis::from_secs(30)),
            confirmation: Some(ConfirmationSpec {
                title: Some("Sure?".to_owned()),
                prompt: Some("Call it?".to_owned()),
                expires_in_ms: Some(Millis::from_secs(3600)),
                on_expiry: Some(ExpiryOutcome::Deny),
                four_eyes: true,
            }),
            max_output_bytes: Some(10_000),
            // Files do not say it: a run does.
            resolved: None,
            extra: Extra::new(),
        },
        Toolset { name: "items".to_owned(), openapi: Some(openapi), ..Toolset::default() },
        Toolset {
            name: "inline".to_owned(),
            openapi: Some(OpenApiSource { document: Some(json!({"openapi": "3.1.0"})), ..OpenApiSource::default() }),
            ..Toolset::default()
        },
        Toolset {
            name: "git".to_owned(),
            mcp: Some(McpServer { server: Some("git".to_owned()), ..McpServer::default() }),
            ..Toolset::default()
        },
    ]
}

const FULL_TOML: &str = r#"
id = "everything"
name = "Everything"
description = "Uses every field."
model = "script:demo"
fallback = ["script:echo"]
system_prompt = "Be brief."
reasoning_level = 30
reasoning_decay = { after_turn = 2, factor = 0.5, floor = 10 }
output_schema = { name = "report", schema = { type = "object" }, enforcement = "strict" }
credentials = "${secret:model.key}"

[parameters]
max_output_tokens = 4096
temperature = 0.5
top_p = 0.9
stop_sequences = ["END"]
provider_options = { anthropic = { beta = ["x"] } }

[[tools]]
name = "notes.add"
description = "Adds a note."
tags = ["write"]
timeout = "30s"
idempotent = true
max_output_bytes = 4000
output_schema = { type = "string" }
confirmation = { title = "Keep it?", prompt = "Keep {text}?", expires_in = "1h", on_expiry = "deny", four_eyes = true }

[tools.input_schema]
type = "object"
properties.text = { type = "string" }
properties.max_size = { maxLength = 3 }

[[tools]]
name = "ask"
kind = "agent"
agent = "helper"

[[tools]]
name = "sign"
kind = "external"
expires_in = "7d"
on_expiry = "replan"
client = { kind = "mcp_local", server = "desk", toolName = "desk_sign" }
read_only = true

[[tools]]
name = "item"
kind = "http"
input_schema = { type = "object", properties = { id = {}, page = {}, etag = {}, item = {} } }

[tools.http]
method = "PUT"
url = "https://api.example/items/{id}"
query.page = "{page}"
header_arguments.If-Match = "{etag}"
body = "item"
next_cursor = "/next"
headers.X-Api-Key = "${secret:token}"
allow_private = true
oauth = { token_url = "https://auth.example/token", client_id = "windlass", client_secret = "${secret:client}", scope = "read" }

[[tools]]
name = "peer"
kind = "a2a"

[tools.a2a]
agent_card_url = "https://agents.example/planner"
context_id = "c1"
binding = "GRPC"
headers.X-Api-Key = "${secret:token}"
allow_private = true
oauth = { token_url = "https://auth.example/token", client_id = "windlass", client_secret = "${secret:client}", scope = "read" }

[[tools]]
name = "score"
kind = "temporal"

[tools.temporal]
activity = "score"
task_queue = "python"
heartbeat_timeout = "10s"
retry = { max_attempts = 3, initial_interval = "1s", max_interval = "1m", non_retryable = ["BadInput"] }

[[tools]]
name = "report"
kind = "temporal"
temporal = { workflow = "Report", task_queue = "node" }

[[tools]]
name = "read"
kind = "mcp"
mcp = { toolset = "files", tool = "read" }

[[toolsets]]
name = "files"
only = ["read_*"]
prefix = ""
tags = ["files"]
timeout = "30s"
confirmation = { title = "Sure?", prompt = "Call it?", expires_in = "1h", on_expiry = "deny", four_eyes = true }
max_output_bytes = 10000

[toolsets.mcp]
url = "https://mcp.example/mcp"
headers.X-Api-Key = "${secret:token}"
allow_private = true
oauth = { token_url = "https://auth.example/token", client_id = "windlass", client_secret = "${secret:client}", scope = "read" }

[[toolsets]]
name = "items"

[toolsets.openapi]
url = "https://api.example/openapi.json"
base_url = "https://api.example"
headers.X-Api-Key = "${secret:token}"
allow_private = true
oauth = { token_url = "https://auth.example/token", client_id = "windlass", client_secret = "${secret:client}", scope = "read" }

[[toolsets]]
name = "inline"
openapi = { document = { openapi = "3.1.0" } }

[[toolsets]]
name = "git"
mcp.server = "git"

[[approvals]]
name = "small"
tool = "notes.*"
tags = ["write"]
source = "builtin"
read_only = false
when = [{ at = "/n", op = "<=", value = 50 }]
caller = "key-*"
cost_at_least = 0.25
outcome = "ask"
expires_in = "1h"
on_expiry = "deny"
four_eyes = true
edit = true
title = "Sure?"
prompt = "Keep it?"

[policy]
per_turn_max_tool_calls = 4
restrict_to_tool = "notes.add"
allowed_tags = ["write"]
denied_tags = ["slow"]
max_tool_calls = 100
max_tool_turns = 50
max_consecutive_failed_tool_calls = 3
max_cost = 0.5
max_tokens = 200000
time_budget = "10m"
plan_timeout = "1m 30s"
tool_timeout_ms = 20000
per_tool_timeout = { "notes.*" = "5s" }
finalizer_grace = "15s"
interrupts_allowed = false

[guards]
loop_detection = { consecutive_threshold = 4, hard_cutoff_threshold = 8 }
tool_budgets = { "notes.add" = { max_calls = 7 } }

[[agents]]
id = "helper"
model = "script:echo"
guards.loop_detection = false
"#;

#[test]
fn a_toml_file_says_all_a_definition_can() {
    assert_eq!(parse("full.toml", FULL_TOML), Ok(full()));
}

#[test]
fn a_stored_definition_is_a_json_file() {
    let text = serde_json::to_string_pretty(&full()).unwrap();
    assert_eq!(parse("full.json", &text), Ok(full()));
}

#[test]
fn json_files_may_use_snake_case_and_friendly_durations() {
    let text = r#"{
        "id": "a", "model": "m:n", "system_prompt": "x",
        "tools": [{"name": "t", "timeout": "30s", "input_schema": {"type": "object", "properties": {"a_b": {}}}}],
        "policy": {"timeBudget": "10m", "perToolTimeout": {"t": "5s"}, "finalizer_grace_ms": 9}
    }"#;
    let stored = json!({
        "id": "a", "model": "m:n", "systemPrompt": "x",
        "tools": [{
            "name": "t", "kind": "builtin", "idempotent": false, "timeoutMs": 30_000,
            "inputSchema": {"type": "object", "properties": {"a_b": {}}}
        }],
        "policy": {"timeBudgetMs": 600_000, "perToolTimeoutMs": {"t": 5_000}, "finalizerGraceMs": 9}
    });
    assert_eq!(serde_json::to_value(parse("a.json", text).unwrap()).unwrap(), stored);
}

#[test]
fn the_known_fields_are_those_of_the_types() {
    let full = serde_json::to_value(full()).unwrap();
    // `resolved` of a toolset is set by runs, not by files; it is empty here.
    let mut with_roles = full.clone();
    // The check refuses roles until API keys have some.
    with_roles["approvals"][0]["roles"] = json!(["finance"]);
    assert_same_fields(&AGENT, &[&full, &with_roles], "agent");
}

/// Compares a record's fields with those of real values, which together must show every field.
fn assert_same_fields(record: &'static Record, values: &[&Value], name: &str) {
    let of_types: BTreeSet<&str> =
        values.iter().filter_map(|value| value.as_object()).flatten().map(|(key, _)| key.as_str()).collect();
    let known: BTreeSet<&str> = record.0.iter().map(|field| field.fills).collect();
    assert_eq!(known, of_types, "{name}");
    for field in record.0 {
        let below: Vec<&Value> = values.iter().filter_map(|value| value.get(field.fills)).collect();
        match &field.shape {
            Shape::Record(record) | Shape::FlagOr(Shape::Record(record)) => {
                assert_same_fields(record, &below, field.key);
            }
            // Sub-agents are agents again.
            Shape::List(Shape::Record(_)) if field.key == "agents" => {}
            Shape::List(Shape::Record(record)) => {
                let items: Vec<&Value> = below.iter().filter_map(|list| list.as_array()).flatten().collect();
                assert_same_fields(record, &items, field.key);
            }
            Shape::Map(Shape::Record(record)) => {
                let items: Vec<&Value> =
                    below.iter().filter_map(|map| map.as_object()).flat_map(|map| map.values()).collect();
                assert_same_fields(record, &items, field.key);
            }
            _ => {}
        }
    }
}

#[test]
fn the_known_words_are_those_of_the_types() {
    let Shape::List(Shape::Record(tool)) = shape_of(&AGENT, "tools") else { panic!("tools are records") };
    let Shape::Choice(kinds) = shape_of(tool, "kind") else { panic!("kinds are words") };
    for kind in *kinds {
        let source: ToolSource = serde_json::from_value(json!({"kind": kind})).unwrap();
        assert!(!matches!(source, ToolSource::Other(_)), "{kind}");
    }
    let outcomes = serde_json::from_value::<ExpiryOutcome>(json!("?")).unwrap_err();
    assert_eq!(outcomes.to_string(), unknown_variant(shape_of(tool, "onExpiry")));
}

fn shape_of(record: &'static Record, key: &str) -> &'static Shape {
    &record.0.iter().find(|field| field.key == key).unwrap().shape
}

/// How serde names the words of a choice.
fn unknown_variant(shape: &Shape) -> String {
    let Shape::Choice(words) = shape else { panic!("{shape:?} is not a choice") };
    format!("unknown variant `?`, expected one of `{}`", words.join("`, `"))
}

#[test]
fn the_examples_are_fine() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/agents");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let definition = parse(name, &std::fs::read_to_string(&path).unwrap()).map_err(|error| error.to_string());
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert_eq!(definition.unwrap().id.as_str(), stem);
        names.push(stem);
    }
    for name in ["demo", "echo", "tools"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
}

#[test]
fn deep_nesting_is_refused_not_overflowed() {
    let deep = 100_000;
    let cases = [
        ("a.json", "[".repeat(deep)),
        ("a.json", "{\"a\":".repeat(deep)),
        ("a.json", format!("{}{}", "[".repeat(400), "]".repeat(400))),
        ("a.toml", format!("a = {}", "[".repeat(deep))),
        ("a.toml", format!("{}b = 1", "a.".repeat(deep))),
    ];
    for (file, text) in cases {
        assert!(parse(file, &text).is_err(), "{file} {}", &text[..20]);
    }
}

/// Text that is close to a definition, so that it reaches the later steps.
fn almost_a_file() -> impl Strategy<Value = String> {
    (0..FULL_TOML.len(), 0..40_usize, "[\\PC\n]{0,12}").prop_map(|(start, length, patch)| {
        let start = FULL_TOML.floor_char_boundary(start);
        let end = FULL_TOML.floor_char_boundary((start + length).min(FULL_TOML.len()));
        format!("{}{patch}{}", &FULL_TOML[..start], &FULL_TOML[end..])
    })
}

/// Any JSON, mostly in fields that exist.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        "[0-9]{1,20}[a-z]{1,3}".prop_map(Value::from),
    ];
    let fields: Vec<&str> = AGENT.0.iter().map(|field| field.key).collect();
    let of_tools = vec!["name", "kind", "inputSchema", "timeout", "timeoutMs", "confirmation", "prompt", "type"];
    let key = prop_oneof![
        "[a-zA-Z_/~]{0,8}",
        prop::sample::select(fields).prop_map(str::to_owned),
        prop::sample::select(of_tools).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6).prop_map(|map| json!(map)),
        ]
    })
}

/// Definitions that hold to every rule, with free text wherever text is free.
fn valid() -> impl Strategy<Value = Value> {
    let span = || "[1-9][0-9]{0,2}(ms|s|m|h|d)";
    let tool = (".{0,20}", prop::collection::vec("[a-z]{1,4}", 0..3), span(), any_json()).prop_map(
        |(description, tags, timeout, default)| {
            let schema = json!({"type": "object", "properties": {"a_b": {"default": default}}});
            json!({"description": description, "tags": tags, "timeout": timeout, "inputSchema": schema})
        },
    );
    let tools = prop::collection::btree_map("[a-zA-Z._/-]{1,12}", tool, 0..4);
    ("[a-z0-9-]{1,9}", ".{0,20}", tools, span(), 1..u32::MAX).prop_map(|(id, prompt, tools, budget, calls)| {
        let timeouts: BTreeMap<&String, &Value> = tools.iter().map(|(name, tool)| (name, &tool["timeout"])).collect();
        let policy = json!({"timeBudget": budget, "perTurnMaxToolCalls": calls, "perToolTimeout": timeouts});
        let named = |(name, tool): (&String, &Value)| {
            let mut tool = tool.clone();
            tool["name"] = json!(name);
            tool
        };
        let tools: Vec<Value> = tools.iter().map(named).collect();
        json!({"id": id, "model": "script:demo", "systemPrompt": prompt, "tools": tools, "policy": policy})
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = parse("a.toml", &text);
        let _ = parse("a.json", &text);
    }

    #[test]
    fn no_damaged_file_panics_and_every_problem_is_inside_it(text in almost_a_file()) {
        if let Err(error) = parse("a.toml", &text) {
            let lines: Vec<&str> = text.split('\n').collect();
            prop_assert!(!error.problems.is_empty());
            for problem in &error.problems {
                prop_assert!(problem.line <= lines.len(), "{error}");
                prop_assert!(problem.column <= lines[problem.line - 1].chars().count() + 1, "{error}");
            }
        }
    }

    #[test]
    fn no_json_panics(value in any_json()) {
        let _ = parse("a.json", &value.to_string());
    }

    #[test]
    fn what_is_stored_reads_back(value in valid()) {
        let definition = parse("a.json", &value.to_string()).unwrap();
        let stored = serde_json::to_string(&definition).unwrap();
        prop_assert_eq!(parse("a.json", &stored), Ok(definition));
    }
}
