//! Lists and counts of runs.

use std::sync::Arc;

use prost::Message as _;
use temporalio_protos::temporal::api::{
    common::v1::{Memo, SearchAttributes, WorkflowExecution, WorkflowType},
    filter::v1::{StartTimeFilter, StatusFilter, WorkflowExecutionFilter, WorkflowTypeFilter},
    workflow::v1::WorkflowExecutionInfo,
    workflowservice::v1::{
        CountWorkflowExecutionsRequest, CountWorkflowExecutionsResponse, ListClosedWorkflowExecutionsRequest,
        ListClosedWorkflowExecutionsResponse, ListOpenWorkflowExecutionsRequest, ListOpenWorkflowExecutionsResponse,
        ListWorkflowExecutionsRequest, ListWorkflowExecutionsResponse, ScanWorkflowExecutionsRequest,
        ScanWorkflowExecutionsResponse, list_closed_workflow_executions_request as closed,
        list_open_workflow_executions_request as open,
    },
};
use windlass_sqlite::DatabaseError;

use crate::{
    core::{Core, unavailable},
    service_error::ServiceError,
    time::{duration, optional_timestamp, timestamp},
    visibility::{
        Attributes, parse,
        sql::{self, Count, Page, VisibilityRow},
    },
};

impl Core {
    pub(super) async fn list_workflows(
        self: &Arc<Self>,
        request: ListWorkflowExecutionsRequest,
    ) -> Result<ListWorkflowExecutionsResponse, ServiceError> {
        let page = self.page(&request.namespace, request.query, request.page_size, request.next_page_token).await?;
        let (executions, next_page_token) = self.shown(&request.namespace, page);
        Ok(ListWorkflowExecutionsResponse { executions, next_page_token })
    }

    pub(super) async fn scan_workflows(
        self: &Arc<Self>,
        request: ScanWorkflowExecutionsRequest,
    ) -> Result<ScanWorkflowExecutionsResponse, ServiceError> {
        let page = self.page(&request.namespace, request.query, request.page_size, request.next_page_token).await?;
        let (executions, next_page_token) = self.shown(&request.namespace, page);
        Ok(ScanWorkflowExecutionsResponse { executions, next_page_token })
    }

    pub(super) async fn list_open_workflows(
        self: &Arc<Self>,
        request: ListOpenWorkflowExecutionsRequest,
    ) -> Result<ListOpenWorkflowExecutionsResponse, ServiceError> {
        let filter = match request.filters {
            Some(open::Filters::ExecutionFilter(filter)) => by_execution(&filter),
            Some(open::Filters::TypeFilter(filter)) => by_type(&filter),
            None => String::new(),
        };
        let query = all_of(["ExecutionStatus = 'Running'".to_owned(), filter, since(request.start_time_filter)]);
        let page = self.page(&request.namespace, query, request.maximum_page_size, request.next_page_token).await?;
        let (executions, next_page_token) = self.shown(&request.namespace, page);
        Ok(ListOpenWorkflowExecutionsResponse { executions, next_page_token })
    }

    pub(super) async fn list_closed_workflows(
        self: &Arc<Self>,
        request: ListClosedWorkflowExecutionsRequest,
    ) -> Result<ListClosedWorkflowExecutionsResponse, ServiceError> {
        let filter = match request.filters {
            Some(closed::Filters::ExecutionFilter(filter)) => by_execution(&filter),
            Some(closed::Filters::TypeFilter(filter)) => by_type(&filter),
            Some(closed::Filters::StatusFilter(StatusFilter { status })) => format!("ExecutionStatus = {status}"),
            None => String::new(),
        };
        let query = all_of(["ExecutionStatus != 'Running'".to_owned(), filter, since(request.start_time_filter)]);
        let page = self.page(&request.namespace, query, request.maximum_page_size, request.next_page_token).await?;
        let (executions, next_page_token) = self.shown(&request.namespace, page);
        Ok(ListClosedWorkflowExecutionsResponse { executions, next_page_token })
    }

    pub(super) async fn count_workflows(
        self: &Arc<Self>,
        request: CountWorkflowExecutionsRequest,
    ) -> Result<CountWorkflowExecutionsResponse, ServiceError> {
        let query = self.filter(&request.namespace, &request.query)?;
        let namespace = request.namespace;
        let counted = self.database.read(move |sql| Ok::<_, DatabaseError>(sql::count(sql, &namespace, &query)?));
        let Count { total, groups } = counted.await.map_err(|error| unavailable(&error))?;
        Ok(CountWorkflowExecutionsResponse { count: total, groups })
    }

