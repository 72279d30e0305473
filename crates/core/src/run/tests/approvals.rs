//! What approval rules do to calls, and approvals with other arguments.

use serde_json::{Value, json};

use super::bench::{Bench, bench, results};
use crate::{
    approval::{ApprovalDecision, ApprovalOutcome, AskTerms, DecisionReason, Layer, RuleRef},
    body::Body,
    envelope::{AnswerBody, AnswerStatus, OutboxMessage, ToolRequest},
    message::Message,
    run::{Order, Step},
};

fn decided(outcome: ApprovalOutcome, ask: Option<AskTerms>) -> Option<Box<ApprovalDecision>> {
    let rule = RuleRef { layer: Layer::Agent, index: 0, name: Some("the rule".to_owned()) };
    Some(Box::new(ApprovalDecision { outcome, reason: DecisionReason::Rule(rule), ask }))
}

/// A run whose model calls one tool, with the decision of the rules.
fn calls(tool: &str, args: Value, approval: Option<Box<ApprovalDecision>>) -> Bench {
    let mut bench = bench(json!({}), json!({}));
    bench.begin();
    let mut request = ToolRequest::new("call-0-0".into(), tool.into(), &Body::Inline(args.into()));
    request.approval = approval;
    bench.calls(vec![request]);
    bench
}

#[test]
fn a_rule_decides_before_the_tools_own_confirmation() {
    let mut allowed = calls("pay", json!({"n": 1}), decided(ApprovalOutcome::Allow, None));
    assert_eq!(allowed.step(), Step::Dispatch, "pay has a confirmation, and a rule relaxes it");
    assert!(allowed.log().iter().any(|line| line.contains("approval_decided")), "{:?}", allowed.log());

    let mut denied = calls("read", json!({}), decided(ApprovalOutcome::Deny, None));
    let next = denied.begin().input;
    assert_eq!(results(&next), ["call-0-0 refused policy_denied"]);

    let terms = AskTerms { title: Some("Really?".to_owned()), ..AskTerms::default() };
    let mut asked = calls("read", json!({}), decided(ApprovalOutcome::Ask, Some(terms)));
    assert_eq!(asked.step(), Step::Wait);
    let item = &asked.run.state().awaits.pending()[0];
    assert_eq!((item.title.as_deref(), item.edit), (Some("Really?"), false));
}

#[test]
fn other_arguments_are_approved_only_where_the_rule_allows_it() {
    let edited = |bench: &Bench, arguments: Value| AnswerBody::EditedApproval {
        digest: bench.run.state().awaits.pending()[0].calls[0].digest,
        arguments: arguments.into(),
        reason: None,
    };
    let mut fixed = calls("read", json!({"n": 1}), decided(ApprovalOutcome::Ask, Some(AskTerms::default())));
    let body = edited(&fixed, json!({"n": 2}));
    assert_eq!(fixed.answer("await-1", body), AnswerStatus::Invalid);

    let terms = AskTerms { edit: true, ..AskTerms::default() };
    let mut open = calls("read", json!({"n": 1}), decided(ApprovalOutcome::Ask, Some(terms)));
    let not_an_object = edited(&open, json!([2]));
    assert_eq!(open.answer("await-1", not_an_object), AnswerStatus::Invalid);
    let body = edited(&open, json!({"n": 2}));
    assert_eq!(open.answer("await-1", body), AnswerStatus::Accepted);
    let orders = open.dispatch();
    let [Order::Tool(order)] = orders.as_slice() else { panic!("{orders:?}") };
    assert_eq!(order.input.payload.as_ref().map(|args| args.to_value()), Some(json!({"n": 2})));
    assert!(order.input.edited);
    assert_eq!(Some(order.input.payload_digest), order.input.args().map(|args| args.digest()));
    open.ok("call-0-0");
    let mut told = Message::user(
        "A person approved call-0-0 (read) with other arguments, and it was executed with these: {\"n\":2}",
    );
    told.meta.insert("editedArguments".to_owned(), true.into());
    assert_eq!(open.begin().input.outbox.messages, [OutboxMessage::Message { message: told }]);
}

#[test]
fn an_approval_can_grant_and_a_grant_that_cannot_be_given_changes_nothing() {
    let grant = |bench: &Bench, request: Value| AnswerBody::Confirmation {
        approved: true,
        digest: Some(bench.run.state().awaits.pending()[0].calls[0].digest),
        reason: None,
        grant: Some(serde_json::from_value(request).unwrap()),
    };
    let asked =
        || calls("read", json!({"n": 1, "to": "ann"}), decided(ApprovalOutcome::Ask, Some(AskTerms::default())));
    let mut bench = asked();
    let (digest, id) = (bench.run.state().awaits.pending()[0].calls[0].digest, "grant-");
    for refused in [
        json!({"scope": "session"}),
        json!({"scope": "run", "arguments": {"at": ["/from"]}}),
        json!({"scope": "run", "arguments": {"at": []}}),
    ] {
        let body = grant(&bench, refused.clone());
        assert_eq!(bench.answer("await-1", body), AnswerStatus::Invalid, "{refused}");
    }
    let denial = AnswerBody::Confirmation {
        approved: false,
        digest: None,
        reason: None,
        grant: Some(serde_json::from_value(json!({"scope": "run"})).unwrap()),
    };
    assert_eq!(bench.answer("await-1", denial), AnswerStatus::Invalid);
    let cases = [
        (json!({"scope": "run"}), json!({"kind": "any_arguments"})),
        (json!({"scope": "run", "arguments": "same"}), json!({"kind": "same_arguments", "digest": digest})),
        (
            json!({"scope": "agent", "arguments": {"at": ["/to"]}, "expiresInMs": 1000}),
            json!({"kind": "same_values", "values": {"/to": "ann"}}),
        ),
    ];
    for (request, shape) in cases {
        let mut bench = asked();
        let body = grant(&bench, request.clone());
        assert_eq!(bench.answer("await-1", body), AnswerStatus::Accepted);
        bench.dispatch();
        bench.ok("call-0-0");
        let granted: Vec<Value> = bench
            .begin()
            .input
            .outbox
            .events
            .iter()
            .filter_map(|event| match &event.body {
                crate::event::EventBody::ApprovalGranted { grant } => Some(serde_json::to_value(grant).unwrap()),
                _ => None,
            })
            .collect();
        let [granted] = granted.as_slice() else { panic!("{granted:?}") };
        assert_eq!((&granted["shape"], &granted["tool"]), (&shape, &json!("read")));
        assert_eq!(granted["scope"]["kind"], request["scope"]);
        assert_eq!(granted.get("expiresAt").is_some(), request.get("expiresInMs").is_some());
        assert!(granted["id"].as_str().unwrap().starts_with(id));
    }
}
