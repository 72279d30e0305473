use serde_json::{Value, json};

use super::*;

/// The problems of a definition, as path and message.
fn problems(definition: &Value) -> Vec<(String, String)> {
    let misplaced = check_sources(definition);
    let definition: AgentDefinition = serde_json::from_value(definition.clone()).unwrap();
    misplaced.into_iter().chain(check(&definition)).map(|problem| (problem.path, problem.message)).collect()
}

/// `base` with `fields` laid over it.
fn with(mut base: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("{fields} is not an object") };
    base.as_object_mut().unwrap().extend(fields);
    base
}

fn agent(fields: Value) -> Value {
    with(json!({"id": "a", "model": "script:demo"}), fields)
}

fn tool(fields: Value) -> Value {
    let tools = [with(json!({"name": "t"}), fields)];
    agent(json!({"tools": tools, "agents": [{"id": "helper", "model": "script:echo"}]}))
}

fn policy(policy: Value) -> Value {
    let tools = json!([{"name": "notes.add"}, {"name": "notes.search"}, {"name": "clock"}]);
    agent(Value::from_iter([("tools", tools), ("policy", policy)]))
}

fn nested(levels: usize) -> Value {
    let bottom = json!({"id": format!("agent-{levels}"), "model": "script:echo"});
    (0..levels)
        .rev()
        .fold(bottom, |inner, level| json!({"id": format!("agent-{level}"), "model": "script:echo", "agents": [inner]}))
}

fn assert_problems(cases: Vec<(Value, Vec<(&str, &str)>)>) {
    for (definition, expected) in cases {
        let expected: Vec<_> = expected.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
        assert_eq!(problems(&definition), expected, "{definition:#}");
    }
}

#[test]
fn a_definition_that_uses_everything_is_fine() {
    let definition = json!({
        "id": "team/lead@1",
        "model": "script:demo",
        "tools": [
            {"name": "notes.add", "tags": ["write"], "timeoutMs": 5000, "inputSchema": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "to-do": {"type": "boolean"}},
                "required": ["text"]
            }, "confirmation": {"prompt": "Keep {text}? {to-do} { } {} {\"a\": 1}", "expiresInMs": 1}},
            {"name": "ask", "kind": "agent", "agent": "agent-0"},
            {"name": "sign", "kind": "external", "expiresInMs": 604_800_000, "onExpiry": "replan"}
        ],
        "policy": {
            "perTurnMaxToolCalls": 1, "restrictToTool": "ask", "allowedTags": ["write"], "deniedTags": ["slow"],
            "maxToolCalls": 0, "maxConsecutiveFailedToolCalls": 1, "timeBudgetMs": 1, "planTimeoutMs": 1,
            "toolTimeoutMs": 1, "perToolTimeoutMs": {"notes.*": 1, "ask": 1, "*": 1}, "finalizerGraceMs": 1
        },
        "guards": {
            "loopDetection": {"consecutiveThreshold": 2, "hardCutoffThreshold": 3},
            "toolBudgets": {"notes.add": {"maxCalls": 1000}, "clock": {"maxCalls": 0}}
        },
        "agents": [nested(7)]
    });
    assert_eq!(problems(&definition), []);
}

#[test]
fn agents() {
    let bad_id = "agent id \"my agent\" is not valid: use 1 to 128 characters of A-Z a-z 0-9 and . _ - / : @";
    let bad_model = |model: &str| {
        format!("{model:?} is not a model; write provider:model, for example \"script:demo\", or an alias")
    };
    assert_problems(vec![
        (agent(json!({"id": "my agent"})), vec![("/id", bad_id)]),
        (agent(json!({"model": "an-alias_1.2"})), vec![]),
        (agent(json!({"model": "a/b"})), vec![("/model", &bad_model("a/b"))]),
        (agent(json!({"model": ":demo"})), vec![("/model", &bad_model(":demo"))]),
        (agent(json!({"model": "script:"})), vec![("/model", &bad_model("script:"))]),
        (
            agent(json!({"credentials": {"secret": "sk live"}})),
            vec![("/credentials", "this is not the name of a secret; write 1 to 128 characters of A-Z a-z 0-9 _ . -")],
        ),
        (agent(json!({"model": "script:de mo"})), vec![("/model", &bad_model("script:de mo"))]),
        (
            agent(json!({"agents": [
                {"id": "b", "model": "m:n", "agents": [{"id": "a", "model": "m:n"}]},
                {"id": "b", "model": "n n"},
            ]})),
            vec![
                ("/agents/0/agents/0/id", "agent \"a\" is nested in itself; give this agent another id"),
                ("/agents/1/id", "agent \"b\" is already number 1 of this list; give it another id"),
                ("/agents/1/model", &bad_model("n n")),
            ],
        ),
        (nested(8), vec![]),
        (
            nested(9),
            vec![(
                "/agents/0/agents/0/agents/0/agents/0/agents/0/agents/0/agents/0/agents/0/agents/0",
                "agents are nested more than 8 deep; move this one further up",
            )],
        ),
    ]);
}

