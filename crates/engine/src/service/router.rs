//! Maps RPC names to handlers.

use std::sync::Arc;

use prost::Message;

use super::test_service;
use crate::{
    call::{Answer, Call},
    core::Core,
    service_error::ServiceError,
};

const WORKFLOW: &str = "temporal.api.workflowservice.v1.WorkflowService";
const OPERATOR: &str = "temporal.api.operatorservice.v1.OperatorService";
const HEALTH: &str = "grpc.health.v1.Health";
const TEST: &str = "temporal.api.testservice.v1.TestService";

/// Decodes the request, calls the handler, encodes the response.
macro_rules! answer {
    ($call:ident, $handler:expr) => {{
        let request = Message::decode($call.message)
            .map_err(|error| ServiceError::invalid(format!("the request cannot be read: {error}")))?;
        let response = $handler(request).await?;
        Ok(response.encode_to_vec())
    }};
}

impl Core {
    pub(crate) async fn call(self: Arc<Self>, call: Call) -> Answer {
        let core = &self;
        let answered: Result<Vec<u8>, ServiceError> = match call.service.as_str() {
            WORKFLOW => core.workflow_service(call).await,
            OPERATOR => core.operator_service(call).await,
            TEST => core.test_service(call).await,
            HEALTH => core.health_service(call).await,
            service => Err(ServiceError::Unimplemented(format!("{service}/{}", call.rpc))),
        };
        answered.map_err(Into::into)
    }

    async fn health_service(self: &Arc<Self>, call: Call) -> Result<Vec<u8>, ServiceError> {
        match call.rpc.as_str() {
            "Check" => answer!(call, |request| self.health(request)),
            rpc => Err(ServiceError::Unimplemented(format!("{HEALTH}/{rpc}"))),
        }
    }

