//! What a run executes: specs, stored agents, sessions and the messages that override them.

use serde_json::{Value, json};
use windlass_core::{
    agent::{AgentDefinition, ModelParameters, ToolSource, ToolSpec},
    envelope::{Extra, GuardOverrides, LoopDetection, LoopThresholds, PolicyOverrides, ToolBudget},
    ids::AgentId,
};

use super::{super::*, clock, resolve, resolve_among};

fn stored() -> AgentDefinition {
    AgentDefinition {
        id: "desk".into(),
        name: Some("Desk".into()),
        description: String::new(),
        model: "script:echo".into(),
        fallback: Vec::new(),
        system_prompt: "You are the desk.".into(),
        reasoning_level: Some(30),
        reasoning_decay: None,
        output_schema: None,
        parameters: ModelParameters::default(),
        credentials: None,
        tools: ["clock", "mine"].map(|name| ToolSpec::new(name.into(), ToolSource::Builtin)).into(),
        toolsets: Vec::new(),
        approvals: Vec::new(),
        policy: PolicyOverrides { max_tool_turns: Some(20), ..PolicyOverrides::default() },
        guards: GuardOverrides::default(),
        agents: Vec::new(),
        extra: Extra::new(),
    }
}

#[test]
fn a_spec_without_an_agent_is_one_of_its_own() {
    let body = json!({
        "name": "greeter", "systemPrompt": "Be kind.", "modelId": "script:echo", "reasoningLevel": "high",
        "loopDetection": {"consecutiveThreshold": 2}, "toolBudgets": {"x": {"maxCalls": 0}},
        "messages": [{"role": "system", "content": "And brief."}, {"role": "user", "content": "hi"}],
    });
    let expected = AgentDefinition {
        id: "ad-hoc".into(),
        name: Some("greeter".into()),
        description: String::new(),
        model: "script:echo".into(),
        fallback: Vec::new(),
        system_prompt: "Be kind.\n\nAnd brief.".into(),
        reasoning_level: Some(80),
        reasoning_decay: None,
        output_schema: None,
        parameters: ModelParameters::default(),
        credentials: None,
        tools: Vec::new(),
        toolsets: Vec::new(),
        approvals: Vec::new(),
        policy: PolicyOverrides { max_tool_turns: Some(100), ..PolicyOverrides::default() },
        guards: GuardOverrides {
            loop_detection: Some(LoopDetection::Thresholds(LoopThresholds {
                consecutive_threshold: Some(2),
                hard_cutoff_threshold: None,
            })),
            tool_budgets: Some([("x".to_owned(), ToolBudget { max_calls: 0 })].into()),
        },
        agents: Vec::new(),
        extra: Extra::new(),
    };
    assert_eq!(resolve(&body), Ok(expected));
    assert_eq!(resolve(&json!({"systemPrompt": "s", "prompt": "p"})).unwrap().model, "script:demo");
}

#[test]
fn a_stored_agent_keeps_its_prompt_and_takes_tools_on_top() {
    let body = json!({
        "agentId": "desk", "systemPrompt": "ignored", "prompt": "p", "budgets": {"maxToolTurns": 50},
        "tools": [{"kind": "local", "name": "extra"}, {"kind": "mantyx", "id": "mine"}],
    });
    let spec = parse_run(&body).unwrap().spec;
    let resolved = resolve_among(&[stored()], None, &spec, &[]).unwrap();
    assert_eq!((resolved.system_prompt.as_str(), resolved.model.as_str()), ("You are the desk.", "script:echo"));
    let own = |tool: &ToolSpec| tool.source.client().is_some();
    let tools: Vec<(&str, bool)> = resolved.tools.iter().map(|tool| (tool.name.as_str(), own(tool))).collect();
    assert_eq!(tools, [("clock", false), ("mine", false), ("extra", true)]);
    assert_eq!(resolved.policy.max_tool_turns, Some(20), "a caller does not raise an agent's own limit");
}

#[test]
fn a_bound_key_gets_the_same_error_for_unknown_and_for_other_agents() {
    let spec = parse_run(&json!({"agentId": "desk", "prompt": "p"})).unwrap().spec;
    assert_eq!(resolve_among(&[], None, &spec, &[]), Err(SpecError::UnknownAgent("desk".into())));
    let others: [AgentId; 1] = ["other".into()];
    let refused = Err(SpecError::Agent("desk".into()));
    assert_eq!(resolve_among(&[stored()], Some(&others), &spec, &[]), refused);
    assert_eq!(resolve_among(&[], Some(&others), &spec, &[]), refused);
    let own: [AgentId; 1] = ["desk".into()];
    assert!(resolve_among(&[stored()], Some(&own), &spec, &[]).is_ok());
    let free = parse_run(&json!({"systemPrompt": "s", "prompt": "p"})).unwrap().spec;
    let refused = resolve_among(&[stored()], Some(&own), &free, &[]).unwrap_err().to_string();
    assert_eq!(refused, "agentId: this key may only start the agents it was made for; name one of them");
}

