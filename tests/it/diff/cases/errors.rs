//! Rejected requests, with their error texts and details.

use super::{
    Case, Run, Stage, Start, StartExtra, Who, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, cancel, case, query,
    signal, start, start_with, terminate, update, waiting_for,
};
use crate::diff::script::Action;

const W: Who = Who::W0;

pub(super) fn cases() -> Vec<Case> {
    let bad = [
        StartExtra::NoType,
        StartExtra::NoQueue,
        StartExtra::UnknownAttribute,
        StartExtra::IllTypedAttribute,
        StartExtra::InvalidRetry,
        StartExtra::NegativeTimeout,
    ];
    let both =
        |extra| [start_with(W, &[extra]), Action::SignalWithStart(Start { extras: vec![extra], ..Start::new(W) })];
    // The order of the checks shows in the error.
    let with_contradictory_policies = |extra| {
        let reuse = WorkflowIdReusePolicy::RejectDuplicate;
        let conflict = WorkflowIdConflictPolicy::TerminateExisting;
        every_start(Start { reuse, conflict, extras: vec![extra], ..Start::new(W) })
    };
    let pairs = bad.into_iter().flat_map(|one| bad.into_iter().map(move |other| vec![one, other]));
    let runs = [Run::Unknown, Run::Malformed].into_iter().flat_map(|run| {
        [
            Action::Signal { who: W, request: 1, run },
            Action::Cancel { who: W, request: 1, run },
            Action::Terminate { who: W, run },
            Action::Delete { who: W, run },
        ]
    });
    vec![
        case("starts that are refused", bad.into_iter().flat_map(both)),
        case(
            "starts that are refused for their policies or more",
            bad.into_iter().flat_map(with_contradictory_policies),
        ),
        case(
            "starts that are refused for two reasons",
            pairs.flat_map(|extras| every_start(Start { extras, ..Start::new(W) })),
        ),
        case(
            "a start without a request id",
            [start_with(W, &[StartExtra::NoRequestId]), start_with(W, &[StartExtra::NoRequestId])],
        ),
        case(
            "requests to an unknown workflow",
            [signal(W, 1), cancel(W, 1), terminate(W), query(W), update(W, 0), Action::ResetSticky(W)],
        ),
        case("requests to runs that are not there", std::iter::once(start(W)).chain(runs)),
    ]
}

fn every_start(start: Start) -> [Action; 3] {
    [
        Action::Start(start.clone()),
        Action::SignalWithStart(start.clone()),
        Action::UpdateWithStart(start, waiting_for(0, Stage::Completed)),
    ]
}
