//! Pausing, unpausing, resetting and changing the options of activities.

use std::sync::Arc;

use prost_wkt_types::Duration;
use temporalio_protos::temporal::api::{
    activity::v1::ActivityOptions,
    common::v1::{Priority, WorkflowExecution},
    history::v1::ActivityTaskScheduledEventAttributes,
    workflowservice::v1::{
        PauseActivityRequest, PauseActivityResponse, ResetActivityRequest, ResetActivityResponse,
        UnpauseActivityRequest, UnpauseActivityResponse, UpdateActivityOptionsRequest, UpdateActivityOptionsResponse,
        pause_activity_request, reset_activity_request, unpause_activity_request, update_activity_options_request,
    },
};

use super::checks;
use crate::{
    core::{Core, Target},
    run::{OptionsChange, Reset, Run, Selected, Unpause, mask_fields, state::Pause},
    service_error::ServiceError,
    time::{Nanos, span},
};

type Scheduled = Arc<ActivityTaskScheduledEventAttributes>;

const FAIRNESS_KEY_LENGTH: usize = 64;

impl Core {
    pub(super) async fn pause_activity(
        self: &Arc<Self>,
        request: PauseActivityRequest,
    ) -> Result<PauseActivityResponse, ServiceError> {
        use pause_activity_request::Activity;
        let selected = request.activity.map(|activity| match activity {
            Activity::Id(id) => Selected::Id(id),
            Activity::Type(kind) => Selected::Type(kind),
        });
        let (target, selected) = self.operated(&request.namespace, request.execution, selected)?;
        let done = self.with_run(&target, |run, env| {
            let pause = Pause {
                time: env.now,
                identity: request.identity,
                reason: request.reason,
                request_id: request.request_id,
            };
            run.pause_activities(&selected, &pause)
        })?;
        done.acknowledged().await?;
        Ok(PauseActivityResponse {})
    }

    pub(super) async fn unpause_activity(
        self: &Arc<Self>,
        request: UnpauseActivityRequest,
    ) -> Result<UnpauseActivityResponse, ServiceError> {
        use unpause_activity_request::Activity;
        let selected = request.activity.map(|activity| match activity {
            Activity::Id(id) => Selected::Id(id),
            Activity::Type(kind) => Selected::Type(kind),
            Activity::UnpauseAll(_) => Selected::All,
        });
        let (target, selected) = self.operated(&request.namespace, request.execution, selected)?;
        let unpause = Unpause {
            reset_attempts: request.reset_attempts,
            reset_heartbeat: request.reset_heartbeat,
            jitter: jitter(request.jitter),
        };
        self.with_run(&target, |run, env| run.unpause_activities(env, &selected, &unpause))?.acknowledged().await?;
        Ok(UnpauseActivityResponse {})
    }

    pub(super) async fn reset_activity(
        self: &Arc<Self>,
        request: ResetActivityRequest,
    ) -> Result<ResetActivityResponse, ServiceError> {
        use reset_activity_request::Activity;
        let selected = request.activity.map(|activity| match activity {
            Activity::Id(id) => Selected::Id(id),
            Activity::Type(kind) => Selected::Type(kind),
            Activity::MatchAll(_) => Selected::All,
        });
        let (target, selected) = self.operated(&request.namespace, request.execution, selected)?;
        let reset = Reset {
            reset_heartbeat: request.reset_heartbeat,
            keep_paused: request.keep_paused,
            restore_original_options: request.restore_original_options,
            jitter: jitter(request.jitter),
        };
        self.reset_activities(&target, &selected, &reset).await?;
        Ok(ResetActivityResponse {})
    }

    pub(super) async fn reset_activities(
        self: &Arc<Self>,
        target: &Target,
        selected: &Selected,
        reset: &Reset,
    ) -> Result<(), ServiceError> {
        let done = self.with_run(target, |run, env| {
            run.must_run()?;
            let ids = run.selected_activities(selected)?;
            for (id, original) in self.originals(run, ids, reset.restore_original_options)? {
                if let Some(original) = original {
                    run.restore_activity_options(id, &original);
                }
                run.reset_activity(env, id, reset);
            }
            Ok(())
        })?;
        done.acknowledged().await
    }

