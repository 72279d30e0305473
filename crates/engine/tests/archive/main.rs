//! Closed runs are archived before retention removes them, and the archive is read through the protocol. The engine is
//! opened again for each step: it sweeps when it opens.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    time::Duration,
};

use prost::Message;
use temporalio_protos::temporal::api::{
    common::v1::{Payload, SearchAttributes, WorkflowExecution, WorkflowType},
    enums::v1::IndexedValueType,
    namespace::v1::NamespaceConfig,
    operatorservice::v1::{
        AddSearchAttributesRequest, AddSearchAttributesResponse, DeleteNamespaceRequest, DeleteNamespaceResponse,
        RemoveSearchAttributesRequest, RemoveSearchAttributesResponse,
    },
    taskqueue::v1::TaskQueue,
    workflowservice::v1::{
        DeprecateNamespaceRequest, DeprecateNamespaceResponse, DescribeNamespaceRequest, DescribeNamespaceResponse,
        DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse, GetWorkflowExecutionHistoryRequest,
        GetWorkflowExecutionHistoryResponse, ListArchivedWorkflowExecutionsRequest,
        ListArchivedWorkflowExecutionsResponse, ListNamespacesRequest, ListNamespacesResponse,
        ListWorkflowExecutionsRequest, ListWorkflowExecutionsResponse, RegisterNamespaceRequest,
        RegisterNamespaceResponse, StartWorkflowExecutionRequest, StartWorkflowExecutionResponse,
        TerminateWorkflowExecutionRequest, TerminateWorkflowExecutionResponse, UpdateNamespaceRequest,
        UpdateNamespaceResponse,
    },
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use windlass_engine::{Call, Clock, Engine, Handle, Options, SystemClock};
use windlass_sqlite::Database;

const WORKFLOWS: &str = "temporal.api.workflowservice.v1.WorkflowService";
const OPERATOR: &str = "temporal.api.operatorservice.v1.OperatorService";
const NAMESPACE: &str = "default";
const DAY: i64 = 24 * 3600 * 1_000_000_000;
/// Longer than anything takes that happens at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// The system clock, ahead by some days.
struct Ahead(i64);

impl Clock for Ahead {
    fn now(&self) -> i64 {
        SystemClock.now() + self.0 * DAY
    }

    fn reach(&self, at: i64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move { SystemClock.reach(at - self.0 * DAY).await })
    }
}

struct Rig {
    handle: Handle,
    stop: CancellationToken,
    engine: JoinHandle<()>,
}

impl Rig {
    fn open(directory: &Path, days_ahead: i64, archive: Option<PathBuf>) -> Self {
        let database = Database::open(windlass_sqlite::Options::new(directory.join("engine.db"))).unwrap();
        let options = Options { clock: std::sync::Arc::new(Ahead(days_ahead)), archive, ..Options::new(database) };
        let (engine, handle) = Engine::open(options).unwrap();
        let stop = CancellationToken::new();
        let running = engine.run(stop.clone());
        Self { handle, stop, engine: tokio::spawn(async { running.await.unwrap() }) }
    }

    async fn close(self) {
        self.stop.cancel();
        self.engine.await.unwrap();
        self.handle.database().close().await.unwrap();
    }

    async fn call<Response: Message + Default>(
        &self,
        service: &str,
        rpc: &str,
        request: &impl Message,
    ) -> Result<Response, Status> {
        let call = Call {
            service: service.to_owned(),
            rpc: rpc.to_owned(),
            message: request.encode_to_vec().into(),
            timeout: Some(Duration::from_secs(20)),
            client: String::new(),
            local: false,
        };
        Ok(Response::decode(self.handle.call(call).await?.as_slice()).unwrap())
    }

    /// A run that ended at once.
    async fn run(&self, namespace: &str, workflow_id: &str) -> String {
        let request = StartWorkflowExecutionRequest {
            namespace: namespace.to_owned(),
            workflow_id: workflow_id.to_owned(),
            workflow_type: Some(WorkflowType { name: "kind".to_owned() }),
            task_queue: Some(TaskQueue { name: "q".to_owned(), ..TaskQueue::default() }),
            request_id: workflow_id.to_owned(),
            ..StartWorkflowExecutionRequest::default()
        };
        let started: StartWorkflowExecutionResponse =
            self.call(WORKFLOWS, "StartWorkflowExecution", &request).await.unwrap();
        let request = TerminateWorkflowExecutionRequest {
            namespace: namespace.to_owned(),
            workflow_execution: Some(execution(workflow_id, "")),
            reason: "over".to_owned(),
            ..TerminateWorkflowExecutionRequest::default()
        };
        let _: TerminateWorkflowExecutionResponse =
            self.call(WORKFLOWS, "TerminateWorkflowExecution", &request).await.unwrap();
        started.run_id
    }

