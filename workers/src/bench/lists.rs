//! The requests of `closed`, and how long they take: lists and counts of the engine's visibility, and lists of the store.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use temporalio_client::{
    NamespacedClient as _,
    tonic::{IntoRequest as _, Status},
};
use temporalio_protos::temporal::api::workflowservice::v1::{
    CountWorkflowExecutionsRequest, ListWorkflowExecutionsRequest, ListWorkflowExecutionsResponse,
};
use windlass_core::{ids::AgentId, run::RunStatus};
use windlass_ops::RunOps;
use windlass_store::{RunFilter, RunPage};
use windlass_workflows::contract::RUN_WORKFLOW;

use super::{
    stats::{percentile, rounded},
    work,
};
use crate::failure::{Failure, failed};

/// Runs on a page of the engine.
const PAGE: u32 = 100;
/// Runs on a page of the store, as in `windlass runs list`.
const STORE_PAGE: u32 = 50;
/// Runs before a page deep in the list, if there are twice as many.
const DEEP: u32 = 50_000;

/// A request is repeated so often, but not for longer than this unless it has fewer than the fewest repetitions.
const REPETITIONS: usize = 100;
const LONGEST: Duration = Duration::from_secs(10);
const FEWEST: usize = 5;

/// How long a request took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Timed {
    pub(super) request: String,
    /// Runs on the page, or counted.
    pub(super) found: u64,
    pub(super) repetitions: u32,
    /// The first time in this process.
    pub(super) first_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

enum Request {
    List { query: String, token: Vec<u8> },
    Count { query: String },
    Store(RunFilter),
}

/// Lists one run, to show that the backend answers.
pub(super) async fn look(ops: &RunOps) -> Result<(), Failure> {
    page(ops, "", 1, Vec::new()).await.map(|_| ())
}

/// Makes every request, one after another, when so many runs are closed.
pub(super) async fn time(ops: &RunOps, runs: u32) -> Result<Vec<Timed>, Failure> {
    let mut timed = Vec::new();
    for (name, request) in requests(ops, runs).await? {
        let (mut took, mut found) = (Vec::new(), 0);
        let begun = Instant::now();
        while took.len() < REPETITIONS && (took.len() < FEWEST || begun.elapsed() < LONGEST) {
            let asked = Instant::now();
            found = request.found(ops).await?;
            took.push(asked.elapsed().as_secs_f64() * 1000.0);
        }
        let at = |percent| rounded(percentile(&took, percent).unwrap_or_default());
        timed.push(Timed {
            request: name.to_owned(),
            found,
            repetitions: u32::try_from(took.len()).unwrap_or(u32::MAX),
            first_ms: rounded(took.first().copied().unwrap_or_default()),
            p50_ms: at(50.0),
            p99_ms: at(99.0),
        });
    }
    Ok(timed)
}

async fn requests(ops: &RunOps, runs: u32) -> Result<Vec<(&'static str, Request)>, Failure> {
    let before = DEEP.min(runs / 2);
    let (deep, store_deep) = (Deep::reach(ops, before).await?, store_cursor(ops, before).await?);
    let list = |query: &str| Request::List { query: query.to_owned(), token: Vec::new() };
    let count = |query: &str| Request::Count { query: query.to_owned() };
    let by_agent = |agent: AgentId| format!("WindlassAgent = '{agent}'");
    let (rare, common) = (by_agent(work::rare()), by_agent(work::short()));
    let of_type = format!("WorkflowType = '{RUN_WORKFLOW}'");
    let of_status = "ExecutionStatus = 'Failed'";
    let group = "GROUP BY ExecutionStatus";
    let all = || RunFilter { workspace: Some(ops.workspace().clone()), ..RunFilter::default() };
    let rare_in_store = RunFilter { agent_id: Some(work::rare()), ..all() };
    let failed_in_store = RunFilter { statuses: vec![RunStatus::Failed], ..all() };
    Ok(vec![
        ("list", list("")),
        ("list-status", list(of_status)),
        ("list-type-status", list(&format!("{of_type} AND {of_status}"))),
        ("list-attribute", list(&rare)),
        ("list-common-attribute", list(&common)),
        ("list-close-time", list(&deep.closed_between)),
        ("list-deep", Request::List { query: String::new(), token: deep.token }),
        ("count", count("")),
        ("count-status", count(of_status)),
        ("count-type", count(&of_type)),
        ("count-attribute", count(&rare)),
        ("count-common-attribute", count(&common)),
        ("count-groups", count(group)),
        ("count-groups-type", count(&format!("{of_type} {group}"))),
        ("store-list", Request::Store(all())),
        ("store-agent", Request::Store(rare_in_store)),
        ("store-status", Request::Store(failed_in_store)),
        ("store-deep", Request::Store(RunFilter { cursor: store_deep, ..all() })),
        ("store-total", Request::Store(RunFilter { total: true, ..all() })),
    ])
}

