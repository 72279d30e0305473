//! Runs that follow each other: retries, continuations, resets, timeouts.

use super::{
    ActivityExtra, Case, Do, ParentClosePolicy, Report, ResetReapplyType, ResetTo, StartExtra, TimerLength, Who, case,
    child, complete, poll, report, reset, schedule, signal, start, start_with, take, terminate, timer, update,
};
use crate::diff::script::Action;

const W: Who = Who::W0;
const PASSING: Do = Do::Fail { fatal: false, kind: Some("Passing") };

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "a run is retried until its attempts are used up",
            [
                start_with(
                    W,
                    &[StartExtra::Retry, StartExtra::Input, StartExtra::Memo, StartExtra::LongExecutionTimeout],
                ),
                poll(W),
                complete(W, [PASSING]),
                poll(W),
                complete(W, [PASSING]),
                poll(W),
                complete(W, [PASSING]),
            ],
        ),
        case(
            "a run is not retried after a fatal failure",
            [
                start_with(W, &[StartExtra::RetryUnlessFatal]),
                poll(W),
                complete(W, [PASSING]),
                poll(W),
                complete(W, [Do::Fail { fatal: false, kind: Some("Fatal") }]),
            ],
        ),
        case(
            "nor after one that says so",
            [
                start_with(W, &[StartExtra::Retry]),
                poll(W),
                complete(W, [Do::Fail { fatal: true, kind: Some("Passing") }]),
            ],
        ),
        case("nor after a cancellation", [start_with(W, &[StartExtra::Retry]), poll(W), complete(W, [Do::CancelSelf])]),
        case("a failure without a failure", [start(W), poll(W), complete(W, [Do::Fail { fatal: false, kind: None }])]),
        case(
            "a run continues as new with nothing said",
            [
                start_with(
                    W,
                    &[
                        StartExtra::Memo,
                        StartExtra::Attributes,
                        StartExtra::LongRunTimeout,
                        StartExtra::LongExecutionTimeout,
                        StartExtra::Priority,
                        StartExtra::Retry,
                    ],
                ),
                poll(W),
                complete(W, [Do::ContinueAsNew(Vec::new())]),
                poll(W),
                complete(W, [PASSING]),
                poll(W),
            ],
        ),
        case(
            "a run continues as new with everything said",
            [
                start(W),
                poll(W),
                complete(
                    W,
                    [Do::ContinueAsNew(vec![
                        StartExtra::Input,
                        StartExtra::Header,
                        StartExtra::Memo,
                        StartExtra::Attributes,
                        StartExtra::LongRunTimeout,
                        StartExtra::Retry,
                    ])],
                ),
                poll(W),
                complete(W, [PASSING]),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "a run continues as new without type and queue",
            [
                start(W),
                poll(W),
                complete(W, [Do::ContinueAsNew(vec![StartExtra::NoType, StartExtra::NoQueue])]),
                poll(W),
            ],
        ),
        case(
            "a continuation with an unknown attribute",
            [start(W), poll(W), complete(W, [Do::ContinueAsNew(vec![StartExtra::UnknownAttribute])]), poll(W)],
        ),
        case(
            "a continuation with a negative timeout",
            [start(W), poll(W), complete(W, [Do::ContinueAsNew(vec![StartExtra::NegativeTimeout])]), poll(W)],
        ),
        case(
            "what a continuation leaves behind",
            [
                start(W),
                poll(W),
                complete(
                    W,
                    [
                        schedule(0, &[ActivityExtra::RetryOnce]),
                        timer(0, TimerLength::Long),
                        child(Who::C0, ParentClosePolicy::RequestCancel),
                    ],
                ),
                take(W, 0),
                poll(W),
                complete(W, [Do::ContinueAsNew(Vec::new())]),
                report(W, 0, Report::Completed),
                Action::Signal { who: W, request: 1, run: super::Run::First },
                signal(W, 1),
            ],
        ),
        case("a run times out", [start_with(W, &[StartExtra::OneSecondRunTimeout]), signal(W, 1), poll(W)]),
        case(
            "a reset to the first task",
            [worked(), vec![reset(W, ResetTo::FirstTask), poll(W), complete(W, [Do::Complete])]].concat(),
        ),
        case(
            "a reset to the last task",
            [worked(), vec![reset(W, ResetTo::LastTask), poll(W), complete(W, [Do::Complete])]].concat(),
        ),
        case(
            "a reset of a closed run",
            [
                worked(),
                vec![poll(W), complete(W, [Do::Complete]), reset(W, ResetTo::LastTask), poll(W), complete(W, [])],
            ]
            .concat(),
        ),
        case(
            "a reset while a task is held",
            [worked(), vec![poll(W), reset(W, ResetTo::LastTask), complete(W, []), poll(W)]].concat(),
        ),
        case(
            "a reset without reapplying",
            [
                worked(),
                vec![
                    Action::Reset { who: W, to: ResetTo::FirstTask, request: 1, reapply: ResetReapplyType::None },
                    poll(W),
                ],
            ]
            .concat(),
        ),
        case(
            "the same reset twice",
            [worked(), vec![reset(W, ResetTo::LastTask), reset(W, ResetTo::LastTask)]].concat(),
        ),
        case(
            "a reset with a running child",
            [
                start(W),
                poll(W),
                complete(W, [child(Who::C0, ParentClosePolicy::Terminate)]),
                poll(W),
                complete(W, []),
                signal(W, 1),
                poll(W),
                complete(W, []),
                reset(W, ResetTo::LastTask),
                poll(Who::C0),
                complete(Who::C0, [Do::Complete]),
            ],
        ),
        case(
            "a reset with an update",
            [
                start(W),
                poll(W),
                complete(W, []),
                update(W, 0),
                poll(W),
                complete(W, []),
                reset(W, ResetTo::LastTask),
                poll(W),
            ],
        ),
        case(
            "a reset of a terminated run",
            [
                start(W),
                poll(W),
                complete(W, [schedule(0, &[])]),
                terminate(W),
                reset(W, ResetTo::LastTask),
                poll(W),
                complete(W, []),
            ],
        ),
        case(
            "resets that are refused",
            [
                reset(W, ResetTo::FirstTask),
                start(W),
                reset(W, ResetTo::Event(4)),
                poll(W),
                reset(W, ResetTo::Event(3)),
                complete(W, [timer(0, TimerLength::Long)]),
                reset(W, ResetTo::Event(1)),
                reset(W, ResetTo::Event(2)),
                reset(W, ResetTo::Event(5)),
                reset(W, ResetTo::Event(99)),
            ],
        ),
    ]
}

/// A run with some work behind it: an activity, a timer, two signals, and a task waiting.
fn worked() -> Vec<Action> {
    vec![
        start_with(W, &[StartExtra::Input, StartExtra::Memo]),
        poll(W),
        complete(W, [schedule(0, &[]), timer(0, TimerLength::Long)]),
        take(W, 0),
        report(W, 0, Report::Completed),
        signal(W, 1),
        poll(W),
        complete(W, [Do::CancelTimer(0), schedule(1, &[])]),
        signal(W, 2),
    ]
}
