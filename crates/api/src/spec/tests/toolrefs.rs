//! The seven kinds of tool references.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_core::{
    agent::{A2aSource, ClientTool, HttpAccess, McpServer, ToolSource, ToolSpec, Toolset, Waiting},
    awaits::ExpiryOutcome,
    secret::SecretText,
};

use super::{TIMEOUT, clock, complaint, models, resolve, with};
use crate::spec::{Surroundings, Toolbox, parse_run};

fn tools(refs: Value) -> Vec<ToolSpec> {
    resolve(&with("tools", refs)).unwrap().tools
}

fn callers(name: &str, tool: ClientTool) -> ToolSpec {
    let wait = Waiting { expires_in_ms: Some(TIMEOUT), on_expiry: Some(ExpiryOutcome::Fail) };
    ToolSpec::new(name.into(), ToolSource::Client { tool, read_only: false, wait })
}

fn read_only(mut spec: ToolSpec) -> ToolSpec {
    if let ToolSource::Client { read_only, .. } = &mut spec.source {
        *read_only = true;
    }
    spec
}

#[test]
fn a_local_tool() {
    let schema =
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "integer"}}});
    let refs = json!([
        {"kind": "local", "name": "add", "description": "Adds.", "parameters": schema, "outputSchema": {"type": "object"},
         "longRunning": true, "readOnly": true, "retain": true},
        {"kind": "local", "name": "bare"},
        {"kind": "local", "name": "either", "parameters": {"type": ["object", "null"]}},
    ]);
    let empty = json!({"type": "object", "properties": {}});
    let expected = [
        ToolSpec {
            description:
                "Adds.\n\nNOTE: This is a long-running operation. Do not call this tool again if it has already \
                          returned an intermediate or pending status."
                    .into(),
            input_schema: Some(schema),
            output_schema: Some(json!({"type": "object"})),
            ..read_only(callers("add", ClientTool::Local {}))
        },
        ToolSpec { input_schema: Some(empty), ..callers("bare", ClientTool::Local {}) },
        ToolSpec { input_schema: Some(json!({"type": "object"})), ..callers("either", ClientTool::Local {}) },
    ];
    assert_eq!(tools(refs), expected);
}

#[test]
fn a_local_peer_is_described_by_its_card() {
    let skills: Vec<Value> = (0..14).map(|index| json!({"id": format!("s{index}"), "name": format!("Skill {index}"), "description": format!("Does {index}")})).collect();
    let card = json!({"name": "Acme HR", "description": "Answers HR questions.", "url": "http://peer/rpc", "skills": skills, "x": 1});
    let [tool] = &tools(json!([{"kind": "a2a_local", "name": "hr", "agentCard": card}]))[..] else { panic!() };
    assert!(
        tool.description
            .starts_with("Delegate a task to Acme HR: Answers HR questions.\n\nSkills:\n- Skill 0: Does 0\n")
    );
    assert!(tool.description.ends_with("- Skill 11: Does 11"), "{}", tool.description);
    assert_eq!(tool.source.client(), Some(&ClientTool::A2aLocal { agent_card: card.clone() }));
    assert_eq!(tool.input_schema.as_ref().unwrap()["required"], json!(["message"]));

    let described = |name: &str, card: Value| {
        tools(json!([{"kind": "a2a_local", "name": name, "agentCard": card}]))[0].description.clone()
    };
    assert_eq!(described("hr", json!({})), "Delegate a task to hr");
    assert_eq!(described("hr", json!({"name": 5, "skills": "none"})), "Delegate a task to hr");
    let said = json!([{"kind": "a2a_local", "name": "hr", "agentCard": card, "description": "Ask HR."}]);
    assert_eq!(tools(said)[0].description, "Ask HR.");
}