impl Request {
    async fn found(&self, ops: &RunOps) -> Result<u64, Failure> {
        match self {
            Self::List { query, token } => Ok(page(ops, query, PAGE, token.clone()).await?.executions.len() as u64),
            Self::Count { query } => counted(ops, query).await,
            Self::Store(filter) => {
                let page = store_page(ops, filter.clone()).await?;
                Ok(page.total.unwrap_or(page.runs.len() as u64))
            }
        }
    }
}

/// A page deep in the list of the engine.
struct Deep {
    token: Vec<u8>,
    /// A query for the runs that were closed between the last and the first of this page.
    closed_between: String,
}

impl Deep {
    /// Follows the tokens to the page with the run that comes after `before` others.
    async fn reach(ops: &RunOps, before: u32) -> Result<Self, Failure> {
        let (mut token, mut passed) = (Vec::new(), 0);
        loop {
            let page = page(ops, "", PAGE, token.clone()).await?;
            passed += page.executions.len();
            if passed <= before as usize && !page.next_page_token.is_empty() {
                token = page.next_page_token;
                continue;
            }
            let mut closed = page.executions.iter().filter_map(|run| run.close_time);
            let newest = closed.next().ok_or_else(|| failed("no closed run is listed"))?;
            let oldest = closed.next_back().unwrap_or(newest);
            return Ok(Self { token, closed_between: format!("CloseTime BETWEEN '{oldest}' AND '{newest}'") });
        }
    }
}

/// The cursor of such a page of the store; `None` for the first.
async fn store_cursor(ops: &RunOps, before: u32) -> Result<Option<String>, Failure> {
    let (mut cursor, mut passed) = (None, 0);
    loop {
        let filter =
            RunFilter { workspace: Some(ops.workspace().clone()), cursor: cursor.clone(), ..RunFilter::default() };
        let page = store_page(ops, filter).await?;
        passed += page.runs.len();
        if passed > before as usize || page.next.is_none() {
            return Ok(cursor);
        }
        cursor = page.next;
    }
}

async fn page(
    ops: &RunOps,
    query: &str,
    runs: u32,
    next_page_token: Vec<u8>,
) -> Result<ListWorkflowExecutionsResponse, Failure> {
    let client = ops.client();
    let request = ListWorkflowExecutionsRequest {
        namespace: client.namespace(),
        page_size: i32::try_from(runs).unwrap_or(i32::MAX),
        next_page_token,
        query: query.to_owned(),
    };
    let listed = client.connection().workflow_service().list_workflow_executions(request.into_request()).await;
    listed.map(|response| response.into_inner()).map_err(|status| refused(query, &status))
}

async fn counted(ops: &RunOps, query: &str) -> Result<u64, Failure> {
    let client = ops.client();
    let request = CountWorkflowExecutionsRequest { namespace: client.namespace(), query: query.to_owned() };
    let counted = client.connection().workflow_service().count_workflow_executions(request.into_request()).await;
    counted.map(|response| response.into_inner().count.unsigned_abs()).map_err(|status| refused(query, &status))
}

fn refused(query: &str, status: &Status) -> Failure {
    failed(format!("the runs of {query:?} cannot be listed or counted: {}", status.message()))
}

async fn store_page(ops: &RunOps, filter: RunFilter) -> Result<RunPage, Failure> {
    Ok(ops.store().runs(RunFilter { limit: STORE_PAGE, ..filter }).await?)
}
