//! The table of what may be overridden, and the property behind it: no override of a configured agent widens it.

use proptest::{collection, option, prelude::*, sample::select};
use serde_json::{Value, json};

use super::*;
use crate::{
    agent::{ClientTool, ToolSource, Waiting},
    cost::Cost,
    ids::ToolName,
};

fn agent() -> AgentDefinition {
    let document = json!({
        "id": "conf", "model": "script:keep", "systemPrompt": "You keep notes.", "reasoningLevel": 30,
        "tools": [
            {"name": "notes.add", "confirmation": {"title": "Keep it?"}, "tags": ["write"], "timeoutMs": 5000},
            {"name": "form", "kind": "external"},
            {"name": "mine", "kind": "external", "client": {"kind": "local"}, "description": "the agent's word"},
            {"name": "clerk", "kind": "agent", "agent": "clerk"},
        ],
        "policy": {"maxToolCalls": 10, "deniedTags": ["danger"], "interruptsAllowed": false, "toolTimeoutMs": 9000},
        "guards": {"toolBudgets": {"notes.add": {"maxCalls": 2}}},
        "agents": [{"id": "clerk", "model": "script:keep", "tools": [{"name": "notes.add", "confirmation": {}}]}],
    });
    serde_json::from_value(document).unwrap()
}

fn builtin(name: &str) -> ToolSpec {
    ToolSpec::new(ToolName::new(name), ToolSource::Builtin)
}

fn local(name: &str) -> ToolSpec {
    let wait = Waiting::default();
    ToolSpec::new(ToolName::new(name), ToolSource::Client { tool: ClientTool::Local {}, read_only: false, wait })
}

fn tools(tools: &[ToolSpec]) -> Overrides {
    Overrides { tools: tools.to_vec(), ..Overrides::default() }
}

fn limits(policy: Value) -> Overrides {
    Overrides { policy: Some(serde_json::from_value(policy).unwrap()), ..Overrides::default() }
}

/// The limits that hold for a run.
fn policy_of(effective: &Effective) -> Policy {
    let Effective { definition, policy, guards } = effective;
    let limits = AgentPolicy { policy: definition.policy.clone(), guards: definition.guards.clone() };
    Policy::resolve(&limits, policy.as_ref(), guards.as_ref(), None)
}

#[test]
fn what_may_be_overridden_is_a_table() {
    let said = |field: &str| match field {
        "modelId" => Overrides { model: Some("script:other".into()), ..Overrides::default() },
        "systemPrompt" => Overrides { system_prompt: Some("You are free.".into()), ..Overrides::default() },
        "messages" => Overrides { system: vec!["You are free.".into()], ..Overrides::default() },
        "higher reasoningLevel" => Overrides { reasoning_level: Some(31), ..Overrides::default() },
        "lower reasoningLevel" => Overrides { reasoning_level: Some(0), ..Overrides::default() },
        "outputSchema" => {
            let schema = serde_json::from_value(json!({"name": "o", "schema": {}})).unwrap();
            Overrides { output_schema: Some(schema), ..Overrides::default() }
        }
        "name" => Overrides { name: Some("n".into()), ..Overrides::default() },
        "a server tool it has" => tools(&[builtin("notes.add")]),
        "a server tool it lacks" => tools(&[builtin("http_get")]),
        "a local tool" => tools(&[local("extra")]),
        "a local tool it knows as the caller's" => tools(&[local("mine")]),
        "a local tool of the name of a server tool" => tools(&[local("notes.add")]),
        "a local tool of the name of an external one" => tools(&[local("form")]),
        "a local tool of the name of an agent" => tools(&[local("clerk")]),
        "more tool calls" => limits(json!({"maxToolCalls": 1000})),
        other => panic!("{other}"),
    };
    // What is sent; the field that an unbound key, and one that is bound, is refused for.
    let table = [
        ("modelId", None, Some("modelId")),
        ("systemPrompt", None, Some("systemPrompt")),
        ("messages", None, Some("messages")),
        ("higher reasoningLevel", None, Some("reasoningLevel")),
        ("lower reasoningLevel", None, None),
        ("outputSchema", None, None),
        ("name", None, None),
        ("a server tool it has", None, None),
        ("a server tool it lacks", Some("tools"), Some("tools")),
        ("a local tool", None, None),
        ("a local tool it knows as the caller's", None, None),
        ("a local tool of the name of a server tool", Some("tools"), Some("tools")),
        ("a local tool of the name of an external one", Some("tools"), Some("tools")),
        ("a local tool of the name of an agent", Some("tools"), Some("tools")),
        ("more tool calls", None, None),
    ];
    for (what, unbound, bound) in table {
        for (trust, expected) in [(Trust::Unbound, unbound), (Trust::Bound, bound)] {
            let refused = apply(Base::Configured(&agent()), said(what), trust).err().map(|refusal| refusal.field);
            assert_eq!(refused, expected, "{what} {trust:?}");
        }
    }
    for own in [said("name"), said("modelId")] {
        assert!(apply(Base::Own(Box::new(agent())), own.clone(), Trust::Unbound).is_ok());
        assert_eq!(apply(Base::Own(Box::new(agent())), own, Trust::Bound).unwrap_err().field, "agentId");
    }
}

