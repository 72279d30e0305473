//! Admission: one chain that every call of a turn passes, in one order.
//!
//! caps (per turn, total, time) → loop guard → policy → budget → exists → arguments → confirmation.
//! A call that is not admitted still gets exactly one result, which the model can read.

use crate::{
    agent::ToolTable,
    approval::{ApprovalDecision, ApprovalOutcome},
    envelope::{FinalizeReason, RetryHint, RetryReason, ToolErrorKind, ToolRequest},
    guard::{BudgetExceeded, BudgetGuard, LoopGuard, LoopVerdict},
    ids::ToolName,
    policy::Policy,
};

/// What the chain needs to know about the run.
#[derive(Debug)]
pub struct AdmissionContext<'a> {
    pub policy: &'a Policy,
    pub tools: &'a ToolTable,
    /// Calls the run may still execute; `None` is unlimited.
    pub calls_left: Option<u32>,
    pub out_of_time: bool,
}

/// The decision about one call.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Run,
    /// A person must approve it first.
    Confirm,
    Refuse(Refusal),
}

/// Why a call is not executed. The model reads the message.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    pub kind: ToolErrorKind,
    pub message: String,
    pub hint: Option<Box<RetryHint>>,
    pub budget: Option<BudgetExceeded>,
}

/// The decisions about a whole batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// In call order.
    pub verdicts: Vec<Verdict>,
    pub loop_notice: Option<LoopNotice>,
    pub finalize: Option<FinalizeReason>,
}

/// The loop guard fired: first a nudge, then the hard cutoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopNotice {
    pub count: u32,
    pub hard: bool,
    pub tools: Vec<ToolName>,
}

impl Refusal {
    fn new(kind: ToolErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, budget: None }
    }
}

/// Decides about a batch. The guards count it, so a batch must be admitted only once.
pub fn admit(
    run: &AdmissionContext<'_>,
    loops: &mut LoopGuard,
    budgets: &mut BudgetGuard,
    calls: &[ToolRequest],
) -> Admission {
    if run.out_of_time {
        let refusal = Refusal::new(ToolErrorKind::TimeBudget, "not executed: the run's time budget is used up");
        return all_refused(calls, &refusal, Some(FinalizeReason::TimeBudget));
    }
    if run.calls_left == Some(0) {
        return all_refused(calls, &tool_cap(), Some(FinalizeReason::ToolCap));
    }
    match loops.observe(run.policy.loop_limits, calls) {
        LoopVerdict::Fresh => admit_each(run, budgets, calls),
        LoopVerdict::Repeated { count, first } => {
            let refusal = Refusal::new(
                ToolErrorKind::LoopDetected,
                format!("not executed: these exact calls were made {count} times in a row and will not run again"),
            );
            let mut admission = all_refused(calls, &refusal, None);
            admission.loop_notice = first.then(|| LoopNotice { count, hard: false, tools: names(calls) });
            admission
        }
        LoopVerdict::Cutoff { count } => {
            let refusal = Refusal::new(
                ToolErrorKind::LoopDetected,
                format!("not executed: the same calls were made {count} times in a row; the run is being closed"),
            );
            let mut admission = all_refused(calls, &refusal, Some(FinalizeReason::Loop));
            admission.loop_notice = Some(LoopNotice { count, hard: true, tools: names(calls) });
            admission
        }
    }
}

fn admit_each(run: &AdmissionContext<'_>, budgets: &mut BudgetGuard, calls: &[ToolRequest]) -> Admission {
    let mut admitted = 0;
    let mut finalize = None;
    let verdicts = calls
        .iter()
        .map(|call| match admit_one(run, budgets, call, admitted) {
            Ok(verdict) => {
                admitted += 1;
                verdict
            }
            Err(refusal) => {
                if refusal.kind == ToolErrorKind::ToolCap {
                    finalize = Some(FinalizeReason::ToolCap);
                }
                Verdict::Refuse(refusal)
            }
        })
        .collect();
    Admission { verdicts, loop_notice: None, finalize }
}

