//! Whether a rule matches a call.

use super::{ApprovalOutcome, ApprovalRule, ArgumentOp, CallFacts, explain::Unmet};
use crate::agent::matches;

/// The tag of tools that change nothing.
const READ_ONLY: &str = "read_only";

impl ApprovalRule {
    /// The first condition that does not hold; `None` if the rule matches.
    pub(super) fn unmet(&self, call: &CallFacts<'_>) -> Option<Unmet> {
        self.unknown_to_this_build()
            .or_else(|| self.unmet_by_tool(call))
            .or_else(|| self.unmet_by_run(call))
            .or_else(|| self.unmet_by_arguments(call))
    }

    /// A part that this build does not know may narrow the rule. Without it an `allow` would allow more than was meant;
    /// an `ask` or a `deny` is only stricter, so it stays.
    fn unknown_to_this_build(&self) -> Option<Unmet> {
        if self.outcome != ApprovalOutcome::Allow {
            return None;
        }
        let unknown_test = self.when.iter().position(|test| matches!(test.op, ArgumentOp::Other(_)));
        let field = match unknown_test {
            Some(index) => format!("when[{index}]"),
            None => self.extra.keys().next()?.clone(),
        };
        Some(Unmet { field, why: "this build does not know it, and an allow needs all its conditions".to_owned() })
    }

    fn unmet_by_tool(&self, call: &CallFacts<'_>) -> Option<Unmet> {
        let tool = call.tool.as_str();
        if let Some(pattern) = &self.tool
            && !matches(pattern, tool)
        {
            return unmet("tool", format!("{tool:?} is not {pattern:?}"));
        }
        if !self.tags.is_empty() && !self.tags.iter().any(|tag| call.tags.contains(tag)) {
            return unmet("tags", format!("the tool has none of {}", self.tags.join(", ")));
        }
        if let Some(source) = &self.source
            && source != call.source
        {
            return unmet("source", format!("the tool is of kind {}, not {source}", call.source));
        }
        let has_tag = call.tags.iter().any(|tag| tag == READ_ONLY);
        match self.read_only {
            Some(true) if !has_tag => unmet("read_only", format!("the tool does not have the tag {READ_ONLY}")),
            Some(false) if has_tag => unmet("read_only", format!("the tool has the tag {READ_ONLY}")),
            _ => None,
        }
    }

    fn unmet_by_run(&self, call: &CallFacts<'_>) -> Option<Unmet> {
        if let Some(pattern) = &self.caller {
            let Some(starter) = call.starter else {
                return unmet("caller", "the run does not say who started it".to_owned());
            };
            if !matches(pattern, &starter.id) {
                return unmet("caller", format!("the run was started by {:?}, not {pattern:?}", starter.id));
            }
        }
        match self.cost_at_least {
            Some(least) if call.cost < least => {
                unmet("cost_at_least", format!("the run has spent {}, less than {least}", call.cost))
            }
            _ => None,
        }
    }

    fn unmet_by_arguments(&self, call: &CallFacts<'_>) -> Option<Unmet> {
        // Arguments that cannot be looked into must not be a way around a rule.
        if call.args.is_none() && self.outcome != ApprovalOutcome::Allow {
            return None;
        }
        let known = self.when.iter().enumerate().filter(|(_, test)| !matches!(test.op, ArgumentOp::Other(_)));
        known
            .filter_map(|(index, test)| Some(Unmet { field: format!("when[{index}]"), why: test.unmet(call.args)? }))
            .next()
    }
}

fn unmet(field: &str, why: String) -> Option<Unmet> {
    Some(Unmet { field: field.to_owned(), why })
}