#[test]
fn the_agents_own_spec_of_a_tool_stands() {
    let over = tools(&[builtin("notes.add"), local("mine"), local("extra")]);
    let effective = apply(Base::Configured(&agent()), over, Trust::Unbound).unwrap();
    let mut expected = agent();
    expected.tools.push(local("extra"));
    assert_eq!(effective, Effective { definition: expected, policy: None, guards: None });
}

#[test]
fn the_callers_own_agent_is_replaced_as_it_is_told() {
    let over = Overrides { policy: limits(json!({"maxToolCalls": 1000})).policy, ..tools(&[builtin("notes.add")]) };
    let effective = apply(Base::Own(Box::new(agent())), over, Trust::Unbound).unwrap();
    let kept = effective.definition.tool(&"notes.add".into()).unwrap();
    assert_eq!((kept, policy_of(&effective).max_tool_calls), (&builtin("notes.add"), Some(1000)));
}

#[test]
fn a_limit_is_narrowed_and_asking_for_more_changes_nothing() {
    type Change = fn(&mut Policy);
    let base = policy_of(&apply(Base::Configured(&agent()), Overrides::default(), Trust::Bound).unwrap());
    let cases: [(Value, Change); 9] = [
        (json!({"maxToolCalls": 1000}), |_| {}),
        (json!({"maxToolCalls": 3}), |policy| policy.max_tool_calls = Some(3)),
        (json!({"interruptsAllowed": true}), |_| {}),
        (json!({"deniedTags": []}), |_| {}),
        (json!({"deniedTags": ["write"]}), |policy| policy.denied_tags = ["danger", "write"].map(str::to_owned).into()),
        (json!({"toolTimeoutMs": 60_000, "perToolTimeoutMs": {"*": 60_000}}), |_| {}),
        (json!({"toolTimeoutMs": 6000}), |policy| {
            policy.per_tool_timeout = ["clerk", "form", "mine"].map(|name| (name.to_owned(), Millis(6000))).into();
        }),
        (json!({"planTimeoutMs": 999_999, "finalizerGraceMs": 999_999}), |_| {}),
        (json!({"restrictToTool": "form"}), |policy| policy.restrict_to_tool = Some("form".into())),
    ];
    for (asked, change) in cases {
        let mut expected = base.clone();
        change(&mut expected);
        let effective = apply(Base::Configured(&agent()), limits(asked.clone()), Trust::Bound).unwrap();
        assert_eq!(policy_of(&effective), expected, "{asked}");
    }
    let guards = |guards: Value| Overrides { guards: serde_json::from_value(guards).unwrap(), ..Overrides::default() };
    for off in [
        json!({"loopDetection": false}),
        json!({"toolBudgets": {}}),
        json!({"toolBudgets": {"notes.add": {"maxCalls": 9}}}),
    ] {
        let effective = apply(Base::Configured(&agent()), guards(off.clone()), Trust::Unbound).unwrap();
        assert_eq!(policy_of(&effective), base, "{off}");
    }
    let stricter =
        guards(json!({"loopDetection": {"consecutiveThreshold": 2}, "toolBudgets": {"notes.add": {"maxCalls": 1}}}));
    let policy = policy_of(&apply(Base::Configured(&agent()), stricter, Trust::Unbound).unwrap());
    assert_eq!((policy.loop_limits, policy.tool_budgets["notes.add"]), (Some(LoopLimits { soft: 2, hard: 6 }), 1));
}

