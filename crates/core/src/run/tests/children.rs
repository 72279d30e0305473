//! Agents as tools: what a child is lent, and what it is charged when it comes back.

use serde_json::json;

use super::bench::{Bench, bench, results};
use crate::{
    envelope::{BudgetCeiling, RunInput},
    failure::RunFailureKind,
    ids::{AgentId, RunId},
    run::{ChildReport, MAX_DEPTH, Order, Run},
    time::Millis,
};

fn ceilings(orders: &[Order]) -> Vec<Option<BudgetCeiling>> {
    let ceiling = |order: &Order| match order {
        Order::Child(order) => Some(order.input.budget_ceiling),
        Order::Tool(_) | Order::Temporal(_) => None,
    };
    orders.iter().filter_map(ceiling).collect()
}

#[test]
fn children_of_one_turn_share_what_is_left() {
    let ask = |n: u32| ("helper", json!({"n": n}));
    let read = ("read", json!({}));
    let cases = [
        (json!({}), vec![ask(1), ask(2)], vec![None, None], 0),
        (json!({"maxToolCalls": 10}), vec![ask(1)], vec![Some(9)], 9),
        (json!({"maxToolCalls": 10}), vec![ask(1), ask(2), ask(3)], vec![Some(2), Some(2), Some(3)], 7),
        (json!({"maxToolCalls": 10}), vec![ask(1), read.clone(), ask(2)], vec![Some(3), Some(4)], 7),
        (json!({"maxToolCalls": 10}), vec![ask(1), ("pay", json!({})), ("form", json!({}))], vec![Some(7)], 7),
        (json!({"maxToolCalls": 2}), vec![ask(1), ask(2)], vec![Some(0), Some(0)], 0),
    ];
    for (policy, calls, expected, lent) in cases {
        let mut bench = bench(policy.clone(), json!({}));
        bench.turn(&calls);
        let orders = bench.dispatch();
        let lease = |max_tool_calls| Some(BudgetCeiling { max_tool_calls, ..BudgetCeiling::default() });
        let expected: Vec<_> = expected.into_iter().map(lease).collect();
        assert_eq!((ceilings(&orders), bench.run.state().lent), (expected, lent), "{policy} {calls:?}");
    }
}

#[test]
fn a_child_gets_the_time_its_parent_has_left_then() {
    let mut bench = bench(json!({"timeBudgetMs": 5_000, "interruptsAllowed": false}), json!({}));
    bench.start_as("ann");
    bench.begin();
    bench.pass(1_200);
    bench.says(&[("helper", json!({"q": "why?"}))], Vec::new());
    let orders = bench.dispatch();
    let [Order::Child(order)] = &orders[..] else { panic!() };
    let input = &order.input;
    let links = (&input.run_id, &input.parent_run_id, &input.parent_tool_call_id, &input.tool, input.depth);
    assert_eq!(
        links,
        (&RunId::new("run/call-0-0"), &Some(RunId::new("run")), &Some("call-0-0".into()), &Some("helper".into()), 1)
    );
    assert_eq!(input.tool_args, Some(json!({"q": "why?"}).into()));
    assert_eq!(input.started_by, Some("ann".into()), "the starter is that of the run at the top");
    assert_eq!(input.policy.as_ref().and_then(|policy| policy.interrupts_allowed), Some(false));
    assert_eq!(input.budget_ceiling.and_then(|ceiling| ceiling.time_budget_ms), Some(Millis(3_800)));
}

#[test]
fn a_child_is_charged_for_its_calls_and_for_time_its_parent_did_not_work_anyway() {
    // (the parent's own tool works this long, the child worked this long, the parent's clock in the end)
    let cases = [(0, 700, 700), (300, 700, 700), (700, 300, 700), (500, 0, 500)];
    for (own, active, used) in cases {
        let mut bench = bench(json!({"maxToolCalls": 10}), json!({}));
        bench.turn(&[("helper", json!({})), ("read", json!({}))]);
        bench.dispatch();
        bench.pass(own);
        bench.ok("call-0-1");
        bench.pass(1_000_000);
        bench.child_ends("call-0-0", 3, active);
        let state = bench.run.state();
        assert_eq!((state.clock.used(bench.now), state.executed, state.lent), (Millis(used), 5, 0), "{own} {active}");
        assert_eq!(results(&bench.begin().input), ["call-0-0 ok", "call-0-1 ok"]);
    }
}

#[test]
fn children_that_worked_at_the_same_time_are_charged_once() {
    let mut bench = bench(json!({}), json!({}));
    bench.turn(&[("helper", json!(1)), ("helper", json!(2))]);
    bench.dispatch();
    bench.child_ends("call-0-1", 0, 400);
    bench.child_ends("call-0-0", 0, 900);
    assert_eq!(bench.run.state().clock.used(bench.now), Millis(900));
}

#[test]
fn a_child_that_brings_no_count_back_has_used_all_it_was_lent() {
    let reports = [ChildReport::Failed { message: "its model is gone".to_owned() }, ChildReport::Cancelled];
    for report in reports {
        for (policy, executed) in [(json!({}), 1), (json!({"maxToolCalls": 4}), 4)] {
            let mut bench: Bench = bench(policy, json!({}));
            bench.turn(&[("helper", json!({}))]);
            bench.dispatch();
            bench.run.child_finished(&"call-0-0".into(), report.clone(), bench.now);
            assert_eq!((bench.run.state().executed, bench.run.state().lent), (executed, 0), "{report:?}");
        }
    }
}

#[test]
fn agents_cannot_call_agents_for_ever() {
    let at = |depth| RunInput { depth, ..RunInput::new(AgentId::new("a"), RunId::new("r")) };
    let kind = |depth| Run::check(&at(depth), "r").map_err(|failure| failure.kind);
    assert_eq!((kind(MAX_DEPTH), kind(MAX_DEPTH + 1)), (Ok(()), Err(RunFailureKind::TooDeep)));
}
