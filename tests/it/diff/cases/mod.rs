//! Scripts written by hand, one for each thing that is easy to get wrong.

mod activities;
mod buffering;
mod chains;
mod children;
mod errors;
mod messages;
mod operations;
mod reads;
mod regressions;
mod starts;
mod tasks;
mod transient_state;

use temporalio_protos::temporal::api::enums::v1::{
    ParentClosePolicy, QueryRejectCondition, ResetReapplyType, UpdateWorkflowExecutionLifecycleStage as Stage,
    WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowTaskFailedCause,
};

use super::script::{
    Action, ActivityExtra, Build, By, Completion, Do, QueryAnswer, Report, ResetTo, Run, Start, StartExtra, Sticky,
    TimerLength, Token, Update, UpdateAnswer, Who,
};

/// A script and what it shows.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) script: Vec<Action>,
}

pub(super) fn all() -> Vec<Case> {
    // What takes longest comes first.
    let groups = [
        regressions::cases(),
        buffering::cases(),
        tasks::cases(),
        messages::cases(),
        activities::cases(),
        operations::cases(),
        children::cases(),
        transient_state::cases(),
        starts::cases(),
        chains::cases(),
        reads::cases(),
        errors::cases(),
    ];
    groups.into_iter().flatten().collect()
}

fn case(name: &'static str, script: impl IntoIterator<Item = Action>) -> Case {
    Case { name, script: script.into_iter().collect() }
}

fn start(who: Who) -> Action {
    Action::Start(Start::new(who))
}

fn start_with(who: Who, extras: &[StartExtra]) -> Action {
    Action::Start(Start { extras: extras.to_vec(), ..Start::new(who) })
}

/// A start after the first one: it has a request id of its own.
fn start_again(who: Who, request: u8, reuse: WorkflowIdReusePolicy, conflict: WorkflowIdConflictPolicy) -> Action {
    Action::Start(Start { request, reuse, conflict, ..Start::new(who) })
}

fn poll(who: Who) -> Action {
    Action::PollTask(who)
}

fn complete(who: Who, commands: impl Into<Vec<Do>>) -> Action {
    complete_with(who, Completion { commands: commands.into(), ..Default::default() })
}

fn complete_with(who: Who, with: Completion) -> Action {
    Action::CompleteTask { who, token: Token::Last, with }
}

/// Completes with a new task in the answer, so that the workflow has a task in hand without a gap.
fn complete_and_hold(who: Who, commands: impl Into<Vec<Do>>) -> Action {
    complete_with(who, Completion { commands: commands.into(), force: true, inline: true, ..Default::default() })
}

fn answer_updates(who: Who, updates: UpdateAnswer) -> Action {
    complete_with(who, Completion { updates, ..Default::default() })
}

fn fail(who: Who) -> Action {
    let cause = WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure;
    Action::FailTask { who, token: Token::Last, cause, build: Build::Unsaid }
}

fn signal(who: Who, request: u8) -> Action {
    Action::Signal { who, request, run: Run::Current }
}

fn cancel(who: Who, request: u8) -> Action {
    Action::Cancel { who, request, run: Run::Current }
}

fn terminate(who: Who) -> Action {
    Action::Terminate { who, run: Run::Current }
}

fn reset(who: Who, to: ResetTo) -> Action {
    Action::Reset { who, to, request: 1, reapply: ResetReapplyType::Signal }
}

fn query(who: Who) -> Action {
    Action::Query { who, reject: QueryRejectCondition::None, answer: QueryAnswer::Answered }
}

fn update(who: Who, update: u8) -> Action {
    Action::Update(who, waiting_for(update, Stage::Completed))
}

fn waiting_for(update: u8, wait: Stage) -> Update {
    Update { update, wait, run: Run::Current, named: true }
}

fn schedule(activity: u8, extras: &[ActivityExtra]) -> Do {
    Do::Schedule { activity, extras: extras.to_vec() }
}

fn timer(timer: u8, length: TimerLength) -> Do {
    Do::StartTimer { timer, length }
}

fn child(child: Who, policy: ParentClosePolicy) -> Do {
    Do::StartChild { child, policy, reuse: WorkflowIdReusePolicy::Unspecified, extras: Vec::new() }
}

fn take(who: Who, activity: u8) -> Action {
    Action::PollActivity { who, activity }
}

fn report(who: Who, activity: u8, report: Report) -> Action {
    Action::ReportActivity { who, activity, by: By::LastToken, report }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_names_are_unique() {
        let all = all();
        for case in &all {
            assert_eq!(all.iter().filter(|other| other.name == case.name).count(), 1, "{}", case.name);
        }
    }
}
