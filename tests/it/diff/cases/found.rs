//! Scripts that random runs have found, made small.

use super::{
    ActivityExtra, Build, By, Case, Completion, Do, QueryAnswer, QueryRejectCondition, Report, ResetReapplyType,
    ResetTo, Run, Stage, Start, StartExtra, Token, Update, UpdateAnswer, Who, WorkflowIdConflictPolicy,
    WorkflowTaskFailedCause, case,
};
use crate::diff::script::Action;

const W0: Who = Who::W0;

pub(super) fn cases() -> Vec<Case> {
    vec![case(
        "seed 770051",
        [
            Action::SignalWithStart(Start { request: 1, extras: vec![StartExtra::LongRunTimeout], ..Start::new(W0) }),
            Action::PollTask(W0),
            Action::CompleteTask {
                who: W0,
                token: Token::Last,
                with: Completion {
                    commands: vec![
                        Do::Schedule { activity: 0, extras: vec![ActivityExtra::RetryOnce] },
                        Do::Schedule { activity: 1, extras: vec![ActivityExtra::NoRetry] },
                    ],
                    finish_updates: true,
                    force: true,
                    inline: true,
                    may_discard: false,
                    ..Default::default()
                },
            },
            Action::CompleteTask {
                who: W0,
                token: Token::First,
                with: Completion {
                    commands: vec![
                        Do::CancelExternal { target: Who::Nobody, run: Run::Latest, child_only: true },
                        Do::Schedule { activity: 2, extras: vec![ActivityExtra::Header, ActivityExtra::Priority] },
                    ],
                    updates: UpdateAnswer::Reject,
                    finish_updates: true,
                    may_discard: false,
                    ..Default::default()
                },
            },
            Action::Query { who: W0, reject: QueryRejectCondition::None, answer: QueryAnswer::Failed },
            Action::ReportActivity { who: W0, activity: 1, by: By::Garbage, report: Report::Failed("Fatal") },
            Action::ResetSticky(W0),
            Action::PollActivity { who: W0, activity: 0 },
            Action::ReportActivity { who: W0, activity: 0, by: By::FirstToken, report: Report::Completed },
            Action::PollTask(W0),
            Action::CompleteTask {
                who: W0,
                token: Token::Last,
                with: Completion {
                    commands: vec![Do::Schedule {
                        activity: 0,
                        extras: vec![ActivityExtra::Input, ActivityExtra::Heartbeat, ActivityExtra::RetryOnce],
                    }],
                    updates: UpdateAnswer::Accept,
                    ..Default::default()
                },
            },
            Action::Reset { who: W0, to: ResetTo::FirstTask, request: 2, reapply: ResetReapplyType::None },
            Action::SignalWithStart(Start {
                request: 3,
                conflict: WorkflowIdConflictPolicy::Fail,
                extras: vec![StartExtra::Retry, StartExtra::Metadata, StartExtra::IllTypedAttribute],
                ..Start::new(W0)
            }),
            Action::Update(W0, Update { update: 0, wait: Stage::Accepted, run: Run::Latest, named: true }),
            Action::Reset { who: W0, to: ResetTo::FirstTask, request: 4, reapply: ResetReapplyType::Unspecified },
            Action::PollTask(W0),
            Action::PollActivity { who: W0, activity: 2 },
            Action::ReportActivity { who: W0, activity: 2, by: By::LastToken, report: Report::Heartbeat },
            Action::FailTask {
                who: W0,
                token: Token::Last,
                cause: WorkflowTaskFailedCause::NonDeterministicError,
                build: Build::Unsaid,
            },
            Action::Update(W0, Update { update: 1, wait: Stage::Completed, run: Run::Current, named: true }),
            Action::ReportActivity { who: W0, activity: 2, by: By::Id, report: Report::Cancelled },
            Action::PollTask(W0),
        ],
    )]
}