#[test]
fn names_and_fields_of_tools() {
    let not_waited = "only a tool of kind external is waited for; remove this or set the kind to \"external\"";
    assert_problems(vec![
        (
            tool(json!({"name": "no tes"})),
            vec![(
                "/tools/0/name",
                "tool name \"no tes\" is not valid: use 1 to 128 characters of A-Z a-z 0-9 and . _ - / : @",
            )],
        ),
        (
            agent(json!({"tools": [{"name": "a"}, {"name": "b"}, {"name": "a"}]})),
            vec![("/tools/2/name", "tool \"a\" is already number 1 of this list; remove one of them")],
        ),
        (
            tool(json!({"kind": "agent"})),
            vec![("/tools/0", "a tool of kind agent must say which agent answers; add the field agent with its id")],
        ),
        (
            tool(json!({"kind": "agent", "agent": "helpr"})),
            vec![("/tools/0/agent", "this agent has no sub-agent \"helpr\"; did you mean \"helper\"?")],
        ),
        (
            tool(json!({"kind": "agent", "agent": "researcher"})),
            vec![("/tools/0/agent", "this agent has no sub-agent \"researcher\"; define it in agents")],
        ),
        (
            tool(json!({"agent": "helper"})),
            vec![(
                "/tools/0/agent",
                "only a tool of kind agent has an agent; remove this or set the kind to \"agent\"",
            )],
        ),
        (
            tool(json!({"expiresInMs": 5, "onExpiry": "deny"})),
            vec![("/tools/0/expiresInMs", not_waited), ("/tools/0/onExpiry", not_waited)],
        ),
        (
            tool(json!({"kind": "external", "timeoutMs": 5})),
            vec![(
                "/tools/0/timeoutMs",
                "a tool of kind external has no timeout, it is waited for; say how long with expires_in",
            )],
        ),
        (
            tool(json!({"timeoutMs": 0, "tags": ["a", " "], "confirmation": {"expiresInMs": 315_360_000_001_u64}})),
            vec![
                ("/tools/0/tags/1", "a tag is never empty; write a word or remove it"),
                ("/tools/0/timeoutMs", "this must be longer than zero"),
                ("/tools/0/confirmation/expiresInMs", "this is longer than ten years; write at most \"3650d\""),
            ],
        ),
        (
            tool(json!({"kind": "external", "expiresInMs": 0})),
            vec![("/tools/0/expiresInMs", "this must be longer than zero")],
        ),
        (
            tool(json!({"kind": "external", "onExpiry": "fail", "confirmation": {"onExpiry": "deny"}})),
            vec![
                ("/tools/0/onExpiry", "this never expires; say when with expires_in, or remove this"),
                ("/tools/0/confirmation/onExpiry", "this never expires; say when with expires_in, or remove this"),
            ],
        ),
    ]);
}

