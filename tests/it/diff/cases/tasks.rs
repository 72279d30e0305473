//! Workflow tasks: failed, timed out, forced, returned inline, sticky, stale.

use super::{
    ActivityExtra, Build, Case, Completion, Do, ParentClosePolicy, Report, Run, StartExtra, Sticky, TimerLength, Token,
    Who, WorkflowTaskFailedCause, case, child, complete, complete_and_hold, complete_with, fail, poll, query, report,
    schedule, signal, start, start_with, take, terminate, timer, update,
};
use crate::diff::script::{Action, AttributeChange, MemoChange, Queue};

const W: Who = Who::W0;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        case(
            "a task that fails again and again is written once",
            [start(W), poll(W), fail(W), poll(W), fail(W), signal(W, 1), complete(W, [Do::Complete])],
        ),
        case(
            "a task succeeds at the second attempt",
            [start(W), poll(W), fail(W), poll(W), complete(W, [timer(0, TimerLength::Long)]), signal(W, 1), poll(W)],
        ),
        case(
            "a signal turns a transient task into a normal one",
            [start(W), poll(W), fail(W), signal(W, 1), poll(W), complete(W, [Do::Complete])],
        ),
        case(
            "a signal while a transient task is held",
            [start(W), poll(W), fail(W), poll(W), signal(W, 1), complete(W, []), poll(W), complete(W, [Do::Complete])],
        ),
        case(
            "bad commands at the second attempt write nothing and leave the task",
            [
                start(W),
                poll(W),
                fail(W),
                poll(W),
                complete(W, [timer(0, TimerLength::Negative)]),
                complete(W, [timer(0, TimerLength::Long), timer(0, TimerLength::Long)]),
                complete(W, [timer(0, TimerLength::Long)]),
            ],
        ),
        case(
            "a signal at the second attempt still stops a close",
            [start(W), poll(W), fail(W), poll(W), signal(W, 1), complete(W, [Do::Complete]), poll(W), complete(W, [])],
        ),
        case(
            "a task times out",
            [
                start_with(W, &[StartExtra::ShortTaskTimeout]),
                poll(W),
                signal(W, 1),
                Action::LetTaskTimeOut(W),
                complete(W, [Do::Complete]),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "failing for different causes",
            [
                start(W),
                poll(W),
                fail_for(WorkflowTaskFailedCause::NonDeterministicError),
                signal(W, 1),
                poll(W),
                fail_for(WorkflowTaskFailedCause::Unspecified),
                poll(W),
                fail_for(WorkflowTaskFailedCause::ResetStickyTaskQueue),
            ],
        ),
        case(
            "a heartbeat of the task",
            [start(W), poll(W), complete_and_hold(W, []), complete_and_hold(W, []), complete(W, [Do::Complete])],
        ),
        case(
            "a forced task waits in the queue",
            [
                start(W),
                poll(W),
                complete_with(W, Completion { force: true, ..Default::default() }),
                poll(W),
                complete_with(W, Completion { inline: true, ..Default::default() }),
                signal(W, 1),
            ],
        ),
        case(
            "a forced task does not outlive the run",
            [
                start(W),
                poll(W),
                complete_with(
                    W,
                    Completion { commands: vec![Do::Complete], force: true, inline: true, ..Default::default() },
                ),
            ],
        ),
        case(
            "a sticky task shows only what is new",
            [
                start(W),
                poll(W),
                sticky(vec![timer(0, TimerLength::Long)]),
                signal(W, 1),
                poll(W),
                sticky(Vec::new()),
                query(W),
                update(W, 0),
                poll(W),
                complete(W, []),
                signal(W, 2),
                poll(W),
            ],
        ),
        case(
            "a failure takes the stickiness away and not an attempt",
            [
                start(W),
                poll(W),
                sticky(Vec::new()),
                signal(W, 1),
                poll(W),
                fail(W),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "bad commands take the stickiness away",
            [
                start(W),
                poll(W),
                sticky(Vec::new()),
                signal(W, 1),
                poll(W),
                complete(W, [timer(0, TimerLength::Negative)]),
                poll(W),
            ],
        ),
        case(
            "stickiness is reset",
            [
                start(W),
                poll(W),
                sticky(Vec::new()),
                Action::ResetSticky(W),
                signal(W, 1),
                poll(W),
                complete(W, []),
                Action::ResetSticky(W),
                terminate(W),
                Action::ResetSticky(W),
            ],
        ),
        case(
            "stickiness is reset while a task waits in the sticky queue: the task is lost until its wait is over",
            [
                start(W),
                poll(W),
                complete_with(W, Completion { sticky: Some(Sticky::Short), ..Default::default() }),
                signal(W, 1),
                Action::ResetSticky(W),
                poll(W),
                Action::LetTaskTimeOut(W),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "the worker that has the run in its cache does not come",
            [
                start(W),
                poll(W),
                complete_with(W, Completion { sticky: Some(Sticky::Short), ..Default::default() }),
                signal(W, 1),
                Action::LetTaskTimeOut(W),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "no worker polls for an update",
            [
                start(W),
                poll(W),
                complete(W, []),
                update(W, 0),
                Action::LetTaskTimeOut(W),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "nothing to poll",
            [start(W), poll(W), Action::PollNothing(W, Queue::Normal), Action::PollNothing(W, Queue::Sticky)],
        ),
        case(
            "stale tokens of tasks",
            [
                start(W),
                poll(W),
                complete(W, []),
                complete(W, []),
                fail(W),
                signal(W, 1),
                first_token(),
                poll(W),
                first_token(),
                fail_first(),
                terminate(W),
                complete(W, []),
                fail(W),
            ],
        ),
        case(
            "every command at once",
            [
                start_with(W, &[StartExtra::Memo, StartExtra::Attributes]),
                poll(W),
                complete(
                    W,
                    [
                        schedule(0, &[ActivityExtra::Input, ActivityExtra::Header]),
                        schedule(1, &[ActivityExtra::Eager]),
                        timer(0, TimerLength::Long),
                        timer(1, TimerLength::Long),
                        Do::CancelTimer(0),
                        Do::Marker { named: true },
                        Do::Attributes(AttributeChange::Set),
                        Do::Memo(MemoChange::Set),
                        child(Who::C0, ParentClosePolicy::Terminate),
                    ],
                ),
                report(W, 1, Report::Completed),
                take(W, 0),
                poll(W),
                complete(
                    W,
                    [
                        Do::CancelActivity(0),
                        Do::CancelTimer(1),
                        Do::Attributes(AttributeChange::Remove),
                        Do::Memo(MemoChange::Remove),
                        Do::SignalExternal { target: Who::C0, run: Run::Current, child_only: true },
                    ],
                ),
                report(W, 0, Report::Heartbeat),
                report(W, 0, Report::Cancelled),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "a timer of no length fires at once",
            [start(W), poll(W), complete(W, [timer(0, TimerLength::Zero)]), poll(W), complete(W, [Do::Complete])],
        ),
        case(
            "timers of one task",
            [
                start(W),
                poll(W),
                complete(W, [timer(0, TimerLength::Long), Do::CancelTimer(0), timer(1, TimerLength::Long)]),
                signal(W, 1),
                poll(W),
                complete(W, [timer(0, TimerLength::Long), timer(1, TimerLength::Long)]),
                poll(W),
                complete(W, [Do::CancelTimer(1), timer(0, TimerLength::Short)]),
                poll(W),
                complete(W, [Do::CancelTimer(0)]),
            ],
        ),
    ];
    let bad: [(&'static str, Vec<Do>); 16] = [
        ("a timer of negative length", vec![timer(0, TimerLength::Negative)]),
        ("a timer twice", vec![timer(0, TimerLength::Long), timer(0, TimerLength::Long)]),
        ("a timer that is not there", vec![Do::CancelTimer(0)]),
        ("an activity twice", vec![schedule(0, &[]), schedule(0, &[])]),
        ("an activity without a type", vec![schedule(0, &[ActivityExtra::NoType])]),
        ("an activity without timeouts", vec![schedule(0, &[ActivityExtra::NoTimeouts])]),
        ("an activity with a negative timeout", vec![schedule(0, &[ActivityExtra::NegativeTimeout])]),
        ("an activity with an invalid retry policy", vec![schedule(0, &[ActivityExtra::InvalidRetry])]),
        ("an activity that is not there", vec![Do::CancelActivity(0)]),
        ("a marker without a name", vec![Do::Marker { named: false }]),
        ("an unknown attribute", vec![Do::Attributes(AttributeChange::Unknown)]),
        ("an attribute of the wrong type", vec![Do::Attributes(AttributeChange::IllTyped)]),
        ("no attribute at all", vec![Do::Attributes(AttributeChange::Nothing)]),
        ("no memo at all", vec![Do::Memo(MemoChange::Nothing)]),
        ("a command without attributes", vec![timer(0, TimerLength::Long), Do::Hollow]),
        ("a message that is not there", vec![Do::AbsentMessage]),
    ];
    cases.extend(
        bad.into_iter()
            .map(|(name, commands)| case(name, [start(W), poll(W), complete(W, commands), poll(W), complete(W, [])])),
    );
    cases
}

fn sticky(commands: Vec<Do>) -> Action {
    complete_with(W, Completion { commands, sticky: Some(Sticky::Long), ..Default::default() })
}

fn fail_for(cause: WorkflowTaskFailedCause) -> Action {
    Action::FailTask { who: W, token: Token::Last, cause, build: Build::Unsaid }
}

fn first_token() -> Action {
    Action::CompleteTask { who: W, token: Token::First, with: Completion::default() }
}

fn fail_first() -> Action {
    Action::FailTask {
        who: W,
        token: Token::First,
        cause: WorkflowTaskFailedCause::NonDeterministicError,
        build: Build::Unsaid,
    }
}
