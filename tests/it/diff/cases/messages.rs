//! Updates and queries.

use super::{
    Case, Completion, Do, QueryAnswer, QueryRejectCondition, ResetReapplyType, ResetTo, Run, Stage, Start, StartExtra,
    TimerLength, Update, UpdateAnswer, Who, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, answer_updates, case,
    complete, complete_with, fail, poll, query, reset, signal, start, start_again, terminate, timer, update,
    waiting_for,
};
use crate::diff::script::Action;

const W: Who = Who::W0;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("an update of an idle run", [idle(), vec![update(W, 0), poll(W), complete(W, [])]].concat()),
        case(
            "a rejected update leaves no trace",
            [
                idle(),
                vec![
                    update(W, 0),
                    poll(W),
                    answer_updates(W, UpdateAnswer::Reject),
                    update(W, 0),
                    poll(W),
                    complete(W, []),
                    signal(W, 1),
                ],
            ]
            .concat(),
        ),
        case(
            "a rejection with commands leaves a task",
            [
                idle(),
                vec![
                    update(W, 0),
                    poll(W),
                    complete_with(
                        W,
                        Completion {
                            commands: vec![timer(0, TimerLength::Long)],
                            updates: UpdateAnswer::Reject,
                            ..Default::default()
                        },
                    ),
                ],
            ]
            .concat(),
        ),
        case(
            "a rejection by a worker that cannot discard",
            [
                idle(),
                vec![
                    update(W, 0),
                    poll(W),
                    complete_with(
                        W,
                        Completion { updates: UpdateAnswer::Reject, may_discard: false, ..Default::default() },
                    ),
                    signal(W, 1),
                    poll(W),
                ],
            ]
            .concat(),
        ),
        case(
            "a heartbeat brings only new updates",
            [
                idle(),
                vec![
                    update(W, 0),
                    poll(W),
                    heartbeat(),
                    update(W, 1),
                    heartbeat(),
                    complete(W, []),
                    poll(W),
                    complete(W, []),
                ],
            ]
            .concat(),
        ),
        case(
            "an unanswered update is rejected",
            [idle(), vec![update(W, 0), poll(W), answer_updates(W, UpdateAnswer::Ignore), signal(W, 1)]].concat(),
        ),
        case(
            "a signal makes a speculative task real",
            [idle(), vec![update(W, 0), signal(W, 1), poll(W), answer_updates(W, UpdateAnswer::Reject)]].concat(),
        ),
        case(
            "a signal while the speculative task is held",
            [idle(), vec![update(W, 0), poll(W), signal(W, 1), answer_updates(W, UpdateAnswer::Reject), poll(W)]]
                .concat(),
        ),
        case(
            "a speculative task fails",
            [idle(), vec![update(W, 0), poll(W), fail(W), poll(W), complete(W, [])]].concat(),
        ),
        case(
            "accepted now, completed later",
            [
                idle(),
                vec![
                    Action::Update(W, waiting_for(0, Stage::Accepted)),
                    poll(W),
                    answer_updates(W, UpdateAnswer::Accept),
                    poll_update(0, Stage::Unspecified),
                    update(W, 0),
                    signal(W, 1),
                    poll(W),
                    complete_with(W, Completion { finish_updates: true, ..Default::default() }),
                    poll_update(0, Stage::Completed),
                    update(W, 0),
                ],
            ]
            .concat(),
        ),
        case(
            "completed with a failure",
            [
                idle(),
                vec![
                    update(W, 0),
                    poll(W),
                    answer_updates(W, UpdateAnswer::CompleteWithFailure),
                    poll_update(0, Stage::Completed),
                ],
            ]
            .concat(),
        ),
        case("two updates in one task", [idle(), vec![update(W, 0), update(W, 1), poll(W), complete(W, [])]].concat()),
        case("an update before the first task", vec![start(W), update(W, 0), poll(W), complete(W, []), signal(W, 1)]),
        case(
            "an accepted update is aborted when the run closes",
            [
                idle(),
                vec![
                    update(W, 0),
                    poll(W),
                    answer_updates(W, UpdateAnswer::Accept),
                    signal(W, 1),
                    poll(W),
                    complete(W, [Do::Complete]),
                    poll_update(0, Stage::Completed),
                    update(W, 0),
                    update(W, 1),
                ],
            ]
            .concat(),
        ),
        case(
            "an accepted update is aborted when the run is terminated",
            [
                idle(),
                vec![
                    update(W, 0),
                    poll(W),
                    answer_updates(W, UpdateAnswer::Accept),
                    terminate(W),
                    poll_update(0, Stage::Completed),
                ],
            ]
            .concat(),
        ),
        case(
            "an admitted update is aborted when the run is terminated",
            [idle(), vec![update(W, 0), terminate(W)]].concat(),
        ),
        case(
            "an update is answered in the task that closes the run",
            [idle(), vec![update(W, 0), poll(W), complete(W, [Do::Complete])]].concat(),
        ),
        case(
            "the same message twice in one answer",
            [
                idle(),
                vec![
                    Action::Update(W, waiting_for(0, Stage::Accepted)),
                    poll(W),
                    answer_updates(W, UpdateAnswer::Accept),
                    start_again(W, 1, WorkflowIdReusePolicy::Unspecified, WorkflowIdConflictPolicy::TerminateExisting),
                    update(W, 0),
                    poll(W),
                    complete_with(W, Completion { finish_updates: true, ..Default::default() }),
                ],
            ]
            .concat(),
        ),
        case(
            "an update and a continuation",
            [
                idle(),
                vec![
                    update(W, 0),
                    poll(W),
                    complete(W, [Do::ContinueAsNew(Vec::new())]),
                    update(W, 0),
                    poll(W),
                    complete(W, []),
                ],
            ]
            .concat(),
        ),
        case(
            "a completed update survives a reset",
            [idle(), vec![update(W, 0), poll(W), complete(W, []), reset(W, ResetTo::FirstTask), update(W, 0), poll(W)]]
                .concat(),
        ),
        case(
            "a worker fails over an update that a reset brought along",
            [
                idle(),
                vec![
                    update(W, 0),
                    poll(W),
                    complete(W, []),
                    Action::Reset { who: W, to: ResetTo::LastTask, request: 1, reapply: ResetReapplyType::Unspecified },
                    update(W, 0),
                    poll(W),
                    complete(W, [Do::CancelActivity(0)]),
                    poll(W),
                    complete(W, []),
                ],
            ]
            .concat(),
        ),
        case(
            "an update with a start",
            vec![
                update_with_start(0, WorkflowIdConflictPolicy::UseExisting),
                poll(W),
                complete(W, []),
                update_with_start(1, WorkflowIdConflictPolicy::UseExisting),
                poll(W),
                complete(W, []),
                update_with_start(2, WorkflowIdConflictPolicy::Fail),
                update_with_start(1, WorkflowIdConflictPolicy::UseExisting),
                terminate(W),
                update_with_start(3, WorkflowIdConflictPolicy::TerminateExisting),
                poll(W),
                answer_updates(W, UpdateAnswer::Reject),
            ],
        ),
        case("a query of a run that ended before it began", [start(W), terminate(W), query(W)]),
        case(
            "a query of a run whose task failed until its end",
            [idle(), vec![signal(W, 1), poll(W), fail(W), poll(W), terminate(W), query(W)]].concat(),
        ),
        case(
            "an update with a start that was done before",
            vec![start(W), poll(W), complete(W, [Do::Complete]), update_with_start(0, WorkflowIdConflictPolicy::Fail)],
        ),
        case(
            "an update with a start goes to another run when the first one ends without it",
            vec![
                start(W),
                update_with_start(1, WorkflowIdConflictPolicy::UseExisting),
                terminate(W),
                poll(W),
                complete(W, [Do::Complete]),
            ],
        ),
        case(
            "an update with a start when the run ends without it and no other may follow",
            vec![
                start(W),
                Action::UpdateWithStart(
                    Start {
                        request: 1,
                        reuse: WorkflowIdReusePolicy::RejectDuplicate,
                        conflict: WorkflowIdConflictPolicy::UseExisting,
                        ..Start::new(W)
                    },
                    waiting_for(0, Stage::Completed),
                ),
                terminate(W),
            ],
        ),
        case(
            "an update with a start that is refused",
            vec![
                bad_update_with_start(StartExtra::NoType),
                bad_update_with_start(StartExtra::Eager),
                bad_update_with_start(StartExtra::Delay),
                start(W),
                poll(W),
                complete(W, [Do::Complete]),
                Action::UpdateWithStart(
                    Start { request: 5, reuse: WorkflowIdReusePolicy::RejectDuplicate, ..Start::new(W) },
                    waiting_for(0, Stage::Completed),
                ),
                Action::UpdateWithStart(Start::new(W), Update { named: false, ..waiting_for(0, Stage::Completed) }),
            ],
        ),
        case(
            "updates that are refused",
            [
                vec![update(W, 0)],
                idle(),
                vec![
                    Action::Update(W, Update { named: false, ..waiting_for(0, Stage::Completed) }),
                    Action::Update(W, Update { run: Run::Unknown, ..waiting_for(0, Stage::Completed) }),
                    Action::Update(W, Update { run: Run::Malformed, ..waiting_for(0, Stage::Completed) }),
                    Action::Update(W, waiting_for(0, Stage::Admitted)),
                    poll_update(7, Stage::Completed),
                    terminate(W),
                    update(W, 0),
                    poll_update(7, Stage::Completed),
                ],
            ]
            .concat(),
        ),
        case("a query of an idle run", [idle(), vec![query(W), failing_query(QueryRejectCondition::None)]].concat()),
        case(
            "queries ride on a pending task",
            [
                idle(),
                vec![
                    signal(W, 1),
                    query(W),
                    poll(W),
                    complete(W, []),
                    signal(W, 2),
                    failing_query(QueryRejectCondition::NotOpen),
                    poll(W),
                    complete(W, []),
                ],
            ]
            .concat(),
        ),
        case(
            "a query while the task is held",
            [
                idle(),
                vec![
                    signal(W, 1),
                    poll(W),
                    query(W),
                    complete(W, []),
                    signal(W, 2),
                    poll(W),
                    query(W),
                    signal(W, 3),
                    complete(W, []),
                    poll(W),
                    complete(W, []),
                ],
            ]
            .concat(),
        ),
        case(
            "queries of closed runs",
            [
                idle(),
                vec![
                    signal(W, 1),
                    poll(W),
                    complete(W, [Do::Complete]),
                    query(W),
                    rejecting_query(QueryRejectCondition::NotOpen),
                    rejecting_query(QueryRejectCondition::NotCompletedCleanly),
                ],
            ]
            .concat(),
        ),
        case(
            "queries of terminated runs",
            [
                idle(),
                vec![
                    terminate(W),
                    query(W),
                    rejecting_query(QueryRejectCondition::NotOpen),
                    rejecting_query(QueryRejectCondition::NotCompletedCleanly),
                ],
            ]
            .concat(),
        ),
    ]
}

/// A run whose first task is done.
fn idle() -> Vec<Action> {
    vec![start(W), poll(W), complete(W, [])]
}

/// Says nothing about the updates at hand and takes the next task along.
fn heartbeat() -> Action {
    complete_with(W, Completion { updates: UpdateAnswer::Ignore, force: true, inline: true, ..Default::default() })
}

fn poll_update(update: u8, wait: Stage) -> Action {
    Action::PollUpdate { who: W, update, wait }
}

fn update_with_start(update: u8, conflict: WorkflowIdConflictPolicy) -> Action {
    Action::UpdateWithStart(Start { request: update, conflict, ..Start::new(W) }, waiting_for(update, Stage::Completed))
}

fn bad_update_with_start(extra: StartExtra) -> Action {
    Action::UpdateWithStart(Start { extras: vec![extra], ..Start::new(W) }, waiting_for(0, Stage::Completed))
}

fn failing_query(reject: QueryRejectCondition) -> Action {
    Action::Query { who: W, reject, answer: QueryAnswer::Failed }
}

fn rejecting_query(reject: QueryRejectCondition) -> Action {
    Action::Query { who: W, reject, answer: QueryAnswer::Answered }
}
