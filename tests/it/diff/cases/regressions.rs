//! Minimized scripts of random runs that found differences; and workers that are slow, keep failing, or wait at their
//! queue.

use super::{
    ActivityExtra, Build, Case, Completion, Do, ParentClosePolicy, ResetReapplyType, ResetTo, Stage, Start, StartExtra,
    Token, UpdateAnswer, Who, WorkflowIdConflictPolicy, WorkflowTaskFailedCause, answer_updates, case, child, complete,
    complete_with, fail, poll, query, reset, schedule, signal, start, start_with, terminate, update, waiting_for,
};
use crate::diff::script::Action;

const W: Who = Who::W0;

pub(super) fn cases() -> Vec<Case> {
    vec![
        // Seed 770051 of the grammar before workers could wait or be slow.
        case(
            "a query that waits for a task is forgotten when an update is refused",
            [
                start(W),
                poll(W),
                complete(W, []),
                signal(W, 1),
                poll(W),
                fail(W),
                poll(W),
                query(W),
                fail(W),
                update(W, 0),
                poll(W),
                complete(W, []),
            ],
        ),
        case(
            "a task that keeps failing gets more time, and lists tell of it",
            [
                vec![start(W)],
                std::iter::repeat_n([poll(W), fail(W)], 5).flatten().collect(),
                vec![Action::List(crate::diff::script::Listing::Running), poll(W), complete(W, [Do::Complete])],
            ]
            .concat(),
        ),
        case(
            "a slow worker is too late, time after time",
            [
                start_with(W, &[StartExtra::ShortTaskTimeout]),
                poll(W),
                Action::LetTaskTimeOut(W),
                poll(W),
                late(),
                Action::LetTaskTimeOut(W),
                complete(W, []),
                poll(W),
                fail(W),
                poll(W),
                Action::LetTaskTimeOut(W),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "an update with a start is in the first task of a worker that waits for it",
            [attended_update(0, UpdateAnswer::Complete, vec![Do::Complete]), query(W)],
        ),
        case(
            "an update with a start is not answered by a run that ends at once",
            [
                attended_update(0, UpdateAnswer::Ignore, vec![Do::Complete]),
                attended_update(1, UpdateAnswer::Accept, vec![Do::Complete]),
                attended_update(2, UpdateAnswer::Reject, Vec::new()),
            ],
        ),
        case(
            "a worker waits for an update of its idle run",
            [
                start(W),
                poll(W),
                complete(W, []),
                Action::Attended {
                    cause: Box::new(update(W, 0)),
                    with: Completion { updates: UpdateAnswer::Reject, ..Default::default() },
                },
                Action::Attended { cause: Box::new(update(W, 1)), with: Completion::default() },
            ],
        ),
        // Seed 300090.
        case(
            "an activity that no worker takes in all the time it has",
            [start(W), poll(W), complete(W, [schedule(0, &[ActivityExtra::CloseTimeout])]), poll(W)],
        ),
        // Seed 300177.
        case(
            "an update that ended with its run is forgotten when a child has ended, too",
            [
                start(W),
                poll(W),
                complete(W, [child(Who::C0, ParentClosePolicy::Terminate)]),
                poll(W),
                complete(W, []),
                update(W, 0),
                terminate(W),
                complete(W, []),
                update(W, 0),
            ],
        ),
        // Seed 400077.
        case(
            "a query that waits while an update finds that a worker wanted to end the run",
            [
                start(W),
                poll(W),
                complete(W, []),
                signal(W, 1),
                poll(W),
                signal(W, 2),
                complete(W, [Do::Complete]),
                query(W),
                update(W, 0),
                poll(W),
                complete(W, []),
            ],
        ),
        // Seed 600440.
        case(
            "an update that was answered is refused like a new one while no task gets done",
            [
                start(W),
                update(W, 0),
                poll(W),
                complete(W, []),
                signal(W, 1),
                poll(W),
                fail(W),
                poll(W),
                fail(W),
                update(W, 0),
                Action::PollUpdate { who: W, update: 0, wait: Stage::Completed },
            ],
        ),
        // Seed 700179.
        case(
            "the caller of an accepted update asks again after another was rejected",
            [
                start(W),
                update(W, 0),
                poll(W),
                answer_updates(W, UpdateAnswer::Accept),
                signal(W, 1),
                poll(W),
                fail(W),
                poll(W),
                fail(W),
                update(W, 1),
                poll(W),
                complete_with(W, Completion { finish_updates: true, ..Default::default() }),
            ],
        ),
        // Seed 1001186.
        case(
            "an update with a start is taken again after its worker said something unreadable",
            [
                Action::UpdateWithStart(Start::new(W), waiting_for(1, Stage::Completed)),
                poll(W),
                complete(W, [Do::Hollow]),
                answer_updates(W, UpdateAnswer::Complete),
            ],
        ),
        // Seed 3001452.
        case(
            "an update that a reset brought along is unseen again after an unreadable answer",
            [
                start(W),
                update(W, 0),
                poll(W),
                answer_updates(W, UpdateAnswer::Complete),
                reset(W, ResetTo::FirstTask),
                poll(W),
                complete(W, [Do::Hollow]),
                complete(W, []),
                poll(W),
                complete(W, []),
            ],
        ),
        // Seed 3000169.
        case(
            "an update that ended with its run is forgotten when a worker polls for an activity of the run",
            [
                start(W),
                poll(W),
                complete(W, [schedule(0, &[])]),
                signal(W, 1),
                poll(W),
                update(W, 0),
                complete(W, [Do::Complete]),
                Action::PollActivity { who: W, activity: 0 },
                update(W, 0),
            ],
        ),
        // Seed 4000475.
        case(
            "an activity that was scheduled in the step that ended its run is not handed out",
            [
                start(W),
                poll(W),
                update(W, 0),
                complete(W, [schedule(0, &[]), Do::Complete]),
                Action::PollActivity { who: W, activity: 0 },
                update(W, 0),
            ],
        ),
        // Seed 4000974.
        case(
            "the answer to an update that no worker was sent",
            [
                start(W),
                update(W, 0),
                poll(W),
                answer_updates(W, UpdateAnswer::Accept),
                Action::Reset { who: W, to: ResetTo::LastTask, request: 1, reapply: ResetReapplyType::None },
                poll(W),
                update(W, 0),
                complete_with(W, Completion { finish_updates: true, ..Default::default() }),
            ],
        ),
        // Seed 2000558.
        case(
            "a signal that a reset brought along may come again",
            [
                start(W),
                poll(W),
                complete(W, []),
                signal(W, 1),
                poll(W),
                signal(W, 2),
                Action::Reset { who: W, to: ResetTo::LastTask, request: 3, reapply: ResetReapplyType::Signal },
                poll(W),
                signal(W, 2),
                complete(W, []),
            ],
        ),
        case(
            "a signal that a reset of a reset brought along may come again",
            [
                start(W),
                poll(W),
                complete(W, []),
                Action::Reset { who: W, to: ResetTo::FirstTask, request: 2, reapply: ResetReapplyType::None },
                poll(W),
                signal(W, 2),
                Action::Reset { who: W, to: ResetTo::LastTask, request: 3, reapply: ResetReapplyType::Signal },
                signal(W, 2),
                poll(W),
                complete(W, []),
            ],
        ),
        case(
            "a signal from before the reset may come again",
            [
                start(W),
                signal(W, 2),
                poll(W),
                complete(W, []),
                Action::Reset { who: W, to: ResetTo::FirstTask, request: 3, reapply: ResetReapplyType::Signal },
                signal(W, 2),
                poll(W),
                complete(W, []),
            ],
        ),
        // Seed 300122.
        case(
            "a reset counts among the failures in a row",
            [
                vec![start(W), poll(W), complete(W, []), reset(W, ResetTo::FirstTask)],
                std::iter::repeat_n([poll(W), fail(W)], 4).flatten().collect(),
            ]
            .concat(),
        ),
        case(
            "workers name their builds",
            [
                vec![start_with(W, &[StartExtra::Retry]), poll(W)],
                vec![completed_by(Build::Checksum(1)), poll(W), completed_by(Build::Checksum(2)), poll(W)],
                vec![failed_by(Build::Checksum(2)), poll(W), failed_by(Build::Stamp(1)), poll(W)],
                vec![completed_by(Build::Stamp(1)), poll(W), completed_by(Build::Deployment(1)), poll(W)],
                vec![complete(W, [Do::Fail { fatal: false, kind: Some("Passing") }]), poll(W)],
                vec![complete(W, [Do::ContinueAsNew(Vec::new())])],
            ]
            .concat(),
        ),
    ]
}

/// An answer to the task before the last.
fn late() -> Action {
    Action::CompleteTask { who: W, token: Token::Previous, with: Completion::default() }
}

fn attended_update(update: u8, updates: UpdateAnswer, commands: Vec<Do>) -> Action {
    let start = Start { request: update, conflict: WorkflowIdConflictPolicy::Fail, ..Start::new(W) };
    let cause = Box::new(Action::UpdateWithStart(start, waiting_for(update, Stage::Completed)));
    Action::Attended { cause, with: Completion { commands, updates, ..Default::default() } }
}

fn completed_by(build: Build) -> Action {
    complete_with(W, Completion { build, force: true, ..Default::default() })
}

fn failed_by(build: Build) -> Action {
    let cause = WorkflowTaskFailedCause::NonDeterministicError;
    Action::FailTask { who: W, token: Token::Last, cause, build }
}
