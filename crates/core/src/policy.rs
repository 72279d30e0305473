//! The limits of a run, merged from its agent, its start and its parent.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    agent::ToolEntry,
    cost::Cost,
    envelope::{BudgetCeiling, GuardOverrides, LoopDetection, LoopThresholds, PolicyOverrides, ToolBudget},
    ids::ToolName,
    time::Millis,
};

/// The limits in an agent's definition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentPolicy {
    pub policy: PolicyOverrides,
    pub guards: GuardOverrides,
}

/// The limits that hold for one run. Every field is decided; `None` means unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    pub per_turn_max_tool_calls: Option<u32>,
    pub restrict_to_tool: Option<ToolName>,
    pub allowed_tags: Option<BTreeSet<String>>,
    pub denied_tags: BTreeSet<String>,
    pub max_tool_calls: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_turns: Option<u32>,
    pub max_consecutive_failed_tool_calls: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Cost>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    pub time_budget: Option<Millis>,
    pub plan_timeout: Millis,
    /// From the start request. Takes precedence over the tool's own timeout.
    pub tool_timeout_override: Option<Millis>,
    /// From the agent, for tools without a timeout of their own.
    pub tool_timeout_default: Millis,
    pub per_tool_timeout: BTreeMap<String, Millis>,
    pub finalizer_grace: Millis,
    pub interrupts_allowed: bool,
    /// `None` when the loop guard is off.
    pub loop_limits: Option<LoopLimits>,
    pub tool_budgets: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoopLimits {
    /// From this many identical turns in a row, batches are skipped and the model is nudged.
    pub soft: u32,
    /// At this many, the run is finalised.
    pub hard: u32,
}

impl LoopLimits {
    pub const DEFAULT: Self = Self { soft: 3, hard: 6 };

    /// A threshold that is not given follows the default, as far as the given one leaves room for it.
    fn of(thresholds: LoopThresholds) -> Self {
        let (soft, hard) = match (thresholds.consecutive_threshold, thresholds.hard_cutoff_threshold) {
            (Some(soft), Some(hard)) => (soft, hard),
            (Some(soft), None) => (soft, Self::DEFAULT.hard.max(soft + 1)),
            (None, Some(hard)) => (Self::DEFAULT.soft.min(hard.saturating_sub(1)), hard),
            (None, None) => (Self::DEFAULT.soft, Self::DEFAULT.hard),
        };
        let soft = soft.max(2);
        Self { soft, hard: hard.max(soft + 1) }
    }
}

/// A model may think for minutes; one that is silent is noticed much earlier, by the provider's time-out for silence.
const DEFAULT_PLAN_TIMEOUT: Millis = Millis::from_secs(600);
const DEFAULT_TOOL_TIMEOUT: Millis = Millis::from_secs(120);
const DEFAULT_GRACE: Millis = Millis::from_secs(60);

impl Policy {
    /// Absent inherits, a value replaces, a map is laid over by key and an empty map clears. The parent's ceiling is
    /// applied last and only ever lowers.
    pub fn resolve(
        agent: &AgentPolicy,
        run: Option<&PolicyOverrides>,
        guards: Option<&GuardOverrides>,
        ceiling: Option<&BudgetCeiling>,
    ) -> Self {
        let inherited = PolicyOverrides::default();
        let (a, r) = (&agent.policy, run.unwrap_or(&inherited));
        let tags = |tags: &Option<Vec<String>>| tags.as_ref().map(|tags| tags.iter().cloned().collect::<BTreeSet<_>>());
        let ceiling = ceiling.copied().unwrap_or_default();
        Self {
            per_turn_max_tool_calls: r.per_turn_max_tool_calls.or(a.per_turn_max_tool_calls),
            restrict_to_tool: r.restrict_to_tool.clone().or_else(|| a.restrict_to_tool.clone()),
            allowed_tags: tags(&r.allowed_tags).or_else(|| tags(&a.allowed_tags)),
            denied_tags: tags(&r.denied_tags).or_else(|| tags(&a.denied_tags)).unwrap_or_default(),
            max_tool_calls: lower(r.max_tool_calls.or(a.max_tool_calls), ceiling.max_tool_calls),
            max_tool_turns: r.max_tool_turns.or(a.max_tool_turns),
            max_consecutive_failed_tool_calls: r
                .max_consecutive_failed_tool_calls
                .or(a.max_consecutive_failed_tool_calls),
            max_cost: lower(r.max_cost_usd.or(a.max_cost_usd), ceiling.max_cost_usd),
            max_tokens: lower(r.max_tokens.or(a.max_tokens), ceiling.max_tokens),
            time_budget: lower(r.time_budget_ms.or(a.time_budget_ms), ceiling.time_budget_ms),
            plan_timeout: r.plan_timeout_ms.or(a.plan_timeout_ms).unwrap_or(DEFAULT_PLAN_TIMEOUT),
            tool_timeout_override: r.tool_timeout_ms,
            tool_timeout_default: a.tool_timeout_ms.unwrap_or(DEFAULT_TOOL_TIMEOUT),
            per_tool_timeout: layered(a.per_tool_timeout_ms.clone(), r.per_tool_timeout_ms.clone()),
            finalizer_grace: r.finalizer_grace_ms.or(a.finalizer_grace_ms).unwrap_or(DEFAULT_GRACE),
            interrupts_allowed: r.interrupts_allowed.or(a.interrupts_allowed).unwrap_or(true),
            loop_limits: loop_limits(guards.and_then(|g| g.loop_detection).or(agent.guards.loop_detection)),
            tool_budgets: tool_budgets(&agent.guards, guards),
        }
    }