#[test]
fn a_local_server_brings_its_tools_under_their_own_names() {
    let refs = json!([{"kind": "mcp_local", "name": "every", "serverInfo": {"name": "everything", "version": "2"}, "tools": [
        {"name": "every_get-sum", "description": "Sums.", "inputSchema": {"properties": {"a": {"type": "integer"}}},
         "annotations": {"readOnlyHint": true}},
        {"name": "every_a/b.c"},
    ]}]);
    let client = |name: &str| ClientTool::McpLocal {
        server: "every".into(),
        server_info: Some(json!({"name": "everything", "version": "2"})),
        tool_name: name.into(),
    };
    let expected = [
        ToolSpec {
            description: "Sums.".into(),
            input_schema: Some(json!({"type": "object", "properties": {"a": {"type": "integer"}}})),
            ..read_only(callers("every_get-sum", client("every_get-sum")))
        },
        ToolSpec {
            input_schema: Some(json!({"type": "object", "properties": {}})),
            ..callers("every_a/b.c", client("every_a/b.c"))
        },
    ];
    assert_eq!(tools(refs), expected);
}

#[test]
fn a_tool_of_the_server_is_named_by_its_id() {
    assert_eq!(tools(json!([{"kind": "mantyx", "id": "clock"}])), [clock()]);
}

#[test]
fn servers_and_peers_that_the_worker_reaches_become_toolsets_and_tools() {
    let refs = json!([
        {"kind": "mcp", "name": "gh", "url": "https://m/mcp", "headers": {"X": "${secret:split.1}"}, "toolFilter": ["find"]},
        {"kind": "a2a", "name": "peer", "agentCardUrl": "https://b", "contextId": "c"},
        {"kind": "mantyx_plugin", "name": "@the/clock"},
    ]);
    let spec = parse_run(&with("tools", refs)).unwrap().spec;
    let (catalogue, the_clock) = (models(), ToolSpec { name: "the_clock".into(), ..clock() });
    let toolbox = Toolbox { builtins: std::slice::from_ref(&the_clock), local_tool_timeout: TIMEOUT };
    let around = Surroundings { models: &catalogue, agents: &[], toolbox, bound_to: None };
    let definition = spec.resolve(&[], None, around).unwrap().definition;
    let headers = BTreeMap::from([("X".to_owned(), SecretText::new("${secret:split.1}"))]);
    let access = HttpAccess { headers, ..HttpAccess::default() };
    let mcp = McpServer { server: None, url: Some("https://m/mcp".to_owned()), access };
    let gh = Toolset { name: "gh".to_owned(), mcp: Some(mcp), only: vec!["find".to_owned()], ..Toolset::default() };
    assert_eq!(definition.toolsets, [gh]);
    let source = A2aSource {
        agent_card_url: "https://b".to_owned(),
        context_id: Some("c".to_owned()),
        binding: None,
        access: HttpAccess::default(),
    };
    let [peer, plugin] = definition.tools.as_slice() else { panic!("{:?}", definition.tools) };
    assert_eq!(peer.source, ToolSource::A2a(Box::new(source)));
    assert_eq!((peer.name.as_str(), peer.description.as_str()), ("peer", "Delegate a task to peer"));
    assert_eq!(plugin, &the_clock);
}