#[test]
fn a_bound_key_uses_its_agents_and_no_other() {
    let (own, other) = (AgentId::new("conf"), AgentId::new("desk"));
    let bound = [own.clone()];
    let cases = [(None, Some(&other), true), (None, None, true), (Some(&bound[..]), Some(&own), true)];
    for (bound_to, agent, expected) in cases.into_iter().chain([
        (Some(&bound[..]), Some(&other), false),
        (Some(&bound[..]), None, false),
        (Some(&[][..]), Some(&own), false),
    ]) {
        assert_eq!(may_use(bound_to, agent), expected, "{bound_to:?} {agent:?}");
    }
}

const NAMES: [&str; 4] = ["notes.add", "form", "mine", "recall"];
const TAGS: [&str; 3] = ["read", "write", "danger"];

fn spec() -> impl Strategy<Value = ToolSpec> {
    let wait = Waiting::default();
    let source = select(vec![
        ToolSource::Builtin,
        ToolSource::External { wait },
        ToolSource::Client { tool: ClientTool::Local {}, read_only: false, wait },
    ]);
    (select(&NAMES[..]), source, collection::vec(select(&TAGS[..]), 0..2), option::of(1..9_u64), any::<bool>())
        .prop_map(|(name, source, tags, timeout, confirm)| {
            let mut spec = ToolSpec::new(ToolName::new(name), source);
            spec.tags = tags.into_iter().map(str::to_owned).collect();
            spec.timeout_ms = timeout.map(Millis);
            spec.confirmation = confirm.then(Default::default);
            spec
        })
}

fn words(words: &'static [&'static str]) -> impl Strategy<Value = Option<Vec<String>>> {
    option::of(collection::vec(select(words).prop_map(str::to_owned), 0..3))
}

fn policy() -> impl Strategy<Value = PolicyOverrides> {
    let count = || option::of(0..5_u32);
    let millis = || option::of((1..9_u64).prop_map(Millis));
    let patterns = vec!["notes.add", "notes.*", "*", "form"];
    let timeouts = collection::btree_map(select(patterns).prop_map(str::to_owned), (1..9_u64).prop_map(Millis), 0..3);
    let numbers = (count(), count(), count(), count(), millis(), millis(), millis(), millis());
    let budgets = (option::of((1..9_u64).prop_map(Cost::from_nanos)), option::of(1..9_u64));
    let names =
        (option::of(select(&NAMES[..])), words(&TAGS), words(&TAGS), option::of(timeouts), option::of(any::<bool>()));
    (numbers, names, budgets).prop_map(
        |(
            (per_turn, total, turns, failed, time, plan, tool, grace),
            (only, allowed, denied, per_tool, interrupts),
            (cost, tokens),
        )| {
            PolicyOverrides {
                per_turn_max_tool_calls: per_turn,
                restrict_to_tool: only.map(ToolName::new),
                allowed_tags: allowed,
                denied_tags: denied,
                max_tool_calls: total,
                max_tool_turns: turns,
                max_consecutive_failed_tool_calls: failed,
                max_cost_usd: cost,
                max_tokens: tokens,
                time_budget_ms: time,
                plan_timeout_ms: plan,
                tool_timeout_ms: tool,
                per_tool_timeout_ms: per_tool,
                finalizer_grace_ms: grace,
                interrupts_allowed: interrupts,
                extra: Default::default(),
            }
        },
    )
}

fn guards() -> impl Strategy<Value = GuardOverrides> {
    let thresholds = (option::of(2..8_u32), option::of(3..9_u32)).prop_map(|(soft, hard)| {
        LoopDetection::Thresholds(LoopThresholds { consecutive_threshold: soft, hard_cutoff_threshold: hard })
    });
    let loops = prop_oneof![Just(LoopDetection::Enabled(false)), thresholds];
    let budget = (0..9_u32).prop_map(|max_calls| ToolBudget { max_calls });
    let budgets = collection::btree_map(select(&NAMES[..]).prop_map(str::to_owned), budget, 0..3);
    (option::of(loops), option::of(budgets))
        .prop_map(|(loop_detection, tool_budgets)| GuardOverrides { loop_detection, tool_budgets })
}

