//! What the check refuses, and where it says so.

use serde_json::{Value, json};

use crate::approval::{ApprovalRule, check_rules};

fn problems(rules: Value) -> Vec<String> {
    let rules: Vec<ApprovalRule> = serde_json::from_value(rules).unwrap();
    check_rules(&rules, "/approvals").iter().map(ToString::to_string).collect()
}

#[test]
fn a_rule_that_has_all_it_may_have_is_fine() {
    let when: Vec<Value> = [
        json!({"at": "", "op": "==", "value": {}}),
        json!({"at": "/a~1b/~0", "op": "!=", "value": 1}),
        json!({"at": "/a", "op": "==", "value": null}),
        json!({"at": "/a", "op": "<", "value": 0.5}),
        json!({"at": "/a", "op": "in", "value": [null]}),
        json!({"at": "/a", "op": "not in", "value": ["x"]}),
        json!({"at": "/a", "op": "matches", "value": ""}),
        json!({"at": "/a", "op": "exists"}),
        json!({"at": "/a", "op": "absent"}),
    ]
    .into();
    let rule = json!({
        "name": "n", "tool": "*", "tags": ["a"], "source": "a2a", "readOnly": true, "when": when, "caller": "*",
        "costAtLeast": 0, "outcome": "ask", "roles": ["r"], "expiresInMs": 1, "onExpiry": "deny", "fourEyes": true,
        "edit": true, "title": "t", "prompt": "{p}",
    });
    assert_eq!(problems(json!([rule, {"outcome": "deny"}, {"outcome": "allow", "tool": "fs.*_file"}])), [""; 0]);
}

#[test]
fn each_problem_names_its_place_and_what_to_write() {
    let test = |test: Value| json!({"outcome": "deny", "when": [test]});
    let cases = [
        (
            json!({"outcome": "deny", "tool": ""}),
            "/tool: this matches no tool; write a name, or leave it out for every tool",
        ),
        (
            json!({"outcome": "deny", "tool": "fs.[ab]*"}),
            "/tool: \"fs.[ab]*\" matches no tool; write at most 128 characters of A-Z a-z 0-9 . _ - / : @ and * for any text",
        ),
        (json!({"outcome": "deny", "tags": [" "]}), "/tags/0: a tag is never empty; write a word or remove it"),
        (
            json!({"outcome": "deny", "source": "htp"}),
            "/source: there are no tools of kind \"htp\"; did you mean \"http\"?",
        ),
        (
            json!({"outcome": "deny", "source": "carrier pigeon"}),
            "/source: there are no tools of kind \"carrier pigeon\"; write one of builtin, agent, external, http, mcp, \
             a2a, temporal",
        ),
        (
            json!({"outcome": "deny", "caller": ""}),
            "/caller: this matches no starter; write an id, or \"*\" for every starter",
        ),
        (
            test(json!({"at": "amount", "op": "exists"})),
            "/when/0/at: \"amount\" is not a JSON pointer; begin it with /, for example \"/amount\"",
        ),
        (
            test(json!({"at": "/a~2", "op": "exists"})),
            "/when/0/at: in a JSON pointer ~ is written ~0, and / inside a name is written ~1",
        ),
        (
            test(json!({"at": "/a~", "op": "exists"})),
            "/when/0/at: in a JSON pointer ~ is written ~0, and / inside a name is written ~1",
        ),
        (
            test(json!({"at": "/a", "op": "=~", "value": 1})),
            "/when/0/op: \"=~\" is no test; write one of \"==\", \"!=\", \"<\", \"<=\", \">\", \">=\", \"in\", \"not in\", \
             \"matches\", \"exists\", \"absent\"",
        ),
        (test(json!({"at": "/a", "op": "=="})), "/when/0: == compares with a value; add the field value"),
        (test(json!({"at": "/a", "op": "exists", "value": true})), "/when/0/value: exists takes no value; remove this"),
        (test(json!({"at": "/a", "op": "absent", "value": null})), "/when/0/value: absent takes no value; remove this"),
        (
            test(json!({"at": "/a", "op": "in", "value": "x"})),
            "/when/0/value: in compares with a list with at least one value",
        ),
        (
            test(json!({"at": "/a", "op": "not in", "value": []})),
            "/when/0/value: not in compares with a list with at least one value",
        ),
        (test(json!({"at": "/a", "op": ">=", "value": "5"})), "/when/0/value: >= compares with a number"),
        (
            test(json!({"at": "/a", "op": "matches", "value": 5})),
            "/when/0/value: matches compares with text, in which * stands for any text",
        ),
        (
            test(json!({"at": "/a", "op": "!=", "value": null})),
            "/when/0/value: != compares with a value other than null, or it never holds",
        ),
        (
            test(json!({"at": "/a", "op": "==", "value": "x".repeat(1023)})),
            "/when/0/value: this is 1025 bytes of JSON; write at most 1024",
        ),
        (
            json!({"outcome": "ask", "onExpiry": "fail"}),
            "/onExpiry: this never expires; say when with expires_in, or remove this",
        ),
        (json!({"outcome": "ask", "expiresInMs": 0}), "/expiresInMs: this must be longer than zero"),
        (json!({"outcome": "ask", "roles": [""]}), "/roles/0: a role is never empty; write its name or remove it"),
        (json!({"outcome": "ask", "roles": vec!["r"; 33]}), "/roles: 33 roles are too many; keep at most 32"),
        (json!({"outcome": "ask", "name": "n".repeat(257)}), "/name: this has 257 characters; write at most 256"),
    ];
    for (rule, expected) in cases {
        assert_eq!(problems(json!([{"outcome": "ask"}, rule])), [format!("/approvals/1{expected}")], "{rule}");
    }
}

#[test]
fn only_an_ask_has_the_terms_of_a_question() {
    let fields = [
        ("roles", json!(["r"])),
        ("expiresInMs", json!(5)),
        ("onExpiry", json!("deny")),
        ("fourEyes", json!(true)),
        ("edit", json!(true)),
        ("title", json!("t")),
        ("prompt", json!("p")),
    ];
    for outcome in ["allow", "deny"] {
        for (field, value) in &fields {
            let message = "only a rule with the outcome ask has this; remove it or set the outcome to \"ask\"";
            let expected = format!("/approvals/0/{field}: {message}");
            assert_eq!(problems(json!([{"outcome": outcome, *field: value}])), [expected]);
        }
    }
}

#[test]
fn there_are_at_most_64_rules_and_16_tests() {
    let test = json!({"at": "/a", "op": "exists"});
    let rules = |count: usize| Value::from(vec![json!({"outcome": "deny"}); count]);
    let tests = |count: usize| json!([{"outcome": "deny", "when": vec![test.clone(); count]}]);
    assert_eq!((problems(rules(64)), problems(tests(16))), (vec![], vec![]));
    assert_eq!(problems(rules(65)), ["/approvals: 65 rules are too many; keep at most 64"]);
    assert_eq!(problems(tests(17)), ["/approvals/0/when: 17 tests are too many; keep at most 16"]);
}
