//! Properties of every decision. Each test prints how many cases it tried and how they were decided;
//! `PROPTEST_CASES` sets an eighth of their number.

use std::{cell::RefCell, collections::BTreeMap};

use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};

use super::{
    ApprovalDecision, ApprovalLayer, ApprovalOutcome, ApprovalRule, ArgumentTest, AskTerms, Call, Grant, NOW,
    arbitrary::{call, granted_call, layer, layers, op, value},
    explain,
};
use crate::canonical::tests::any_json;

/// Runs a property, counts the outcomes that it returns, and prints them.
fn holds<S: Strategy>(
    name: &str,
    cases: S,
    property: impl Fn(S::Value) -> Result<ApprovalOutcome, TestCaseError>,
) -> BTreeMap<ApprovalOutcome, u32> {
    let defaults = Config::default();
    let config = Config { cases: defaults.cases * 8, failure_persistence: None, ..defaults };
    let mut runner = TestRunner::new(config);
    let outcomes = RefCell::new(BTreeMap::new());
    let tried = runner.run(&cases, |case| {
        let outcome = property(case)?;
        *outcomes.borrow_mut().entry(outcome).or_default() += 1;
        Ok(())
    });
    tried.unwrap_or_else(|broken| panic!("{broken}"));
    let outcomes = outcomes.into_inner();
    println!("{name}: {} cases, outcomes {outcomes:?}", runner.config().cases);
    outcomes
}

/// A denied call with its layers in two orders: rules are shuffled in their layers, and the layers among themselves.
fn denied() -> impl Strategy<Value = (Call, Vec<Grant>, Vec<ApprovalLayer>, Vec<ApprovalLayer>)> {
    let narrowed = |call: &Call, by: u8| match by {
        0 => ApprovalRule::new(ApprovalOutcome::Deny),
        1 => ApprovalRule { tool: Some(call.tool.to_string()), ..ApprovalRule::new(ApprovalOutcome::Deny) },
        2 => ApprovalRule { source: Some(call.source.clone()), ..ApprovalRule::new(ApprovalOutcome::Deny) },
        _ => ApprovalRule { tags: call.tags.clone(), ..ApprovalRule::new(ApprovalOutcome::Deny) },
    };
    let with_deny = (granted_call(), layers(), layer(any::<bool>()), any::<prop::sample::Index>(), 0..4_u8).prop_map(
        move |((call, grants), mut layers, mut with_deny, at, by)| {
            let at = at.index(with_deny.rules.len() + 1);
            with_deny.rules.insert(at, narrowed(&call, by));
            layers.push(with_deny);
            (call, grants, layers)
        },
    );
    with_deny.prop_flat_map(|(call, grants, layers)| {
        let shuffled: Vec<_> = layers
            .iter()
            .map(|layer| {
                let (layer, rules) = (layer.clone(), Just(layer.rules.clone()).prop_shuffle());
                rules.prop_map(move |rules| ApprovalLayer { rules, ..layer.clone() })
            })
            .collect();
        (Just(call), Just(grants), Just(layers), shuffled.prop_shuffle())
    })
}

#[test]
fn no_order_of_rules_and_layers_lets_a_denied_call_run() {
    holds("a denied call stays denied in every order", denied(), |(call, grants, layers, shuffled)| {
        for layers in [&layers, &shuffled] {
            prop_assert_eq!(call.decide(layers, &grants).outcome, ApprovalOutcome::Deny);
        }
        Ok(ApprovalOutcome::Deny)
    });
}

/// Whether the terms of `with` allow nothing that those of `without` do not.
fn at_least_as_strict(with: &AskTerms, without: &AskTerms) -> bool {
    let fewer_roles = without.roles.is_empty()
        || (!with.roles.is_empty() && with.roles.iter().all(|role| without.roles.contains(role)));
    let sooner = without.expires_in_ms.is_none_or(|without| with.expires_in_ms.is_some_and(|with| with <= without));
    fewer_roles && sooner && with.four_eyes >= without.four_eyes && with.edit <= without.edit
}