fn admit_one(
    run: &AdmissionContext<'_>,
    budgets: &mut BudgetGuard,
    call: &ToolRequest,
    admitted: u32,
) -> Result<Verdict, Refusal> {
    if let Some(max) = run.policy.per_turn_max_tool_calls
        && admitted >= max
    {
        let message = format!("not executed: at most {max} calls run per turn; ask again in the next turn if needed");
        return Err(Refusal::new(ToolErrorKind::PerTurnCap, message));
    }
    if run.calls_left.is_some_and(|left| admitted >= left) {
        return Err(tool_cap());
    }
    let tool = run.tools.get(&call.name);
    if let Some(tool) = tool {
        run.policy
            .allows(&call.name, tool)
            .map_err(|why| Refusal::new(ToolErrorKind::PolicyDenied, format!("not executed: {why}")))?;
        if let Some(ApprovalDecision { outcome: ApprovalOutcome::Deny, reason, .. }) = call.approval.as_deref() {
            return Err(Refusal::new(ToolErrorKind::PolicyDenied, format!("not executed: denied {reason}")));
        }
    }
    budgets.charge(&run.policy.tool_budgets, &call.name).map_err(|exceeded| Refusal {
        budget: Some(exceeded),
        ..Refusal::new(
            ToolErrorKind::ToolBudgetExceeded,
            format!(
                "not executed: `{}` may be called {} times in a run; answer with what you have",
                call.name, exceeded.max_calls
            ),
        )
    })?;
    let Some(tool) = tool else {
        let hint = RetryHint { message: Some("call one of the tools you were given".to_owned()), ..unavailable(call) };
        let message = format!("there is no tool named `{}`", call.name);
        return Err(Refusal { hint: Some(Box::new(hint)), ..Refusal::new(ToolErrorKind::ToolUnknown, message) });
    };
    if let Some(hint) = &call.invalid {
        let message = match (hint.reason, &hint.message) {
            // The turn was cut off: it was not the arguments.
            (RetryReason::MalformedResponse, Some(why)) => why,
            _ => "the arguments do not fit the tool's schema; correct them",
        };
        return Err(Refusal {
            hint: Some(Box::new(hint.clone())),
            ..Refusal::new(ToolErrorKind::ToolInputInvalid, message)
        });
    }
    let asks = match call.approval.as_deref() {
        Some(decision) => decision.outcome == ApprovalOutcome::Ask,
        None => tool.confirmation.is_some(),
    };
    Ok(if asks { Verdict::Confirm } else { Verdict::Run })
}

fn unavailable(call: &ToolRequest) -> RetryHint {
    RetryHint { tool: Some(call.name.clone()), ..RetryHint::new(RetryReason::ToolUnavailable) }
}

fn tool_cap() -> Refusal {
    Refusal::new(ToolErrorKind::ToolCap, "not executed: the run has used all its tool calls")
}

fn all_refused(calls: &[ToolRequest], refusal: &Refusal, finalize: Option<FinalizeReason>) -> Admission {
    let verdicts = calls.iter().map(|_| Verdict::Refuse(refusal.clone())).collect();
    Admission { verdicts, loop_notice: None, finalize }
}

