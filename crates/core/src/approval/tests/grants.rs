//! When a grant answers a question.

use serde_json::{Value, json};

use super::{Digest, Grant, NOW, call, layers};

/// A grant for all refunds of the run, with what differs.
fn grant(differs: Value) -> Grant {
    let mut grant = json!({
        "id": "grant-1", "scope": {"kind": "run", "id": "run-1"}, "tool": "refund", "shape": {"kind": "any_arguments"},
        "grantedBy": "key-2", "grantedAt": 5,
    });
    let Value::Object(differs) = differs else { panic!("{differs}") };
    differs.into_iter().for_each(|(field, value)| grant[field] = value);
    serde_json::from_value(grant).unwrap()
}

#[test]
fn a_grant_answers_a_question_in_its_scope_and_shape() {
    let digest = Digest::of_json(&json!({"amount": 120, "to": "ann@example.com"}));
    let values = |values: Value| json!({"shape": {"kind": "same_values", "values": values}});
    let ask = json!({"agent": [{"outcome": "ask"}]});
    let four_eyes = json!({"agent": [{"outcome": "ask", "fourEyes": true}]});
    let finance = json!({"agent": [{"outcome": "ask", "roles": ["finance", "board"]}]});
    // Layers, what differs in the call, what differs in the grant, why the grant does not apply.
    let rows = [
        (&ask, json!({}), json!({}), None),
        (&ask, json!({"run": "run-2"}), json!({}), Some("it is for the run run-1")),
        (&ask, json!({}), json!({"scope": {"kind": "session", "id": "session-1"}}), None),
        (
            &ask,
            json!({"session": "s"}),
            json!({"scope": {"kind": "session", "id": "t"}}),
            Some("it is for the session t"),
        ),
        (
            &ask,
            json!({"session": null}),
            json!({"scope": {"kind": "session", "id": ""}}),
            Some("it is for the session "),
        ),
        (&ask, json!({}), json!({"scope": {"kind": "agent", "id": "support"}}), None),
        (&ask, json!({}), json!({"scope": {"kind": "agent", "id": "run-1"}}), Some("it is for the agent run-1")),
        (&ask, json!({}), json!({"scope": {"kind": "planet", "id": "x"}}), Some("this build does not know its scope")),
        (&ask, json!({}), json!({"tool": "refunds"}), Some("it is for the tool refunds")),
        (&ask, json!({}), json!({"tool": "*"}), Some("it is for the tool *")),
        (&ask, json!({}), json!({"expiresAt": NOW.0 + 1}), None),
        (&ask, json!({}), json!({"expiresAt": NOW.0}), Some("it expired at 1970-01-01T00:16:40Z")),
        (&ask, json!({}), json!({"revoked": true}), Some("it was revoked")),
        (&ask, json!({}), json!({"roles": 1}), Some("it has the field \"roles\", which this build does not know")),
        (&ask, json!({}), json!({"shape": {"kind": "same_arguments", "digest": digest}}), None),
        (&ask, json!({"unseen": true}), json!({"shape": {"kind": "same_arguments", "digest": digest}}), None),
        (
            &ask,
            json!({"args": {"amount": 121, "to": "ann@example.com"}}),
            json!({"shape": {"kind": "same_arguments", "digest": digest}}),
            Some("it is for other arguments"),
        ),
        (&ask, json!({}), values(json!({"/amount": 120.0})), None),
        (&ask, json!({}), values(json!({"/amount": 120, "/to": "bob"})), Some("it is for another value at \"/to\"")),
        (&ask, json!({}), values(json!({"/missing": null})), Some("it is for another value at \"/missing\"")),
        (&ask, json!({}), values(json!({})), Some("it does not say which arguments")),
        (
            &ask,
            json!({"unseen": true}),
            values(json!({"/amount": 120})),
            Some("the arguments are too large to look into"),
        ),
        (
            &ask,
            json!({}),
            json!({"shape": {"kind": "similar"}}),
            Some("this build does not know which arguments it is for"),
        ),
        (&four_eyes, json!({}), json!({}), None),
        (
            &four_eyes,
            json!({}),
            json!({"grantedBy": {"id": "key-1", "claimed": "Bob"}}),
            Some("the call takes a second person, and the starter of the run gave it"),
        ),
        (
            &four_eyes,
            json!({"starter": null}),
            json!({}),
            Some("the call takes a second person, and the run does not say who started it"),
        ),
        (&ask, json!({}), json!({"grantedBy": "key-1"}), None),
        (&finance, json!({}), json!({"grantedBy": {"id": "key-2", "roles": ["desk", "finance"]}}), None),
        (&finance, json!({}), json!({}), Some("its giver has none of the roles finance, board")),
        (
            &ask,
            json!({"configured": false}),
            json!({"scope": {"kind": "agent", "id": "support"}}),
            Some("it is for the configured tools of the agent support, and this is not one of them"),
        ),
        (&ask, json!({"configured": false}), json!({}), None),
    ];
    for (rules, of_call, of_grant, expected) in &rows {
        let (call, grant) = (call(of_call.clone()), grant(of_grant.clone()));
        let explanation = super::explain(&call.facts(), &layers((*rules).clone()), &[grant], NOW);
        assert_eq!(explanation.grants[0].unmet.as_deref(), *expected, "{of_call} {of_grant}");
        let shown = format!("{}, {}", explanation.decision.outcome, explanation.decision.reason);
        let outcome = if expected.is_none() { "allow, by grant grant-1" } else { "ask, by rule 0 of the agent layer" };
        assert_eq!(shown, outcome, "{of_call} {of_grant}");
    }
    println!("grant table: {} rows", rows.len());
}