#[test]
fn schemas_of_tools() {
    let schema = |schema: Value| tool(json!({"inputSchema": schema}));
    assert_problems(vec![
        (schema(json!({"type": "object"})), vec![]),
        (
            schema(json!(true)),
            vec![("/tools/0/inputSchema", "an input schema is an object; write for example {\"type\": \"object\"}")],
        ),
        (schema(json!({})), vec![("/tools/0/inputSchema", "arguments are always an object; add the type \"object\"")]),
        (
            schema(json!({"type": "string"})),
            vec![("/tools/0/inputSchema/type", "arguments are always an object; the type must be \"object\"")],
        ),
        (
            schema(json!({"type": "object", "properties": {"a/b": {"type": "strin"}}})),
            vec![(
                "/tools/0/inputSchema/properties/a~1b/type",
                "this is not a valid JSON Schema: \"strin\" is not valid under any of the schemas listed in the \
                 'anyOf' keyword",
            )],
        ),
        (
            schema(json!({"type": "object", "required": "text"})),
            vec![(
                "/tools/0/inputSchema/required",
                "this is not a valid JSON Schema: \"text\" is not of type \"array\"",
            )],
        ),
        (
            schema(json!({"type": "object", "properties": {"a": {"pattern": "("}}})),
            vec![(
                "/tools/0/inputSchema/properties/a/pattern",
                "this is not a valid JSON Schema: \"(\" is not a \"regex\"",
            )],
        ),
    ]);
}

#[test]
fn references_in_schemas_stay_inside() {
    let local = json!({
        "type": "object",
        "$defs": {"name": {"type": "string"}},
        "properties": {"a": {"$ref": "#/$defs/name"}, "all": {"$ref": "#"}}
    });
    assert_eq!(problems(&tool(json!({"inputSchema": local}))), []);
    for target in ["#/$defs/nowhere", "https://example.com/schema.json", "file:///etc/hosts", "other.json"] {
        let mut schema = local.clone();
        schema["properties"]["b"] = json!({"anyOf": [{"type": "null"}, {"$ref": target}]});
        assert_problems(vec![(
            tool(json!({"inputSchema": schema})),
            vec![(
                "/tools/0/inputSchema/properties/b/anyOf/1/$ref",
                "a $ref must name a part of this schema, for example \"#/$defs/address\"",
            )],
        )]);
    }
}

#[test]
fn placeholders_of_confirmations() {
    let confirm =
        |prompt: &str, schema: Value| tool(json!({"inputSchema": schema, "confirmation": {"prompt": prompt}}));
    let schema = || json!({"type": "object", "properties": {"amount": {}, "to": {}}});
    let at = "/tools/0/confirmation/prompt";
    assert_problems(vec![
        (confirm("Pay {amount} to {to}?", schema()), vec![]),
        (
            confirm("Pay {amonut} to {whom}? {to}", schema()),
            vec![
                (at, "{amonut} is not an argument of this tool; did you mean {amount}?"),
                (at, "{whom} is not an argument of this tool; use one of {amount}, {to}"),
            ],
        ),
        (
            confirm("Pay {amount}?", json!({"type": "object"})),
            vec![(at, "{amount} is not an argument of this tool; declare it under properties of the input schema")],
        ),
    ]);
}

#[test]
fn policies() {
    let at_least_one = "this must be at least 1; leave it out for no limit";
    let zero = "this must be longer than zero";
    assert_problems(vec![
        (
            policy(json!({"perTurnMaxToolCalls": 0, "maxConsecutiveFailedToolCalls": 0})),
            vec![
                ("/policy/perTurnMaxToolCalls", at_least_one),
                ("/policy/maxConsecutiveFailedToolCalls", at_least_one),
            ],
        ),
        (
            policy(json!({"timeBudgetMs": 0, "planTimeoutMs": 0, "toolTimeoutMs": 0, "finalizerGraceMs": 0})),
            vec![
                ("/policy/timeBudgetMs", zero),
                ("/policy/planTimeoutMs", zero),
                ("/policy/toolTimeoutMs", zero),
                ("/policy/finalizerGraceMs", zero),
            ],
        ),
        (
            policy(json!({"allowedTags": ["read", "write", ""], "deniedTags": ["slow", "write"]})),
            vec![
                ("/policy/allowedTags/2", "a tag is never empty; write a word or remove it"),
                ("/policy/deniedTags/1", "tag \"write\" is allowed too; remove it from one list"),
            ],
        ),
        (
            policy(json!({"restrictToTool": "notes.ad"})),
            vec![("/policy/restrictToTool", "this agent has no tool \"notes.ad\"; did you mean \"notes.add\"?")],
        ),
        (
            policy(json!({"perToolTimeoutMs": {"clock": 0, "mail.*": 5, "mail/send": 5, "notes.*": 5}})),
            vec![
                ("/policy/perToolTimeoutMs/clock", zero),
                (
                    "/policy/perToolTimeoutMs/mail.*",
                    "\"mail.*\" matches no tool of this agent; name one of the agent's tools",
                ),
                (
                    "/policy/perToolTimeoutMs/mail~1send",
                    "\"mail/send\" matches no tool of this agent; name one of the agent's tools",
                ),
            ],
        ),
    ]);
}

