//! Gemini's finish reasons in our words.

use windlass_core::stop::StopReason;

/// `calls` is whether the answer has calls: Gemini says `STOP` for both.
pub(super) fn of_finish_reason(reason: &str, calls: bool) -> StopReason {
    match reason {
        "STOP" if calls => StopReason::ToolUse,
        "STOP" => StopReason::EndTurn,
        // The loop over server-side tools and a long generation are cut off at a limit, too. Their partial text is no answer.
        "MAX_TOKENS" | "TOO_MANY_TOOL_CALLS" | "CONTINUATION" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "ESCALATION"
        | "PUP_LIMITED_DISABLED"
        | "MODEL_ARMOR" => StopReason::ContentFilter,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => StopReason::MalformedCall,
        other => StopReason::Other(other.to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finish_reason_has_a_stop_reason() {
        let table = [
            ("STOP", false, "end_turn"),
            ("STOP", true, "tool_use"),
            ("MAX_TOKENS", true, "max_tokens"),
            ("TOO_MANY_TOOL_CALLS", false, "max_tokens"),
            ("CONTINUATION", false, "max_tokens"),
            ("SAFETY", true, "content_filter"),
            ("RECITATION", false, "content_filter"),
            ("LANGUAGE", false, "content_filter"),
            ("BLOCKLIST", false, "content_filter"),
            ("PROHIBITED_CONTENT", false, "content_filter"),
            ("SPII", false, "content_filter"),
            ("IMAGE_SAFETY", false, "content_filter"),
            ("IMAGE_PROHIBITED_CONTENT", false, "content_filter"),
            ("IMAGE_RECITATION", false, "content_filter"),
            ("ESCALATION", false, "content_filter"),
            ("PUP_LIMITED_DISABLED", false, "content_filter"),
            ("MODEL_ARMOR", false, "content_filter"),
            ("MALFORMED_FUNCTION_CALL", false, "malformed_function_call"),
            ("UNEXPECTED_TOOL_CALL", false, "malformed_function_call"),
            ("MALFORMED_RESPONSE", false, "malformed_function_call"),
            ("OTHER", false, "other"),
            ("NO_IMAGE", false, "no_image"),
            ("IMAGE_OTHER", false, "image_other"),
            ("SOMETHING_NEW", true, "something_new"),
        ];
        for (reason, calls, stop) in table {
            assert_eq!(of_finish_reason(reason, calls).as_str(), stop, "{reason}");
        }
    }
}
