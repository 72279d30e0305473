//! Guards of a run: loop detection, tool budgets, tool turns; and features of the protocol that are not available.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_core::{
    agent::AgentDefinition,
    envelope::{GuardOverrides, LoopDetection, LoopThresholds, ToolBudget},
    limits::{TOOL_BUDGET_CALLS, TOOL_BUDGET_KEY_CHARS, TOOL_BUDGETS},
};

use super::{Invalid, fields::Fields};

/// The protocol's ceiling. A larger value is lowered, not refused.
pub(super) const MAX_TOOL_TURNS: u32 = 100;

pub(super) fn parse(fields: &Fields<'_>) -> Result<GuardOverrides, Invalid> {
    Ok(GuardOverrides { loop_detection: loop_detection(fields)?, tool_budgets: tool_budgets(fields)? })
}

fn loop_detection(fields: &Fields<'_>) -> Result<Option<LoopDetection>, Invalid> {
    const KEY: &str = "loopDetection";
    let given = match fields.get(KEY) {
        None => return Ok(None),
        Some(Value::Bool(false)) => return Ok(Some(LoopDetection::Enabled(false))),
        Some(Value::Object(_)) => fields.object(KEY)?,
        Some(_) => None,
    };
    let Some(given) = given else {
        return Err(fields.invalid(KEY, "must be false or an object with thresholds; the guard is on by default"));
    };
    let thresholds = LoopThresholds {
        consecutive_threshold: given.integer("consecutiveThreshold", 2..=100)?,
        hard_cutoff_threshold: given.integer("hardCutoffThreshold", 3..=100)?,
    };
    match (thresholds.consecutive_threshold, thresholds.hard_cutoff_threshold) {
        (Some(soft), Some(hard)) if hard <= soft => {
            Err(given.invalid("hardCutoffThreshold", format!("must be above consecutiveThreshold, which is {soft}")))
        }
        // The cutoff must be above it, and 100 is the largest value.
        (Some(100), None) => {
            Err(given.invalid("consecutiveThreshold", "must be below hardCutoffThreshold, at most 99"))
        }
        _ => Ok(Some(LoopDetection::Thresholds(thresholds))),
    }
}

fn tool_budgets(fields: &Fields<'_>) -> Result<Option<BTreeMap<String, ToolBudget>>, Invalid> {
    const KEY: &str = "toolBudgets";
    let Some(given) = fields.object(KEY)? else { return Ok(None) };
    if given.len() > TOOL_BUDGETS {
        return Err(fields.invalid(KEY, format!("has {} entries; send at most {TOOL_BUDGETS}", given.len())));
    }
    let mut budgets = BTreeMap::new();
    for (tool, value) in given.entries() {
        if !(1..=TOOL_BUDGET_KEY_CHARS).contains(&tool.chars().count()) {
            return Err(fields.invalid(KEY, format!("a tool name has 1 to {TOOL_BUDGET_KEY_CHARS} characters")));
        }
        let budget = Fields::at(&given.path_of(tool), value)?;
        let max_calls = budget.integer("maxCalls", 0..=TOOL_BUDGET_CALLS as u32)?;
        let max_calls = max_calls.ok_or_else(|| budget.invalid("maxCalls", "is required"))?;
        budgets.insert(tool.clone(), ToolBudget { max_calls });
    }
    Ok(Some(budgets))
}

/// The protocol's default budgets.
const DEFAULT_TOOL_BUDGETS: [(&str, u32); 10] = [
    ("recall", 4),
    ("traverse", 3),
    ("hive_consult_ontology", 4),
    ("hive_search_deals", 5),
    ("hive_search_meetings", 5),
    ("hive_search_companies", 5),
    ("hive_search_people", 5),
    ("hive_search_tickets", 5),
    ("hive_search_conversations", 5),
    ("hive_search_accounts", 5),
];