#[test]
fn guards() {
    let thresholds = |thresholds: Value| agent(json!({"guards": {"loopDetection": thresholds}}));
    let budgets = |budgets: Value| agent(json!({"guards": {"toolBudgets": budgets}}));
    let long = "x".repeat(121);
    let many: serde_json::Map<String, Value> = (0..33).map(|n| (format!("tool{n}"), json!({"maxCalls": 1}))).collect();
    let at = "/guards/loopDetection";
    assert_problems(vec![
        (thresholds(json!(false)), vec![]),
        (thresholds(json!({})), vec![]),
        (thresholds(json!({"consecutiveThreshold": 99, "hardCutoffThreshold": 100})), vec![]),
        (
            thresholds(json!(true)),
            vec![(at, "the guard is on unless this is false; write false, the thresholds, or leave it out")],
        ),
        (
            thresholds(json!({"consecutiveThreshold": 1, "hardCutoffThreshold": 101})),
            vec![
                ("/guards/loopDetection/consecutiveThreshold", "this must be 2 to 99"),
                ("/guards/loopDetection/hardCutoffThreshold", "this must be 3 to 100"),
            ],
        ),
        (thresholds(json!({"consecutiveThreshold": 2})), vec![]),
        (thresholds(json!({"consecutiveThreshold": 99})), vec![]),
        (
            thresholds(json!({"consecutiveThreshold": 100})),
            vec![("/guards/loopDetection/consecutiveThreshold", "this must be 2 to 99")],
        ),
        (thresholds(json!({"hardCutoffThreshold": 3})), vec![]),
        (thresholds(json!({"hardCutoffThreshold": 100})), vec![]),
        (
            thresholds(json!({"hardCutoffThreshold": 2})),
            vec![("/guards/loopDetection/hardCutoffThreshold", "this must be 3 to 100")],
        ),
        (
            thresholds(json!({"consecutiveThreshold": 6, "hardCutoffThreshold": 6})),
            vec![(at, "the hard cutoff, here 6, must be above the consecutive threshold, here 6")],
        ),
        (
            budgets(json!({"": {"maxCalls": 1}, (long.as_str()): {"maxCalls": 1001}})),
            vec![
                ("/guards/toolBudgets/", "a budget's tool name has 1 to 120 characters"),
                (&format!("/guards/toolBudgets/{long}"), "a budget's tool name has 1 to 120 characters"),
                (&format!("/guards/toolBudgets/{long}/maxCalls"), "this must be at most 1000"),
            ],
        ),
        (budgets(Value::Object(many)), vec![("/guards/toolBudgets", "33 tool budgets are too many; keep at most 32")]),
    ]);
}

#[test]
fn what_only_the_callers_own_tools_have() {
    let own = json!({"kind": "external", "client": {"kind": "local"}, "readOnly": true});
    let of_caller = "this is for the caller's own tools; remove it or say whose tool it is in client";
    let outside = "only a tool of kind external is the caller's own; remove this or set the kind to \"external\"";
    assert_problems(vec![
        (tool(own), vec![]),
        (tool(json!({"client": {"kind": "a2a_local", "agentCard": {}}})), vec![("/tools/0/client", outside)]),
        (tool(json!({"kind": "external", "readOnly": true})), vec![("/tools/0/readOnly", of_caller)]),
        (
            tool(
                json!({"kind": "external", "client": {"kind": "mcp_local", "server": "s", "toolName": "t", "serverinfo": 1}}),
            ),
            vec![("/tools/0/client/serverinfo", "unknown field; did you mean serverInfo?")],
        ),
    ]);
}

