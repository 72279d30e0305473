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