    async fn workflow_service(self: &Arc<Self>, call: Call) -> Result<Vec<u8>, ServiceError> {
        let core = self;
        let (timeout, local) = (call.timeout, call.local);
        match call.rpc.as_str() {
            // Requests of workers.
            "PollWorkflowTaskQueue" => answer!(call, |request| core.poll_workflow_task(request, timeout, local)),
            "RespondWorkflowTaskCompleted" => answer!(call, |request| core.complete_workflow_task(request, local)),
            "RespondWorkflowTaskFailed" => answer!(call, |request| core.fail_workflow_task(request)),
            "RespondQueryTaskCompleted" => answer!(call, |request| core.complete_query(request)),
            "PollActivityTaskQueue" => answer!(call, |request| core.poll_activity_task(request, timeout, local)),
            "RespondActivityTaskCompleted" => answer!(call, |request| core.complete_activity(request)),
            "RespondActivityTaskCompletedById" => answer!(call, |request| core.complete_activity_by_id(request)),
            "RespondActivityTaskFailed" => answer!(call, |request| core.fail_activity(request)),
            "RespondActivityTaskFailedById" => answer!(call, |request| core.fail_activity_by_id(request)),
            "RespondActivityTaskCanceled" => answer!(call, |request| core.cancel_activity(request)),
            "RespondActivityTaskCanceledById" => answer!(call, |request| core.cancel_activity_by_id(request)),
            "RecordActivityTaskHeartbeat" => answer!(call, |request| core.heartbeat(request)),
            "RecordActivityTaskHeartbeatById" => answer!(call, |request| core.heartbeat_by_id(request)),
            "PollNexusTaskQueue" => answer!(call, |request| core.poll_nexus_task(request, timeout)),
            "RespondNexusTaskCompleted" => answer!(call, |request| core.complete_nexus_task(request)),
            "RespondNexusTaskFailed" => answer!(call, |request| core.fail_nexus_task(request)),
            "ResetStickyTaskQueue" => answer!(call, |request| core.reset_sticky_queue(request)),
            "ShutdownWorker" => answer!(call, |request| core.shutdown_worker(request)),
            // Starting and controlling runs.
            "StartWorkflowExecution" => answer!(call, |request| core.start_workflow(request, local)),
            "SignalWithStartWorkflowExecution" => answer!(call, |request| core.signal_with_start(request)),
            "ExecuteMultiOperation" => answer!(call, |request| core.execute_multi_operation(request, timeout)),
            "SignalWorkflowExecution" => answer!(call, |request| core.signal_workflow(request)),
            "QueryWorkflow" => answer!(call, |request| core.query_workflow(request, timeout)),
            "UpdateWorkflowExecution" => answer!(call, |request| core.update_workflow(request, timeout)),
            "PollWorkflowExecutionUpdate" => answer!(call, |request| core.poll_update(request, timeout)),
            "RequestCancelWorkflowExecution" => answer!(call, |request| core.cancel_workflow(request)),
            "TerminateWorkflowExecution" => answer!(call, |request| core.terminate_workflow(request)),
            "ResetWorkflowExecution" => answer!(call, |request| core.reset_workflow(request)),
            "UpdateWorkflowExecutionOptions" => answer!(call, |request| core.update_workflow_options(request)),
            "DeleteWorkflowExecution" => answer!(call, |request| core.delete_workflow(request)),
            "PauseActivity" => answer!(call, |request| core.pause_activity(request)),
            "UnpauseActivity" => answer!(call, |request| core.unpause_activity(request)),
            "ResetActivity" => answer!(call, |request| core.reset_activity(request)),
            "UpdateActivityOptions" => answer!(call, |request| core.update_activity_options(request)),
            "PauseActivityExecution" => answer!(call, |request| core.pause_activity_execution(request)),
            "UnpauseActivityExecution" => answer!(call, |request| core.unpause_activity_execution(request)),
            "ResetActivityExecution" => answer!(call, |request| core.reset_activity_execution(request)),
            "UpdateActivityExecutionOptions" => {
                answer!(call, |request| core.update_activity_execution_options(request))
            }
            "StartBatchOperation" => answer!(call, |request| core.start_batch(request)),
            "StopBatchOperation" => answer!(call, |request| core.stop_batch(request)),
            "DescribeBatchOperation" => answer!(call, |request| core.describe_batch(request)),
            "ListBatchOperations" => answer!(call, |request| core.list_batches(request)),
            // Reading runs.
            "DescribeWorkflowExecution" => answer!(call, |request| core.describe_workflow(request)),
            "GetWorkflowExecutionHistory" => {
                let for_people = matches!(call.client.as_str(), "temporal-cli" | "temporal-ui");
                answer!(call, |request| core.workflow_history(request, timeout, !for_people))
            }
            "GetWorkflowExecutionHistoryReverse" => answer!(call, |request| core.workflow_history_reverse(request)),
            "ListWorkflowExecutions" => answer!(call, |request| core.list_workflows(request)),
            "ScanWorkflowExecutions" => answer!(call, |request| core.scan_workflows(request)),
            "ListOpenWorkflowExecutions" => answer!(call, |request| core.list_open_workflows(request)),
            "ListClosedWorkflowExecutions" => answer!(call, |request| core.list_closed_workflows(request)),
            "ListArchivedWorkflowExecutions" => answer!(call, |request| core.list_archived_workflows(request)),
            "CountWorkflowExecutions" => answer!(call, |request| core.count_workflows(request)),
            // Worker deployments.
            "DescribeWorkerDeployment" => answer!(call, |request| core.describe_worker_deployment(request)),
            "ListWorkerDeployments" => answer!(call, |request| core.list_worker_deployments(request)),
            "DescribeWorkerDeploymentVersion" => {
                answer!(call, |request| core.describe_worker_deployment_version(request))
            }
            "SetWorkerDeploymentCurrentVersion" => answer!(call, |request| core.set_current_version(request)),
            "SetWorkerDeploymentRampingVersion" => answer!(call, |request| core.set_ramping_version(request)),
            "SetWorkerDeploymentManager" => answer!(call, |request| core.set_deployment_manager(request)),
            "CreateWorkerDeployment" => answer!(call, |request| core.create_worker_deployment(request)),
            "CreateWorkerDeploymentVersion" => {
                answer!(call, |request| core.create_worker_deployment_version(request))
            }
            "DeleteWorkerDeployment" => answer!(call, |request| core.delete_worker_deployment(request)),
            "DeleteWorkerDeploymentVersion" => {
                answer!(call, |request| core.delete_worker_deployment_version(request))
            }
            "UpdateWorkerDeploymentVersionMetadata" => answer!(call, |request| core.update_version_metadata(request)),
            "DescribeTaskQueue" => answer!(call, |request| core.describe_queue(request)),
            "ListTaskQueuePartitions" => answer!(call, |request| core.queue_partitions(request)),
            // Schedules.
            "CreateSchedule" => answer!(call, |request| core.create_schedule(request)),
            "DescribeSchedule" => answer!(call, |request| core.describe_schedule(request)),
            "UpdateSchedule" => answer!(call, |request| core.update_schedule(request)),
            "PatchSchedule" => answer!(call, |request| core.patch_schedule(request)),
            "ListScheduleMatchingTimes" => answer!(call, |request| core.list_matching_times(request)),
            "DeleteSchedule" => answer!(call, |request| core.delete_schedule(request)),
            "ListSchedules" => answer!(call, |request| core.list_schedules(request)),
            "CountSchedules" => answer!(call, |request| core.count_schedules(request)),
            // Namespaces, task queues and the server.
            "DescribeNamespace" => answer!(call, |request| core.describe_namespace(request)),
            "ListNamespaces" => answer!(call, |request| core.list_namespaces(request)),
            "RegisterNamespace" => answer!(call, |request| core.register_namespace(request)),
            "DeprecateNamespace" => answer!(call, |request| core.deprecate_namespace(request)),
            "UpdateNamespace" => answer!(call, |request| core.update_namespace(request)),
            "GetSearchAttributes" => answer!(call, |request| core.search_attributes(request)),
            rpc => core.about_the_service(rpc),
        }
    }

