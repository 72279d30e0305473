//! UpdateWorkflowExecutionOptions, and the override of a start.

use std::{collections::BTreeSet, sync::Arc};

use prost_wkt_types::FieldMask;
use temporalio_protos::temporal::api::{
    enums::v1::VersioningBehavior as Behavior,
    workflow::v1::{
        VersioningOverride, WorkflowExecutionOptions,
        versioning_override::{Override, PinnedOverrideBehavior},
    },
    workflowservice::v1::{UpdateWorkflowExecutionOptionsRequest, UpdateWorkflowExecutionOptionsResponse},
};

use crate::{
    core::Core,
    deployments::Version,
    run::{Run, override_target, overrides},
    service::checks,
    service_error::ServiceError,
};

const OVERRIDE: &str = "versioning_override";
const PRIORITY: &str = "priority";

impl Core {
    pub(in crate::service) async fn update_workflow_options(
        self: &Arc<Self>,
        request: UpdateWorkflowExecutionOptionsRequest,
    ) -> Result<UpdateWorkflowExecutionOptionsResponse, ServiceError> {
        if request.workflow_execution.as_ref().is_none_or(|execution| execution.workflow_id.is_empty()) {
            return Err(ServiceError::invalid("WorkflowId is not set on request."));
        }
        let Some(mask) = request.update_mask else { return Err(ServiceError::invalid("UpdateMask is required")) };
        let Some(mut options) = request.workflow_execution_options else {
            return Err(ServiceError::invalid("WorkflowExecutionOptions is required"));
        };
        check_paths(&mask)?;
        if options.priority.as_ref().is_some_and(|priority| priority.priority_key < 0) {
            return Err(ServiceError::invalid("priority key can't be negative"));
        }
        let target = checks::target(&self.read_namespaces(), &request.namespace, request.workflow_execution)?;
        let done = self.with_run(&target, |run, env| {
            run.must_run()?;
            fill_in_version(run, options.versioning_override.as_mut())?;
            let given = options.versioning_override.take();
            let given = given.map(|given| overrides::checked(given, self.limits.id_length)).transpose()?;
            self.check_pinned(&target.namespace, &run.state.task_queue, given.as_ref())?;
            let given = WorkflowExecutionOptions { versioning_override: given, ..options };
            let merged = merge(run.state.options(), &given, &mask)?;
            run.update_options(env, &merged, &request.identity);
            Ok(merged)
        })?;
        let merged = done.acknowledged().await?;
        self.reactivate_pinned(&target.namespace, merged.versioning_override.as_ref()).await;
        Ok(UpdateWorkflowExecutionOptionsResponse {
            workflow_execution_options: Some(merged),
            ..UpdateWorkflowExecutionOptionsResponse::default()
        })
    }

    /// A run can be pinned only to a version that has its task queue.
    pub(in crate::service) fn check_pinned(
        &self,
        namespace: &str,
        queue: &str,
        given: Option<&VersioningOverride>,
    ) -> Result<(), ServiceError> {
        let Some(version) = given.and_then(override_target).map(Version::of_api) else { return Ok(()) };
        if self.has_queue(namespace, queue, &version) {
            return Ok(());
        }
        Err(ServiceError::FailedPrecondition(format!(
            "Pinned version '{version}' is not present in task queue '{queue}' of type 'Workflow'"
        )))
    }

    /// Marks a version as draining again if a run was pinned to it.
    pub(in crate::service) async fn reactivate_pinned(
        self: &Arc<Self>,
        namespace: &str,
        given: Option<&VersioningOverride>,
    ) {
        if let Some(version) = given.and_then(override_target).map(Version::of_api) {
            self.reactivate(namespace, &version).await;
        }
    }
}

