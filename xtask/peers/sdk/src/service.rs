//! The service: the requests that the SDK makes while it executes these runs. It keeps a run in memory until a client has
//! its result, and no event that the worker has seen.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use prost::Message;
use temporalio_client::{
    callback_based::{CallbackBasedGrpcService, GrpcRequest, GrpcSuccessResponse},
    tonic::Status,
};
use temporalio_protos::temporal::api::{
    common::v1::WorkflowExecution,
    enums::v1::WorkflowExecutionStatus,
    history::v1::History,
    namespace::v1::{NamespaceInfo, namespace_info},
    taskqueue::v1::TaskQueue,
    workflowservice::v1::{
        DescribeNamespaceResponse, GetSystemInfoResponse, GetWorkflowExecutionHistoryRequest,
        GetWorkflowExecutionHistoryResponse, PollActivityTaskQueueRequest, PollActivityTaskQueueResponse,
        PollWorkflowTaskQueueRequest, PollWorkflowTaskQueueResponse, RespondActivityTaskCompletedRequest,
        RespondActivityTaskCompletedResponse, RespondWorkflowTaskCompletedRequest,
        RespondWorkflowTaskCompletedResponse, RespondWorkflowTaskFailedRequest, RespondWorkflowTaskFailedResponse,
        SignalWorkflowExecutionRequest, SignalWorkflowExecutionResponse, StartWorkflowExecutionRequest,
        StartWorkflowExecutionResponse, get_system_info_response::Capabilities,
    },
};

use crate::{
    queues::{Queues, held},
    run::{Completed, Happened, Run, read_activity_token},
};

pub(crate) const NAMESPACE: &str = "default";
/// The default of Temporal's server. No task is timed out here.
pub(crate) const TASK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a poll waits. The SDK waits for 70 s.
const POLL: Duration = Duration::from_secs(60);
/// How long a request for a result waits. The client waits for 30 s and asks again.
const RESULT: Duration = Duration::from_secs(20);
/// What a payload may have. The SDK checks it.
const MOST_BYTES: i64 = 2 * 1024 * 1024;

#[derive(Default)]
struct Service {
    runs: Mutex<HashMap<String, Arc<Run>>>,
    begun: AtomicU64,
    /// Runs with a workflow task.
    tasks: Queues<Arc<Run>>,
    activities: Queues<PollActivityTaskQueueResponse>,
}

/// A service without any run.
pub(crate) fn in_memory() -> CallbackBasedGrpcService {
    let service = Arc::new(Service::default());
    CallbackBasedGrpcService { callback: Arc::new(move |request| Arc::clone(&service).answer(request).boxed()) }
}