    /// Whether the policy lets this tool be called at all; the error is for the model.
    pub fn allows(&self, name: &ToolName, tool: &ToolEntry) -> Result<(), String> {
        if let Some(only) = &self.restrict_to_tool
            && only != name
        {
            return Err(format!("only `{only}` may be called in this run"));
        }
        if let Some(denied) = tool.tags.iter().find(|tag| self.denied_tags.contains(*tag)) {
            return Err(format!("tools tagged `{denied}` are not allowed in this run"));
        }
        if let Some(allowed) = &self.allowed_tags
            && !tool.tags.iter().any(|tag| allowed.contains(tag))
        {
            let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
            return Err(format!("only tools tagged {} are allowed in this run", allowed.join(", ")));
        }
        Ok(())
    }

    /// How long one execution of a tool may take. The exact name wins, then the longest `prefix*`, then the start's
    /// timeout for all tools, then the tool's own, then the agent's default.
    pub fn tool_timeout(&self, name: &ToolName, tool: &ToolEntry) -> Millis {
        let exact = self.per_tool_timeout.get(name.as_str());
        let by_prefix = || {
            self.per_tool_timeout
                .iter()
                .filter_map(|(pattern, timeout)| pattern.strip_suffix('*').map(|prefix| (prefix, timeout)))
                .filter(|(prefix, _)| name.as_str().starts_with(prefix))
                .max_by_key(|(prefix, _)| prefix.len())
                .map(|(_, timeout)| timeout)
        };
        exact
            .or_else(by_prefix)
            .copied()
            .or(self.tool_timeout_override)
            .or(tool.timeout_ms)
            .unwrap_or(self.tool_timeout_default)
    }
}

/// The lower of two limits; absent is unlimited.
pub(crate) fn lower<T: Ord>(own: Option<T>, ceiling: Option<T>) -> Option<T> {
    match (own, ceiling) {
        (Some(own), Some(ceiling)) => Some(own.min(ceiling)),
        (own, ceiling) => own.or(ceiling),
    }
}

fn layered<V>(base: Option<BTreeMap<String, V>>, over: Option<BTreeMap<String, V>>) -> BTreeMap<String, V> {
    match over {
        Some(over) if over.is_empty() => over,
        over => {
            let mut merged = base.unwrap_or_default();
            merged.extend(over.into_iter().flatten());
            merged
        }
    }
}

fn loop_limits(setting: Option<LoopDetection>) -> Option<LoopLimits> {
    match setting {
        Some(LoopDetection::Enabled(false)) => None,
        Some(LoopDetection::Thresholds(thresholds)) => Some(LoopLimits::of(thresholds)),
        Some(LoopDetection::Enabled(true)) | None => Some(LoopLimits::DEFAULT),
    }
}

