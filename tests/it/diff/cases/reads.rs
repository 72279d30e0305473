//! Histories and lists in every way they can be read.

use super::{Case, Do, Run, StartExtra, Who, case, complete, fail, poll, signal, start, start_with, terminate};
use crate::diff::script::{Action, AttributeChange, HistoryRead, Listing, MemoChange};

const W: Who = Who::W0;
const WAYS: [HistoryRead; 4] = [HistoryRead::Paged, HistoryRead::Reverse, HistoryRead::CloseEvent, HistoryRead::Wait];

pub(super) fn cases() -> Vec<Case> {
    let read = || WAYS.into_iter().map(|how| Action::History { who: W, how });
    let listings = [
        Listing::Running,
        Listing::Closed,
        Listing::ByType,
        Listing::ByAttribute,
        Listing::ByTime,
        Listing::CountByStatus,
        Listing::Malformed,
        Listing::UnknownAttribute,
    ];
    vec![
        case("histories of an unknown workflow", read()),
        case("histories of an open run", [start(W), signal(W, 1), poll(W)].into_iter().chain(read())),
        case(
            "histories of a run with a transient task",
            [start(W), poll(W), fail(W), poll(W)].into_iter().chain(read()),
        ),
        case(
            "histories of a closed run",
            [start(W), signal(W, 1), poll(W), complete(W, [Do::Complete])].into_iter().chain(read()),
        ),
        case(
            "histories of a chain",
            [start(W), poll(W), complete(W, [Do::ContinueAsNew(Vec::new())])].into_iter().chain(read()),
        ),
        case(
            "lists",
            [
                start_with(W, &[StartExtra::Attributes, StartExtra::Memo]),
                poll(W),
                complete(
                    W,
                    [Do::Attributes(AttributeChange::Set), Do::Memo(MemoChange::Set), Do::ContinueAsNew(Vec::new())],
                ),
                start(Who::W1),
                terminate(Who::W1),
                start_with(Who::W1, &[StartExtra::Attributes]),
            ]
            .into_iter()
            .chain(listings.map(Action::List)),
        ),
        case(
            "a closed run is deleted",
            [
                start(W),
                terminate(W),
                Action::Delete { who: W, run: Run::Current },
                Action::Delete { who: W, run: Run::Unknown },
                Action::Delete { who: Who::Unstarted, run: Run::Current },
                signal(W, 1),
                start(W),
            ],
        ),
    ]
}
