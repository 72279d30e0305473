//! State that the real server keeps only in memory and drops after an error: pending updates and queries, and those
//! that ended with their run.

use super::{
    ActivityExtra, By, Case, Completion, Do, Report, ResetReapplyType, ResetTo, Stage, Start, StartExtra, Sticky,
    UpdateAnswer, Who, WorkflowIdConflictPolicy, answer_updates, case, complete, complete_with, fail, poll, query,
    report, reset, schedule, signal, start, start_with, take, terminate, update, waiting_for,
};
use crate::diff::script::Action;

const W: Who = Who::W0;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "that a worker wants to end the run",
            [
                start(W),
                poll(W),
                signal(W, 1),
                complete(W, [Do::Complete]),
                fail(W),
                poll(W),
                signal(W, 2),
                signal(W, 3),
                update(W, 0),
                signal(W, 4),
                complete(W, [Do::Complete]),
                poll(W),
                Action::Reset { who: W, to: ResetTo::Event(99), request: 1, reapply: ResetReapplyType::Signal },
                signal(W, 5),
            ],
        ),
        case(
            "that a worker has dropped the run from its cache",
            [
                start(W),
                poll(W),
                complete_with(W, Completion { sticky: Some(Sticky::Long), ..Default::default() }),
                Action::ResetSticky(W),
                Action::ResetSticky(W),
                Action::ReportActivity { who: W, activity: 0, by: By::Id, report: Report::Completed },
                signal(W, 1),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "that a worker has the run in its cache, when nothing came of its task",
            [
                start(W),
                poll(W),
                complete(W, []),
                update(W, 0),
                poll(W),
                complete_with(
                    W,
                    Completion { updates: UpdateAnswer::Reject, sticky: Some(Sticky::Long), ..Default::default() },
                ),
                complete(W, []),
                signal(W, 1),
                poll(W),
            ],
        ),
        case(
            "that a worker has the run in its cache, when another update follows",
            [
                start(W),
                poll(W),
                complete(W, []),
                update(W, 0),
                poll(W),
                complete_with(
                    W,
                    Completion { updates: UpdateAnswer::Reject, sticky: Some(Sticky::Long), ..Default::default() },
                ),
                update(W, 0),
                complete(W, []),
                poll(W),
            ],
        ),
        case(
            "that a worker has seen an update, when another is refused",
            [
                start(W),
                update(W, 0),
                poll(W),
                signal(W, 1),
                update(W, 1),
                complete(W, [Do::Complete]),
                poll(W),
                update(W, 2),
                complete(W, [Do::CancelActivity(0)]),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "updates that wait, when a task has failed too often for another",
            [start(W), poll(W), fail(W), update(W, 0), poll(W), fail(W), update(W, 1)],
        ),
        case(
            "that an update has started its run, when a task has failed too often for another",
            [
                Action::UpdateWithStart(Start::new(W), waiting_for(0, Stage::Completed)),
                poll(W),
                fail(W),
                poll(W),
                fail(W),
                update(W, 1),
            ],
        ),
        case(
            "an update in an unreadable answer counts as unseen",
            [
                start(W),
                update(W, 0),
                poll(W),
                unreadable(),
                signal(W, 1),
                complete(W, [Do::Complete]),
                poll(W),
                complete(W, []),
            ],
        ),
        case(
            "a speculative task is taken again after an unreadable answer",
            [
                start(W),
                poll(W),
                complete(W, []),
                update(W, 0),
                poll(W),
                unreadable(),
                complete(W, []),
                poll(W),
                complete(W, []),
            ],
        ),
        accepted_then(
            "the caller of an accepted update asks again after a rejected completion",
            [
                complete(W, [Do::Marker { named: false }]),
                poll(W),
                complete_with(W, Completion { finish_updates: true, ..Default::default() }),
            ],
        ),
        accepted_then(
            "the caller of an accepted update asks again after another rejected completion",
            [
                complete(W, [Do::Marker { named: false }]),
                update(W, 0),
                poll(W),
                complete(W, [Do::Marker { named: false }]),
                complete(W, []),
            ],
        ),
        accepted_then(
            "the caller of an accepted update asks again after an unreadable completion",
            [unreadable(), complete_with(W, Completion { finish_updates: true, ..Default::default() })],
        ),
        accepted_then(
            "who waits for an accepted update waits on when the worker fails",
            [fail(W), poll(W), complete_with(W, Completion { finish_updates: true, ..Default::default() })],
        ),
        case(
            "a query in an unreadable completion is sent again",
            [start(W), poll(W), complete(W, []), signal(W, 1), query(W), poll(W), unreadable(), complete(W, [])],
        ),
        case(
            "a query in a rejected completion is sent again",
            [
                start(W),
                poll(W),
                complete(W, []),
                signal(W, 1),
                query(W),
                poll(W),
                complete(W, [Do::Marker { named: false }]),
                poll(W),
                complete(W, [Do::Marker { named: false }]),
                complete(W, []),
            ],
        ),
        case(
            "an update that ended with its run is known until something is refused",
            [
                start(W),
                poll(W),
                complete(W, []),
                update(W, 0),
                terminate(W),
                update(W, 0),
                complete(W, []),
                update(W, 0),
                signal(W, 1),
                Action::PollUpdate { who: W, update: 0, wait: Stage::Completed },
                terminate(W),
                update(W, 0),
            ],
        ),
        case(
            "news comes before what else is wrong with the end",
            [start(W), poll(W), signal(W, 1), complete(W, [Do::Hollow]), poll(W), complete(W, [])],
        ),
        case(
            "an attempt that is over in a run that is over",
            [
                start(W),
                poll(W),
                complete(W, [schedule(0, &[ActivityExtra::RetryUnlessFatal])]),
                take(W, 0),
                report(W, 0, Report::Failed("Passing")),
                terminate(W),
                report(W, 0, Report::Completed),
            ],
        ),
        case(
            "a start with a signal that is wrong in two ways",
            [
                signal_with(&[StartExtra::NegativeTimeout]),
                signal_with(&[StartExtra::InvalidRetry]),
                signal_with(&[StartExtra::UnknownAttribute]),
                signal_with(&[StartExtra::NegativeTimeout, StartExtra::InvalidRetry]),
            ],
        ),
        case(
            "a worker that dropped the run is remembered by a refused answer",
            [
                start(W),
                poll(W),
                complete_with(W, Completion { sticky: Some(Sticky::Long), ..Default::default() }),
                Action::ResetSticky(W),
                update(W, 0),
                poll(W),
                complete(W, [Do::Marker { named: false }]),
                poll(W),
                complete(W, []),
            ],
        ),
        case(
            "an activity that was asked to stop before a reset",
            [
                start(W),
                poll(W),
                complete(W, [schedule(0, &[ActivityExtra::RetryUnlessFatal])]),
                take(W, 0),
                signal(W, 1),
                poll(W),
                complete_with(
                    W,
                    Completion { commands: vec![Do::CancelActivity(0)], force: true, ..Default::default() },
                ),
                poll(W),
                complete(W, []),
                reset(W, ResetTo::LastTask),
                take(W, 0),
                report(W, 0, Report::Heartbeat),
                report(W, 0, Report::Failed("Passing")),
            ],
        ),
        case(
            "a closed run has no worker of its own",
            [
                start(W),
                poll(W),
                complete_with(
                    W,
                    Completion { commands: vec![Do::Complete], sticky: Some(Sticky::Long), ..Default::default() },
                ),
                query(W),
            ],
        ),
        case(
            "a query of a run whose worker has never polled",
            [start_with(W, &[StartExtra::Eager]), complete(W, []), query(W)],
        ),
    ]
}

/// Rejected before any command is applied: the closing command is not the last.
fn unreadable() -> Action {
    complete(W, [Do::Complete, Do::Marker { named: true }])
}

fn signal_with(extras: &[StartExtra]) -> Action {
    Action::SignalWithStart(Start {
        conflict: WorkflowIdConflictPolicy::Fail,
        extras: extras.to_vec(),
        ..Start::new(W)
    })
}

/// A run with an accepted update whose caller waits for the result; a task is held.
fn accepted_then(name: &'static str, then: impl IntoIterator<Item = Action>) -> Case {
    let accepted = [start(W), update(W, 0), poll(W), answer_updates(W, UpdateAnswer::Accept), signal(W, 1), poll(W)];
    case(name, accepted.into_iter().chain(then))
}
