//! The loop guard and the tool budgets, as the agent-runs protocol defines them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{canonical::Digest, envelope::ToolRequest, ids::ToolName, policy::LoopLimits};

/// Notices when a model asks for the same batch turn after turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoopGuard {
    signature: Option<Digest>,
    streak: u32,
}

/// What the guard says about a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopVerdict {
    Fresh,
    /// Skip the batch. `first` says that this is the turn to nudge.
    Repeated {
        count: u32,
        first: bool,
    },
    /// Skip the batch and finalise.
    Cutoff {
        count: u32,
    },
}

impl LoopGuard {
    pub fn observe(&mut self, limits: Option<LoopLimits>, calls: &[ToolRequest]) -> LoopVerdict {
        let Some(limits) = limits else { return LoopVerdict::Fresh };
        let signature = signature(calls);
        self.streak = if self.signature == Some(signature) { self.streak + 1 } else { 1 };
        self.signature = Some(signature);
        let count = self.streak;
        if count >= limits.hard {
            LoopVerdict::Cutoff { count }
        } else if count >= limits.soft {
            LoopVerdict::Repeated { count, first: count == limits.soft }
        } else {
            LoopVerdict::Fresh
        }
    }
}

/// The same whatever order the calls come in.
fn signature(calls: &[ToolRequest]) -> Digest {
    let mut parts: Vec<String> =
        calls.iter().map(|call| format!("{}\u{0}{}", call.name, call.payload_digest)).collect();
    parts.sort_unstable();
    Digest::of_bytes(parts.join("\n").as_bytes())
}

/// Counts the attempts at tools that have a budget.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BudgetGuard {
    attempts: BTreeMap<ToolName, u32>,
}

/// One attempt too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetExceeded {
    pub max_calls: u32,
    /// Which attempt this was, from 1.
    pub call_index: u32,
}

impl BudgetGuard {
    pub fn charge(&mut self, budgets: &BTreeMap<String, u32>, name: &ToolName) -> Result<(), BudgetExceeded> {
        let Some(&max_calls) = budgets.get(name.as_str()) else { return Ok(()) };
        let attempts = self.attempts.entry(name.clone()).or_default();
        *attempts += 1;
        let call_index = *attempts;
        if call_index > max_calls { Err(BudgetExceeded { max_calls, call_index }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::body::Body;

    fn call(name: &str, args: &Value) -> ToolRequest {
        ToolRequest::new("c".into(), name.into(), &Body::Inline(args.into()))
    }

    #[test]
    fn nudges_at_three_and_cuts_off_at_six_identical_turns() {
        let mut guard = LoopGuard::default();
        let batch = [call("a", &json!({"x": 1})), call("b", &json!({}))];
        let reordered = [batch[1].clone(), batch[0].clone()];
        let verdicts: Vec<LoopVerdict> = (0..6)
            .map(|turn| guard.observe(Some(LoopLimits::DEFAULT), if turn % 2 == 0 { &batch } else { &reordered }))
            .collect();
        assert_eq!(
            verdicts,
            [
                LoopVerdict::Fresh,
                LoopVerdict::Fresh,
                LoopVerdict::Repeated { count: 3, first: true },
                LoopVerdict::Repeated { count: 4, first: false },
                LoopVerdict::Repeated { count: 5, first: false },
                LoopVerdict::Cutoff { count: 6 },
            ]
        );
    }

    #[test]
    fn another_batch_resets_and_a_repeated_call_is_another_batch() {
        let mut guard = LoopGuard::default();
        let once = [call("a", &json!(1))];
        let twice = [call("a", &json!(1)), call("a", &json!(1))];
        for batch in [&once[..], &once[..], &twice[..], &once[..], &once[..]] {
            assert_eq!(guard.observe(Some(LoopLimits::DEFAULT), batch), LoopVerdict::Fresh);
        }
        assert_eq!(guard.observe(Some(LoopLimits::DEFAULT), &once), LoopVerdict::Repeated { count: 3, first: true });
    }

    #[test]
    fn off_means_off() {
        let mut guard = LoopGuard::default();
        for _ in 0..20 {
            assert_eq!(guard.observe(None, &[call("a", &json!(1))]), LoopVerdict::Fresh);
        }
        assert_eq!(guard, LoopGuard::default());
    }

    #[test]
    fn a_budget_counts_attempts_beyond_the_cap_too() {
        let mut guard = BudgetGuard::default();
        let budgets = BTreeMap::from([("recall".to_owned(), 2)]);
        let name = ToolName::new("recall");
        let results: Vec<_> = (0..4).map(|_| guard.charge(&budgets, &name)).collect();
        assert_eq!(
            results,
            [
                Ok(()),
                Ok(()),
                Err(BudgetExceeded { max_calls: 2, call_index: 3 }),
                Err(BudgetExceeded { max_calls: 2, call_index: 4 }),
            ]
        );
        assert_eq!(guard.charge(&budgets, &ToolName::new("other")), Ok(()));
    }
}