#[test]
fn a_grant_answers_the_tool_s_own_confirmation_and_the_first_that_applies_is_named() {
    let asked = call(json!({"confirmation": {}}));
    let grants = [grant(json!({"revoked": true})), grant(json!({"id": "second"})), grant(json!({"id": "third"}))];
    assert_eq!(
        serde_json::to_value(asked.decide(&[], &grants)).unwrap(),
        json!({"outcome": "allow", "reason": {"kind": "grant", "id": "second"}})
    );
}

#[test]
fn a_grant_has_no_effect_on_a_deny_and_on_an_allow() {
    for outcome in ["deny", "allow"] {
        let rules = layers(json!({"agent": [{"outcome": outcome}]}));
        let without = call(json!({})).decide(&rules, &[]);
        assert_eq!(call(json!({})).decide(&rules, &[grant(json!({}))]), without);
    }
}

/// Rules of a run, and who set them.
fn own(outcome: &str, set_by: Value, may_relax: bool) -> super::ApprovalLayer {
    let own = json!({"rules": [{"outcome": outcome}], "setBy": set_by, "setAt": 5, "mayRelax": may_relax});
    serde_json::from_value::<super::OwnRules>(own).unwrap().layer(super::Layer::Run)
}

#[test]
fn the_rules_of_a_run_relax_what_their_actor_could_have_approved() {
    let ask = json!({"outcome": "ask"});
    let four_eyes = json!({"outcome": "ask", "fourEyes": true});
    let finance = json!({"outcome": "ask", "roles": ["finance"]});
    let cases = [
        (&ask, json!("key-2"), true, "allow"),
        (&ask, json!("key-2"), false, "ask"),
        (&ask, json!("key-1"), true, "allow"),
        (&four_eyes, json!("key-2"), true, "allow"),
        (&four_eyes, json!("key-1"), true, "ask"),
        (&finance, json!({"id": "key-2", "roles": ["finance"]}), true, "allow"),
        (&finance, json!({"id": "key-2", "roles": ["desk"]}), true, "ask"),
    ];
    for (rule, set_by, may_relax, expected) in cases {
        let mut layers = layers(json!({"agent": [rule]}));
        layers.push(own("allow", set_by.clone(), may_relax));
        let decision = call(json!({})).decide(&layers, &[]);
        assert_eq!(decision.outcome.to_string(), expected, "{rule} {set_by} {may_relax}");
        layers.push(own("deny", set_by, false));
        assert_eq!(call(json!({})).decide(&layers, &[]).outcome.to_string(), "deny");
    }
}

#[test]
fn a_tool_is_configured_if_the_operators_agent_has_it_or_its_server() {
    let agent = |json: Value| serde_json::from_value::<crate::agent::AgentDefinition>(json).unwrap();
    let server = |url: &str, resolved: bool| {
        let mut toolset = json!({"name": "crm", "mcp": {"url": url}});
        if resolved {
            toolset["resolved"] = json!({"server": "crm", "version": "1"});
        }
        toolset
    };
    let operators = agent(json!({
        "id": "desk", "model": "m", "toolsets": [server("https://crm", false)],
        "tools": [{"name": "echo"}, {"name": "call", "kind": "http", "http": {"url": "https://crm"}}],
    }));
    let run = agent(json!({
        "id": "desk", "model": "other", "toolsets": [server("https://crm", true)], "tools": [
            {"name": "echo", "tags": ["x"]}, {"name": "note"},
            {"name": "crm_find", "kind": "mcp", "mcp": {"toolset": "crm", "tool": "find"}},
            {"name": "hr_find", "kind": "mcp", "mcp": {"toolset": "hr", "tool": "find"}},
            {"name": "call", "kind": "http", "http": {"url": "https://crm"}, "timeoutMs": 1000},
        ],
    }));
    let configured = |operators, run: &crate::agent::AgentDefinition| {
        run.tools.iter().map(|tool| super::is_configured(operators, run, tool)).collect::<Vec<_>>()
    };
    assert_eq!(configured(&operators, &run), [true, false, true, false, true]);
    let moved = agent(json!({
        "id": "desk", "model": "m", "tools": [{"name": "call", "kind": "http", "http": {"url": "https://evil"}}],
        "toolsets": [server("https://evil", false)],
    }));
    assert_eq!(configured(&moved, &run), [false; 5]);
}