#[test]
fn a_tool_that_a_stored_agent_lacks_is_refused_without_saying_what_the_server_has() {
    for id in ["clock", "http_get"] {
        let tools = json!([{"kind": "mantyx", "id": id}]);
        let spec = parse_run(&json!({"agentId": "desk", "prompt": "p", "tools": tools})).unwrap().spec;
        let bare = AgentDefinition { tools: Vec::new(), ..stored() };
        let refused = resolve_among(&[bare], None, &spec, &[]).unwrap_err().to_string();
        assert_eq!(refused, format!("tools: agent desk has no tool {id:?}, and a caller cannot give it one"));
    }
}

#[test]
fn a_message_overrides_its_own_run_and_nothing_else() {
    let session = json!({
        "systemPrompt": "s", "reasoningLevel": "off", "toolBudgets": {"a": {"maxCalls": 1}},
        "tools": [{"kind": "local", "name": "old"}], "metadata": {"customer": "acme", "env": "prod"},
    });
    let (_, kept) = parse_session(&session).unwrap();
    let before = kept.clone();
    let message = json!({
        "prompt": "p", "reasoningLevel": 70, "toolBudgets": {}, "tools": [{"kind": "local", "name": "new"}],
        "metadata": {"env": "test", "trace": "t1"}, "systemPrompt": "not a message's to say", "modelId": "script:echo",
    });
    let Accepted { spec, conversation, .. } = effective(&kept, &message).unwrap();
    let resolved = resolve_among(&[], None, &spec, &conversation.system).unwrap();
    assert_eq!(kept, before);
    assert_eq!(resolved.reasoning_level, Some(70));
    assert_eq!(resolved.guards.tool_budgets, Some(Default::default()));
    assert_eq!(resolved.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["new"]);
    assert_eq!((resolved.system_prompt.as_str(), resolved.model.as_str()), ("s", "script:demo"));
    let merged: Metadata =
        [("customer", "acme"), ("env", "test"), ("trace", "t1")].map(|(key, value)| (key.into(), value.into())).into();
    assert_eq!(spec.metadata, merged);

    let plain = effective(&kept, &json!({"prompt": "q"})).unwrap().spec;
    assert_eq!(plain, parse_session(&session).unwrap().0);
}

#[test]
fn merged_metadata_has_the_limits_of_any_other() {
    let entries = |prefix: &str| -> Value {
        (0..10).map(|index| (format!("{prefix}{index}"), json!("v"))).collect::<serde_json::Map<_, _>>().into()
    };
    let (_, kept) = parse_session(&json!({"systemPrompt": "s", "metadata": entries("a")})).unwrap();
    let refused = effective(&kept, &json!({"prompt": "p", "metadata": entries("b")})).unwrap_err();
    assert_eq!(refused.to_string(), "metadata: together with the session's, has 20 entries; send at most 16");
    assert!(effective(&kept, &json!({"prompt": "p", "metadata": entries("a")})).is_ok());
}

#[test]
fn what_belongs_to_a_run_is_not_kept_in_a_session() {
    let (_, kept) = parse_session(&json!({"systemPrompt": "s", "runId": "r", "labels": {}, "newer": 1})).unwrap();
    assert_eq!(kept, json!({"systemPrompt": "s", "newer": 1}));
}

#[test]
fn a_session_is_created_without_a_message() {
    for (key, value) in [("prompt", json!("p")), ("prompt", json!("")), ("messages", json!([]))] {
        let mut body = json!({"systemPrompt": "s"});
        body[key] = value;
        let refused = parse_session(&body).unwrap_err();
        let problem = "a session is created without a message; send it to POST /agent-sessions/{id}/messages";
        assert_eq!(refused, Invalid::new(key, problem));
    }
    assert!(parse_session(&json!({"systemPrompt": "s", "prompt": null, "messages": null})).is_ok());
}

#[test]
fn tools_with_a_default_budget_in_the_protocol_have_it_unless_one_is_set() {
    let tool = |name: &str| json!({"kind": "local", "name": name});
    let budgets = |asked: Value| {
        let body = json!({
            "systemPrompt": "s", "prompt": "p", "toolBudgets": asked,
            "tools": [tool("recall"), tool("hive_search_deals"), tool("mine")],
        });
        let budgets = resolve(&body).unwrap().guards.tool_budgets;
        budgets.map(|budgets| budgets.into_iter().map(|(tool, budget)| (tool, budget.max_calls)).collect::<Vec<_>>())
    };
    let of = |budgets: &[(&str, u32)]| {
        Some(budgets.iter().map(|(tool, max)| ((*tool).to_owned(), *max)).collect::<Vec<_>>())
    };
    assert_eq!(budgets(json!(null)), of(&[("hive_search_deals", 5), ("recall", 4)]));
    let asked = json!({"recall": {"maxCalls": 9}, "mine": {"maxCalls": 0}});
    assert_eq!(budgets(asked), of(&[("hive_search_deals", 5), ("mine", 0), ("recall", 9)]));
    assert_eq!(budgets(json!({})), of(&[]), "an empty map clears them");
    let without_such_tools = resolve(&json!({"systemPrompt": "s", "prompt": "p"})).unwrap();
    assert_eq!(without_such_tools.guards.tool_budgets, None);
}

