//! What models cost, models that do not answer, and answers that do not match the schema.

use serde_json::{Value, json};

use super::bench::{bench, last_message};
use crate::{
    cost::Cost,
    envelope::{FinalFacts, FinalizeReason, OutboxMessage, SchemaFit, TokenUsage},
    event::EventBody,
    message::Message,
    run::{Order, Outcome, PlanFailure, REPAIR_MARK, Step},
};

fn spent(usd: f64, tokens: u64) -> TokenUsage {
    TokenUsage { total_tokens: tokens, cost_usd: Cost::from_usd(usd), ..TokenUsage::default() }
}

fn overloaded() -> PlanFailure {
    PlanFailure { error_class: Some("overloaded".to_owned()), retryable: true, ..PlanFailure::new("busy") }
}

#[test]
fn a_run_that_has_used_its_money_or_its_tokens_is_asked_for_its_last_answer() {
    for (policy, usage) in
        [(json!({"maxCostUsd": 0.5}), spent(0.5, 10)), (json!({"maxTokens": 1000}), spent(0.0, 1000))]
    {
        let mut bench = bench(policy.clone(), json!({}));
        bench.begin();
        bench.says_for(&[("read", json!({}))], usage);
        bench.dispatch();
        bench.ok("call-0-0");
        let finaliser = bench.begin().input;
        let end = finaliser.finalize.unwrap();
        assert_eq!(end.reason, FinalizeReason::CostBudget, "{policy}");
        assert!(end.message.starts_with("The budget for this task is used up."), "{}", end.message);
    }
    let mut bench = bench(json!({"maxCostUsd": 0.5, "maxTokens": 1000}), json!({}));
    bench.begin();
    bench.says_for(&[("read", json!({}))], spent(0.499_999, 999));
    bench.dispatch();
    bench.ok("call-0-0");
    assert_eq!(bench.begin().input.finalize, None);
}

#[test]
fn an_answer_that_uses_up_the_budget_is_the_answer() {
    let mut bench = bench(json!({"maxTokens": 10}), json!({}));
    bench.begin();
    bench.says_for(&[], spent(0.0, 5000));
    assert_eq!(bench.step(), Step::Finish);
    assert_eq!(bench.run.end(bench.now).outcome, Outcome::Completed { finalized: None });
}

#[test]
fn agents_that_are_called_in_one_turn_share_what_is_left() {
    let mut bench = bench(json!({"maxCostUsd": 1.0, "maxTokens": 1000}), json!({}));
    bench.begin();
    let ask = |n: u32| ("helper", json!({"n": n}));
    bench.says_for(&[ask(1), ask(2)], spent(0.4, 100));
    let shares: Vec<_> = bench
        .dispatch()
        .iter()
        .map(|order| match order {
            Order::Child(order) => order.input.budget_ceiling.map(|ceiling| (ceiling.max_cost_usd, ceiling.max_tokens)),
            Order::Tool(_) | Order::Temporal(_) => None,
        })
        .collect();
    assert_eq!(shares, [Some((Cost::from_usd(0.3), Some(450))), Some((Cost::from_usd(0.3), Some(450)))]);
}

#[test]
fn a_provider_that_does_not_answer_is_replaced_for_the_rest_of_the_run() {
    let mut bench = bench(json!({}), json!({"fallback": ["other:b", "third:c"]}));
    let first = bench.begin();
    assert_eq!((first.attempts, first.input.run_context.model_id), (3, None));
    bench.run.plan_failed(PlanFailure { usage: spent(0.1, 7), ..overloaded() }, bench.now);
    let fallback = |model: &str, turn| EventBody::ModelFallback {
        error_class: "overloaded".to_owned(),
        model: model.to_owned(),
        primary_model_id: "script:test".to_owned(),
        fallback_model_id: model.to_owned(),
        turn,
    };

    let second = bench.begin();
    assert_eq!((second.attempts, second.input.run_context.model_id.as_deref()), (3, Some("other:b")));
    assert_eq!(second.input.head, first.input.head);
    bench.run.plan_failed(overloaded(), bench.now);
    let third = bench.begin();
    assert_eq!((third.attempts, third.input.run_context.model_id.as_deref()), (6, Some("third:c")), "no other is left");
    assert_eq!(
        third.input.outbox.events.iter().map(|event| event.body.clone()).collect::<Vec<_>>(),
        [fallback("other:b", 0), fallback("third:c", 1)]
    );
    bench.says(&[("read", json!({}))], Vec::new());
    bench.dispatch();
    bench.ok("call-2-0");
    assert_eq!(bench.begin().input.run_context.model_id.as_deref(), Some("third:c"));
    assert_eq!(bench.run.state().usage.total_tokens, 7, "the failed attempts are charged");
    bench.run.plan_failed(overloaded(), bench.now);
    assert_eq!(bench.step(), Step::Finish);
}