    async fn archived(&self, query: &str) -> Vec<String> {
        let request = ListArchivedWorkflowExecutionsRequest {
            namespace: NAMESPACE.to_owned(),
            query: query.to_owned(),
            ..ListArchivedWorkflowExecutionsRequest::default()
        };
        let listed: ListArchivedWorkflowExecutionsResponse =
            self.call(WORKFLOWS, "ListArchivedWorkflowExecutions", &request).await.unwrap();
        listed.executions.into_iter().map(|run| run.execution.unwrap().workflow_id).collect()
    }

    async fn listed(&self, namespace: &str) -> Vec<String> {
        let request = ListWorkflowExecutionsRequest {
            namespace: namespace.to_owned(),
            ..ListWorkflowExecutionsRequest::default()
        };
        let listed: ListWorkflowExecutionsResponse =
            self.call(WORKFLOWS, "ListWorkflowExecutions", &request).await.unwrap();
        listed.executions.into_iter().map(|run| run.execution.unwrap().workflow_id).collect()
    }

    async fn history(&self, workflow_id: &str, run_id: &str) -> Result<GetWorkflowExecutionHistoryResponse, Status> {
        let request = GetWorkflowExecutionHistoryRequest {
            namespace: NAMESPACE.to_owned(),
            execution: Some(execution(workflow_id, run_id)),
            ..GetWorkflowExecutionHistoryRequest::default()
        };
        self.call(WORKFLOWS, "GetWorkflowExecutionHistory", &request).await
    }

    async fn enable(&self, uri: &str) -> Result<UpdateNamespaceResponse, Status> {
        let config = NamespaceConfig {
            history_archival_state: 2,
            history_archival_uri: uri.to_owned(),
            visibility_archival_state: 2,
            visibility_archival_uri: uri.to_owned(),
            ..NamespaceConfig::default()
        };
        let request = UpdateNamespaceRequest {
            namespace: NAMESPACE.to_owned(),
            config: Some(config),
            ..UpdateNamespaceRequest::default()
        };
        self.call(WORKFLOWS, "UpdateNamespace", &request).await
    }
}

fn execution(workflow_id: &str, run_id: &str) -> WorkflowExecution {
    WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() }
}

async fn until<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what} did not happen"));
}

#[tokio::test]
async fn expired_runs_are_archived_before_they_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("archive");

    let rig = Rig::open(directory.path(), 0, Some(archive.clone()));
    let refused = rig.enable("file:///etc").await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let enabled = rig.enable("").await.unwrap();
    assert_eq!(enabled.config.unwrap().history_archival_uri, format!("file://{}", archive.display()));
    let run_id = rig.run(NAMESPACE, "first").await;
    rig.run(NAMESPACE, "second").await;
    let live = rig.history("first", &run_id).await.unwrap();
    assert_eq!(rig.archived("").await, [""; 0]);
    rig.close().await;

    // The archive cannot be written, so nothing is removed.
    std::fs::write(&archive, "a file, not a directory").unwrap();
    let rig = Rig::open(directory.path(), 40, Some(archive.clone()));
    assert_eq!(rig.listed(NAMESPACE).await.len(), 2);
    rig.close().await;
    // Nor without a directory for archives.
    let rig = Rig::open(directory.path(), 40, None);
    assert_eq!(rig.listed(NAMESPACE).await.len(), 2);
    rig.close().await;
    std::fs::remove_file(&archive).unwrap();

    let rig = Rig::open(directory.path(), 40, Some(archive.clone()));
    until("the removal of expired runs", || async { rig.listed(NAMESPACE).await.is_empty() }).await;
    assert_eq!(rig.archived("").await, ["second", "first"]);
    assert_eq!(rig.archived("WorkflowId = 'first' AND ExecutionStatus = 'Terminated'").await, ["first"]);
    let archived = rig.history("first", &run_id).await.unwrap();
    assert!(archived.archived && archived.next_page_token.is_empty());
    assert_eq!(archived.history, live.history);
    let missing = rig.history("first", "00000000-0000-4000-8000-000000000000").await.unwrap_err();
    assert_eq!(missing.message(), "requested workflow history does not exist");
    rig.close().await;
}