#[test]
fn sub_agents_have_the_default_budgets_too() {
    let recall = || vec![ToolSpec::new("recall".into(), ToolSource::Builtin)];
    let sub = AgentDefinition { id: "sub".into(), tools: recall(), ..stored() };
    let cleared = GuardOverrides { tool_budgets: Some(Default::default()), ..GuardOverrides::default() };
    let mut agent = AgentDefinition { tools: recall(), guards: cleared.clone(), agents: vec![sub], ..stored() };
    add_default_budgets(&mut agent);
    let own = GuardOverrides {
        tool_budgets: Some([("recall".to_owned(), ToolBudget { max_calls: 4 })].into()),
        ..GuardOverrides::default()
    };
    assert_eq!((agent.guards, &agent.agents[0].guards), (cleared, &own));
}

#[test]
fn a_definition_is_run_as_it_is_with_the_defaults_of_this_servers_tools() {
    let body = json!({"definition": stored(), "prompt": "p"});
    let mut expected = stored();
    assert_eq!(
        expected.tools[0],
        ToolSpec::new(clock().name, ToolSource::Builtin),
        "the definition only names the clock"
    );
    expected.tools[0] = clock();
    assert_eq!(resolve(&body), Ok(expected));
    let other_model = json!({"definition": stored(), "prompt": "p", "modelId": "script:demo"});
    assert_eq!(resolve(&other_model).unwrap().model, "script:demo");
}

#[test]
fn a_definition_that_cannot_run_is_refused() {
    let complaint = |change: fn(&mut Value)| {
        let mut body = json!({"definition": stored(), "prompt": "p"});
        change(&mut body);
        resolve(&body).unwrap_err().to_string()
    };
    assert_eq!(complaint(|body| body["agentId"] = json!("desk")), "definition: send either definition or agentId");
    assert_eq!(
        complaint(|body| body["definition"]["model"] = json!("script:gone")),
        "definition.model: this server has no model \"script:gone\"; GET /models lists its models"
    );
    assert_eq!(
        complaint(|body| body["definition"]["agents"] = json!([{"id": "sub", "model": "script:gone"}])),
        "definition.agents[0].model: this server has no model \"script:gone\"; GET /models lists its models"
    );
    let nested = complaint(|body| body["definition"]["tools"] = json!([{"name": "t", "kind": "agent", "agent": "x"}]));
    assert!(nested.starts_with("definition: /tools/0/"), "{nested}");
    let misspelt = complaint(|body| body["definition"]["systemPromt"] = json!("x"));
    assert_eq!(misspelt, "definition: /systemPromt: unknown field; did you mean systemPrompt?");
    let environment = complaint(|body| body["definition"]["credentials"] = json!({"env": "HOME"}));
    assert!(environment.starts_with("definition: credentials: only agent files may refer"), "{environment}");
    let limit = complaint(|body| body["policy"] = json!({"maxToolCals": 3}));
    assert_eq!(limit, "policy.maxToolCals: unknown limit `maxToolCals`; did you mean `maxToolCalls`?");
    let schema = complaint(|body| body["definition"]["outputSchema"] = json!({"schema": {"type": "banana"}}));
    assert!(schema.starts_with("definition: /outputSchema/schema/type: this is not a valid JSON Schema"), "{schema}");
    let unknown = complaint(|body| body["definition"]["x".repeat(9000)] = json!(1));
    assert!(unknown.starts_with("definition: /xxx") && unknown.len() < 400, "{unknown}");
    for (key, value) in [("runId", json!("a/b")), ("policy", json!({"maxCalls": 3})), ("labels", json!({"a b": "c"}))] {
        let body = json!({"definition": stored(), "prompt": "p", key: value});
        assert!(parse_run(&body).unwrap_err().field.starts_with(key));
    }
}

#[test]
fn a_bound_key_may_not_send_a_definition() {
    let spec = parse_run(&json!({"definition": stored(), "prompt": "p"})).unwrap().spec;
    let own: [AgentId; 1] = ["desk".into()];
    assert!(matches!(resolve_among(&[stored()], Some(&own), &spec, &[]), Err(SpecError::NotAllowed(_))));
}