/// A pinned override without a version pins a run to the version that it is pinned to already.
fn fill_in_version(run: &Run, given: Option<&mut VersioningOverride>) -> Result<(), ServiceError> {
    let Some(Override::Pinned(pinned)) = given.and_then(|given| given.r#override.as_mut()) else { return Ok(()) };
    if pinned.version.is_some() || pinned.behavior() == PinnedOverrideBehavior::Unspecified {
        return Ok(());
    }
    let behavior = run.state.behavior();
    if behavior != Behavior::Pinned {
        let name = match behavior {
            Behavior::AutoUpgrade => "AutoUpgrade",
            _ => "Unspecified",
        };
        return Err(ServiceError::FailedPrecondition(format!(
            "must specify a specific pinned override version because workflow with id {} has behavior {name} and is \
             not yet pinned to any version",
            run.state.workflow_id
        )));
    }
    pinned.version = run.state.version().map(|version| version.to_api());
    Ok(())
}

/// The given options in place of the known ones, as far as the mask names them.
pub(in crate::service) fn merge(
    known: WorkflowExecutionOptions,
    given: &WorkflowExecutionOptions,
    mask: &FieldMask,
) -> Result<WorkflowExecutionOptions, ServiceError> {
    let refused = |text: &str| Err(ServiceError::InvalidArgument(format!("error applying update_options: {text}")));
    let paths: BTreeSet<&str> = mask.paths.iter().map(String::as_str).collect();
    let mut merged = known;
    if paths.contains(OVERRIDE) {
        merged.versioning_override.clone_from(&given.versioning_override);
    }
    let pair = ["versioning_override.behavior", "versioning_override.deployment"];
    match pair.iter().filter(|path| paths.contains(*path)).count() {
        0 => {}
        1 => return refused("versioning_override fields must be updated together"),
        _ => merged.versioning_override.clone_from(&given.versioning_override),
    }
    if paths.iter().any(|path| path.starts_with("versioning_override.") && !pair.contains(path)) {
        return refused("versioning_override doesn't support partial updates");
    }
    if paths.iter().any(|path| path.starts_with("time_skipping_config")) {
        return Err(ServiceError::Unimplemented("time skipping of single runs".to_owned()));
    }
    if paths.contains(PRIORITY) {
        merged.priority.clone_from(&given.priority);
    }
    let priority = given.priority.clone().unwrap_or_default();
    for path in &paths {
        match *path {
            "priority.priority_key" => merged.priority.get_or_insert_default().priority_key = priority.priority_key,
            "priority.fairness_key" => {
                merged.priority.get_or_insert_default().fairness_key.clone_from(&priority.fairness_key);
            }
            "priority.fairness_weight" => {
                merged.priority.get_or_insert_default().fairness_weight = priority.fairness_weight;
            }
            _ => {}
        }
    }
    Ok(merged)
}

/// Rejects paths that the options do not have.
pub(in crate::service) fn check_paths(mask: &FieldMask) -> Result<(), ServiceError> {
    const FIELDS: [&str; 3] = [OVERRIDE, PRIORITY, "time_skipping_config"];
    let unknown = mask.paths.iter().find(|path| {
        let first = path.split('.').next().unwrap_or_default();
        !FIELDS.contains(&first)
    });
    match unknown {
        None => Ok(()),
        // The space is what the real server prints.
        Some(path) => Err(ServiceError::InvalidArgument(format!(
            "error parsing UpdateMask: proto:\u{a0}invalid path {path:?} for message \
             \"temporal.api.workflow.v1.WorkflowExecutionOptions\""
        ))),
    }
}

#[cfg(test)]
mod tests {
    use temporalio_protos::temporal::api::common::v1::Priority;

    use super::*;

    fn auto() -> Option<VersioningOverride> {
        Some(VersioningOverride { r#override: Some(Override::AutoUpgrade(true)), ..VersioningOverride::default() })
    }

    fn mask(paths: &[&str]) -> FieldMask {
        FieldMask { paths: paths.iter().map(|path| (*path).to_owned()).collect() }
    }

    #[test]
    fn only_what_the_mask_names_is_changed() {
        let priority = |key| Some(Priority { priority_key: key, ..Priority::default() });
        let known = WorkflowExecutionOptions { priority: priority(1), ..WorkflowExecutionOptions::default() };
        let given = WorkflowExecutionOptions {
            versioning_override: auto(),
            priority: priority(2),
            ..WorkflowExecutionOptions::default()
        };
        let merged = |paths: &[&str]| merge(known.clone(), &given, &mask(paths)).map_err(|error| error.to_string());
        let with = |versioning_override, key| {
            Ok(WorkflowExecutionOptions { versioning_override, priority: priority(key), ..Default::default() })
        };
        assert_eq!(merged(&[]), with(None, 1));
        assert_eq!(merged(&["versioning_override"]), with(auto(), 1));
        assert_eq!(merged(&["priority"]), with(None, 2));
        assert_eq!(merged(&["priority.priority_key"]), with(None, 2));
        assert_eq!(merged(&["versioning_override.behavior", "versioning_override.deployment"]), with(auto(), 1));
        let refused = |text: &str| Err(format!("error applying update_options: {text}"));
        assert_eq!(
            merged(&["versioning_override.behavior"]),
            refused("versioning_override fields must be updated together")
        );
        assert_eq!(
            merged(&["versioning_override.pinned"]),
            refused("versioning_override doesn't support partial updates")
        );
        assert!(check_paths(&mask(&["priority", "versioning_override.pinned"])).is_ok());
        assert!(check_paths(&mask(&["nope"])).is_err());
    }
}
