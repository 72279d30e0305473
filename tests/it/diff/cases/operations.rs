//! What operators do to activities: pauses, resets, changed options.

use super::{
    ActivityExtra, By, Case, Do, Report, Who, case, complete, poll, report, schedule, signal, start, take, terminate,
};
use crate::diff::script::{Action, Operation, OptionChange, Selection};

const W: Who = Who::W0;
const FIRST: Selection = Selection::Id(0);
const NEWER: Selection = Selection::Execution(0);

pub(super) fn cases() -> Vec<Case> {
    vec![
        with_activities(
            "a paused activity is not taken before it is unpaused",
            &[],
            [pause(FIRST, 1), take(W, 0), unpause(FIRST), take(W, 0), report(W, 0, Report::Completed)],
        ),
        with_activities(
            "the attempt under way goes on when its activity is paused",
            &[ActivityExtra::Heartbeat],
            [
                take(W, 0),
                pause(FIRST, 1),
                report(W, 0, Report::Heartbeat),
                report(W, 0, Report::Failed("Passing")),
                take(W, 0),
                unpause(FIRST),
                take(W, 0),
                report(W, 0, Report::Completed),
            ],
        ),
        with_activities(
            "a paused activity completes, and its pause stays in the lists",
            &[],
            [take(W, 0), pause(FIRST, 1), report(W, 0, Report::Completed), poll(W), complete(W, [])],
        ),
        with_activities(
            "attempts are not counted while paused",
            &[ActivityExtra::RetryOnce],
            [
                take(W, 0),
                report(W, 0, Report::Failed("Passing")),
                take(W, 0),
                pause(FIRST, 1),
                report(W, 0, Report::Failed("Passing")),
                unpause(FIRST),
                take(W, 0),
                report(W, 0, Report::Failed("Passing")),
            ],
        ),
        with_activities(
            "a failure for good ends a paused activity",
            &[],
            [take(W, 0), pause(FIRST, 1), report(W, 0, Report::FailedForGood)],
        ),
        with_activities(
            "repeated pauses",
            &[],
            [pause(FIRST, 1), pause(FIRST, 1), pause(FIRST, 2), pause(Selection::Type, 1), pause(Selection::Type, 2)],
        ),
        with_activities(
            "selections that match nothing",
            &[],
            [
                pause(Selection::Id(7), 1),
                pause(Selection::OtherType, 1),
                pause(Selection::None, 1),
                unpause(Selection::Id(7)),
                unpause(Selection::OtherType),
                unpause(Selection::None),
                reset(Selection::Id(7), false, false),
                reset(Selection::OtherType, false, false),
                reset(Selection::None, false, false),
                change(Selection::Id(7), OptionChange::Heartbeat),
                change(Selection::OtherType, OptionChange::Restore),
                change(Selection::None, OptionChange::Heartbeat),
            ],
        ),
        with_activities(
            "unpausing what is not paused changes nothing",
            &[],
            [take(W, 0), unpause(FIRST), unpause(Selection::All), report(W, 0, Report::Completed)],
        ),
        with_activities(
            "all of a type are paused and unpaused",
            &[],
            [pause(Selection::Type, 1), unpause(Selection::All), take(W, 0), take(W, 1)],
        ),
        with_activities(
            "unpaused from the first attempt and without heartbeats",
            &[ActivityExtra::RetryOnce, ActivityExtra::Heartbeat],
            [
                take(W, 0),
                report(W, 0, Report::Heartbeat),
                pause(FIRST, 1),
                report(W, 0, Report::Failed("Passing")),
                operate(FIRST, Operation::Unpause { attempts: true, heartbeat: true }),
                take(W, 0),
                report(W, 0, Report::Failed("Passing")),
                take(W, 0),
            ],
        ),
        with_activities(
            "a reset of an activity that is taken",
            &[ActivityExtra::Heartbeat],
            [
                take(W, 0),
                report(W, 0, Report::Heartbeat),
                reset(FIRST, true, false),
                report(W, 0, Report::Heartbeat),
                report(W, 0, Report::Failed("Passing")),
                take(W, 0),
            ],
        ),
        with_activities(
            "a reset of a later attempt",
            &[ActivityExtra::RetryUnlessFatal],
            [
                take(W, 0),
                report(W, 0, Report::Failed("Passing")),
                take(W, 0),
                reset(FIRST, false, false),
                report(W, 0, Report::Heartbeat),
                report(W, 0, Report::Failed("Passing")),
                Action::ReportActivity { who: W, activity: 0, by: By::Id, report: Report::Heartbeat },
            ],
        ),
        with_activities(
            "a reset of an activity that waits",
            &[],
            [reset(FIRST, true, false), take(W, 0), reset(Selection::All, false, false), take(W, 1)],
        ),
        with_activities(
            "a reset ends a pause or keeps it",
            &[],
            [
                pause(FIRST, 1),
                reset(FIRST, false, true),
                take(W, 0),
                reset(FIRST, false, false),
                take(W, 0),
                pause(FIRST, 2),
                reset(FIRST, true, true),
                report(W, 0, Report::Heartbeat),
                reset(FIRST, false, false),
                report(W, 0, Report::Failed("Passing")),
            ],
        ),
        with_activities(
            "a reset restores the options",
            &[ActivityExtra::RetryOnce, ActivityExtra::Priority],
            [
                change(FIRST, OptionChange::Attempts),
                change(FIRST, OptionChange::Priority),
                change(FIRST, OptionChange::Queue),
                operate(FIRST, Operation::Reset { heartbeat: false, keep_paused: false, restore: true }),
                take(W, 0),
            ],
        ),
        with_activities(
            "changed options",
            &[ActivityExtra::RetryUnlessFatal],
            [
                change(FIRST, OptionChange::Heartbeat),
                change(FIRST, OptionChange::Attempts),
                change(FIRST, OptionChange::WholePolicy),
                change(FIRST, OptionChange::Queue),
                change(FIRST, OptionChange::Priority),
                change(FIRST, OptionChange::LessTimeouts),
                change(FIRST, OptionChange::UnknownField),
                take(W, 0),
                report(W, 0, Report::Failed("Passing")),
                change(FIRST, OptionChange::Attempts),
                take(W, 0),
                report(W, 0, Report::Failed("Fatal")),
            ],
        ),
        with_activities(
            "options that fall back to the run's",
            &[],
            [change(FIRST, OptionChange::NoTimeouts), take(W, 0), report(W, 0, Report::Completed)],
        ),
        with_activities(
            "changes of options that are refused",
            &[],
            [
                change(FIRST, OptionChange::InvalidPolicy),
                change(FIRST, OptionChange::InvalidPriority),
                change(FIRST, OptionChange::NegativeTimeout),
                change(FIRST, OptionChange::NoMask),
                change(FIRST, OptionChange::NoOptions),
                change(FIRST, OptionChange::MissingPart),
                change(FIRST, OptionChange::RestoreAndMask),
            ],
        ),
        // With two activities the answer would show the options of either.
        case(
            "options of a paused activity, and of all",
            [
                start(W),
                poll(W),
                complete(W, [schedule(0, &[])]),
                pause(FIRST, 1),
                change(Selection::All, OptionChange::Attempts),
                change(Selection::Type, OptionChange::Restore),
                unpause(FIRST),
                take(W, 0),
                change(FIRST, OptionChange::Queue),
                report(W, 0, Report::Failed("Passing")),
                take(W, 0),
            ],
        ),
        with_activities(
            "a paused activity is cancelled",
            &[],
            [pause(FIRST, 1), signal(W, 1), poll(W), complete(W, [Do::CancelActivity(0)]), poll(W)],
        ),
        with_activities(
            "a cancelled activity is paused",
            &[],
            [
                take(W, 0),
                signal(W, 1),
                poll(W),
                complete(W, [Do::CancelActivity(0)]),
                pause(FIRST, 1),
                report(W, 0, Report::Heartbeat),
                unpause(FIRST),
                reset(FIRST, false, false),
                report(W, 0, Report::Cancelled),
            ],
        ),
        with_activities(
            "the newer requests",
            &[ActivityExtra::RetryOnce, ActivityExtra::Heartbeat],
            [
                pause(NEWER, 1),
                pause(NEWER, 1),
                pause(NEWER, 2),
                change(NEWER, OptionChange::Attempts),
                change(NEWER, OptionChange::WholePolicy),
                change(NEWER, OptionChange::Queue),
                change(NEWER, OptionChange::Restore),
                reset(NEWER, true, true),
                unpause(NEWER),
                take(W, 0),
                report(W, 0, Report::Heartbeat),
                reset(NEWER, true, false),
                report(W, 0, Report::Heartbeat),
                pause(Selection::Execution(7), 1),
                unpause(Selection::Execution(7)),
            ],
        ),
        with_activities(
            "newer requests that are refused",
            &[],
            [
                change(NEWER, OptionChange::InvalidPolicy),
                change(NEWER, OptionChange::InvalidPriority),
                change(NEWER, OptionChange::NegativeTimeout),
                change(NEWER, OptionChange::NoTimeouts),
                change(NEWER, OptionChange::UnknownField),
                change(NEWER, OptionChange::NoMask),
                change(NEWER, OptionChange::NoOptions),
                change(NEWER, OptionChange::MissingPart),
                change(NEWER, OptionChange::RestoreAndMask),
            ],
        ),
        with_activities(
            "activities of a run that has ended",
            &[],
            [
                take(W, 0),
                terminate(W),
                pause(FIRST, 1),
                unpause(FIRST),
                reset(FIRST, false, false),
                change(FIRST, OptionChange::Heartbeat),
            ],
        ),
    ]
}

/// A run that has scheduled two activities, the first with these extras, and is idle.
fn with_activities(name: &'static str, extras: &[ActivityExtra], then: impl IntoIterator<Item = Action>) -> Case {
    let begin = [start(W), poll(W), complete(W, [schedule(0, extras), schedule(1, &[])])];
    case(name, begin.into_iter().chain(then))
}

fn operate(on: Selection, operation: Operation) -> Action {
    Action::Operate { who: W, on, operation }
}

fn pause(on: Selection, request: u8) -> Action {
    operate(on, Operation::Pause { request })
}

fn unpause(on: Selection) -> Action {
    operate(on, Operation::Unpause { attempts: false, heartbeat: false })
}

fn reset(on: Selection, heartbeat: bool, keep_paused: bool) -> Action {
    operate(on, Operation::Reset { heartbeat, keep_paused, restore: false })
}

fn change(on: Selection, change: OptionChange) -> Action {
    operate(on, Operation::Change(change))
}
