//! Rules in files: what they mean, and that nothing of a rule is out of a file's reach.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    approval::{APPROVAL_RULE, ApprovalOutcome, ApprovalRule, ArgumentTest, AskTerms},
    awaits::ExpiryOutcome,
    cost::Cost,
    envelope::Extra,
    file::{FileError, Record, Shape, Syntax, optional, parse_json, parse_toml, read},
    time::Millis,
};

/// A file with a list of rules, as agent files and the config have one.
static FILE: Record = Record(&[optional("approvals", Shape::List(&Shape::Record(&APPROVAL_RULE)))]);

pub(super) fn rules_in(syntax: Syntax, text: &str) -> Result<Vec<ApprovalRule>, String> {
    let tree = match syntax {
        Syntax::Toml => parse_toml(text),
        Syntax::Json => parse_json(text),
    };
    let reading = read(&FILE, &tree.unwrap(), syntax);
    if !reading.faults.is_empty() {
        return Err(FileError::new("f", text, reading.faults).to_string());
    }
    Ok(serde_json::from_value(reading.value["approvals"].clone()).unwrap())
}

/// Every field, spelt out so that a new field does not compile until it is here.
fn full() -> ApprovalRule {
    ApprovalRule {
        name: Some("large refunds".to_owned()),
        tool: Some("refund*".to_owned()),
        tags: vec!["money".to_owned()],
        source: Some("http".to_owned()),
        read_only: Some(false),
        when: vec![ArgumentTest { at: "/amount".to_owned(), op: ">".to_owned().into(), value: Some(json!(50)) }],
        caller: Some("key-*".to_owned()),
        cost_at_least: Cost::from_usd(1.5),
        outcome: ApprovalOutcome::Ask,
        terms: AskTerms {
            roles: vec!["finance".to_owned()],
            expires_in_ms: Some(Millis::from_secs(2 * 86_400)),
            on_expiry: Some(ExpiryOutcome::Fail),
            four_eyes: true,
            edit: true,
            title: Some("Refund".to_owned()),
            prompt: Some("Refund {amount}?".to_owned()),
        },
        extra: Extra::new(),
    }
}

#[test]
fn a_file_says_all_a_rule_can() {
    let toml = r#"
        [[approvals]]
        name = "large refunds"
        tool = "refund*"
        tags = ["money"]
        source = "http"
        read_only = false
        when = [{ at = "/amount", op = ">", value = 50 }]
        caller = "key-*"
        cost_at_least = 1.5
        outcome = "ask"
        roles = ["finance"]
        expires_in = "2d"
        on_expiry = "fail"
        four_eyes = true
        edit = true
        title = "Refund"
        prompt = "Refund {amount}?"
    "#;
    assert_eq!(rules_in(Syntax::Toml, toml).unwrap(), [full()]);
    let json = json!({"approvals": [full()]}).to_string();
    assert_eq!(rules_in(Syntax::Json, &json).unwrap(), [full()]);
}

#[test]
fn the_known_fields_are_those_of_the_types() {
    let filled = |record: &Record| record.0.iter().map(|field| field.fills.to_owned()).collect::<BTreeSet<_>>();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let rule = serde_json::to_value(full()).unwrap();
    assert_eq!(filled(&APPROVAL_RULE), keys(&rule));
    let when = APPROVAL_RULE.0.iter().find(|field| field.key == "when").unwrap();
    let Shape::List(Shape::Record(test)) = when.shape else { panic!("{when:?}") };
    assert_eq!(filled(test), keys(&rule["when"][0]));
}

#[test]
fn a_mistake_in_a_file_is_named_with_its_line() {
    let text = "[[approvals]]\noutcom = \"ask\"\nwhen = [{ at = \"/a\", op = \"=\" }]\nexpires_in = \"soon\"\n";
    let expected = "\
f:1:1: approvals[0]: the field outcome is missing; add it, for example outcome = \"ask\"
f:2:1: approvals[0].outcom: unknown field; did you mean outcome?
f:3:27: approvals[0].when[0].op: \"=\" is not known here; write one of \"==\", \"!=\", \"<\", \"<=\", \">\", \">=\", \"in\", \"not in\", \"matches\", \"exists\", \"absent\"
f:4:14: approvals[0].expires_in: \"soon\" is not a duration; write it like \"30s\" or \"10m\"";
    assert_eq!(rules_in(Syntax::Toml, text).unwrap_err(), expected);
}