    pub(super) fn filter(&self, namespace: &str, query: &str) -> Result<crate::visibility::Query, ServiceError> {
        let namespaces = self.read_namespaces();
        namespaces.named(namespace)?;
        parse(query, &namespaces.attributes(namespace))
    }

    /// What is shown of a page. Attributes that the namespace does not have any more are left out.
    pub(super) fn shown(&self, namespace: &str, page: Page) -> (Vec<WorkflowExecutionInfo>, Vec<u8>) {
        let attributes = self.read_namespaces().attributes(namespace);
        (page.rows.into_iter().map(|row| info(row, &attributes)).collect(), page.next)
    }

    pub(super) async fn page(
        &self,
        namespace: &str,
        query: String,
        size: i32,
        token: Vec<u8>,
    ) -> Result<Page, ServiceError> {
        let query = self.filter(namespace, &query)?;
        let most = self.limits.list_page;
        let size = usize::try_from(size).ok().filter(|size| *size > 0).unwrap_or(most).min(most);
        let namespace = namespace.to_owned();
        let listed = self.database.read(move |connection| {
            Ok::<_, DatabaseError>(match sql::list(connection, &namespace, &query, size, &token) {
                Ok(page) => Ok(page),
                Err(sql::Error::Refused(error)) => Err(error),
                Err(sql::Error::Database(error)) => return Err(error.into()),
            })
        });
        listed.await.map_err(|error| unavailable(&error))?
    }
}

fn info(row: VisibilityRow, attributes: &Attributes) -> WorkflowExecutionInfo {
    let execution = |workflow_id: String, run_id: String| WorkflowExecution { workflow_id, run_id };
    let closed = row.close_time.is_some();
    let mut kept = row.search_attributes.and_then(|kept| SearchAttributes::decode(&*kept).ok());
    if let Some(kept) = &mut kept {
        kept.indexed_fields.retain(|name, _| attributes.has(name));
    }
    WorkflowExecutionInfo {
        execution: Some(execution(row.workflow_id, row.run_id)),
        r#type: Some(WorkflowType { name: row.workflow_type }),
        start_time: Some(timestamp(row.start_time)),
        close_time: row.close_time.and_then(optional_timestamp),
        status: row.status,
        history_length: if closed { row.history_length } else { 0 },
        parent_execution: row
            .parent_workflow_id
            .map(|workflow_id| execution(workflow_id, row.parent_run_id.unwrap_or_default())),
        execution_time: Some(timestamp(row.execution_time)),
        memo: Some(row.memo.and_then(|memo| Memo::decode(&*memo).ok()).unwrap_or_default()),
        search_attributes: kept,
        task_queue: row.task_queue,
        history_size_bytes: if closed { row.history_size } else { 0 },
        execution_duration: row.close_time.map(|close| duration(close - row.execution_time)),
        state_transition_count: if closed { row.state_transitions } else { 0 },
        root_execution: Some(execution(row.root_workflow_id, row.root_run_id)),
        ..WorkflowExecutionInfo::default()
    }
}

/// The older requests have filter fields instead of a query.
fn all_of(conditions: [String; 3]) -> String {
    conditions.into_iter().filter(|condition| !condition.is_empty()).collect::<Vec<_>>().join(" AND ")
}

fn by_execution(filter: &WorkflowExecutionFilter) -> String {
    let run = match filter.run_id.as_str() {
        "" => String::new(),
        run_id => format!(" AND RunId = {}", quoted(run_id)),
    };
    format!("WorkflowId = {}{run}", quoted(&filter.workflow_id))
}

fn by_type(filter: &WorkflowTypeFilter) -> String {
    format!("WorkflowType = {}", quoted(&filter.name))
}

fn since(filter: Option<StartTimeFilter>) -> String {
    let Some(filter) = filter else { return String::new() };
    let nanos = |at: prost_wkt_types::Timestamp| at.seconds.saturating_mul(crate::time::SECOND) + i64::from(at.nanos);
    let earliest = filter.earliest_time.map(|at| format!("StartTime >= {}", nanos(at)));
    let latest = filter.latest_time.map(|at| format!("StartTime <= {}", nanos(at)));
    earliest.into_iter().chain(latest).collect::<Vec<_>>().join(" AND ")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
