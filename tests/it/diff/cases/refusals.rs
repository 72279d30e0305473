//! Requests that are refused, with their messages and details.

use super::{Case, Run, Start, StartExtra, Who, cancel, case, query, signal, start, start_with, terminate, update};
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
            "a start without a request id",
            [start_with(W, &[StartExtra::NoRequestId]), start_with(W, &[StartExtra::NoRequestId])],
        ),
        case(
            "requests to nobody",
            [signal(W, 1), cancel(W, 1), terminate(W), query(W), update(W, 0), Action::ResetSticky(W)],
        ),
        case("requests to runs that are not there", std::iter::once(start(W)).chain(runs)),
    ]
}
