//! What happens while a workflow task is held.

use super::{
    ActivityExtra, Case, Completion, Do, ParentClosePolicy, Report, Run, TimerLength, Who, cancel, case, child,
    complete, complete_and_hold, complete_with, fail, poll, report, schedule, signal, start, take, terminate, timer,
    update,
};
use crate::diff::script::Action;

const W: Who = Who::W0;
const C: Who = Who::C0;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("a run that does nothing", [start(W), poll(W), complete(W, [Do::Complete])]),
        case(
            "signals and a cancellation wait for the held task",
            [start(W), poll(W), signal(W, 1), cancel(W, 1), signal(W, 2), complete(W, [timer(0, TimerLength::Long)])],
        ),
        case(
            "the ends of activities come after everything else that was buffered",
            [
                start(W),
                poll(W),
                complete_and_hold(W, [schedule(0, &[ActivityExtra::NoRetry]), schedule(1, &[])]),
                take(W, 0),
                take(W, 1),
                report(W, 0, Report::Completed),
                signal(W, 1),
                report(W, 1, Report::Failed("Passing")),
                report(W, 1, Report::FailedForGood),
                signal(W, 2),
                complete(W, [Do::Marker { named: true }]),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "a child that starts and ends while the task is held",
            [
                start(W),
                poll(W),
                complete_and_hold(W, [child(C, ParentClosePolicy::Abandon)]),
                signal(W, 1),
                poll(C),
                complete(C, [Do::Complete]),
                signal(W, 2),
                complete(W, []),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "a timer that fires while the task is held",
            [
                start(W),
                poll(W),
                complete_and_hold(W, [timer(0, TimerLength::Short)]),
                signal(W, 1),
                complete(W, []),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "cancelling a timer takes back that it fired",
            [
                start(W),
                poll(W),
                complete_and_hold(W, [timer(0, TimerLength::Short)]),
                complete(W, [Do::CancelTimer(0), Do::Complete]),
            ],
        ),
        case(
            "cancelling a timer does not take back a signal",
            [
                start(W),
                poll(W),
                complete_and_hold(W, [timer(0, TimerLength::Short)]),
                signal(W, 1),
                complete(W, [Do::CancelTimer(0), Do::Complete]),
                poll(W),
                complete(W, [Do::CancelTimer(0), Do::Complete]),
            ],
        ),
        case(
            "a run does not close over a buffered signal",
            [
                start(W),
                poll(W),
                signal(W, 1),
                complete(W, [timer(0, TimerLength::Long), Do::Complete]),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "nor does it continue as new or fail over one",
            [
                start(W),
                poll(W),
                signal(W, 1),
                complete(W, [Do::ContinueAsNew(Vec::new())]),
                poll(W),
                signal(W, 2),
                complete(W, [Do::Fail { fatal: false, kind: Some("Passing") }]),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "buffered events are written when the task fails",
            [start(W), poll(W), signal(W, 1), cancel(W, 1), fail(W), poll(W), complete(W, [Do::CancelSelf])],
        ),
        case(
            "buffered events are written when the run is terminated",
            [start(W), poll(W), signal(W, 1), cancel(W, 1), terminate(W)],
        ),
        case(
            "a buffered signal leads to a task in the answer",
            [
                start(W),
                poll(W),
                signal(W, 1),
                complete_with(W, Completion { inline: true, ..Default::default() }),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "an update that arrives while the task is held",
            [start(W), poll(W), update(W, 0), complete(W, []), poll(W), complete(W, []), signal(W, 1)],
        ),
        case(
            "the same cancellation and signal twice",
            [
                start(W),
                signal(W, 1),
                signal(W, 1),
                cancel(W, 1),
                cancel(W, 1),
                cancel(W, 2),
                poll(W),
                signal(W, 1),
                signal(W, 2),
                signal(W, 2),
                complete(W, []),
                Action::Signal { who: W, request: 2, run: Run::First },
            ],
        ),
    ]
}
