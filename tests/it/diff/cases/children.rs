//! Children, their policies, and signals and cancellations from one run to another.

use super::{
    Case, Do, ParentClosePolicy, ResetTo, Run, StartExtra, Who, WorkflowIdReusePolicy, cancel, case, child, complete,
    poll, reset, signal, start, start_with, terminate,
};
use crate::diff::script::Action;

const W: Who = Who::W0;
const C: Who = Who::C0;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(
            "a run that has ended need not be a child to be cancelled",
            [
                start(Who::W1),
                terminate(Who::W1),
                start(W),
                poll(W),
                complete(W, [Do::CancelExternal { target: Who::W1, run: Run::Current, child_only: true }]),
                poll(W),
                complete(W, [Do::SignalExternal { target: Who::W1, run: Run::Current, child_only: true }]),
            ],
        ),
        with_child(
            "a child completes",
            ParentClosePolicy::Terminate,
            [poll(C), complete(C, [Do::Complete]), poll(W), complete(W, [Do::Complete])],
        ),
        with_child(
            "a child fails",
            ParentClosePolicy::Terminate,
            [poll(C), complete(C, [Do::Fail { fatal: false, kind: Some("Passing") }]), poll(W)],
        ),
        with_child(
            "a child is cancelled",
            ParentClosePolicy::Terminate,
            [cancel(C, 1), poll(C), complete(C, [Do::CancelSelf]), poll(W)],
        ),
        with_child("a child is terminated", ParentClosePolicy::Terminate, [terminate(C), poll(W)]),
        with_child(
            "a parent completes and terminates its child",
            ParentClosePolicy::Terminate,
            [poll(W), complete(W, [Do::Complete])],
        ),
        with_child(
            "a policy that is not given",
            ParentClosePolicy::Unspecified,
            [poll(W), complete(W, [Do::Complete])],
        ),
        with_child(
            "a parent completes and cancels its child",
            ParentClosePolicy::RequestCancel,
            [poll(W), complete(W, [Do::Complete]), poll(C), complete(C, [Do::CancelSelf])],
        ),
        with_child(
            "a parent completes and leaves its child alone",
            ParentClosePolicy::Abandon,
            [poll(W), complete(W, [Do::Complete]), poll(C), complete(C, [Do::Complete])],
        ),
        with_child("a terminated parent", ParentClosePolicy::Terminate, [poll(C), signal(C, 1), terminate(W)]),
        with_child(
            "a parent cancels a child that holds its task",
            ParentClosePolicy::RequestCancel,
            [poll(C), terminate(W), complete(C, []), poll(C)],
        ),
        with_child(
            "a parent continues as new",
            ParentClosePolicy::Terminate,
            [poll(W), complete(W, [Do::ContinueAsNew(Vec::new())])],
        ),
        with_child(
            "a parent continues as new without its child",
            ParentClosePolicy::Abandon,
            [poll(W), complete(W, [Do::ContinueAsNew(Vec::new())]), poll(C), complete(C, [Do::Complete])],
        ),
        with_child(
            "a child continues as new and completes",
            ParentClosePolicy::Terminate,
            [poll(C), complete(C, [Do::ContinueAsNew(Vec::new())]), poll(C), complete(C, [Do::Complete]), poll(W)],
        ),
        with_child(
            "a child is reset",
            ParentClosePolicy::Terminate,
            [poll(C), complete(C, []), reset(C, ResetTo::FirstTask), poll(C), complete(C, [Do::Complete])],
        ),
        with_child(
            "a parent closes after its child was reset",
            ParentClosePolicy::Terminate,
            [poll(C), complete(C, []), reset(C, ResetTo::FirstTask), terminate(W), poll(C)],
        ),
        with_child(
            "a parent that was reset does not terminate the child it had",
            ParentClosePolicy::Terminate,
            [poll(W), complete(W, []), reset(W, ResetTo::LastTask), terminate(W), poll(C)],
        ),
        with_child(
            "a parent that was reset does not cancel the child it had",
            ParentClosePolicy::RequestCancel,
            [poll(W), complete(W, []), reset(W, ResetTo::LastTask), terminate(W), poll(C)],
        ),
        with_child(
            "a parent terminates its child by another of the same id that it does not start",
            ParentClosePolicy::Abandon,
            [poll(W), complete(W, [child(C, ParentClosePolicy::Terminate), Do::Complete])],
        ),
        with_child(
            "a parent cancels its child by another of the same id that it does not start",
            ParentClosePolicy::Abandon,
            [poll(W), complete(W, [child(C, ParentClosePolicy::RequestCancel), Do::Complete])],
        ),
        case(
            "a parent closes in the task that starts its child",
            [start(W), poll(W), complete(W, [child(C, ParentClosePolicy::Abandon), Do::Complete])],
        ),
        case(
            "a child that fails is retried",
            [
                start(W),
                poll(W),
                complete(W, [child_with(&[StartExtra::RetryUnlessFatal, StartExtra::Input, StartExtra::Memo])]),
                poll(C),
                complete(C, [Do::Fail { fatal: false, kind: Some("Passing") }]),
                poll(C),
                complete(C, [Do::Fail { fatal: false, kind: Some("Fatal") }]),
                poll(W),
            ],
        ),
        case(
            "a child inherits",
            [
                start_with(
                    W,
                    &[
                        StartExtra::Memo,
                        StartExtra::Attributes,
                        StartExtra::Priority,
                        StartExtra::LongRunTimeout,
                        StartExtra::LongExecutionTimeout,
                        StartExtra::Header,
                    ],
                ),
                poll(W),
                complete(W, [child(C, ParentClosePolicy::Terminate)]),
                poll(C),
            ],
        ),
        case(
            "a child with everything",
            [
                start(W),
                poll(W),
                complete(
                    W,
                    [child_with(&[
                        StartExtra::Memo,
                        StartExtra::Attributes,
                        StartExtra::Priority,
                        StartExtra::LongRunTimeout,
                        StartExtra::LongExecutionTimeout,
                        StartExtra::Header,
                        StartExtra::Retry,
                    ])],
                ),
                poll(C),
            ],
        ),
        case(
            "a child of an id that runs",
            [start(C), start(W), poll(W), complete(W, [child(C, ParentClosePolicy::Terminate)]), poll(W)],
        ),
        case(
            "a child of an id that was used",
            [
                start(C),
                terminate(C),
                start(W),
                poll(W),
                complete(
                    W,
                    [Do::StartChild {
                        child: C,
                        policy: ParentClosePolicy::Terminate,
                        reuse: WorkflowIdReusePolicy::RejectDuplicate,
                        extras: Vec::new(),
                    }],
                ),
                poll(W),
                complete(
                    W,
                    [Do::StartChild {
                        child: C,
                        policy: ParentClosePolicy::Terminate,
                        reuse: WorkflowIdReusePolicy::AllowDuplicateFailedOnly,
                        extras: Vec::new(),
                    }],
                ),
                poll(W),
            ],
        ),
        case("a child without a type", [start(W), poll(W), complete(W, [child_with(&[StartExtra::NoType])]), poll(W)]),
        case(
            "a child with an unknown attribute",
            [start(W), poll(W), complete(W, [child_with(&[StartExtra::UnknownAttribute])]), poll(W)],
        ),
        case(
            "a child with an invalid retry policy",
            [start(W), poll(W), complete(W, [child_with(&[StartExtra::InvalidRetry])]), poll(W)],
        ),
        case(
            "a child with a negative timeout",
            [start(W), poll(W), complete(W, [child_with(&[StartExtra::NegativeTimeout])]), poll(W)],
        ),
        case("a child on its parent's queue", [start(W), poll(W), complete(W, [child_with(&[StartExtra::NoQueue])])]),
        with_child(
            "a signal to a child",
            ParentClosePolicy::Abandon,
            [
                poll(W),
                complete(W, [Do::SignalExternal { target: C, run: Run::Current, child_only: true }]),
                poll(W),
                poll(C),
            ],
        ),
        with_child(
            "a cancellation of a child",
            ParentClosePolicy::Abandon,
            [
                poll(W),
                complete(W, [Do::CancelExternal { target: C, run: Run::Current, child_only: true }]),
                poll(W),
                poll(C),
                complete(C, [Do::CancelSelf]),
                poll(W),
            ],
        ),
        external(
            "a signal to another run",
            Do::SignalExternal { target: Who::W1, run: Run::Current, child_only: false },
        ),
        external(
            "a signal to another run by its id",
            Do::SignalExternal { target: Who::W1, run: Run::Latest, child_only: false },
        ),
        external(
            "a signal to a run that is not a child",
            Do::SignalExternal { target: Who::W1, run: Run::Current, child_only: true },
        ),
        external(
            "a signal to an unknown workflow",
            Do::SignalExternal { target: Who::Unstarted, run: Run::Current, child_only: false },
        ),
        external("a signal to itself", Do::SignalExternal { target: W, run: Run::Current, child_only: false }),
        external(
            "a signal to an unknown run",
            Do::SignalExternal { target: Who::W1, run: Run::Unknown, child_only: false },
        ),
        external(
            "a signal to a malformed run",
            Do::SignalExternal { target: Who::W1, run: Run::Malformed, child_only: false },
        ),
        external(
            "a cancellation of another run",
            Do::CancelExternal { target: Who::W1, run: Run::Current, child_only: false },
        ),
        external(
            "a cancellation of a run that is not a child",
            Do::CancelExternal { target: Who::W1, run: Run::Current, child_only: true },
        ),
        external(
            "a cancellation of an unknown workflow",
            Do::CancelExternal { target: Who::Unstarted, run: Run::Current, child_only: false },
        ),
        external("a cancellation of itself", Do::CancelExternal { target: W, run: Run::Latest, child_only: false }),
        external(
            "a cancellation of an unknown run",
            Do::CancelExternal { target: Who::W1, run: Run::Unknown, child_only: false },
        ),
        case(
            "signals and cancellations of a closed run",
            [
                start(Who::W1),
                terminate(Who::W1),
                start(W),
                poll(W),
                complete(W, [Do::SignalExternal { target: Who::W1, run: Run::Current, child_only: false }]),
                poll(W),
                complete(W, [Do::CancelExternal { target: Who::W1, run: Run::Current, child_only: false }]),
                poll(W),
            ],
        ),
    ]
}

/// A run with one started child; both have a task waiting.
fn with_child(name: &'static str, policy: ParentClosePolicy, then: impl IntoIterator<Item = Action>) -> Case {
    let begin = [start(W), poll(W), complete(W, [child(C, policy)])];
    case(name, begin.into_iter().chain(then))
}

fn child_with(extras: &[StartExtra]) -> Do {
    Do::StartChild {
        child: C,
        policy: ParentClosePolicy::Terminate,
        reuse: WorkflowIdReusePolicy::Unspecified,
        extras: extras.to_vec(),
    }
}

fn external(name: &'static str, command: Do) -> Case {
    case(name, [start(Who::W1), start(W), poll(W), complete(W, [command]), poll(W), poll(Who::W1)])
}
