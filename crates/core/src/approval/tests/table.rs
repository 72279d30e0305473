//! The decision table: rules and a call on the left, the outcome and its reason on the right.

use serde_json::{Value, json};

use super::{call, layers};

/// Layers, what differs from a refund of 120 by `key-1`, the outcome with its reason.
fn rows() -> Vec<(Value, Value, &'static str)> {
    vec![
        // No rule.
        (json!({}), json!({}), "allow, by default"),
        (json!({}), json!({"confirmation": {}}), "ask, by the tool's own confirmation"),
        (json!({"agent": []}), json!({}), "allow, by default"),
        // One rule and its conditions.
        (json!({"agent": [{"outcome": "deny"}]}), json!({}), "deny, by rule 0 of the agent layer"),
        (json!({"agent": [{"outcome": "ask", "name": "all"}]}), json!({}), "ask, by rule 0 \"all\" of the agent layer"),
        (json!({"agent": [{"outcome": "ask", "tool": "refund"}]}), json!({}), "ask, by rule 0 of the agent layer"),
        (json!({"agent": [{"outcome": "ask", "tool": "re*"}]}), json!({}), "ask, by rule 0 of the agent layer"),
        (json!({"agent": [{"outcome": "ask", "tool": "Refund"}]}), json!({}), "allow, by default"),
        (
            json!({"agent": [{"outcome": "ask", "tags": ["x", "money"]}]}),
            json!({}),
            "ask, by rule 0 of the agent layer",
        ),
        (json!({"agent": [{"outcome": "ask", "tags": ["x"]}]}), json!({}), "allow, by default"),
        (json!({"agent": [{"outcome": "ask", "source": "http"}]}), json!({}), "ask, by rule 0 of the agent layer"),
        (json!({"agent": [{"outcome": "ask", "source": "mcp"}]}), json!({}), "allow, by default"),
        (json!({"agent": [{"outcome": "ask", "readOnly": false}]}), json!({}), "ask, by rule 0 of the agent layer"),
        (
            json!({"agent": [{"outcome": "ask", "readOnly": false}]}),
            json!({"tags": ["read_only"]}),
            "allow, by default",
        ),
        (json!({"agent": [{"outcome": "ask", "readOnly": true}]}), json!({}), "allow, by default"),
        (json!({"agent": [{"outcome": "deny", "caller": "key-*"}]}), json!({}), "deny, by rule 0 of the agent layer"),
        (json!({"agent": [{"outcome": "deny", "caller": "ann"}]}), json!({}), "allow, by default"),
        (json!({"agent": [{"outcome": "deny", "caller": "*"}]}), json!({"starter": null}), "allow, by default"),
        (
            json!({"agent": [{"outcome": "ask", "costAtLeast": 0.5}]}),
            json!({"cost": 0.5}),
            "ask, by rule 0 of the agent layer",
        ),
        (json!({"agent": [{"outcome": "ask", "costAtLeast": 0.5}]}), json!({"cost": 0.49}), "allow, by default"),
        (
            json!({"agent": [{"outcome": "deny", "tool": "refund", "tags": ["money"], "source": "mcp"}]}),
            json!({}),
            "allow, by default",
        ),
        // Tests of arguments.
        (
            json!({"agent": [{"outcome": "deny", "when": [{"at": "/amount", "op": ">", "value": 100}]}]}),
            json!({}),
            "deny, by rule 0 of the agent layer",
        ),
        (
            json!({"agent": [{"outcome": "deny", "when": [
                {"at": "/amount", "op": ">", "value": 100}, {"at": "/to", "op": "matches", "value": "*@example.org"},
            ]}]}),
            json!({}),
            "allow, by default",
        ),
        (
            json!({"agent!": [{"outcome": "allow", "when": [{"at": "/amount", "op": "<=", "value": 150}]}]}),
            json!({"confirmation": {}}),
            "allow, by rule 0 of the agent layer",
        ),
        (
            json!({"agent!": [{"outcome": "allow", "when": [{"at": "/amount", "op": "<=", "value": 150}]}]}),
            json!({"confirmation": {}, "args": {"to": "ann"}}),
            "ask, by the tool's own confirmation",
        ),
        (
            json!({"agent!": [{"outcome": "allow", "when": [{"at": "/amount", "op": "!=", "value": 150}]}]}),
            json!({"confirmation": {}, "args": {"to": "ann"}}),
            "ask, by the tool's own confirmation",
        ),
        (
            json!({"agent!": [{"outcome": "allow", "when": [{"at": "/amount", "op": "<=", "value": 150}]}]}),
            json!({"confirmation": {}, "unseen": true}),
            "ask, by the tool's own confirmation",
        ),
        (
            json!({"agent!": [{"outcome": "allow", "when": [{"at": "/force", "op": "absent"}]}]}),
            json!({"confirmation": {}, "unseen": true}),
            "ask, by the tool's own confirmation",
        ),
        // Arguments that cannot be looked into are no way around a deny.
        (
            json!({"agent": [{"outcome": "deny", "when": [{"at": "/amount", "op": ">", "value": 100}]}]}),
            json!({"unseen": true}),
            "deny, by rule 0 of the agent layer",
        ),
        // The first rule that matches decides, but for a deny.
        (json!({"agent": [{"outcome": "allow"}, {"outcome": "ask"}]}), json!({}), "allow, by default"),
        (
            json!({"agent": [{"outcome": "ask", "tool": "x"}, {"outcome": "ask", "tool": "refund"}]}),
            json!({}),
            "ask, by rule 1 of the agent layer",
        ),
        (
            json!({"agent!": [{"outcome": "allow"}, {"outcome": "deny"}]}),
            json!({}),
            "deny, by rule 1 of the agent layer",
        ),
        (
            json!({"agent!": [{"outcome": "ask"}, {"outcome": "deny", "tool": "x"}, {"outcome": "deny"}]}),
            json!({}),
            "deny, by rule 2 of the agent layer",
        ),
        // Layers.
        (
            json!({"workspace": [{"outcome": "deny"}], "run!": [{"outcome": "allow"}]}),
            json!({}),
            "deny, by rule 0 of the workspace layer",
        ),
        (
            json!({"run": [{"outcome": "deny"}], "workspace!": [{"outcome": "allow"}]}),
            json!({}),
            "deny, by rule 0 of the run layer",
        ),
        (
            json!({"workspace": [{"outcome": "ask"}], "agent": [{"outcome": "allow"}]}),
            json!({}),
            "ask, by rule 0 of the workspace layer",
        ),
        (
            json!({"workspace": [{"outcome": "ask"}], "agent!": [{"outcome": "allow"}]}),
            json!({}),
            "allow, by rule 0 of the agent layer",
        ),
        (
            json!({"workspace": [{"outcome": "ask"}], "agent!": [{"outcome": "allow"}], "session": [{"outcome": "ask"}]}),
            json!({}),
            "ask, by rule 0 of the session layer",
        ),
        (
            json!({"run": [{"outcome": "ask"}], "agent!": [{"outcome": "allow"}]}),
            json!({"confirmation": {}}),
            "ask, by rule 0 of the run layer",
        ),
        (
            json!({"session": [{"outcome": "allow"}]}),
            json!({"confirmation": {}}),
            "ask, by the tool's own confirmation",
        ),
        (
            json!({"workspace": [{"outcome": "ask"}], "run": [{"outcome": "ask"}]}),
            json!({}),
            "ask, by rule 0 of the workspace layer",
        ),
        (
            json!({"workspace": [{"outcome": "ask", "roles": ["a"]}], "agent!": [{"outcome": "ask", "roles": ["b"]}]}),
            json!({}),
            "deny, because rule 0 of the agent layer leaves no role that may answer",
        ),
        (
            json!({
                "workspace": [{"outcome": "ask", "roles": ["a"]}],
                "agent": [{"outcome": "ask", "roles": ["b"]}],
                "run!": [{"outcome": "allow"}],
            }),
            json!({}),
            "deny, because rule 0 of the agent layer leaves no role that may answer",
        ),
        // Parts of a newer build.
        (
            json!({"agent!": [{"outcome": "allow", "weekday": "mon"}]}),
            json!({"confirmation": {}}),
            "ask, by the tool's own confirmation",
        ),
        (json!({"agent": [{"outcome": "deny", "weekday": "mon"}]}), json!({}), "deny, by rule 0 of the agent layer"),
        (
            json!({"agent!": [{"outcome": "allow", "when": [{"at": "/to", "op": "regex", "value": ".*"}]}]}),
            json!({"confirmation": {}}),
            "ask, by the tool's own confirmation",
        ),
        (
            json!({"agent": [{"outcome": "deny", "when": [{"at": "/to", "op": "regex", "value": ".*"}]}]}),
            json!({}),
            "deny, by rule 0 of the agent layer",
        ),
    ]
}

#[test]
fn rules_and_a_call_give_one_outcome_with_one_reason() {
    let rows = rows();
    for (rules, differs, expected) in &rows {
        let decision = call(differs.clone()).decide(&layers(rules.clone()), &[]);
        let shown = format!("{}, {}", decision.outcome, decision.reason);
        assert_eq!(shown, *expected, "{rules} {differs}");
    }
    println!("decision table: {} rows", rows.len());
}
