//! Limits: spans of time, the policy, the loop guard and the tool budgets.

use std::{collections::BTreeMap, ops::RangeInclusive};

use super::{Pointer, Problem, Problems, nearest, tools::check_tags};
use crate::{
    agent::AgentDefinition,
    cost::Cost,
    envelope::{LoopDetection, LoopThresholds, PolicyOverrides, ToolBudget},
    ids::ToolName,
    limits::{TOOL_BUDGET_CALLS, TOOL_BUDGET_KEY_CHARS, TOOL_BUDGETS, TOOL_NAME_CHARS, TOOL_TIMEOUTS},
    time::Millis,
};

/// Ten years. A longer span is a typing error, and much longer ones overflow a timer.
const MAX_SPAN: Millis = Millis(3650 * 24 * 60 * 60 * 1000);

/// The hard cutoff is above it, so it ends one lower.
const CONSECUTIVE: RangeInclusive<u32> = 2..=99;
const HARD_CUTOFF: RangeInclusive<u32> = 3..=100;

pub(super) fn check(agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    check_overrides(&agent.policy, &at.field("policy"), problems);
    check_named_tools(agent, &at.field("policy"), problems);
    let at = at.field("guards");
    match agent.guards.loop_detection {
        Some(LoopDetection::Enabled(true)) => problems.add(
            &at.field("loopDetection"),
            "the guard is on unless this is false; write false, the thresholds, or leave it out",
        ),
        Some(LoopDetection::Thresholds(thresholds)) => {
            check_thresholds(&thresholds, &at.field("loopDetection"), problems);
        }
        Some(LoopDetection::Enabled(false)) | None => {}
    }
    if let Some(budgets) = &agent.guards.tool_budgets {
        check_budgets(budgets, &at.field("toolBudgets"), problems);
    }
}

/// A span must be longer than zero.
pub(super) fn check_span(span: Option<Millis>, at: &Pointer, problems: &mut Problems) {
    match span {
        Some(Millis::ZERO) => problems.add(at, "this must be longer than zero"),
        Some(span) if span > MAX_SPAN => problems.add(at, "this is longer than ten years; write at most \"3650d\""),
        _ => {}
    }
}

/// All problems of a policy that do not depend on the agent.
pub fn check_policy(policy: &PolicyOverrides) -> Vec<Problem> {
    let mut problems = Problems::default();
    check_overrides(policy, &Pointer::default(), &mut problems);
    problems.0
}

fn check_overrides(policy: &PolicyOverrides, at: &Pointer, problems: &mut Problems) {
    let counts = [
        ("perTurnMaxToolCalls", policy.per_turn_max_tool_calls),
        ("maxConsecutiveFailedToolCalls", policy.max_consecutive_failed_tool_calls),
    ];
    for (field, _) in counts.into_iter().filter(|(_, count)| *count == Some(0)) {
        problems.add(&at.field(field), "this must be at least 1; leave it out for no limit");
    }
    let budgets =
        [("maxCostUsd", policy.max_cost_usd == Some(Cost::ZERO)), ("maxTokens", policy.max_tokens == Some(0))];
    for (field, _) in budgets.into_iter().filter(|(_, is_zero)| *is_zero) {
        problems.add(
            &at.field(field),
            "this must be more than 0, or the model could not be asked; leave it out for no limit",
        );
    }
    let spans = [
        ("timeBudgetMs", policy.time_budget_ms),
        ("planTimeoutMs", policy.plan_timeout_ms),
        ("toolTimeoutMs", policy.tool_timeout_ms),
        ("finalizerGraceMs", policy.finalizer_grace_ms),
    ];
    for (field, span) in spans {
        check_span(span, &at.field(field), problems);
    }
    check_policy_tags(policy, at, problems);
    if let Some(only) = &policy.restrict_to_tool
        && let Err(error) = ToolName::parse(only.as_str())
    {
        problems.add(&at.field("restrictToTool"), error);
    }
    check_timeouts(policy.per_tool_timeout_ms.as_ref(), &at.field("perToolTimeoutMs"), problems);
}