/// Gives the tools that have a default budget in the protocol that budget, unless the agent has one for them or cleared
/// all budgets with an empty map. The same for its sub-agents.
pub(crate) fn add_default_budgets(agent: &mut AgentDefinition) {
    for (tool, max_calls) in DEFAULT_TOOL_BUDGETS {
        let budgets = agent.guards.tool_budgets.as_ref();
        let is_set = budgets
            .is_some_and(|budgets| budgets.is_empty() || budgets.len() >= TOOL_BUDGETS || budgets.contains_key(tool));
        if !is_set && agent.tools.iter().any(|own| own.name.as_str() == tool) {
            agent.guards.tool_budgets.get_or_insert_default().insert(tool.to_owned(), ToolBudget { max_calls });
        }
    }
    agent.agents.iter_mut().for_each(add_default_budgets);
}

/// How many turns may call tools.
pub(super) fn max_tool_turns(fields: &Fields<'_>) -> Result<Option<u32>, Invalid> {
    let Some(budgets) = fields.object("budgets")? else { return Ok(None) };
    let turns = budgets.integer("maxToolTurns", 0..=u32::MAX)?;
    Ok(turns.map(|turns| turns.min(MAX_TOOL_TURNS)))
}

/// Refuses features of the protocol that change what a run does and that Windlass does not have. Ignoring them silently
/// would let a caller rely on them.
pub(super) fn refuse_what_is_missing(fields: &Fields<'_>) -> Result<(), Invalid> {
    supervisor(fields)?;
    plan(fields)
}

fn supervisor(fields: &Fields<'_>) -> Result<(), Invalid> {
    const KEY: &str = "supervisor";
    match fields.get(KEY) {
        None | Some(Value::Bool(false)) => return Ok(()),
        Some(Value::Bool(true)) => {}
        Some(Value::Object(_)) => {
            if let Some(given) = fields.object(KEY)? {
                given.integer("interval", 1..=100)?;
                if !matches!(given.get("reasoningTrigger"), Some(Value::Bool(false)))
                    && let Some(trigger) = given.object("reasoningTrigger")?
                {
                    trigger.integer("chars", 1..=50_000)?;
                    trigger.integer("ms", 1..=600_000)?;
                }
            }
        }
        Some(_) => return Err(fields.invalid(KEY, "must be false or an object")),
    }
    Err(fields.invalid(KEY, "is not available on this server; leave it out or send false"))
}

fn plan(fields: &Fields<'_>) -> Result<(), Invalid> {
    const KEY: &str = "plan";
    let wanted = match fields.get(KEY) {
        None => false,
        Some(Value::Bool(wanted)) => *wanted,
        Some(Value::String(mode)) => mode_wanted(mode).ok_or_else(|| fields.invalid(KEY, MODES))?,
        Some(Value::Object(_)) => match fields.object(KEY)? {
            Some(given) => plan_object(&given)?,
            None => false,
        },
        Some(_) => return Err(fields.invalid(KEY, MODES)),
    };
    if wanted {
        return Err(fields.invalid(KEY, "is not available on this server; leave it out or send \"off\""));
    }
    Ok(())
}

const MODES: &str = "must be true, false, \"off\", \"auto\", \"required\" or an object";

fn mode_wanted(mode: &str) -> Option<bool> {
    match mode {
        "off" => Some(false),
        "auto" | "required" => Some(true),
        _ => None,
    }
}

fn plan_object(given: &Fields<'_>) -> Result<bool, Invalid> {
    given.flag("planOnly")?;
    given.text("brief")?;
    for (path, step) in given.list("steps")?.unwrap_or_default() {
        if !step.is_string() {
            return Err(Invalid::new(path, "must be a string"));
        }
    }
    match given.text("mode")? {
        None => Ok(true),
        Some(mode) => {
            mode_wanted(mode).ok_or_else(|| given.invalid("mode", "must be \"off\", \"auto\" or \"required\""))
        }
    }
}
