//! The one evaluation of rules and grants, behind both [`decide`] and [`explain`].

use super::{
    ApprovalDecision, ApprovalLayer, ApprovalOutcome, AskTerms, CallFacts, DecisionReason, Explanation, Grant,
    GrantTrace, LayerEffect, LayerTrace, RuleRef, RuleTrace, approver_bar,
};
use crate::{envelope::Actor, time::Timestamp};

/// Decides about one call.
pub fn decide(call: &CallFacts<'_>, layers: &[ApprovalLayer], grants: &[Grant], now: Timestamp) -> ApprovalDecision {
    explain(call, layers, grants, now).decision
}

/// The decision of [`decide`], with how it came about.
pub fn explain(call: &CallFacts<'_>, layers: &[ApprovalLayer], grants: &[Grant], now: Timestamp) -> Explanation {
    let mut decision = start(call);
    let start = decision.outcome;
    // The order of the layers is theirs, not the caller's.
    let mut ordered: Vec<&ApprovalLayer> = layers.iter().collect();
    ordered.sort_by_key(|layer| layer.layer);
    let layers = ordered.into_iter().map(|layer| apply_layer(&mut decision, layer, call)).collect();
    let grants = apply_grants(&mut decision, grants, call, now);
    Explanation { tool: call.tool.clone(), start, layers, grants, decision }
}

fn start(call: &CallFacts<'_>) -> ApprovalDecision {
    match call.confirmation {
        Some(confirmation) => ask(DecisionReason::Confirmation, AskTerms::of(confirmation)),
        None => settled(ApprovalOutcome::Allow, DecisionReason::Default),
    }
}

fn ask(reason: DecisionReason, terms: AskTerms) -> ApprovalDecision {
    ApprovalDecision { outcome: ApprovalOutcome::Ask, reason, ask: Some(terms) }
}

fn settled(outcome: ApprovalOutcome, reason: DecisionReason) -> ApprovalDecision {
    ApprovalDecision { outcome, reason, ask: None }
}

fn apply_layer(decision: &mut ApprovalDecision, layer: &ApprovalLayer, call: &CallFacts<'_>) -> LayerTrace {
    let trace = |rule: &super::ApprovalRule| RuleTrace {
        name: rule.name.clone(),
        outcome: rule.outcome,
        unmet: rule.unmet(call),
    };
    let rules: Vec<RuleTrace> = layer.rules.iter().map(trace).collect();
    // A deny is looked for first, so that no rule before it can hide it.
    let deny = |rule: &RuleTrace| rule.unmet.is_none() && rule.outcome == ApprovalOutcome::Deny;
    let decides = rules.iter().position(deny).or_else(|| rules.iter().position(|rule| rule.unmet.is_none()));
    let effect = match decides {
        Some(index) => apply_rule(decision, layer, index, call.starter),
        None => LayerEffect::NoMatch,
    };
    LayerTrace { layer: layer.layer, may_relax: layer.may_relax, rules, decides, effect }
}

fn apply_rule(
    decision: &mut ApprovalDecision,
    layer: &ApprovalLayer,
    index: usize,
    starter: Option<&Actor>,
) -> LayerEffect {
    use ApprovalOutcome::{Allow, Ask, Deny};
    let rule = &layer.rules[index];
    let by = RuleRef { layer: layer.layer, index, name: rule.name.clone() };
    match (decision.outcome, rule.outcome) {
        (Deny, _) | (Allow, Allow) => LayerEffect::Unchanged,
        (Allow | Ask, Deny) => {
            *decision = settled(Deny, DecisionReason::Rule(by));
            LayerEffect::Stricter
        }
        (Allow, Ask) => {
            *decision = ask(DecisionReason::Rule(by), rule.terms.clone());
            LayerEffect::Stricter
        }
        (Ask, Allow) if may_relax(layer, decision.ask.as_ref(), starter) => {
            *decision = settled(Allow, DecisionReason::Rule(by));
            LayerEffect::Relaxed
        }
        (Ask, Allow) => LayerEffect::MayNotRelax,
        (Ask, Ask) => match decision.ask.as_ref().and_then(|terms| terms.joined(&rule.terms)) {
            Some(terms) => {
                decision.ask = Some(terms);
                LayerEffect::Added
            }
            None => {
                *decision = settled(Deny, DecisionReason::NoApprover(by));
                LayerEffect::NoApprover
            }
        },
    }
}

/// The rules of an actor relax what the actor could have approved, and nothing else.
fn may_relax(layer: &ApprovalLayer, asked: Option<&AskTerms>, starter: Option<&Actor>) -> bool {
    let bar = layer
        .set_by
        .as_ref()
        .zip(asked)
        .and_then(|(actor, terms)| approver_bar(&terms.roles, terms.four_eyes, actor, starter));
    layer.may_relax && bar.is_none()
}

/// The first grant that applies answers the question. Without a question no grant is looked at.
fn apply_grants(
    decision: &mut ApprovalDecision,
    grants: &[Grant],
    call: &CallFacts<'_>,
    now: Timestamp,
) -> Vec<GrantTrace> {
    let Some(terms) = decision.ask.clone() else { return Vec::new() };
    let trace = |grant: &Grant| GrantTrace { id: grant.id.clone(), unmet: grant.unmet(call, &terms, now) };
    let traces: Vec<GrantTrace> = grants.iter().map(trace).collect();
    if let Some(grant) = traces.iter().find(|grant| grant.unmet.is_none()) {
        *decision = settled(ApprovalOutcome::Allow, DecisionReason::Grant { id: grant.id.clone() });
    }
    traces
}