#[test]
fn what_an_answer_may_be_asked_to_be() {
    let output = |fields: Value| agent(json!({"outputSchema": with(json!({"schema": {}}), fields)}));
    let name = "this must be 1 to 64 characters of A-Z a-z 0-9 _ -";
    assert_problems(vec![
        (agent(json!({"reasoningLevel": 100})), vec![]),
        (agent(json!({"reasoningLevel": 101})), vec![("/reasoningLevel", "this must be 0 to 100")]),
        (output(json!({"name": "weather-report_2", "enforcement": "strict"})), vec![]),
        (output(json!({"name": ""})), vec![("/outputSchema/name", name)]),
        (output(json!({"name": "a b"})), vec![("/outputSchema/name", name)]),
        (
            output(json!({"schema": []})),
            vec![("/outputSchema/schema", "this must be a JSON Schema, which is an object")],
        ),
    ]);
}

#[test]
fn an_exceeded_limit_is_reported_once_and_by_its_name() {
    let many = |many: usize, item: fn(usize) -> Value| -> Value { (0..many).map(item).collect() };
    let named = |index: usize| json!({"name": format!("t{index}"), "kind": "external"});
    let sub = |index: usize| json!({"id": format!("s{index}"), "model": "m:n"});
    assert_problems(vec![
        (agent(json!({"tools": many(256, named)})), vec![]),
        (agent(json!({"tools": many(30_000, named)})), vec![("/tools", "30000 tools are too many; keep at most 256")]),
        (agent(json!({"agents": many(63, sub)})), vec![]),
        (
            agent(json!({"agents": many(64, sub)})),
            vec![("/agents", "65 agents are too many; keep at most 64, those below others included")],
        ),
        (
            tool(json!({"tags": many(33, |index| json!(format!("t{index}")))})),
            vec![("/tools/0/tags", "33 tags are too many; keep at most 32")],
        ),
        (
            tool(json!({"description": "é".repeat(16_385)})),
            vec![("/tools/0/description", "this has 16385 characters; write at most 16384")],
        ),
        (
            tool(json!({"kind": "external", "client": {"kind": "a2a_local", "agentCard": {"x": "y".repeat(65_536)}}})),
            vec![("/tools/0/client/agentCard", "this is 65544 bytes of JSON; write at most 65536")],
        ),
        (
            agent(json!({"systemPrompt": "x".repeat(200_001)})),
            vec![("/systemPrompt", "this has 200001 characters; write at most 200000")],
        ),
    ]);
}

#[test]
fn schemas_that_nothing_can_be_checked_against() {
    let foreign = "a $ref must name a part of this schema, for example \"#/$defs/address\"";
    let back = "this schema leads back to itself without looking at a part of the value";
    let answer = |schema: Value| agent(json!({"outputSchema": {"schema": schema}}));
    let result = |schema: Value| tool(json!({"outputSchema": schema}));
    assert_problems(vec![
        (answer(json!({"type": "object"})), vec![]),
        (answer(json!({"$ref": "https://example.com/s"})), vec![("/outputSchema/schema/$ref", foreign)]),
        (answer(json!({"$ref": "#"})), vec![("/outputSchema/schema", back)]),
        (result(json!({"items": {"$ref": "x"}})), vec![("/tools/0/outputSchema/items/$ref", foreign)]),
        (
            tool(json!({"inputSchema": {"type": "object", "allOf": [{"$ref": "#"}]}})),
            vec![("/tools/0/inputSchema", back)],
        ),
    ]);
    let [(path, message)] = &problems(&answer(json!({"type": "banana"})))[..] else { panic!() };
    assert_eq!(path, "/outputSchema/schema/type");
    assert!(message.starts_with("this is not a valid JSON Schema: \"banana\""), "{message}");
}

#[test]
fn parameters_of_the_model() {
    let with = |parameters: Value| agent(json!({"parameters": parameters}));
    assert_problems(vec![
        (with(json!({"maxOutputTokens": 1, "temperature": 2, "topP": 0, "stopSequences": ["END"]})), vec![]),
        (
            with(json!({"maxOutputTokens": 0, "temperature": 2.1, "topP": -0.1, "stopSequences": ["a", ""]})),
            vec![
                ("/parameters/temperature", "this must be a number from 0 to 2"),
                ("/parameters/topP", "this must be a number from 0 to 1"),
                ("/parameters/maxOutputTokens", "this must be at least 1, or no turn could say anything"),
                ("/parameters/stopSequences/1", "an empty sequence would stop every answer"),
            ],
        ),
    ]);
}
