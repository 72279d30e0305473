//! The fields that two correct servers may fill differently, and how each is compared instead. Everything that is not
//! named here is compared as it is, apart from instants (set or not) and UUIDs (numbered by their first appearance).

/// What is left of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing.
    Nothing,
    /// Whether it is set.
    WhetherSet,
    /// All of it, but in the order of this field of its elements.
    SortedBy(&'static str),
    /// The values of a map.
    Values,
    /// The timeout of a workflow task, without what is chance in it.
    UpToChance,
    /// All of it, unless there is nothing in it.
    UnlessEmpty,
}

pub(super) struct Rule {
    /// `Message.field`, or `*.field` in any message; an entry of a map is `field[key]`.
    pub(super) field: &'static str,
    pub(super) rest: Rest,
    pub(super) reason: &'static str,
}

const fn rule(field: &'static str, rest: Rest, reason: &'static str) -> Rule {
    Rule { field, rest, reason }
}

pub(super) const RULES: &[Rule] = &[
    rule("HistoryEvent.task_id", Rest::Nothing, "the position in a server's own task queue"),
    rule("*.link", Rest::Nothing, "links are for Nexus and the web UI; an answer may carry none"),
    rule("*.signal_link", Rest::Nothing, "links are for Nexus and the web UI; an answer may carry none"),
    rule("*.task_token", Rest::WhetherSet, "tokens are opaque"),
    rule("*.next_page_token", Rest::WhetherSet, "tokens are opaque"),
    rule("*.poller_scaling_decision", Rest::Nothing, "advice that depends on load"),
    rule("*.poller_group_id", Rest::Nothing, "how a server spreads its pollers"),
    rule("*.poller_groups_info", Rest::Nothing, "how a server spreads its pollers"),
    rule("*.poller_group_infos", Rest::Nothing, "how a server spreads its pollers"),
    rule("*.backlog_count_hint", Rest::Nothing, "advice that depends on load"),
    rule("*.history_size_bytes", Rest::Nothing, "sizes depend on how a server encodes"),
    rule("*.state_transition_count", Rest::Nothing, "how many transactions a server needs is its own affair"),
    rule("*.execution_duration", Rest::WhetherSet, "it is measured"),
    rule("WorkflowTaskStartedEventAttributes.request_id", Rest::WhetherSet, "made up by the server for its queue"),
    rule("ActivityTaskStartedEventAttributes.request_id", Rest::WhetherSet, "made up by the server for its queue"),
    rule(
        "WorkflowTaskScheduledEventAttributes.start_to_close_timeout",
        Rest::UpToChance,
        "from the fourth attempt on it grows, and up to a fifth of the growth is chance",
    ),
    rule(
        "*.auto_reset_points",
        Rest::UnlessEmpty,
        "whether an empty list is sent depends on whether the server has the run in its cache",
    ),
    rule(
        "*.prev_auto_reset_points",
        Rest::UnlessEmpty,
        "whether an empty list is written depends on whether the server has the run in its cache",
    ),
    rule("*.use_workflow_build_id", Rest::Nothing, "worker versioning is not part of the comparison"),
    rule("*.versioning_info", Rest::Nothing, "worker versioning is not part of the comparison"),
    rule("SearchAttributes.indexed_fields[BuildIds]", Rest::Nothing, "written by the server for worker versioning"),
    rule(
        "*.current_retry_interval",
        Rest::Nothing,
        "shown only while a retry is due, which is a matter of when one looks",
    ),
    rule(
        "*.next_attempt_schedule_time",
        Rest::Nothing,
        "shown only while a retry is due, which is a matter of when one looks",
    ),
    rule(
        "PollWorkflowTaskQueueResponse.queries",
        Rest::Values,
        "the server's own names for queries; one that is asked again may get a new one",
    ),
    rule("*.pending_activities", Rest::SortedBy("activity_id"), "the order is that of a hash map"),
    rule("*.pending_children", Rest::SortedBy("initiated_id"), "the order is that of a hash map"),
];

/// The rule for a field, if there is one.
pub(super) fn rest_of(message: &str, field: &str) -> Option<Rest> {
    let named = |rule: &&Rule| match rule.field.split_once('.') {
        Some(("*", name)) => name == field,
        Some((owner, name)) => owner == message && name == field,
        None => false,
    };
    RULES.iter().find(named).map(|rule| rule.rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ignore_rule_has_a_reason_and_is_unique() {
        for rule in RULES {
            assert!(!rule.reason.is_empty(), "{}", rule.field);
            assert_eq!(RULES.iter().filter(|other| other.field == rule.field).count(), 1, "{}", rule.field);
        }
    }

    #[test]
    fn rules_are_found_by_message_and_by_name() {
        assert_eq!(rest_of("HistoryEvent", "task_id"), Some(Rest::Nothing));
        assert_eq!(rest_of("Command", "task_id"), None);
        assert_eq!(rest_of("PollWorkflowTaskQueueResponse", "task_token"), Some(Rest::WhetherSet));
    }
}