fn check_timeouts(timeouts: Option<&BTreeMap<String, Millis>>, at: &Pointer, problems: &mut Problems) {
    let Some(timeouts) = timeouts else { return };
    if timeouts.len() > TOOL_TIMEOUTS {
        problems.add(at, format!("{} timeouts are too many; keep at most {TOOL_TIMEOUTS}", timeouts.len()));
        return;
    }
    for (key, span) in timeouts {
        if key.trim_end_matches('*').chars().count() > TOOL_NAME_CHARS {
            problems.add(at, format!("a tool name has at most {TOOL_NAME_CHARS} characters"));
        } else {
            check_span(Some(*span), &at.field(key), problems);
        }
    }
}

fn check_policy_tags(policy: &PolicyOverrides, at: &Pointer, problems: &mut Problems) {
    let allowed = policy.allowed_tags.as_deref().unwrap_or_default();
    let denied = policy.denied_tags.as_deref().unwrap_or_default();
    check_tags(allowed, &at.field("allowedTags"), problems);
    check_tags(denied, &at.field("deniedTags"), problems);
    for (index, tag) in denied.iter().enumerate().filter(|(_, tag)| allowed.contains(tag)) {
        problems
            .add(&at.field("deniedTags").index(index), format!("tag {tag:?} is allowed too; remove it from one list"));
    }
}

fn check_named_tools(agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    let names = || agent.tools.iter().map(|tool| tool.name.as_str());
    let advice = |word: &str| match nearest(word, names()) {
        Some(known) => format!("did you mean {known:?}?"),
        None => "name one of the agent's tools".to_owned(),
    };
    if let Some(only) = &agent.policy.restrict_to_tool
        && ToolName::parse(only.as_str()).is_ok()
        && agent.tool(only).is_none()
    {
        let only = only.as_str();
        problems.add(&at.field("restrictToTool"), format!("this agent has no tool {only:?}; {}", advice(only)));
    }
    let at = at.field("perToolTimeoutMs");
    for key in agent.policy.per_tool_timeout_ms.iter().flatten().map(|(key, _)| key).take(TOOL_TIMEOUTS) {
        if problems.full() {
            return;
        }
        let matches = match key.strip_suffix('*') {
            Some(prefix) => names().any(|name| name.starts_with(prefix)),
            None => names().any(|name| name == key),
        };
        if !matches {
            problems.add(&at.field(key), format!("{key:?} matches no tool of this agent; {}", advice(key)));
        }
    }
}

fn check_thresholds(thresholds: &LoopThresholds, at: &Pointer, problems: &mut Problems) {
    let ranges = [
        ("consecutiveThreshold", thresholds.consecutive_threshold, CONSECUTIVE),
        ("hardCutoffThreshold", thresholds.hard_cutoff_threshold, HARD_CUTOFF),
    ];
    let mut in_range = true;
    for (field, value, range) in ranges {
        if value.is_some_and(|value| !range.contains(&value)) {
            in_range = false;
            problems.add(&at.field(field), format!("this must be {} to {}", range.start(), range.end()));
        }
    }
    // A threshold that is left out makes room for the one that is given, so one alone cannot be wrong.
    if in_range
        && let (Some(consecutive), Some(hard)) = (thresholds.consecutive_threshold, thresholds.hard_cutoff_threshold)
        && hard <= consecutive
    {
        problems.add(
            at,
            format!("the hard cutoff, here {hard}, must be above the consecutive threshold, here {consecutive}"),
        );
    }
}

fn check_budgets(budgets: &BTreeMap<String, ToolBudget>, at: &Pointer, problems: &mut Problems) {
    if budgets.len() > TOOL_BUDGETS {
        problems.add(at, format!("{} tool budgets are too many; keep at most {TOOL_BUDGETS}", budgets.len()));
        return;
    }
    for (tool, budget) in budgets {
        let at = at.field(tool);
        if !(1..=TOOL_BUDGET_KEY_CHARS).contains(&tool.chars().count()) {
            problems.add(&at, format!("a budget's tool name has 1 to {TOOL_BUDGET_KEY_CHARS} characters"));
        }
        if budget.max_calls as usize > TOOL_BUDGET_CALLS {
            problems.add(&at.field("maxCalls"), format!("this must be at most {TOOL_BUDGET_CALLS}"));
        }
    }
}
