//! Activities: retries, timeouts, cancellation, tokens, ids, eager starts.

use super::{
    ActivityExtra, By, Case, Do, Report, Who, cancel, case, complete, complete_and_hold, poll, report, schedule,
    signal, start, take, terminate,
};
use crate::diff::script::Action;

const W: Who = Who::W0;

pub(super) fn cases() -> Vec<Case> {
    vec![
        with_activity(
            "a start is written when the activity ends",
            &[],
            [take(W, 0), signal(W, 1), report(W, 0, Report::Completed)],
        ),
        with_activity(
            "an attempt is repeated, and only the last is written",
            &[ActivityExtra::RetryOnce],
            [
                take(W, 0),
                report(W, 0, Report::Heartbeat),
                report(W, 0, Report::Failed("Passing")),
                take(W, 0),
                report(W, 0, Report::Failed("Passing")),
            ],
        ),
        with_activity(
            "a failure for good",
            &[],
            [take(W, 0), report(W, 0, Report::FailedForGood), report(W, 0, Report::Completed)],
        ),
        with_activity(
            "a failure of a type that is not retried",
            &[ActivityExtra::RetryUnlessFatal],
            [take(W, 0), report(W, 0, Report::Failed("Passing")), take(W, 0), report(W, 0, Report::Failed("Fatal"))],
        ),
        with_activity(
            "the worker chooses the delay",
            &[ActivityExtra::RetryOnce],
            [take(W, 0), report(W, 0, Report::FailedWithDelay), take(W, 0), report(W, 0, Report::FailedWithDelay)],
        ),
        with_activity("no worker takes it in time", &[ActivityExtra::QueueTimeout], [take(W, 0), poll(W)]),
        with_activity(
            "it does not end in time",
            &[ActivityExtra::RunTimeout, ActivityExtra::NoRetry],
            [take(W, 0), report(W, 0, Report::Completed), poll(W)],
        ),
        with_activity(
            "it does not end in time, twice",
            &[ActivityExtra::RunTimeout, ActivityExtra::RetryOnce],
            [take(W, 0), take(W, 0), poll(W)],
        ),
        with_activity(
            "timeouts that are not given",
            &[ActivityExtra::OnlyStartToClose],
            [take(W, 0), report(W, 0, Report::Completed)],
        ),
        with_activity(
            "cancelled before it was taken",
            &[],
            [signal(W, 1), poll(W), complete(W, [Do::CancelActivity(0)]), poll(W), complete(W, [Do::Complete])],
        ),
        with_activity(
            "cancelled while it runs",
            &[ActivityExtra::Heartbeat],
            [
                take(W, 0),
                report(W, 0, Report::Cancelled),
                signal(W, 1),
                poll(W),
                complete(W, [Do::CancelActivity(0)]),
                report(W, 0, Report::Heartbeat),
                report(W, 0, Report::Cancelled),
            ],
        ),
        with_activity(
            "a cancellation stops the retries",
            &[ActivityExtra::RetryOnce],
            [
                take(W, 0),
                signal(W, 1),
                poll(W),
                complete(W, [Do::CancelActivity(0)]),
                report(W, 0, Report::Failed("Passing")),
            ],
        ),
        with_activity(
            "cancelled and completed all the same",
            &[],
            [take(W, 0), signal(W, 1), poll(W), complete(W, [Do::CancelActivity(0)]), report(W, 0, Report::Completed)],
        ),
        with_activity(
            "cancelled between two attempts",
            &[ActivityExtra::RetryOnce],
            [
                take(W, 0),
                report(W, 0, Report::Failed("Passing")),
                signal(W, 1),
                poll(W),
                complete(W, [Do::CancelActivity(0)]),
            ],
        ),
        with_activity(
            "cancelled twice",
            &[],
            [take(W, 0), signal(W, 1), poll(W), complete(W, [Do::CancelActivity(0), Do::CancelActivity(0)]), poll(W)],
        ),
        with_activity(
            "scheduled again under the same id",
            &[],
            [
                take(W, 0),
                report(W, 0, Report::Completed),
                poll(W),
                complete(W, [schedule(0, &[])]),
                first_token(Report::Completed),
            ],
        ),
        with_activity(
            "a stale token between two attempts",
            &[ActivityExtra::RetryOnce],
            [
                take(W, 0),
                report(W, 0, Report::Failed("Passing")),
                first_token(Report::Heartbeat),
                first_token(Report::Failed("Passing")),
                first_token(Report::Cancelled),
                first_token(Report::Completed),
            ],
        ),
        with_activity(
            "a stale token during the second attempt",
            &[ActivityExtra::RetryOnce],
            [
                take(W, 0),
                report(W, 0, Report::Failed("Passing")),
                take(W, 0),
                first_token(Report::Heartbeat),
                first_token(Report::Failed("Passing")),
                first_token(Report::Cancelled),
                first_token(Report::Completed),
                report(W, 0, Report::Completed),
            ],
        ),
        with_activity(
            "reports after the end",
            &[],
            [
                take(W, 0),
                report(W, 0, Report::Completed),
                report(W, 0, Report::Completed),
                report(W, 0, Report::Failed("Passing")),
                report(W, 0, Report::Cancelled),
                report(W, 0, Report::Heartbeat),
                by_id(Report::Completed),
                by_id(Report::Heartbeat),
            ],
        ),
        with_activity(
            "reports after the run's end",
            &[],
            [
                take(W, 0),
                terminate(W),
                report(W, 0, Report::Completed),
                report(W, 0, Report::Failed("Passing")),
                report(W, 0, Report::Cancelled),
                report(W, 0, Report::Heartbeat),
                by_id(Report::Completed),
                by_id(Report::Failed("Passing")),
                by_id(Report::Cancelled),
                by_id(Report::Heartbeat),
            ],
        ),
        with_activity(
            "reported by id before it was taken",
            &[ActivityExtra::RetryOnce],
            [
                by_id(Report::Heartbeat),
                by_id(Report::Cancelled),
                by_id(Report::Failed("Passing")),
                by_id(Report::Completed),
            ],
        ),
        with_activity(
            "reported by id while it runs",
            &[ActivityExtra::RetryOnce],
            [
                take(W, 0),
                by_id(Report::Heartbeat),
                by_id(Report::Cancelled),
                by_id(Report::Failed("Passing")),
                take(W, 0),
                by_id(Report::FailedForGood),
            ],
        ),
        with_activity(
            "tokens that were never given out",
            &[],
            [
                garbage(Report::Completed),
                garbage(Report::Failed("Passing")),
                garbage(Report::Cancelled),
                garbage(Report::Heartbeat),
            ],
        ),
        with_activity(
            "the run is cancelled while the activity runs",
            &[],
            [take(W, 0), cancel(W, 1), report(W, 0, Report::Heartbeat), terminate(W), report(W, 0, Report::Heartbeat)],
        ),
        with_activity(
            "the heartbeat's details reach the next attempt",
            &[ActivityExtra::RetryOnce, ActivityExtra::Heartbeat],
            [take(W, 0), report(W, 0, Report::Heartbeat), report(W, 0, Report::Failed("Passing")), take(W, 0)],
        ),
        case(
            "an eager start",
            [
                start(W),
                poll(W),
                complete(W, [schedule(0, &[ActivityExtra::Eager, ActivityExtra::Input, ActivityExtra::Heartbeat])]),
                report(W, 0, Report::Completed),
            ],
        ),
        case(
            "an eager start is skipped when the run closes",
            [start(W), poll(W), complete(W, [schedule(0, &[ActivityExtra::Eager]), Do::Complete])],
        ),
        case(
            "an eager start and a new task in one answer",
            [
                start(W),
                poll(W),
                complete_and_hold(W, [schedule(0, &[ActivityExtra::Eager]), schedule(1, &[])]),
                report(W, 0, Report::Completed),
                complete(W, []),
            ],
        ),
    ]
}

/// A run that has scheduled one activity and is idle, and then this.
fn with_activity(name: &'static str, extras: &[ActivityExtra], then: impl IntoIterator<Item = Action>) -> Case {
    let begin = [start(W), poll(W), complete(W, [schedule(0, extras)])];
    case(name, begin.into_iter().chain(then))
}

fn first_token(report: Report) -> Action {
    Action::ReportActivity { who: W, activity: 0, by: By::FirstToken, report }
}

fn by_id(report: Report) -> Action {
    Action::ReportActivity { who: W, activity: 0, by: By::Id, report }
}

fn garbage(report: Report) -> Action {
    Action::ReportActivity { who: W, activity: 0, by: By::Garbage, report }
}