fn names(calls: &[ToolRequest]) -> Vec<ToolName> {
    let mut names: Vec<ToolName> = calls.iter().map(|call| call.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::{
        agent::{ConfirmationSpec, ToolDispatch, ToolEntry},
        body::Body,
        policy::AgentPolicy,
    };

    fn tools() -> ToolTable {
        let entry = |tags: &[&str], confirm: bool| ToolEntry {
            dispatch: ToolDispatch::Activity,
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            timeout_ms: None,
            idempotent: false,
            confirmation: confirm.then(ConfirmationSpec::default),
        };
        [("read", entry(&["read"], false)), ("write", entry(&["write"], false)), ("pay", entry(&["write"], true))]
            .into_iter()
            .map(|(name, entry)| (ToolName::new(name), entry))
            .collect()
    }

    fn call(name: &str) -> ToolRequest {
        ToolRequest::new("c".into(), name.into(), &Body::Inline(json!(name).into()))
    }

    fn policy(overrides: serde_json::Value) -> Policy {
        let overrides = serde_json::from_value(overrides).unwrap();
        Policy::resolve(&AgentPolicy::default(), Some(&overrides), None, None)
    }

    /// The verdicts as words: `run`, `confirm` or the refusal's kind.
    fn words(
        policy: &Policy,
        calls_left: Option<u32>,
        out_of_time: bool,
        calls: &[ToolRequest],
    ) -> (Vec<String>, Option<FinalizeReason>) {
        let tools = tools();
        let run = AdmissionContext { policy, tools: &tools, calls_left, out_of_time };
        let admission = admit(&run, &mut LoopGuard::default(), &mut BudgetGuard::default(), calls);
        let words = admission.verdicts.iter().map(|verdict| match verdict {
            Verdict::Run => "run".to_owned(),
            Verdict::Confirm => "confirm".to_owned(),
            Verdict::Refuse(refusal) => serde_json::to_value(refusal.kind).unwrap().as_str().unwrap().to_owned(),
        });
        (words.collect(), admission.finalize)
    }

    #[test]
    fn each_call_gets_the_verdict_of_the_first_stage_that_objects() {
        let mut bad = call("read");
        bad.invalid = Some(unavailable(&call("read")));
        let batch = [call("read"), call("write"), call("pay"), call("nope"), bad];
        let cases = [
            (json!({}), vec!["run", "run", "confirm", "tool_unknown", "tool_input_invalid"]),
            (
                json!({"perTurnMaxToolCalls": 1}),
                vec!["run", "per_turn_cap", "per_turn_cap", "per_turn_cap", "per_turn_cap"],
            ),
            (
                json!({"deniedTags": ["write"]}),
                vec!["run", "policy_denied", "policy_denied", "tool_unknown", "tool_input_invalid"],
            ),
            (
                json!({"restrictToTool": "pay"}),
                vec!["policy_denied", "policy_denied", "confirm", "tool_unknown", "policy_denied"],
            ),
        ];
        for (overrides, expected) in cases {
            assert_eq!(words(&policy(overrides.clone()), None, false, &batch).0, expected, "{overrides}");
        }
    }

    #[test]
    fn a_refused_call_does_not_use_up_a_cap() {
        let batch = [call("nope"), call("read"), call("write"), call("pay")];
        let (verdicts, finalize) = words(&policy(json!({})), Some(2), false, &batch);
        assert_eq!(verdicts, ["tool_unknown", "run", "run", "tool_cap"]);
        assert_eq!(finalize, Some(FinalizeReason::ToolCap));
    }

    #[test]
    fn time_and_total_caps_refuse_the_whole_batch_and_finalise() {
        let batch = [call("read"), call("nope")];
        assert_eq!(
            words(&policy(json!({})), Some(0), false, &batch),
            (vec!["tool_cap".to_owned(), "tool_cap".to_owned()], Some(FinalizeReason::ToolCap))
        );
        assert_eq!(
            words(&policy(json!({})), Some(5), true, &batch),
            (vec!["time_budget".to_owned(), "time_budget".to_owned()], Some(FinalizeReason::TimeBudget))
        );
    }

    #[test]
    fn a_budget_refuses_the_calls_above_it() {
        let mut policy = policy(json!({}));
        policy.tool_budgets = BTreeMap::from([("read".to_owned(), 1)]);
        let (verdicts, finalize) = words(&policy, None, false, &[call("read"), call("write"), call("read")]);
        assert_eq!((verdicts, finalize), (vec!["run".into(), "run".into(), "tool_budget_exceeded".into()], None));
    }
}
