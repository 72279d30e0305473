//! The terms of a question when several rules ask.

use serde_json::{Value, json};

use super::{Actor, call, has_role, layers};

#[test]
fn restrictions_of_asks_add_up() {
    // What the workspace and the agent ask, and how the person is asked.
    let cases = [
        (json!({}), json!({}), json!({})),
        (json!({"roles": ["a", "b"]}), json!({}), json!({"roles": ["a", "b"]})),
        (json!({}), json!({"roles": ["a"]}), json!({"roles": ["a"]})),
        (json!({"roles": ["a", "b", "c"]}), json!({"roles": ["c", "x", "a"]}), json!({"roles": ["a", "c"]})),
        (json!({"fourEyes": true}), json!({}), json!({"fourEyes": true})),
        (json!({}), json!({"fourEyes": true}), json!({"fourEyes": true})),
        (json!({"edit": true}), json!({}), json!({})),
        (json!({"edit": true}), json!({"edit": true}), json!({"edit": true})),
        (
            json!({"expiresInMs": 9, "onExpiry": "fail"}),
            json!({"expiresInMs": 5, "onExpiry": "replan"}),
            json!({"expiresInMs": 5, "onExpiry": "replan"}),
        ),
        (json!({"expiresInMs": 9, "onExpiry": "fail"}), json!({"expiresInMs": 5}), json!({"expiresInMs": 5})),
        (
            json!({"expiresInMs": 5, "onExpiry": "fail"}),
            json!({"expiresInMs": 5, "onExpiry": "deny"}),
            json!({"expiresInMs": 5, "onExpiry": "fail"}),
        ),
        (json!({}), json!({"expiresInMs": 5, "onExpiry": "deny"}), json!({"expiresInMs": 5, "onExpiry": "deny"})),
        (json!({"expiresInMs": 5}), json!({}), json!({"expiresInMs": 5})),
        (
            json!({"title": "Pay?"}),
            json!({"title": "Nothing", "prompt": "To {to}"}),
            json!({"title": "Pay?", "prompt": "To {to}"}),
        ),
    ];
    for (workspace, agent, expected) in cases {
        let rule = |terms: &Value| {
            let mut rule = terms.clone();
            rule["outcome"] = json!("ask");
            rule
        };
        for agent_layer in ["agent", "agent!"] {
            let layers = layers(json!({"workspace": [rule(&workspace)], agent_layer: [rule(&agent)]}));
            let terms = call(json!({})).decide(&layers, &[]).ask;
            assert_eq!(serde_json::to_value(terms).unwrap(), expected, "{workspace} {agent}");
        }
    }
}

#[test]
fn the_terms_of_the_tool_s_confirmation_are_the_first() {
    let confirmation =
        json!({"title": "Pay?", "prompt": "To {to}", "expiresInMs": 9, "onExpiry": "fail", "fourEyes": true});
    let asked = call(json!({"confirmation": confirmation}));
    assert_eq!(serde_json::to_value(asked.decide(&[], &[]).ask).unwrap(), confirmation);
    let stricter = layers(json!({"run": [{"outcome": "ask", "roles": ["a"], "expiresInMs": 5, "edit": true}]}));
    let expected = json!({"title": "Pay?", "prompt": "To {to}", "expiresInMs": 5, "fourEyes": true, "roles": ["a"]});
    assert_eq!(serde_json::to_value(asked.decide(&stricter, &[]).ask).unwrap(), expected);
}

#[test]
fn an_actor_with_one_of_the_roles_may_answer() {
    let roles = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let cases: [(&[&str], &[&str], bool); 5] = [
        (&[], &[], true),
        (&[], &["a"], true),
        (&["a", "b"], &["b"], true),
        (&["a"], &["b"], false),
        (&["a"], &[], false),
    ];
    for (wanted, has, expected) in cases {
        let actor = Actor { roles: roles(has), ..Actor::from("key-1") };
        assert_eq!(has_role(&roles(wanted), &actor), expected, "{wanted:?} {has:?}");
    }
}