fn read<T: Message + Default>(request: &GrpcRequest) -> Result<T, Status> {
    T::decode(request.proto.clone()).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn name(queue: Option<TaskQueue>) -> String {
    queue.unwrap_or_default().name
}

fn workflow_id(execution: Option<WorkflowExecution>) -> String {
    execution.unwrap_or_default().workflow_id
}

impl Service {
    async fn answer(self: Arc<Self>, request: GrpcRequest) -> Result<GrpcSuccessResponse, Status> {
        let proto = match request.rpc.as_str() {
            "PollWorkflowTaskQueue" => self.poll_workflow_task(read(&request)?).await.encode_to_vec(),
            "RespondWorkflowTaskCompleted" => self.complete_workflow_task(read(&request)?)?.encode_to_vec(),
            "RespondWorkflowTaskFailed" => self.fail_workflow_task(read(&request)?)?.encode_to_vec(),
            "PollActivityTaskQueue" => self.poll_activity_task(read(&request)?).await.encode_to_vec(),
            "RespondActivityTaskCompleted" => self.complete_activity(read(&request)?)?.encode_to_vec(),
            "StartWorkflowExecution" => self.start(read(&request)?).encode_to_vec(),
            "SignalWorkflowExecution" => self.signal(read(&request)?)?.encode_to_vec(),
            "GetWorkflowExecutionHistory" => self.result(read(&request)?).await?.encode_to_vec(),
            "GetSystemInfo" => system_info().encode_to_vec(),
            "DescribeNamespace" => namespace().encode_to_vec(),
            rpc => return Err(Status::unimplemented(format!("this service does not know {rpc}"))),
        };
        Ok(GrpcSuccessResponse { headers: Default::default(), proto })
    }

    fn run(&self, workflow_id: &str) -> Result<Arc<Run>, Status> {
        let run = held(&self.runs).get(workflow_id).map(Arc::clone);
        run.ok_or_else(|| Status::not_found(format!("there is no run {workflow_id}")))
    }

    /// The run of a workflow task.
    fn run_of(&self, token: &[u8]) -> Result<Arc<Run>, Status> {
        self.run(std::str::from_utf8(token).unwrap_or_default())
    }

    fn start(&self, request: StartWorkflowExecutionRequest) -> StartWorkflowExecutionResponse {
        let (number, workflow_id) = (self.begun.fetch_add(1, Ordering::Relaxed), request.workflow_id.clone());
        let run = Arc::new(Run::start(format!("{workflow_id}-{number}"), request));
        held(&self.runs).insert(workflow_id, Arc::clone(&run));
        let response = StartWorkflowExecutionResponse {
            run_id: run.id.clone(),
            first_execution_run_id: run.id.clone(),
            started: true,
            status: WorkflowExecutionStatus::Running as i32,
            ..Default::default()
        };
        self.tasks.offer(&run.queue(), run);
        response
    }

    async fn poll_workflow_task(&self, request: PollWorkflowTaskQueueRequest) -> PollWorkflowTaskQueueResponse {
        let queue = name(request.task_queue);
        while let Some(run) = self.tasks.take(&queue, POLL).await {
            if let Some(task) = run.take_task() {
                return task;
            }
        }
        PollWorkflowTaskQueueResponse::default()
    }

    fn complete_workflow_task(
        &self,
        request: RespondWorkflowTaskCompletedRequest,
    ) -> Result<RespondWorkflowTaskCompletedResponse, Status> {
        let run = self.run_of(&request.task_token)?;
        let Completed { response, activities, due } = run.complete_task(request)?;
        for (queue, activity) in activities {
            self.activities.offer(&queue, activity);
        }
        if let Some(queue) = due {
            self.tasks.offer(&queue, run);
        }
        Ok(response)
    }

    fn fail_workflow_task(
        &self,
        request: RespondWorkflowTaskFailedRequest,
    ) -> Result<RespondWorkflowTaskFailedResponse, Status> {
        self.run_of(&request.task_token)?.fail(request.failure);
        Ok(RespondWorkflowTaskFailedResponse::default())
    }

    async fn poll_activity_task(&self, request: PollActivityTaskQueueRequest) -> PollActivityTaskQueueResponse {
        self.activities.take(&name(request.task_queue), POLL).await.unwrap_or_default()
    }

    fn complete_activity(
        &self,
        request: RespondActivityTaskCompletedRequest,
    ) -> Result<RespondActivityTaskCompletedResponse, Status> {
        let unknown = || Status::not_found("the activity is not known");
        let (scheduled, workflow_id) = read_activity_token(&request.task_token).ok_or_else(unknown)?;
        let ended = Happened::ActivityEnded { scheduled, result: request.result };
        self.happens(self.run(workflow_id)?, ended);
        Ok(RespondActivityTaskCompletedResponse::default())
    }

    fn signal(&self, request: SignalWorkflowExecutionRequest) -> Result<SignalWorkflowExecutionResponse, Status> {
        let run = self.run(&workflow_id(request.workflow_execution))?;
        self.happens(run, Happened::Signaled { name: request.signal_name, input: request.input });
        Ok(SignalWorkflowExecutionResponse::default())
    }

    fn happens(&self, run: Arc<Run>, happened: Happened) {
        if let Some(queue) = run.happens(happened) {
            self.tasks.offer(&queue, run);
        }
    }

    /// The event that closes the run. There is no other history to read.
    async fn result(
        &self,
        request: GetWorkflowExecutionHistoryRequest,
    ) -> Result<GetWorkflowExecutionHistoryResponse, Status> {
        if !request.wait_new_event {
            return Err(Status::unimplemented("this service keeps no history"));
        }
        let workflow_id = workflow_id(request.execution);
        let run = self.run(&workflow_id)?;
        let mut closed = run.closed.subscribe();
        let event = match tokio::time::timeout(RESULT, closed.wait_for(Option::is_some)).await {
            Ok(Ok(event)) => event.clone(),
            _ => None,
        };
        if event.is_some() {
            held(&self.runs).remove(&workflow_id);
        }
        let history = Some(History { events: event.into_iter().collect() });
        Ok(GetWorkflowExecutionHistoryResponse { history, ..Default::default() })
    }
}

/// What Windlass's engine says.
fn system_info() -> GetSystemInfoResponse {
    let capabilities = Capabilities {
        signal_and_query_header: true,
        internal_error_differentiation: true,
        activity_failure_include_heartbeat: true,
        encoded_failure_attributes: true,
        upsert_memo: true,
        eager_workflow_start: true,
        supports_schedules: true,
        sdk_metadata: true,
        build_id_based_versioning: true,
        count_group_by_execution_status: true,
        nexus: true,
        ..Default::default()
    };
    GetSystemInfoResponse { server_version: "1.32.0".to_owned(), capabilities: Some(capabilities) }
}

fn namespace() -> DescribeNamespaceResponse {
    let limits = namespace_info::Limits {
        blob_size_limit_error: MOST_BYTES,
        memo_size_limit_error: MOST_BYTES,
        ..Default::default()
    };
    let info = NamespaceInfo { name: NAMESPACE.to_owned(), limits: Some(limits), ..Default::default() };
    DescribeNamespaceResponse { namespace_info: Some(info), ..Default::default() }
}