    async fn operator_service(self: &Arc<Self>, call: Call) -> Result<Vec<u8>, ServiceError> {
        let core = self;
        match call.rpc.as_str() {
            "ListSearchAttributes" => answer!(call, |request| core.list_search_attributes(request)),
            "AddSearchAttributes" => answer!(call, |request| core.add_search_attributes(request)),
            "DeleteNamespace" => answer!(call, |request| core.delete_namespace(request)),
            "RemoveSearchAttributes" => answer!(call, |request| core.remove_search_attributes(request)),
            "CreateNexusEndpoint" => answer!(call, |request| core.create_nexus_endpoint(request)),
            "UpdateNexusEndpoint" => answer!(call, |request| core.update_nexus_endpoint(request)),
            "DeleteNexusEndpoint" => answer!(call, |request| core.delete_nexus_endpoint(request)),
            "GetNexusEndpoint" => answer!(call, |request| core.get_nexus_endpoint(request)),
            "ListNexusEndpoints" => answer!(call, |request| core.list_nexus_endpoints(request)),
            "ListClusters" => Ok(super::info::clusters().encode_to_vec()),
            rpc => Err(ServiceError::Unimplemented(format!("{OPERATOR}/{rpc}"))),
        }
    }

    async fn test_service(self: &Arc<Self>, call: Call) -> Result<Vec<u8>, ServiceError> {
        let Some(clock) = self.clock.skipping() else {
            return Err(ServiceError::Unimplemented(format!("{TEST}/{}: its clock cannot skip time", call.rpc)));
        };
        match call.rpc.as_str() {
            "LockTimeSkipping" => answer!(call, |request| test_service::lock(clock, request)),
            "UnlockTimeSkipping" => answer!(call, |request| test_service::unlock(clock, request)),
            "Sleep" => answer!(call, |request| test_service::sleep(clock, request)),
            "SleepUntil" => answer!(call, |request| test_service::sleep_until(clock, request)),
            "UnlockTimeSkippingWithSleep" => answer!(call, |request| test_service::unlock_with_sleep(clock, request)),
            "GetCurrentTime" => answer!(call, |()| test_service::current_time(clock)),
            rpc => Err(ServiceError::Unimplemented(format!("{TEST}/{rpc}"))),
        }
    }
}