#[test]
fn a_layer_that_may_not_relax_never_makes_a_decision_looser() {
    let cases = (granted_call(), layers(), layer(Just(false)), any::<prop::sample::Index>());
    let outcomes = holds("a layer that may not relax only narrows", cases, |((call, grants), without, layer, at)| {
        let mut with = without.clone();
        with.insert(at.index(with.len() + 1), layer);
        let (with, without) = (call.decide(&with, &grants), call.decide(&without, &grants));
        prop_assert!(with.outcome >= without.outcome, "{with:?} {without:?}");
        if let (Some(with), Some(without)) = (&with.ask, &without.ask) {
            prop_assert!(at_least_as_strict(with, without), "{with:?} {without:?}");
        }
        Ok(with.outcome)
    });
    assert_eq!(outcomes.len(), 3, "every outcome occurs");
}

#[test]
fn explain_agrees_with_decide() {
    let outcomes = holds("explain agrees with decide", (granted_call(), layers()), |((call, grants), layers)| {
        let explanation = explain(&call.facts(), &layers, &grants, NOW);
        let decision = call.decide(&layers, &grants);
        prop_assert_eq!(&explanation.decision, &decision);
        prop_assert_eq!(decision.ask.is_some(), decision.outcome == ApprovalOutcome::Ask);
        let ApprovalDecision { outcome, reason, .. } = &decision;
        let (shown, last) = (explanation.to_string(), format!("\noutcome: {outcome}, {reason}"));
        prop_assert!(shown.contains(&last), "{shown}");
        Ok(decision.outcome)
    });
    assert_eq!(outcomes.len(), 3, "every outcome occurs");
}

#[test]
fn a_grant_only_turns_an_ask_into_an_allow() {
    let outcomes = holds("a grant only answers an ask", (granted_call(), layers()), |((call, grants), layers)| {
        let (with, without) = (call.decide(&layers, &grants), call.decide(&layers, &[]));
        match (without.outcome, with.outcome) {
            (ApprovalOutcome::Ask, ApprovalOutcome::Allow) => {}
            _ => prop_assert_eq!(&with, &without),
        }
        let revoke = |grant: &Grant| Grant { revoked: true, ..grant.clone() };
        let expire = |grant: &Grant| Grant { expires_at: Some(NOW), ..grant.clone() };
        let revoked: Vec<Grant> = grants.iter().map(revoke).collect();
        let expired: Vec<Grant> = grants.iter().map(expire).collect();
        prop_assert_eq!(&call.decide(&layers, &revoked), &without);
        prop_assert_eq!(&call.decide(&layers, &expired), &without);
        Ok(with.outcome)
    });
    assert_eq!(outcomes.len(), 3, "every outcome occurs");
}

#[test]
fn no_arguments_and_no_pointer_panic() {
    let pointer = prop_oneof![any::<String>(), "(/[a-z~01]{0,3}){0,4}"];
    let value = || prop_oneof![any_json(), value()];
    let test = (pointer, op(), prop::option::of(value())).prop_map(|(at, op, value)| ArgumentTest { at, op, value });
    let cases = (call(), value(), prop::collection::vec(test, 0..4), layers());
    holds("no arguments and no pointer panic", cases, |(call, args, when, mut layers)| {
        let asks = ApprovalRule { when, ..ApprovalRule::new(ApprovalOutcome::Ask) };
        layers.push(ApprovalLayer { layer: super::Layer::Run, rules: vec![asks], may_relax: false, set_by: None });
        let call = Call { args, unseen: false, ..call };
        let explanation = explain(&call.facts(), &layers, &[], NOW);
        prop_assert!(!explanation.to_string().is_empty());
        Ok(explanation.decision.outcome)
    });
}
