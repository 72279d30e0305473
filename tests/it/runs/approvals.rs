//! Approval rules: calls that a rule allows, asks for or denies, and an approval with other arguments.

use serde_json::json;
use windlass_core::{
    envelope::{AnswerBody, AnswerStatus},
    event::EventBody,
};

use crate::support::{World, agent, block_on, calls, says, script, world::scripts};

#[test]
fn rules_allow_ask_and_deny_by_the_arguments_and_an_approver_may_edit_them() {
    block_on(async {
        let turns = [
            calls(&[("echo", json!({"pay": 5})), ("echo", json!({"pay": 50})), ("echo", json!({"pay": 500}))]),
            says("{{all_tool_results}} {{last_user}}"),
        ];
        let world = World::new(scripts([("pay", script(&turns))])).await;
        let tools = json!([{"name": "echo", "confirmation": {"prompt": "Pay {pay}?"}}]);
        let mut payer = agent("pay", tools);
        payer.approvals = serde_json::from_value(json!([
            {"name": "too much", "tool": "echo", "when": [{"at": "/pay", "op": ">", "value": 100}], "outcome": "deny"},
            {"name": "small", "tool": "echo", "when": [{"at": "/pay", "op": "<=", "value": 10}], "outcome": "allow"},
        ]))
        .unwrap();
        let run = world.start(payer, "go").await;
        let item = world.opened(&run, 1).await;
        assert_eq!((item.prompt.as_str(), item.edit), ("Pay 50?", false));
        let digest = item.calls[0].digest;
        let edited = AnswerBody::EditedApproval { digest, arguments: json!({"pay": 20}).into(), reason: None };
        let refused = world.reply(&run, &item, edited).await;
        assert_eq!(refused.status, AnswerStatus::Invalid, "the tool's own confirmation allows no edits");
        world.approve(&run, &item).await;
        world.result(&run).await.unwrap();
        let mut ran: Vec<u64> = world.watch.seen().iter().filter_map(|seen| seen.args["pay"].as_u64()).collect();
        ran.sort_unstable();
        assert_eq!(ran, [5, 50]);
        let decided = world.bodies(&run).await.into_iter().filter_map(|body| match body {
            EventBody::ApprovalDecided { tool_use_id, outcome, reason, .. } => {
                Some(format!("{tool_use_id} {outcome} {reason}"))
            }
            _ => None,
        });
        assert_eq!(
            decided.collect::<Vec<_>>(),
            [
                "call-0-0 allow by rule 1 \"small\" of the agent layer",
                "call-0-2 deny by rule 0 \"too much\" of the agent layer",
            ]
        );
    });
}

#[test]
fn a_call_is_executed_with_the_arguments_that_its_approver_wrote() {
    block_on(async {
        let turns = [calls(&[("echo", json!({"pay": 50}))]), says("{{all_tool_results}} | {{last_user}}")];
        let world = World::new(scripts([("pay", script(&turns))])).await;
        let mut payer = agent("pay", json!([{"name": "echo"}]));
        payer.approvals = serde_json::from_value(json!([{"tool": "echo", "outcome": "ask", "edit": true}])).unwrap();
        let run = world.start(payer, "go").await;
        let item = world.opened(&run, 1).await;
        let digest = item.calls[0].digest;
        world
            .give(
                &run,
                &item,
                AnswerBody::EditedApproval { digest, arguments: json!({"pay": 20}).into(), reason: None },
            )
            .await;
        let output = world.result(&run).await.unwrap();
        assert_eq!(
            output.final_message.unwrap().plain_text(),
            "{\"pay\":20} | A person approved call-0-0 (echo) with other arguments, and it was executed with these: {\"pay\":20}"
        );
        let kinds = world.kinds(&run).await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "arguments_edited").count(), 1, "{kinds:?}");
    });
}

#[test]
fn arguments_that_a_rule_denies_are_not_executed_although_an_approver_wrote_them() {
    block_on(async {
        let turns = [calls(&[("echo", json!({"pay": 50}))]), says("{{all_tool_results}}")];
        let world = World::new(scripts([("pay", script(&turns))])).await;
        let mut payer = agent("pay", json!([{"name": "echo"}]));
        payer.approvals = serde_json::from_value(json!([
            {"tool": "echo", "when": [{"at": "/pay", "op": ">", "value": 100}], "outcome": "deny"},
            {"tool": "echo", "outcome": "ask", "edit": true},
        ]))
        .unwrap();
        let run = world.start(payer, "go").await;
        let item = world.opened(&run, 1).await;
        let arguments = json!({"pay": 500}).into();
        world
            .give(&run, &item, AnswerBody::EditedApproval { digest: item.calls[0].digest, arguments, reason: None })
            .await;
        let output = world.result(&run).await.unwrap();
        let text = output.final_message.unwrap().plain_text();
        assert!(text.contains("denied by an approval rule"), "{text}");
        assert_eq!(world.watch.seen().len(), 0);
    });
}