    pub(super) async fn update_activity_options(
        self: &Arc<Self>,
        request: UpdateActivityOptionsRequest,
    ) -> Result<UpdateActivityOptionsResponse, ServiceError> {
        use update_activity_options_request::Activity;
        let selected = request.activity.map(|activity| match activity {
            Activity::Id(id) => Selected::Id(id),
            Activity::Type(kind) => Selected::Type(kind),
            Activity::MatchAll(_) => Selected::All,
        });
        named(request.execution.as_ref(), selected.as_ref())?;
        check_priority(request.activity_options.as_ref().and_then(|options| options.priority.as_ref()))?;
        let (target, selected) = self.operated(&request.namespace, request.execution, selected)?;
        let fields = request.update_mask.as_ref().map(mask_fields);
        let change = if request.restore_original {
            if fields.is_some_and(|fields| !fields.is_empty()) {
                return Err(ServiceError::invalid("Both UpdateMask and RestoreOriginal are provided"));
            }
            Change::Restore
        } else {
            Change::Merge(request.activity_options.map(Box::new), fields)
        };
        let options = self.change_activities(&target, &selected, change).await?;
        Ok(UpdateActivityOptionsResponse { activity_options: Some(options) })
    }

    /// Changes all selected activities or none. Returns the options of the last one.
    pub(super) async fn change_activities(
        self: &Arc<Self>,
        target: &Target,
        selected: &Selected,
        change: Change,
    ) -> Result<ActivityOptions, ServiceError> {
        let done = self.with_run(target, |run, env| {
            run.must_run()?;
            let restores = matches!(change, Change::Restore);
            let (change, ids) = match change {
                Change::Restore => (OptionsChange::Restore, run.selected_activities(selected)?),
                Change::Merge(options, fields) => {
                    let options = options.ok_or_else(|| ServiceError::invalid("ActivityOptions are not provided"))?;
                    let ids = run.selected_activities(selected)?;
                    let fields = fields.ok_or_else(|| ServiceError::invalid("UpdateMask is not provided"))?;
                    (OptionsChange::Merge { options, fields }, ids)
                }
            };
            for id in &ids {
                run.check_activity_options(env, *id, &change)?;
            }
            let mut last = ActivityOptions::default();
            for (id, original) in self.originals(run, ids, restores)? {
                last = run.change_activity_options(env, id, &change, original.as_deref())?;
            }
            Ok(last)
        })?;
        done.acknowledged().await
    }

    /// The activities, each with its scheduled event if that is needed.
    fn originals(
        &self,
        run: &mut Run,
        ids: Vec<i64>,
        needed: bool,
    ) -> Result<Vec<(i64, Option<Scheduled>)>, ServiceError> {
        let number = run.number;
        let original = |id: i64| match run.memory.scheduled.get(&id) {
            _ if !needed => Ok((id, None)),
            Some(scheduled) => Ok((id, Some(Arc::clone(scheduled)))),
            None => self.scheduled(number, id).map(|scheduled| (id, Some(Arc::new(scheduled)))),
        };
        ids.into_iter().map(original).collect()
    }

    /// The run and the activities of a request. In the real server's order of checks.
    fn operated(
        &self,
        namespace: &str,
        execution: Option<WorkflowExecution>,
        selected: Option<Selected>,
    ) -> Result<(Target, Selected), ServiceError> {
        let selected = named(execution.as_ref(), selected.as_ref())?.clone();
        Ok((checks::target(&self.read_namespaces(), namespace, execution)?, selected))
    }
}

/// A change of options as it is requested.
pub(super) enum Change {
    Restore,
    /// The options, and the fields to change.
    Merge(Option<Box<ActivityOptions>>, Option<std::collections::BTreeSet<String>>),
}

fn named<'a>(
    execution: Option<&WorkflowExecution>,
    selected: Option<&'a Selected>,
) -> Result<&'a Selected, ServiceError> {
    if execution.is_none_or(|execution| execution.workflow_id.is_empty()) {
        return Err(ServiceError::invalid("WorkflowId is not set on request."));
    }
    selected.ok_or_else(|| ServiceError::invalid("Either Activity.Id or Activity.Type should be set on request."))
}

pub(super) fn check_priority(priority: Option<&Priority>) -> Result<(), ServiceError> {
    let Some(priority) = priority else { return Ok(()) };
    let problem = if priority.priority_key < 0 {
        "priority key can't be negative"
    } else if priority.fairness_key.len() > FAIRNESS_KEY_LENGTH {
        "fairness key length exceeds limit"
    } else if priority.fairness_weight < 0.0 {
        "must be greater than zero"
    } else {
        return Ok(());
    };
    Err(ServiceError::invalid(problem))
}

pub(super) fn jitter(jitter: Option<Duration>) -> Nanos {
    span(jitter.as_ref())
}
