//! What is stored: the JSON of rules, decisions and grants, and what survives of a newer build.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{ApprovalDecision, ApprovalLayer, Explanation, Grant, NOW, call, explain, layers};

fn assert_survives<T: Serialize + DeserializeOwned>(stored: Value) {
    let read: T = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), stored);
}

#[test]
fn a_layer_survives_a_round_trip_with_the_fields_of_a_newer_build() {
    assert_survives::<ApprovalLayer>(json!({"layer": "run"}));
    assert_survives::<ApprovalLayer>(json!({
        "layer": "workspace",
        "mayRelax": true,
        "rules": [
            {"outcome": "allow"},
            {
                "name": "n", "tool": "t*", "tags": ["a"], "source": "mcp", "readOnly": false, "caller": "c",
                "costAtLeast": 1.5, "outcome": "ask", "roles": ["r"], "expiresInMs": 5, "onExpiry": "fail",
                "fourEyes": true, "edit": true, "title": "t", "prompt": "p", "newer": {"a": [1]},
                "when": [{"at": "/a", "op": "in", "value": [1, null]}, {"at": "", "op": "newer"}],
            },
        ],
    }));
}

#[test]
fn a_grant_survives_a_round_trip_with_the_fields_of_a_newer_build() {
    let grant = |scope: Value, shape: Value| json!({"id": "g", "scope": scope, "tool": "t", "shape": shape, "grantedBy": "ann", "grantedAt": 1, "newer": 1});
    assert_survives::<Grant>(grant(json!({"kind": "run", "id": "r"}), json!({"kind": "any_arguments"})));
    let values = json!({"kind": "same_values", "values": {"/a": null}});
    assert_survives::<Grant>(grant(json!({"kind": "session", "id": "s"}), values));
    let mut whole =
        grant(json!({"kind": "agent", "id": "a"}), json!({"kind": "same_arguments", "digest": "0".repeat(64)}));
    whole["expiresAt"] = json!(9);
    whole["revoked"] = json!(true);
    assert_survives::<Grant>(whole);
}

#[test]
fn a_decision_is_small_and_survives_a_round_trip() {
    let rules = json!([{"name": "money", "outcome": "ask", "roles": ["finance"], "fourEyes": true}]);
    let decided = call(json!({})).decide(&layers(json!({"agent": rules})), &[]);
    let stored = json!({
        "outcome": "ask",
        "reason": {"kind": "rule", "layer": "agent", "index": 0, "name": "money"},
        "ask": {"roles": ["finance"], "fourEyes": true},
    });
    assert_eq!(serde_json::to_value(&decided).unwrap(), stored);
    assert_survives::<ApprovalDecision>(stored);
    let newer = json!({"outcome": "allow", "reason": {"kind": "default"}, "newer": true});
    assert_eq!(serde_json::from_value::<ApprovalDecision>(newer).unwrap(), call(json!({})).decide(&[], &[]));
}

#[test]
fn an_explanation_reads_the_same_after_a_round_trip() {
    let rules = layers(
        json!({"agent!": [{"outcome": "allow", "tool": "x"}, {"outcome": "ask"}], "run": [{"outcome": "allow"}]}),
    );
    let explanation = explain(&call(json!({"confirmation": {}})).facts(), &rules, &[], NOW);
    let read: Explanation = serde_json::from_value(serde_json::to_value(&explanation).unwrap()).unwrap();
    assert_eq!((&read, read.to_string()), (&explanation, explanation.to_string()));
}
