//! Which model is asked when the provider of the run's model does not answer.

use super::{PlanFailure, Run};
use crate::event::EventBody;

/// How often a model is asked while another one is left. Waiting longer than that is worse than the other model.
const ATTEMPTS_WITH_FALLBACK: u32 = 3;

impl Run {
    /// How often the run's model is asked for this turn.
    pub(super) fn plan_attempts(&self) -> u32 {
        let all = self.tuning.plan_max_attempts();
        if self.state.fallback.is_empty() { all } else { all.min(ATTEMPTS_WITH_FALLBACK) }
    }

    /// Changes to the next fallback model if there is one and the failure is a reason to. The same turn is asked again;
    /// the run keeps the other model until it ends.
    pub(super) fn fall_back(&mut self, failure: &PlanFailure, turn: u32) -> bool {
        if self.state.fallback.is_empty() || !is_reason(failure, self.state.primary_model_id.is_some()) {
            return false;
        }
        let next = self.state.fallback.remove(0);
        let failed = self.state.model_id.replace(next.clone()).unwrap_or_default();
        let primary = self.state.primary_model_id.get_or_insert(failed).clone();
        self.outgoing.event(EventBody::ModelFallback {
            error_class: class_of(failure).to_owned(),
            model: next.clone(),
            primary_model_id: primary,
            fallback_model_id: next,
            turn,
        });
        true
    }
}

fn class_of(failure: &PlanFailure) -> &str {
    failure.error_class.as_deref().unwrap_or(if failure.timed_out { "timeout" } else { "unknown" })
}

/// The agent-runs protocol's rules: for a provider that is overloaded, fails, cannot be reached or takes too long; not for
/// a wrong key, an invalid request or a used-up quota; not after a part of the answer was shown. A request that only the
/// fallback model does not accept is a reason as well: the run's own model was never asked whether it does.
fn is_reason(failure: &PlanFailure, on_fallback: bool) -> bool {
    if failure.partial_text.as_deref().is_some_and(|text| !text.is_empty()) {
        return false;
    }
    match class_of(failure) {
        "overloaded" | "server" | "timeout" | "upstream_deadline" => true,
        // A used-up quota is a rate limit that does not pass.
        "rate_limit" => failure.retryable,
        "invalid_request" | "auth" => on_fallback,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_provider_that_does_not_answer_is_a_reason() {
        let failed = |class: &str, retryable| PlanFailure {
            error_class: Some(class.to_owned()),
            retryable,
            ..PlanFailure::new("no")
        };
        let table = [
            (failed("overloaded", true), [true, true]),
            (failed("server", true), [true, true]),
            (failed("timeout", true), [true, true]),
            (failed("upstream_deadline", true), [true, true]),
            (failed("rate_limit", true), [true, true]),
            (failed("rate_limit", false), [false, false]),
            (failed("auth", false), [false, true]),
            (failed("invalid_request", false), [false, true]),
            (failed("context_window", false), [false, false]),
            (failed("unknown", false), [false, false]),
            (failed("cancelled", true), [false, false]),
            (PlanFailure { timed_out: true, ..PlanFailure::new("no") }, [true, true]),
            (PlanFailure { partial_text: Some("Once".into()), ..failed("server", true) }, [false, false]),
        ];
        for (failure, expected) in table {
            assert_eq!([false, true].map(|on_fallback| is_reason(&failure, on_fallback)), expected, "{failure:?}");
        }
    }
}