#[tokio::test]
async fn a_deleted_namespace_and_its_runs_are_removed_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::open(directory.path(), 0, None);
    let register = RegisterNamespaceRequest {
        namespace: "short".to_owned(),
        workflow_execution_retention_period: Some(prost_wkt_types::Duration { seconds: 86_400, nanos: 0 }),
        ..RegisterNamespaceRequest::default()
    };
    let _: RegisterNamespaceResponse = rig.call(WORKFLOWS, "RegisterNamespace", &register).await.unwrap();
    rig.run("short", "w").await;
    rig.run(NAMESPACE, "stays").await;
    let delete = DeleteNamespaceRequest { namespace: "short".to_owned(), ..DeleteNamespaceRequest::default() };
    let deleted: DeleteNamespaceResponse = rig.call(OPERATOR, "DeleteNamespace", &delete).await.unwrap();
    assert!(deleted.deleted_namespace.starts_with("short-deleted-"));
    let describe = DescribeNamespaceRequest { namespace: "short".to_owned(), ..DescribeNamespaceRequest::default() };
    let gone: Result<DescribeNamespaceResponse, _> = rig.call(WORKFLOWS, "DescribeNamespace", &describe).await;
    assert_eq!(gone.unwrap_err().code(), Code::NotFound);
    rig.close().await;

    let rig = Rig::open(directory.path(), 0, None);
    until("the removal of the namespace", || async {
        let everything = ListNamespacesRequest {
            namespace_filter: Some(temporalio_protos::temporal::api::namespace::v1::NamespaceFilter {
                include_deleted: true,
            }),
            ..ListNamespacesRequest::default()
        };
        let listed: ListNamespacesResponse = rig.call(WORKFLOWS, "ListNamespaces", &everything).await.unwrap();
        listed.namespaces.len() == 1
    })
    .await;
    // Its name is free again, and it has none of the former runs.
    let _: RegisterNamespaceResponse = rig.call(WORKFLOWS, "RegisterNamespace", &register).await.unwrap();
    assert_eq!(rig.listed("short").await, [""; 0]);
    assert_eq!(rig.listed(NAMESPACE).await, ["stays"]);
    rig.close().await;
}

#[tokio::test]
async fn a_removed_search_attribute_is_not_described_and_a_deprecated_namespace_takes_no_runs() {
    let directory = tempfile::tempdir().unwrap();
    let rig = Rig::open(directory.path(), 0, None);
    let added = AddSearchAttributesRequest {
        namespace: NAMESPACE.to_owned(),
        search_attributes: ["Kept", "Removed"].map(|name| (name.to_owned(), IndexedValueType::Keyword as i32)).into(),
    };
    let _: AddSearchAttributesResponse = rig.call(OPERATOR, "AddSearchAttributes", &added).await.unwrap();
    let value = Payload {
        metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
        data: b"\"value\"".to_vec(),
        ..Payload::default()
    };
    let start = StartWorkflowExecutionRequest {
        namespace: NAMESPACE.to_owned(),
        workflow_id: "run".to_owned(),
        workflow_type: Some(WorkflowType { name: "kind".to_owned() }),
        task_queue: Some(TaskQueue { name: "q".to_owned(), ..TaskQueue::default() }),
        search_attributes: Some(SearchAttributes {
            indexed_fields: ["Kept", "Removed"].map(|name| (name.to_owned(), value.clone())).into(),
        }),
        ..StartWorkflowExecutionRequest::default()
    };
    let _: StartWorkflowExecutionResponse = rig.call(WORKFLOWS, "StartWorkflowExecution", &start).await.unwrap();
    let removed = RemoveSearchAttributesRequest {
        namespace: NAMESPACE.to_owned(),
        search_attributes: vec!["Removed".to_owned()],
    };
    let _: RemoveSearchAttributesResponse = rig.call(OPERATOR, "RemoveSearchAttributes", &removed).await.unwrap();
    let deprecated =
        DeprecateNamespaceRequest { namespace: NAMESPACE.to_owned(), ..DeprecateNamespaceRequest::default() };
    let _: DeprecateNamespaceResponse = rig.call(WORKFLOWS, "DeprecateNamespace", &deprecated).await.unwrap();

    let request =
        DescribeWorkflowExecutionRequest { namespace: NAMESPACE.to_owned(), execution: Some(execution("run", "")) };
    let described: DescribeWorkflowExecutionResponse =
        rig.call(WORKFLOWS, "DescribeWorkflowExecution", &request).await.unwrap();
    let attributes = described.workflow_execution_info.unwrap().search_attributes.unwrap();
    assert_eq!(attributes.indexed_fields.into_keys().collect::<Vec<_>>(), ["Kept"]);
    let another = StartWorkflowExecutionRequest { workflow_id: "another".to_owned(), ..start };
    let started: Result<StartWorkflowExecutionResponse, _> =
        rig.call(WORKFLOWS, "StartWorkflowExecution", &another).await;
    assert_eq!(started.unwrap_err().code(), Code::FailedPrecondition);
    rig.close().await;
}
