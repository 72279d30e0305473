//! What an operator does to activities: pause, unpause, reset, change their options.

use prost_wkt_types::FieldMask;
use temporalio_protos::temporal::api::{
    activity::v1::ActivityOptions,
    common::v1::{Priority, RetryPolicy},
    workflowservice::v1::{
        PauseActivityExecutionRequest, PauseActivityRequest, ResetActivityExecutionRequest, ResetActivityRequest,
        UnpauseActivityExecutionRequest, UnpauseActivityRequest, UpdateActivityExecutionOptionsRequest,
        UpdateActivityOptionsRequest, pause_activity_request as pause, reset_activity_request as reset,
        unpause_activity_request as unpause, update_activity_options_request as update,
    },
};

use super::{
    Player,
    names::{ACTIVITY_TYPE, CLIENT, queue, retry, seconds},
    prompt,
};
use crate::diff::{
    peer::NAMESPACE,
    script::{Operation, OptionChange, Run, Selection, Who},
};

impl Player {
    pub(super) async fn operate(&mut self, who: Who, on: Selection, operation: Operation) {
        if !self.memory.echoes.is_empty() || self.memory.hurried.iter().any(|(hurried, _)| *hurried == who) {
            return self.note("operate", "left out: a timeout is awaited");
        }
        if let Selection::Execution(activity) = on {
            return self.operate_on_execution(who, format!("a{activity}"), operation).await;
        }
        let (namespace, identity) = (NAMESPACE.to_owned(), CLIENT.to_owned());
        let execution = Some(self.execution(who, Run::Current));
        let (id, kind) = (named(on), typed(on));
        match operation {
            Operation::Pause { request } => {
                let activity = id.map(pause::Activity::Id).or_else(|| kind.map(pause::Activity::Type));
                let request = PauseActivityRequest {
                    namespace,
                    execution,
                    identity,
                    activity,
                    reason: format!("reason {request}"),
                    request_id: format!("pause {request}"),
                };
                let answer = self.client.pause_activity(prompt(request)).await;
                self.saw("pause activity", answer);
            }
            Operation::Unpause { attempts, heartbeat } => {
                let all = (on == Selection::All).then_some(unpause::Activity::UnpauseAll(true));
                let activity = id.map(unpause::Activity::Id).or_else(|| kind.map(unpause::Activity::Type)).or(all);
                let request = UnpauseActivityRequest {
                    namespace,
                    execution,
                    identity,
                    activity,
                    reset_attempts: attempts,
                    reset_heartbeat: heartbeat,
                    jitter: None,
                };
                let answer = self.client.unpause_activity(prompt(request)).await;
                self.saw("unpause activity", answer);
            }
            Operation::Reset { heartbeat, keep_paused, restore } => {
                let all = (on == Selection::All).then_some(reset::Activity::MatchAll(true));
                let activity = id.map(reset::Activity::Id).or_else(|| kind.map(reset::Activity::Type)).or(all);
                let request = ResetActivityRequest {
                    namespace,
                    execution,
                    identity,
                    activity,
                    reset_heartbeat: heartbeat,
                    keep_paused,
                    jitter: None,
                    restore_original_options: restore,
                };
                let answer = self.client.reset_activity(prompt(request)).await;
                self.saw("reset activity", answer);
            }
            Operation::Change(change) => {
                let all = (on == Selection::All).then_some(update::Activity::MatchAll(true));
                let activity = id.map(update::Activity::Id).or_else(|| kind.map(update::Activity::Type)).or(all);
                let moved = format!("{}{}-moved", self.prefix, who.name());
                let (activity_options, mask) = changed(change, moved);
                let request = UpdateActivityOptionsRequest {
                    namespace,
                    execution,
                    identity,
                    activity,
                    activity_options,
                    update_mask: mask.map(|path| FieldMask { paths: vec![path.to_owned()] }),
                    restore_original: matches!(change, OptionChange::Restore | OptionChange::RestoreAndMask),
                };
                let answer = self.client.update_activity_options(prompt(request)).await;
                self.saw("update activity options", answer);
            }
        }
    }