#[test]
fn an_invalid_tool_reference_is_named() {
    let local = json!({"kind": "local", "name": "x"});
    let cases = [
        (json!([{}]), "tools[0].kind: is required, a non-empty string"),
        (
            json!([{"kind": "magic"}]),
            "tools[0].kind: must be \"local\", \"a2a_local\", \"mcp_local\", \"mantyx\", \"mantyx_plugin\", \"a2a\" or \"mcp\"",
        ),
        (json!([local, {"kind": "local"}]), "tools[1].name: is required, a non-empty string"),
        (
            json!([local, local, {"kind": "local", "name": "a b"}]),
            "tools[2].name: must have 1 to 64 characters of A-Z a-z 0-9 _",
        ),
        (json!([local, local]), "tools[1].name: there are two tools named \"x\"; rename one"),
        (
            json!([{"kind": "local", "name": "x".repeat(65)}]),
            "tools[0].name: must have 1 to 64 characters of A-Z a-z 0-9 _",
        ),
        (json!([{"kind": "local", "name": "x", "longRunning": "yes"}]), "tools[0].longRunning: must be true or false"),
        (json!([{"kind": "a2a_local", "name": "x"}]), "tools[0].agentCard: is required, an object"),
        (json!([{"kind": "mcp_local", "name": "x", "tools": []}]), "tools[0].tools: has 0 tools; send 1 to 64"),
        (
            json!([{"kind": "mcp_local", "name": "x", "tools": [{"name": "a b"}]}]),
            "tools[0].tools[0].name: must have 1 to 128 characters of A-Z a-z 0-9 _ . - /",
        ),
        (
            json!([{"kind": "mcp_local", "name": "x-y", "tools": [{"name": "a"}]}]),
            "tools[0].name: must have 1 to 64 characters of A-Z a-z 0-9 _",
        ),
        (json!([{"kind": "mantyx", "id": "tool_1"}]), "tools[0].id: this server has no such tool; it has: clock"),
        (json!([{"kind": "mantyx_plugin", "name": "search"}]), "tools[0].name: must be of the form @slug/tool"),
        (
            json!([{"kind": "mantyx_plugin", "name": "@acme/search"}]),
            "tools[0].name: this server has neither a tool acme_search nor a tool acme.search; it has: clock",
        ),
        (
            json!([{"kind": "mcp", "name": "gh", "url": "https://user:pass@m/mcp"}]),
            "tools[0].url: must be an address that begins with https:// or http://, without a password",
        ),
        (
            json!([{"kind": "mcp", "name": "gh", "url": "https://m/mcp"}, {"kind": "mcp", "name": "gh", "url": "https://n"}]),
            "tools[1].name: there are two MCP servers named \"gh\"; rename one",
        ),
        (
            json!([{"kind": "a2a", "name": "b", "agentCardUrl": "https://b", "headers": {"A": "x".repeat(8193)}}]),
            "tools[0].headers.A: must have at most 8192 bytes",
        ),
        (json!([{"kind": "a2a", "name": "b"}]), "tools[0].agentCardUrl: is required, a non-empty string"),
    ];
    for (refs, expected) in cases {
        assert_eq!(complaint(&with("tools", refs.clone())).as_deref(), Some(expected), "{refs}");
    }
}

#[test]
fn a_schema_that_no_call_could_meet_is_refused() {
    let unusable = "is not a usable JSON Schema";
    let object = "arguments are always an object; its type must be \"object\"";
    let cases = [
        (
            "parameters",
            json!({"type": "object", "properties": {"a": {"type": "intege"}}}),
            format!("{unusable}: /properties/a/type: "),
        ),
        (
            "parameters",
            json!({"properties": {"a": {"$ref": "https://x/y"}}}),
            format!("{unusable}: /properties/a/$ref: a $ref must name"),
        ),
        ("parameters", json!({"type": "array"}), object.to_owned()),
        ("parameters", json!({"type": ["string", "null"]}), object.to_owned()),
        ("parameters", json!([]), "must be a JSON Schema, an object".to_owned()),
        ("outputSchema", json!({"type": "banana"}), format!("{unusable}: /type: ")),
        ("outputSchema", json!([]), format!("{unusable}: this must be a JSON Schema, which is an object")),
    ];
    for (key, schema, expected) in cases {
        let mut tool = json!({"kind": "local", "name": "x"});
        tool[key] = schema.clone();
        let said = complaint(&with("tools", json!([tool]))).unwrap_or_default();
        assert!(said.starts_with(&format!("tools[0].{key}: {expected}")), "{schema}: {said}");
    }
    let server =
        json!([{"kind": "mcp_local", "name": "m", "tools": [{"name": "m_a", "inputSchema": {"type": "string"}}]}]);
    assert_eq!(complaint(&with("tools", server)), Some(format!("tools[0].tools[0].inputSchema: {object}")));
}