fn overrides() -> impl Strategy<Value = Overrides> {
    let text = || option::of(select(vec!["a".to_owned(), "b".to_owned()]));
    let words = (text(), text(), collection::vec("[a-z]{0,2}", 0..2), text(), option::of(0..=100_u8));
    let limits = (collection::vec(spec(), 0..3), guards(), option::of(0..9_u32), option::of(policy()));
    (words, limits).prop_map(
        |((name, system_prompt, system, model, reasoning_level), (tools, guards, max_tool_turns, policy))| Overrides {
            toolsets: Vec::new(),
            name,
            system_prompt,
            system,
            model,
            fallback_model: None,
            reasoning_level,
            output_schema: None,
            tools,
            guards,
            max_tool_turns,
            policy,
        },
    )
}

fn any_agent() -> impl Strategy<Value = AgentDefinition> {
    (collection::vec(spec(), 0..4), policy(), guards(), option::of(0..=100_u8)).prop_map(
        |(mut tools, policy, guards, level)| {
            let mut seen = BTreeSet::new();
            tools.retain(|tool| seen.insert(tool.name.clone()));
            AgentDefinition { tools, policy, guards, reasoning_level: level, ..agent() }
        },
    )
}

/// Whether the second limit is at most the first; absent is unlimited.
fn within<T: PartialOrd + Copy>(own: Option<T>, effective: Option<T>) -> bool {
    own.is_none_or(|own| effective.is_some_and(|effective| effective <= own))
}

proptest! {
    #[test]
    fn no_override_widens(agent in any_agent(), over in overrides(), bound in any::<bool>()) {
        let trust = if bound { Trust::Bound } else { Trust::Unbound };
        let Ok(effective) = apply(Base::Configured(&agent), over, trust) else { return Ok(()) };
        let definition = &effective.definition;
        let (own, now) = (Policy::resolve(
            &AgentPolicy { policy: agent.policy.clone(), guards: agent.guards.clone() }, None, None, None,
        ), policy_of(&effective));

        // Its tools and its sub-agents stand as they are; what was added is the caller's to execute.
        prop_assert_eq!(&definition.agents, &agent.agents);
        prop_assert_eq!(&definition.tools[..agent.tools.len()], &agent.tools[..]);
        prop_assert!(definition.tools[agent.tools.len()..].iter().all(|tool| tool.source.client().is_some()));
        prop_assert_eq!(&definition.id, &agent.id);
        prop_assert!(definition.system_prompt.starts_with(&agent.system_prompt));
        if bound {
            prop_assert_eq!((&definition.model, &definition.system_prompt), (&agent.model, &agent.system_prompt));
            prop_assert!(definition.reasoning_level.unwrap_or(0) <= agent.reasoning_level.unwrap_or(0));
        }

        prop_assert!(within(own.per_turn_max_tool_calls, now.per_turn_max_tool_calls));
        prop_assert!(within(own.max_tool_calls, now.max_tool_calls));
        prop_assert!(within(own.max_tool_turns, now.max_tool_turns));
        prop_assert!(within(own.max_cost, now.max_cost));
        prop_assert!(within(own.max_tokens, now.max_tokens));
        prop_assert!(within(own.max_consecutive_failed_tool_calls, now.max_consecutive_failed_tool_calls));
        prop_assert!(within(own.time_budget, now.time_budget));
        prop_assert!(now.plan_timeout <= own.plan_timeout && now.finalizer_grace <= own.finalizer_grace);
        prop_assert!(own.interrupts_allowed || !now.interrupts_allowed);
        prop_assert!(within(own.loop_limits.map(|limits| limits.soft), now.loop_limits.map(|limits| limits.soft)));
        prop_assert!(within(own.loop_limits.map(|limits| limits.hard), now.loop_limits.map(|limits| limits.hard)));
        for (tool, max) in &own.tool_budgets {
            prop_assert!(now.tool_budgets.get(tool).is_some_and(|now| now <= max), "{}", tool);
        }
        for (name, tool) in ToolTable::of(definition).unwrap().iter() {
            prop_assert!(own.allows(name, tool).is_ok() || now.allows(name, tool).is_err(), "{}", name);
            prop_assert!(now.tool_timeout(name, tool) <= own.tool_timeout(name, tool), "{}", name);
        }
    }
}
