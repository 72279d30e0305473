//! How hard the model is asked to think, and the room for the answer.

use serde_json::{Value, json};

use crate::{Effort, ModelRequest, ReasoningControl, thinking_budget};

/// The least budget that the API accepts.
const LEAST_BUDGET: u32 = 1024;
/// The API wants a limit of the output; this one is for models of which nothing is known.
const DEFAULT_MAX_TOKENS: u32 = 8192;

/// What a request says about thinking.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Thinking {
    pub(super) max_tokens: u32,
    /// The `thinking` of the request. `None` leaves it to the model.
    pub(super) config: Option<Value>,
    pub(super) effort: Option<&'static str>,
    /// Thinking is asked for. The API then takes no forced tool.
    pub(super) on: bool,
}

/// `answers_calls` says that the request ends with results of calls that the model made without thinking, because it was
/// another model or because thinking was off. The API refuses a thinking budget there until the next message of the user.
pub(super) fn of(request: &ModelRequest, answers_calls: bool) -> Thinking {
    let limit = request.spec.max_output_tokens;
    let max_tokens = request.parameters.max_output_tokens.or(limit).unwrap_or(DEFAULT_MAX_TOKENS);
    let max_tokens = max_tokens.min(limit.unwrap_or(u32::MAX));
    let none = Thinking { max_tokens, config: None, effort: None, on: false };
    let Some(level) = request.reasoning_level else { return none };
    match (request.spec.reasoning, Effort::of_level(level)) {
        (ReasoningControl::None, _) => none,
        (_, Effort::Off) => Thinking { config: Some(json!({"type": "disabled"})), ..none },
        (ReasoningControl::Effort, effort) => Thinking {
            config: Some(json!({"type": "adaptive", "display": "summarized"})),
            effort: Some(word(effort)),
            on: true,
            ..none
        },
        (ReasoningControl::Budget, _) if answers_calls => none,
        (ReasoningControl::Budget, _) => match with_budget(level, max_tokens, limit) {
            Some((budget, max_tokens)) => Thinking {
                max_tokens,
                config: Some(json!({"type": "enabled", "budget_tokens": budget})),
                effort: None,
                on: true,
            },
            None => none,
        },
    }
}

fn word(effort: Effort) -> &'static str {
    match effort {
        Effort::Off | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

/// The budget for a level and the limit of the output, which is above the budget. `None` if the model has no room for
/// thinking.
fn with_budget(level: u8, max_tokens: u32, limit: Option<u32>) -> Option<(u32, u32)> {
    let budget = thinking_budget(level).max(LEAST_BUDGET);
    if max_tokens > budget {
        return Some((budget, max_tokens));
    }
    // Thinking counts as output, so the answer gets the room that was asked for on top of the budget.
    let raised = budget.saturating_add(max_tokens.max(1)).min(limit.unwrap_or(u32::MAX));
    let budget = budget.min(raised.saturating_sub(1));
    (budget >= LEAST_BUDGET).then_some((budget, raised))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{ModelSpec, fixtures::request};

    fn asking(control: ReasoningControl, level: Option<u8>, asked: Option<u32>, limit: Option<u32>) -> ModelRequest {
        let mut request = request(vec![]);
        request.spec = Arc::new(ModelSpec { reasoning: control, max_output_tokens: limit, ..ModelSpec::default() });
        request.reasoning_level = level;
        request.parameters.max_output_tokens = asked;
        request
    }

    #[test]
    fn the_output_has_a_limit() {
        let table = [(None, None, 8192), (None, Some(64_000), 64_000), (Some(100), Some(50), 50), (Some(7), None, 7)];
        for (asked, limit, sent) in table {
            assert_eq!(of(&asking(ReasoningControl::None, Some(50), asked, limit), false).max_tokens, sent);
        }
    }

    #[test]
    fn a_level_becomes_an_effort_or_a_budget() {
        use ReasoningControl::{Budget, Effort, None as Never};
        let adaptive = || Some(json!({"type": "adaptive", "display": "summarized"}));
        let off = || Some(json!({"type": "disabled"}));
        let budget = |tokens: u32| Some(json!({"type": "enabled", "budget_tokens": tokens}));
        let table = [
            (Never, Some(80), None, None, false),
            (Effort, None, None, None, false),
            (Effort, Some(0), off(), None, false),
            (Effort, Some(30), adaptive(), Some("low"), true),
            (Effort, Some(50), adaptive(), Some("medium"), true),
            (Effort, Some(80), adaptive(), Some("high"), true),
            (Budget, Some(0), off(), None, false),
            (Budget, Some(10), budget(1024), None, true),
            (Budget, Some(80), budget(8000), None, true),
        ];
        for (control, level, config, effort, on) in table {
            let expected = Thinking { max_tokens: 20_000, config, effort, on };
            assert_eq!(of(&asking(control, level, Some(20_000), None), false), expected, "{control:?} {level:?}");
        }
    }

    #[test]
    fn the_limit_is_raised_above_the_budget_as_far_as_the_model_allows() {
        let table = [
            (80, 8001, None, Some((8000, 8001))),
            (80, 8000, None, Some((8000, 16_000))),
            (80, 500, None, Some((8000, 8500))),
            (80, 500, Some(8192), Some((8000, 8192))),
            (80, 500, Some(4096), Some((4095, 4096))),
            (80, 500, Some(1024), None),
            (10, 1024, Some(1025), Some((1024, 1025))),
        ];
        for (level, asked, limit, expected) in table {
            assert_eq!(with_budget(level, asked, limit), expected, "{level} {asked} {limit:?}");
        }
    }

    #[test]
    fn no_budget_while_calls_made_without_thinking_are_answered() {
        let request = asking(ReasoningControl::Budget, Some(80), None, None);
        assert_eq!(of(&request, true).config, None);
        let adaptive = asking(ReasoningControl::Effort, Some(80), None, None);
        assert!(of(&adaptive, true).on);
    }
}