#[test]
fn an_answer_that_does_not_match_its_schema_is_sent_back_once() {
    let agent = || json!({"outputSchema": {"schema": {}, "enforcement": "strict"}});
    let misfit = || FinalFacts {
        schema_fit: Some(SchemaFit::Misfit { problem: "/n: must be a number".to_owned() }),
        ..last_message("{}")
    };
    let mut bench = bench(json!({}), agent());
    bench.begin();
    bench.answers(misfit(), "end_turn");
    let again = bench.begin();
    let mut asked = Message::user(
        "Your answer does not match the JSON Schema that is required: /n: must be a number\nAnswer again with only the JSON document.",
    );
    asked.meta.insert(REPAIR_MARK.to_owned(), Value::Bool(true));
    assert_eq!(again.input.outbox.messages, [OutboxMessage::Message { message: asked }]);
    bench.answers(FinalFacts { schema_fit: Some(SchemaFit::Fits), ..last_message("{\"n\":1}") }, "end_turn");
    assert_eq!(bench.step(), Step::Finish);
    assert_eq!(bench.run.end(bench.now).outcome, Outcome::Completed { finalized: None });
}

#[test]
fn an_answer_stands_if_the_turn_that_was_to_repair_it_fails() {
    for (enforcement, completes) in [("best_effort", true), ("strict", false)] {
        let mut bench = bench(json!({}), json!({"outputSchema": {"schema": {}, "enforcement": enforcement}}));
        bench.begin();
        let misfit = SchemaFit::Misfit { problem: "no".to_owned() };
        bench.answers(FinalFacts { schema_fit: Some(misfit), ..last_message("{}") }, "end_turn");
        bench.begin();
        bench.run.plan_failed(overloaded(), bench.now);
        assert_eq!(bench.step(), Step::Finish);
        let ending = bench.run.end(bench.now);
        match ending.outcome {
            Outcome::Completed { finalized: None } => assert!(completes),
            Outcome::Failed { failure } => {
                assert_eq!(failure.error_class.as_deref(), Some("structured_output_not_enforced"));
                assert!(!completes);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(ending.output.final_message, Some(Message::assistant("{}")));
    }
}

#[test]
fn the_last_answer_of_a_finalised_run_is_not_repaired() {
    let mut bench = bench(json!({"maxToolTurns": 0}), json!({"outputSchema": {"schema": {}}}));
    bench.begin();
    let misfit = SchemaFit::Misfit { problem: "no".to_owned() };
    bench.answers(FinalFacts { schema_fit: Some(misfit), ..last_message("{}") }, "end_turn");
    assert_eq!(bench.step(), Step::Finish);
}

#[test]
fn what_the_model_writes_instead_of_a_repair_replaces_its_answer() {
    let mut bench = bench(json!({}), json!({"outputSchema": {"schema": {}}}));
    bench.begin();
    let misfit = SchemaFit::Misfit { problem: "no".to_owned() };
    bench.answers(FinalFacts { schema_fit: Some(misfit), ..last_message("{}") }, "end_turn");
    bench.turn(&[("read", json!({}))]);
    bench.dispatch();
    bench.ok("call-1-0");
    bench.begin();
    bench.run.plan_failed(overloaded(), bench.now);
    assert_eq!(bench.step(), Step::Finish);
    let ending = bench.run.end(bench.now);
    assert!(matches!(ending.outcome, Outcome::Failed { .. }), "{:?}", ending.outcome);
    assert_eq!(ending.output.final_message, None);
}

#[test]
fn an_answer_that_was_to_be_repaired_stands_if_the_finaliser_fails() {
    let mut bench = bench(json!({"timeBudgetMs": 1000}), json!({"outputSchema": {"schema": {}}}));
    bench.begin();
    let misfit = SchemaFit::Misfit { problem: "no".to_owned() };
    bench.answers(FinalFacts { schema_fit: Some(misfit), ..last_message("{}") }, "end_turn");
    bench.begin();
    bench.pass(1000);
    bench.plan_fails(true);
    assert_eq!(bench.begin().input.finalize.unwrap().reason, FinalizeReason::TimeBudget);
    bench.run.plan_failed(overloaded(), bench.now);
    assert_eq!(bench.step(), Step::Finish);
    let ending = bench.run.end(bench.now);
    assert_eq!(ending.outcome, Outcome::Completed { finalized: Some(FinalizeReason::TimeBudget) });
    assert_eq!(ending.output.final_message, Some(Message::assistant("{}")));
}
