//! What is left when the script is over: every run's history and description, and what can be found by listing.

use std::time::{Duration, Instant};

use temporalio_protos::temporal::api::{
    enums::v1::WorkflowExecutionStatus,
    workflow::v1::WorkflowExecutionInfo,
    workflowservice::v1::{
        CountWorkflowExecutionsRequest, DescribeWorkflowExecutionResponse, ListWorkflowExecutionsRequest,
        TerminateWorkflowExecutionRequest,
    },
};

use super::{PATIENCE, Player, names::ATTRIBUTE, prompt};
use crate::diff::{
    peer::NAMESPACE,
    script::{Listing, Run, Who},
};

impl Player {
    pub(super) async fn finish(&mut self) {
        self.action = "end".to_owned();
        let mut infos = Vec::new();
        for (who, runs) in self.memory.runs.clone() {
            for (number, run) in runs.iter().enumerate() {
                let what = format!("run {} of {who:?}", number + 1);
                let events = self.history(who, run).await;
                if !events.is_empty() {
                    self.played.histories += 1;
                    self.played.events += events.len();
                }
                let shown = self.show_events(&events);
                self.note(&format!("history of {what}"), shown);
                let described = self.describe(who, run).await;
                if let Some(described) = self.saw(&format!("description of {what}"), described) {
                    infos.push(described);
                }
            }
        }
        self.wait_until_visible(&infos).await;
        for listing in std::iter::once(Listing::All).chain(self.listings.clone()) {
            self.list(listing).await;
        }
        self.clean_up().await;
    }

    /// Lists lag behind; they are compared when they show what descriptions show.
    async fn wait_until_visible(&mut self, described: &[DescribeWorkflowExecutionResponse]) {
        let mut expected: Vec<_> =
            described.iter().filter_map(|described| described.workflow_execution_info.as_ref()).map(essence).collect();
        expected.sort();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let listed = self.listed(&self.ours()).await.unwrap_or_default();
            let mut seen: Vec<_> = listed.iter().map(essence).collect();
            seen.sort();
            if seen == expected {
                return;
            }
            if Instant::now() > deadline {
                let (seen, expected) = (format!("{seen:?}"), format!("{expected:?}"));
                let text =
                    format!("listed: {}\ndescribed: {}", self.normal.string(&seen), self.normal.string(&expected));
                return self.note("the lists do not show what the descriptions do", text);
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    fn ours(&self) -> String {
        format!("WorkflowId STARTS_WITH '{}'", self.prefix)
    }

    async fn listed(&mut self, query: &str) -> Result<Vec<WorkflowExecutionInfo>, tonic::Status> {
        let mut all = Vec::new();
        let mut token = Vec::new();
        loop {
            let request = ListWorkflowExecutionsRequest {
                namespace: NAMESPACE.to_owned(),
                page_size: 3,
                next_page_token: token,
                query: query.to_owned(),
            };
            let page = self.client.list_workflow_executions(prompt(request)).await?.into_inner();
            all.extend(page.executions);
            token = page.next_page_token;
            if token.is_empty() {
                return Ok(all);
            }
        }
    }

    async fn list(&mut self, listing: Listing) {
        let ours = self.ours();
        let query = match listing {
            Listing::All => ours,
            Listing::Running => format!("{ours} AND ExecutionStatus = 'Running'"),
            Listing::Closed => format!("{ours} AND CloseTime IS NOT NULL"),
            Listing::ByType => format!("{ours} AND WorkflowType IN ('Next', 'Other')"),
            Listing::ByAttribute => format!("{ours} AND {ATTRIBUTE} = 'changed'"),
            Listing::ByTime => format!("{ours} AND StartTime > '2020-01-01T00:00:00Z' ORDER BY StartTime DESC"),
            Listing::CountByStatus => return self.count(&format!("{ours} GROUP BY ExecutionStatus")).await,
            Listing::Malformed => "WorkflowId = ".to_owned(),
            Listing::UnknownAttribute => "Nope = 'x'".to_owned(),
        };
        self.count(&query).await;
        let listed = self.listed(&query).await;
        let seen = match listed {
            Ok(mut infos) => {
                // Runs that began at the same moment come in any order.
                let order = |info: &WorkflowExecutionInfo| {
                    let execution = info.execution.clone().unwrap_or_default();
                    let runs = self.memory.runs.values().flatten();
                    (execution.workflow_id, runs.clone().position(|run| *run == execution.run_id))
                };
                infos.sort_by_key(order);
                infos.iter().map(|info| format!("{}\n", self.normal.message(info))).collect()
            }
            Err(status) => self.normal.status(&status),
        };
        self.note(&format!("list {listing:?}"), seen);
    }

    async fn count(&mut self, query: &str) {
        let request = CountWorkflowExecutionsRequest { namespace: NAMESPACE.to_owned(), query: query.to_owned() };
        let answer = self.client.count_workflow_executions(prompt(request)).await;
        let what = format!("count of {query}").replace(&self.prefix, "");
        self.saw(&what, answer);
    }

    /// Nothing is left running on a server that many scripts share.
    async fn clean_up(&mut self) {
        for who in Who::ALL {
            if self.memory.status(who) == Some(WorkflowExecutionStatus::Running) {
                let request = TerminateWorkflowExecutionRequest {
                    namespace: NAMESPACE.to_owned(),
                    workflow_execution: Some(self.execution(who, Run::Current)),
                    ..Default::default()
                };
                self.client.terminate_workflow_execution(prompt(request)).await.ok();
            }
        }
    }
}

/// What a list must show of a run before it is compared.
fn essence(info: &WorkflowExecutionInfo) -> (String, i32, Vec<(String, Vec<u8>)>) {
    let run = info.execution.as_ref().map(|execution| execution.run_id.clone()).unwrap_or_default();
    let fields = info.search_attributes.as_ref().map(|attributes| &attributes.indexed_fields);
    let mut attributes: Vec<_> = fields
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name == ATTRIBUTE)
        .map(|(name, value)| (name.clone(), value.data.clone()))
        .collect();
    attributes.sort();
    (run, info.status, attributes)
}
