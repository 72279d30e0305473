//! Starting: policies, request ids, options.

use super::{
    Case, Do, Run, Start, StartExtra, Who, WorkflowIdConflictPolicy as Conflict, WorkflowIdReusePolicy as Reuse, case,
    complete, poll, signal, start, start_again, start_with, terminate,
};
use crate::diff::{generate::terminate_if_running, script::Action};

const W: Who = Who::W0;

pub(super) fn cases() -> Vec<Case> {
    let every =
        [Reuse::AllowDuplicate, Reuse::AllowDuplicateFailedOnly, Reuse::RejectDuplicate, terminate_if_running()];
    let after = |end: Vec<Action>| {
        let mut script = vec![start(W)];
        script.extend(end);
        for (number, reuse) in (10..).zip(every) {
            script.push(start_again(W, number, reuse, Conflict::Unspecified));
            script.push(terminate(W));
        }
        script
    };
    let conflicts = [Conflict::Fail, Conflict::UseExisting, Conflict::TerminateExisting];
    let running =
        conflicts.into_iter().zip(1..).map(|(conflict, number)| start_again(W, number, Reuse::Unspecified, conflict));
    let extras = [
        StartExtra::Input,
        StartExtra::Header,
        StartExtra::Memo,
        StartExtra::Attributes,
        StartExtra::Retry,
        StartExtra::LongRunTimeout,
        StartExtra::LongExecutionTimeout,
        StartExtra::Metadata,
        StartExtra::Priority,
        StartExtra::DefaultTaskTimeout,
    ];
    vec![
        case("conflict policies", std::iter::once(start(W)).chain(running)),
        case(
            "reuse policies while the run is open",
            [
                start(W),
                start_again(W, 1, Reuse::AllowDuplicate, Conflict::Unspecified),
                start_again(W, 2, Reuse::RejectDuplicate, Conflict::Unspecified),
                start_again(W, 3, Reuse::RejectDuplicate, Conflict::UseExisting),
                start_again(W, 4, Reuse::RejectDuplicate, Conflict::TerminateExisting),
                start_again(W, 5, Reuse::AllowDuplicateFailedOnly, Conflict::TerminateExisting),
                start_again(W, 6, terminate_if_running(), Conflict::Unspecified),
                start_again(W, 7, terminate_if_running(), Conflict::Fail),
            ],
        ),
        case("reuse policies after a completion", after(vec![poll(W), complete(W, [Do::Complete])])),
        case(
            "reuse policies after a failure",
            after(vec![poll(W), complete(W, [Do::Fail { fatal: false, kind: Some("Passing") }])]),
        ),
        case("reuse policies after a cancellation", after(vec![poll(W), complete(W, [Do::CancelSelf])])),
        case("reuse policies after a termination", after(vec![terminate(W)])),
        case(
            "the same request twice",
            [start(W), start(W), poll(W), start(W), complete(W, [Do::Complete]), start(W), terminate(W)],
        ),
        case(
            "the same request for another kind of start",
            [
                start(W),
                Action::SignalWithStart(Start::new(W)),
                terminate(W),
                Action::SignalWithStart(Start::new(W)),
                Action::SignalWithStart(Start { request: 1, ..Start::new(W) }),
                Action::SignalWithStart(Start { request: 1, ..Start::new(W) }),
            ],
        ),
        case(
            "every option",
            extras.into_iter().enumerate().flat_map(|(number, extra)| {
                let start = Start {
                    request: u8::try_from(number).unwrap(),
                    conflict: Conflict::TerminateExisting,
                    extras: vec![extra],
                    ..Start::new(W)
                };
                [Action::Start(start), poll(W)]
            }),
        ),
        case("all options", [start_with(W, &extras), poll(W), complete(W, [Do::Complete])]),
        case("a delayed start", [start_with(W, &[StartExtra::Delay]), signal(W, 1), poll(W)]),
        case(
            "an eager start of the first task",
            [start_with(W, &[StartExtra::Eager, StartExtra::Input]), complete(W, [Do::Complete])],
        ),
        case(
            "a start that is attached to another",
            [
                start(W),
                Action::Start(Start {
                    request: 1,
                    conflict: Conflict::UseExisting,
                    extras: vec![StartExtra::AttachRequestId],
                    ..Start::new(W)
                }),
                Action::Start(Start {
                    request: 1,
                    conflict: Conflict::UseExisting,
                    extras: vec![StartExtra::AttachRequestId],
                    ..Start::new(W)
                }),
                poll(W),
                Action::Start(Start {
                    request: 2,
                    conflict: Conflict::UseExisting,
                    extras: vec![StartExtra::AttachRequestId],
                    ..Start::new(W)
                }),
                complete(W, []),
            ],
        ),
        case(
            "a signal with a start",
            [
                Action::SignalWithStart(Start { extras: extras.to_vec(), ..Start::new(W) }),
                Action::SignalWithStart(Start { request: 1, ..Start::new(W) }),
                poll(W),
                Action::SignalWithStart(Start { request: 2, ..Start::new(W) }),
                complete(W, []),
                Action::SignalWithStart(Start { request: 3, conflict: Conflict::TerminateExisting, ..Start::new(W) }),
                Action::SignalWithStart(Start { request: 4, conflict: Conflict::Fail, ..Start::new(W) }),
                Action::SignalWithStart(Start { request: 5, reuse: Reuse::RejectDuplicate, ..Start::new(W) }),
                terminate(W),
                Action::SignalWithStart(Start { request: 6, reuse: Reuse::RejectDuplicate, ..Start::new(W) }),
                Action::SignalWithStart(Start { request: 7, reuse: Reuse::AllowDuplicateFailedOnly, ..Start::new(W) }),
            ],
        ),
        case(
            "a delayed signal with a start",
            [Action::SignalWithStart(Start { extras: vec![StartExtra::Delay], ..Start::new(W) }), poll(W)],
        ),
        case(
            "clients and runs that are gone",
            [
                start(W),
                terminate(W),
                signal(W, 1),
                Action::Cancel { who: W, request: 1, run: Run::Current },
                terminate(W),
                start_again(W, 1, Reuse::AllowDuplicate, Conflict::Fail),
                Action::Signal { who: W, request: 1, run: Run::First },
                Action::Cancel { who: W, request: 2, run: Run::First },
                Action::Terminate { who: W, run: Run::First },
                Action::Signal { who: W, request: 1, run: Run::Latest },
            ],
        ),
    ]
}