    /// With the requests that the CLI sends.
    async fn operate_on_execution(&mut self, who: Who, activity_id: String, operation: Operation) {
        let (namespace, identity) = (NAMESPACE.to_owned(), CLIENT.to_owned());
        let (workflow_id, run_id) = (self.id(who), self.run_id(who, Run::Current));
        match operation {
            Operation::Pause { request } => {
                let request = PauseActivityExecutionRequest {
                    namespace,
                    workflow_id,
                    activity_id,
                    run_id,
                    identity,
                    reason: format!("reason {request}"),
                    request_id: format!("pause {request}"),
                    ..Default::default()
                };
                let answer = self.client.pause_activity_execution(prompt(request)).await;
                self.saw("pause activity execution", answer);
            }
            Operation::Unpause { .. } => {
                let request = UnpauseActivityExecutionRequest {
                    namespace,
                    workflow_id,
                    activity_id,
                    run_id,
                    identity,
                    ..Default::default()
                };
                let answer = self.client.unpause_activity_execution(prompt(request)).await;
                self.saw("unpause activity execution", answer);
            }
            Operation::Reset { heartbeat, keep_paused, restore } => {
                let request = ResetActivityExecutionRequest {
                    namespace,
                    workflow_id,
                    activity_id,
                    run_id,
                    identity,
                    keep_paused,
                    restore_original_options: restore,
                    reset_heartbeat: heartbeat,
                    ..Default::default()
                };
                let answer = self.client.reset_activity_execution(prompt(request)).await;
                self.saw("reset activity execution", answer);
            }
            Operation::Change(change) => {
                let moved = format!("{}{}-moved", self.prefix, who.name());
                let (activity_options, mask) = changed(change, moved);
                let request = UpdateActivityExecutionOptionsRequest {
                    namespace,
                    workflow_id,
                    activity_id,
                    run_id,
                    identity,
                    activity_options,
                    update_mask: mask.map(|path| FieldMask { paths: vec![path.to_owned()] }),
                    restore_original: matches!(change, OptionChange::Restore | OptionChange::RestoreAndMask),
                    ..Default::default()
                };
                let answer = self.client.update_activity_execution_options(prompt(request)).await;
                self.saw("update activity execution options", answer);
            }
        }
    }
}

fn named(on: Selection) -> Option<String> {
    match on {
        Selection::Id(activity) => Some(format!("a{activity}")),
        _ => None,
    }
}

fn typed(on: Selection) -> Option<String> {
    match on {
        Selection::Type => Some(ACTIVITY_TYPE.to_owned()),
        Selection::OtherType => Some("other".to_owned()),
        _ => None,
    }
}

/// The options of the request, and the field that its mask names.
fn changed(change: OptionChange, moved: String) -> (Option<ActivityOptions>, Option<&'static str>) {
    let none = ActivityOptions::default();
    let policy = |policy: RetryPolicy| ActivityOptions { retry_policy: Some(policy), ..ActivityOptions::default() };
    let priority = |priority_key: i32| ActivityOptions {
        priority: Some(Priority { priority_key, ..Priority::default() }),
        ..ActivityOptions::default()
    };
    let timeout =
        |span: i64| ActivityOptions { start_to_close_timeout: Some(seconds(span)), ..ActivityOptions::default() };
    let (options, mask) = match change {
        OptionChange::Heartbeat => {
            let heartbeat_timeout = Some(seconds(300));
            (ActivityOptions { heartbeat_timeout, ..none }, "heartbeat_timeout")
        }
        OptionChange::Attempts => (policy(retry(7, &[])), "retry_policy.maximum_attempts"),
        OptionChange::WholePolicy => (policy(retry(5, &["Passing"])), "retry_policy"),
        OptionChange::InvalidPolicy => (policy(retry(-1, &[])), "retry_policy.maximum_attempts"),
        OptionChange::Queue => (ActivityOptions { task_queue: Some(queue(moved)), ..none }, "task_queue.name"),
        OptionChange::Priority => (priority(2), "priority.priority_key"),
        OptionChange::InvalidPriority => (priority(-2), "priority"),
        OptionChange::LessTimeouts => (timeout(250), "startToCloseTimeout"),
        OptionChange::NegativeTimeout => (timeout(-1), "start_to_close_timeout"),
        OptionChange::NoTimeouts => (none, "schedule_to_close_timeout"),
        OptionChange::UnknownField => (none, "no_such_field"),
        OptionChange::MissingPart => (none, "task_queue.name"),
        OptionChange::NoMask => return (Some(none), None),
        OptionChange::NoOptions => return (None, Some("heartbeat_timeout")),
        OptionChange::Restore => return (None, None),
        OptionChange::RestoreAndMask => return (None, Some("heartbeat_timeout")),
    };
    (Some(options), Some(mask))
}
