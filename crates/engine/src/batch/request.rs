//! What a request for a batch asks for, and whether it is valid. The checks are in the real server's order, with its
//! texts.

use temporalio_protos::temporal::api::{
    batch::v1::{
        batch_operation_reset_activities as reset, batch_operation_unpause_activities as unpause,
        batch_operation_update_activity_options as update,
    },
    enums::v1::{BatchOperationType as Type, ExecutionType, ResetType},
    workflowservice::v1::{StartBatchOperationRequest, start_batch_operation_request::Operation},
};

use crate::service_error::ServiceError;

const NO_ACTIVITIES: &str = "Either activity type must be set, or match all should be set to true";

pub(crate) fn check(request: &StartBatchOperationRequest) -> Result<(), ServiceError> {
    #[allow(deprecated, reason = "clients still send executions in this field")]
    let selectors =
        [!request.visibility_query.is_empty(), !request.executions.is_empty(), !request.target_executions.is_empty()];
    let selectors = selectors.into_iter().filter(|given| *given).count();
    let required = "must provide required parameters: BatchType,Reason,Namespace, AND one of (Query OR Executions OR \
                    TargetExecutions)";
    let Some(operation) = &request.operation else { return refuse(required) };
    if request.reason.is_empty() || request.namespace.is_empty() || selectors == 0 {
        return refuse(required);
    }
    if request.job_id.is_empty() {
        return refuse("JobId is not set on request.");
    }
    if selectors > 1 {
        return refuse("visibility query, executions, and target executions are mutually exclusive");
    }
    let workflows = |it: &i32| *it == ExecutionType::Workflow as i32;
    if let Some(index) = request.target_executions.iter().position(|target| !workflows(&target.r#type)) {
        return refuse(&format!("target_executions[{index}] is not a workflow, but the operation requires one"));
    }
    operation_is_complete(operation)
}

fn operation_is_complete(operation: &Operation) -> Result<(), ServiceError> {
    match operation {
        Operation::SignalOperation(signal) if signal.signal.is_empty() => refuse("must provide signal name"),
        Operation::ResetOperation(reset) => match &reset.options {
            Some(options) if options.target.is_none() => refuse("batch reset missing target"),
            Some(_) => Ok(()),
            #[allow(deprecated, reason = "clients still send the type in this field")]
            None => match ResetType::try_from(reset.reset_type) {
                Ok(ResetType::Unspecified) | Err(_) => refuse("unknown batch reset type Unspecified"),
                Ok(_) => Ok(()),
            },
        },
        Operation::UnpauseActivitiesOperation(unpause) => match &unpause.activity {
            None => refuse("activity filter must be set"),
            Some(unpause::Activity::Type(kind)) if !kind.is_empty() => Ok(()),
            Some(unpause::Activity::MatchAll(true)) => Ok(()),
            Some(_) => refuse(NO_ACTIVITIES),
        },
        Operation::ResetActivitiesOperation(reset) => match &reset.activity {
            None => refuse("must provide ActivityType or MatchAll"),
            Some(reset::Activity::Type(kind)) if !kind.is_empty() => Ok(()),
            Some(reset::Activity::MatchAll(true)) => Ok(()),
            Some(_) => refuse(NO_ACTIVITIES),
        },
        Operation::UpdateActivityOptionsOperation(update) => {
            if update.activity_options.is_some() && update.restore_original {
                return refuse("cannot set both activity options and restore original");
            }
            if update.activity_options.is_none() && !update.restore_original {
                return refuse("Either activity type must be set, or restore original should be set to true");
            }
            match &update.activity {
                Some(update::Activity::Type(kind)) if kind.is_empty() => refuse(NO_ACTIVITIES),
                Some(update::Activity::MatchAll(false)) => refuse(NO_ACTIVITIES),
                _ => Ok(()),
            }
        }
        Operation::UpdateWorkflowOptionsOperation(_)
        | Operation::CancelActivitiesOperation(_)
        | Operation::TerminateActivitiesOperation(_)
        | Operation::DeleteActivitiesOperation(_) => {
            Err(ServiceError::Unimplemented("StartBatchOperation with this operation".to_owned()))
        }
        _ => Ok(()),
    }
}

fn refuse(message: &str) -> Result<(), ServiceError> {
    Err(ServiceError::invalid(message))
}

pub(super) fn kind(request: &StartBatchOperationRequest) -> Type {
    match &request.operation {
        Some(Operation::TerminationOperation(_)) => Type::TerminateWorkflow,
        Some(Operation::CancellationOperation(_)) => Type::CancelWorkflow,
        Some(Operation::SignalOperation(_)) => Type::SignalWorkflow,
        Some(Operation::DeletionOperation(_)) => Type::DeleteWorkflow,
        Some(Operation::ResetOperation(_)) => Type::ResetWorkflow,
        Some(Operation::UpdateWorkflowOptionsOperation(_)) => Type::UpdateWorkflowExecutionOptions,
        Some(Operation::UnpauseActivitiesOperation(_)) => Type::UnpauseActivity,
        Some(Operation::ResetActivitiesOperation(_)) => Type::ResetActivity,
        Some(Operation::UpdateActivityOptionsOperation(_)) => Type::UpdateActivityOptions,
        Some(Operation::CancelActivitiesOperation(_)) => Type::CancelActivity,
        Some(Operation::TerminateActivitiesOperation(_)) => Type::TerminateActivity,
        Some(Operation::DeleteActivitiesOperation(_)) => Type::DeleteActivity,
        None => Type::Unspecified,
    }
}

pub(super) fn identity(request: &StartBatchOperationRequest) -> String {
    match &request.operation {
        Some(Operation::TerminationOperation(it)) => it.identity.clone(),
        Some(Operation::CancellationOperation(it)) => it.identity.clone(),
        Some(Operation::SignalOperation(it)) => it.identity.clone(),
        Some(Operation::DeletionOperation(it)) => it.identity.clone(),
        Some(Operation::ResetOperation(it)) => it.identity.clone(),
        Some(Operation::UpdateWorkflowOptionsOperation(it)) => it.identity.clone(),
        Some(Operation::UnpauseActivitiesOperation(it)) => it.identity.clone(),
        Some(Operation::ResetActivitiesOperation(it)) => it.identity.clone(),
        Some(Operation::UpdateActivityOptionsOperation(it)) => it.identity.clone(),
        Some(Operation::CancelActivitiesOperation(it)) => it.identity.clone(),
        Some(Operation::TerminateActivitiesOperation(it)) => it.identity.clone(),
        Some(Operation::DeleteActivitiesOperation(_)) | None => String::new(),
    }
}

/// The filter of the executions to process. Resets and deletions also apply to closed runs. To unpause all activities
/// of a type, the pauses are searched for, whatever the query of the request is.
pub(super) fn query(request: &StartBatchOperationRequest) -> String {
    let given = match &request.operation {
        Some(Operation::UnpauseActivitiesOperation(it)) => match &it.activity {
            Some(unpause::Activity::Type(kind)) => {
                let kind = kind.replace('\\', "\\\\").replace('\'', "\\'");
                format!("TemporalPauseInfo = 'property:activityType={kind}'")
            }
            _ => request.visibility_query.clone(),
        },
        _ => request.visibility_query.clone(),
    };
    match &request.operation {
        Some(Operation::ResetOperation(_) | Operation::DeletionOperation(_)) => given,
        _ => format!("({given}) AND (ExecutionStatus = 'Running' OR ExecutionStatus = 'Paused')"),
    }
}

#[cfg(test)]
mod tests {
    use temporalio_protos::temporal::api::batch::v1::{
        BatchOperationDeletion, BatchOperationSignal, BatchOperationUnpauseActivities,
    };

    use super::*;

    fn signal(signal: &str) -> Operation {
        Operation::SignalOperation(BatchOperationSignal { signal: signal.to_owned(), ..Default::default() })
    }

    #[test]
    fn incomplete_requests_are_refused() {
        let complete = StartBatchOperationRequest {
            namespace: "n".to_owned(),
            job_id: "job".to_owned(),
            reason: "reason".to_owned(),
            visibility_query: "WorkflowType = 't'".to_owned(),
            operation: Some(signal("s")),
            ..Default::default()
        };
        assert_eq!(check(&complete), Ok(()));
        let without = |change: fn(&mut StartBatchOperationRequest)| {
            let mut request = complete.clone();
            change(&mut request);
            check(&request).unwrap_err().to_string()
        };
        assert!(without(|request| request.reason.clear()).starts_with("must provide required parameters"));
        assert!(without(|request| request.operation = None).starts_with("must provide required parameters"));
        assert_eq!(without(|request| request.job_id.clear()), "JobId is not set on request.");
        assert_eq!(without(|request| request.operation = Some(signal(""))), "must provide signal name");
        let nothing = |request: &mut StartBatchOperationRequest| {
            request.operation = Some(Operation::UnpauseActivitiesOperation(BatchOperationUnpauseActivities::default()));
        };
        assert_eq!(without(nothing), "activity filter must be set");
    }

    #[test]
    fn only_deletions_and_resets_apply_to_closed_runs() {
        let with = |operation| {
            query(&StartBatchOperationRequest {
                visibility_query: "WorkflowType = 't' OR WorkflowType = 'u'".to_owned(),
                operation: Some(operation),
                ..Default::default()
            })
        };
        assert_eq!(
            with(signal("s")),
            "(WorkflowType = 't' OR WorkflowType = 'u') AND (ExecutionStatus = 'Running' OR ExecutionStatus = 'Paused')"
        );
        let delete = Operation::DeletionOperation(BatchOperationDeletion::default());
        assert_eq!(with(delete), "WorkflowType = 't' OR WorkflowType = 'u'");
    }
}