fn tool_budgets(agent: &GuardOverrides, run: Option<&GuardOverrides>) -> BTreeMap<String, u32> {
    let plain = |budgets: &BTreeMap<String, ToolBudget>| -> BTreeMap<String, u32> {
        budgets.iter().map(|(name, budget)| (name.clone(), budget.max_calls)).collect()
    };
    layered(agent.tool_budgets.as_ref().map(plain), run.and_then(|guards| guards.tool_budgets.as_ref()).map(plain))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::ToolDispatch;

    fn tool(tags: &[&str], timeout: Option<u64>) -> ToolEntry {
        ToolEntry {
            dispatch: ToolDispatch::Activity,
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            timeout_ms: timeout.map(Millis),
            idempotent: false,
            confirmation: None,
        }
    }

    fn policy(agent: serde_json::Value, run: serde_json::Value) -> Policy {
        let agent = AgentPolicy { policy: serde_json::from_value(agent).unwrap(), guards: GuardOverrides::default() };
        Policy::resolve(&agent, Some(&serde_json::from_value(run).unwrap()), None, None)
    }

    #[test]
    fn absent_inherits_and_a_value_replaces_even_with_something_smaller() {
        let merged = policy(
            json!({"maxToolCalls": 9, "timeBudgetMs": 5000, "deniedTags": ["write"], "interruptsAllowed": false}),
            json!({"maxToolCalls": 0, "deniedTags": [], "interruptsAllowed": true}),
        );
        assert_eq!(merged.max_tool_calls, Some(0));
        assert_eq!(merged.time_budget, Some(Millis(5000)));
        assert!(merged.denied_tags.is_empty());
        assert!(merged.interrupts_allowed);
    }

    #[test]
    fn a_ceiling_only_lowers() {
        let ceiling =
            BudgetCeiling { time_budget_ms: Some(Millis(100)), max_tool_calls: Some(3), ..BudgetCeiling::default() };
        let own = PolicyOverrides { max_tool_calls: Some(2), ..PolicyOverrides::default() };
        let policy = Policy::resolve(&AgentPolicy::default(), Some(&own), None, Some(&ceiling));
        assert_eq!((policy.max_tool_calls, policy.time_budget), (Some(2), Some(Millis(100))));
    }

    #[test]
    fn tags_and_restriction_decide_what_may_be_called() {
        let name = ToolName::new("notes.add");
        let cases = [
            (json!({}), Ok(())),
            (json!({"restrictToTool": "notes.add"}), Ok(())),
            (json!({"restrictToTool": "clock"}), Err("only `clock` may be called in this run")),
            (json!({"allowedTags": ["write", "x"]}), Ok(())),
            (json!({"allowedTags": ["x", "y"]}), Err("only tools tagged x, y are allowed in this run")),
            (json!({"allowedTags": []}), Err("only tools tagged  are allowed in this run")),
            (json!({"deniedTags": ["write"]}), Err("tools tagged `write` are not allowed in this run")),
            (
                json!({"allowedTags": ["write"], "deniedTags": ["write"]}),
                Err("tools tagged `write` are not allowed in this run"),
            ),
        ];
        for (run, expected) in cases {
            let verdict = policy(json!({}), run.clone()).allows(&name, &tool(&["write"], None));
            assert_eq!(verdict, expected.map_err(str::to_owned), "{run}");
        }
    }

    #[test]
    fn the_most_specific_timeout_wins() {
        let name = ToolName::new("notes.add");
        let cases = [
            (json!({}), json!({}), None, 120_000),
            (json!({"toolTimeoutMs": 7}), json!({}), None, 7),
            (json!({"toolTimeoutMs": 7}), json!({}), Some(6), 6),
            (json!({"toolTimeoutMs": 7}), json!({"toolTimeoutMs": 5}), Some(6), 5),
            (json!({}), json!({"toolTimeoutMs": 5, "perToolTimeoutMs": {"notes.*": 4, "no*": 3, "*": 2}}), Some(6), 4),
            (json!({}), json!({"perToolTimeoutMs": {"notes.*": 4, "notes.add": 1}}), Some(6), 1),
            (json!({"perToolTimeoutMs": {"notes.add": 9}}), json!({"perToolTimeoutMs": {"notes.*": 4}}), Some(6), 9),
            (json!({"perToolTimeoutMs": {"notes.add": 9}}), json!({"perToolTimeoutMs": {}}), Some(6), 6),
        ];
        for (agent, run, own, expected) in cases {
            let timeout = policy(agent.clone(), run.clone()).tool_timeout(&name, &tool(&[], own));
            assert_eq!(timeout, Millis(expected), "{agent} {run}");
        }
    }

    #[test]
    fn guards_have_defaults_and_opt_outs() {
        let resolve = |guards: serde_json::Value| {
            let guards: GuardOverrides = serde_json::from_value(guards).unwrap();
            let own =
                serde_json::from_value(json!({"toolBudgets": {"search": {"maxCalls": 4}, "crawl": {"maxCalls": 3}}}));
            let agent = AgentPolicy { guards: own.unwrap(), ..AgentPolicy::default() };
            Policy::resolve(&agent, None, Some(&guards), None)
        };
        let defaults = resolve(json!({}));
        assert_eq!(defaults.loop_limits, Some(LoopLimits { soft: 3, hard: 6 }));
        assert_eq!(defaults.tool_budgets["search"], 4);
        assert_eq!(resolve(json!({"loopDetection": false})).loop_limits, None);
        assert_eq!(resolve(json!({"toolBudgets": {}})).tool_budgets, BTreeMap::new());
        let layered =
            resolve(json!({"toolBudgets": {"search": {"maxCalls": 1}, "mine": {"maxCalls": 0}}})).tool_budgets;
        let expected = [("search", 1), ("mine", 0), ("crawl", 3)].map(|(tool, max)| (tool.to_owned(), max));
        assert_eq!(layered, BTreeMap::from(expected));
        let without_any = Policy::resolve(&AgentPolicy::default(), None, None, None);
        assert_eq!(without_any.tool_budgets, BTreeMap::new(), "no tool has a budget unless one is set");
        let soft_only = resolve(json!({"loopDetection": {"consecutiveThreshold": 8}}));
        assert_eq!(soft_only.loop_limits, Some(LoopLimits { soft: 8, hard: 9 }));
        let hard_only = resolve(json!({"loopDetection": {"hardCutoffThreshold": 3}}));
        assert_eq!(hard_only.loop_limits, Some(LoopLimits { soft: 2, hard: 3 }));
    }
}
