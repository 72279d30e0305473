//! A batch operation as pure state: what it was asked to do, and how far it has come.
//!
//! A batch goes through the executions of its request, or through the pages of its query. Its record is written after
//! each execution, so that after a crash at most one execution is processed again. Operations carry request ids or have
//! no effect when they are repeated, so that does not show.

mod request;

use temporalio_protos::temporal::api::{
    common::v1::{Execution, WorkflowExecution},
    enums::v1::{BatchOperationState, BatchOperationType, ExecutionType},
    workflowservice::v1::{DescribeBatchOperationResponse, StartBatchOperationRequest},
};

pub(crate) use self::request::check;
use self::request::{identity, kind, query};
use crate::time::{Nanos, optional_timestamp, timestamp};

/// Executions of a page.
pub(crate) const PAGE: usize = 100;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Batch {
    /// Stored once, apart from the rest.
    #[prost(message, optional, tag = "1")]
    pub(crate) request: Option<StartBatchOperationRequest>,
    /// Identifies this batch, and begins the request ids of its operations.
    #[prost(string, tag = "2")]
    pub(crate) run_id: String,
    #[prost(enumeration = "BatchOperationState", tag = "3")]
    pub(crate) state: i32,
    #[prost(int64, tag = "4")]
    pub(crate) start_time: Nanos,
    /// Zero while it runs.
    #[prost(int64, tag = "5")]
    pub(crate) close_time: Nanos,
    /// How many executions the query matched at the beginning.
    #[prost(int64, tag = "6")]
    pub(crate) estimate: i64,
    #[prost(int64, tag = "7")]
    pub(crate) succeeded: i64,
    #[prost(int64, tag = "8")]
    pub(crate) failed: i64,
    /// The executions of the current page of the query.
    #[prost(message, repeated, tag = "9")]
    pub(crate) page: Vec<WorkflowExecution>,
    /// How many executions of the page are done.
    #[prost(uint64, tag = "10")]
    pub(crate) done: u64,
    /// The token of the page after this one; empty after the last.
    #[prost(bytes = "vec", tag = "11")]
    pub(crate) next_page: Vec<u8>,
    #[prost(bool, tag = "12")]
    pub(crate) begun: bool,
}

/// What a batch does next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Count the matches of the query, and read its first page.
    Begin {
        query: String,
    },
    ReadPage {
        query: String,
        token: Vec<u8>,
    },
    Process(WorkflowExecution),
    Finish,
}

impl Batch {
    pub(crate) fn new(request: StartBatchOperationRequest, run_id: String, now: Nanos) -> Self {
        let given = targets(&request).len();
        Self {
            run_id,
            state: BatchOperationState::Running as i32,
            start_time: now,
            estimate: i64::try_from(given).unwrap_or(i64::MAX),
            begun: given > 0,
            request: Some(request),
            ..Self::default()
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.state == BatchOperationState::Running as i32
    }

    pub(crate) fn next(&self) -> Step {
        let request = self.request.as_ref();
        let query = || request.map(query).unwrap_or_default();
        if !self.begun {
            return Step::Begin { query: query() };
        }
        let done = usize::try_from(self.done).unwrap_or(usize::MAX);
        match self.execution(done) {
            Some(execution) => Step::Process(execution),
            None if self.next_page.is_empty() => Step::Finish,
            None => Step::ReadPage { query: query(), token: self.next_page.clone() },
        }
    }

    /// An execution of the request, or of the current page.
    fn execution(&self, index: usize) -> Option<WorkflowExecution> {
        #[allow(deprecated, reason = "clients still send executions in this field")]
        let given = self.request.as_ref().map_or(&[][..], |request| &request.executions);
        let targets = self.request.as_ref().map_or(&[][..], |request| &request.target_executions);
        let target = targets
            .get(index)
            .map(|target| WorkflowExecution { workflow_id: target.business_id.clone(), run_id: target.run_id.clone() });
        given.get(index).or_else(|| self.page.get(index)).cloned().or(target)
    }

    pub(crate) fn page_read(&mut self, page: Vec<WorkflowExecution>, next: Vec<u8>) {
        self.begun = true;
        self.page = page;
        self.next_page = next;
        self.done = 0;
    }

    pub(crate) fn processed(&mut self, succeeded: bool) {
        self.done += 1;
        *(if succeeded { &mut self.succeeded } else { &mut self.failed }) += 1;
    }

    pub(crate) fn close(&mut self, state: BatchOperationState, now: Nanos) {
        self.state = state as i32;
        self.close_time = now;
        self.page = Vec::new();
        self.done = 0;
        self.next_page = Vec::new();
    }

    /// The request id of an operation. It is the same when the operation is repeated.
    pub(crate) fn request_id(&self, execution: &WorkflowExecution) -> String {
        match execution.run_id.as_str() {
            "" => format!("{}:{}", self.run_id, self.done),
            run_id => format!("{}:{run_id}", self.run_id),
        }
    }

    pub(crate) fn kind(&self) -> BatchOperationType {
        self.request.as_ref().map(kind).unwrap_or_default()
    }

    /// The pause between two executions; zero for none.
    pub(crate) fn interval(&self) -> std::time::Duration {
        let rate = self.request.as_ref().map_or(0.0, |request| request.max_operations_per_second);
        if rate > 0.0 {
            std::time::Duration::try_from_secs_f32(1.0 / rate).unwrap_or(std::time::Duration::MAX)
        } else {
            std::time::Duration::ZERO
        }
    }

    pub(crate) fn described(&self) -> DescribeBatchOperationResponse {
        let request = self.request.clone().unwrap_or_default();
        let total = if self.runs() { self.estimate } else { self.succeeded + self.failed };
        DescribeBatchOperationResponse {
            operation_type: self.kind() as i32,
            state: self.state,
            start_time: Some(timestamp(self.start_time)),
            close_time: optional_timestamp(self.close_time),
            total_operation_count: total,
            complete_operation_count: self.succeeded,
            failure_operation_count: self.failed,
            identity: identity(&request),
            executions: targets(&request),
            job_id: request.job_id,
            reason: request.reason,
            query: request.visibility_query,
        }
    }
}

fn targets(request: &StartBatchOperationRequest) -> Vec<Execution> {
    #[allow(deprecated, reason = "clients still send executions in this field")]
    let given = request.executions.iter().map(|execution| Execution {
        r#type: ExecutionType::Workflow as i32,
        business_id: execution.workflow_id.clone(),
        run_id: execution.run_id.clone(),
    });
    given.chain(request.target_executions.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use temporalio_protos::temporal::api::batch::v1::BatchOperationSignal;
    use temporalio_protos::temporal::api::workflowservice::v1::start_batch_operation_request::Operation;

    use super::*;

    fn request(executions: &[&str]) -> StartBatchOperationRequest {
        let target = |id: &&str| Execution {
            r#type: ExecutionType::Workflow as i32,
            business_id: (*id).to_owned(),
            run_id: String::new(),
        };
        StartBatchOperationRequest {
            namespace: "n".to_owned(),
            job_id: "job".to_owned(),
            reason: "reason".to_owned(),
            visibility_query: if executions.is_empty() { "WorkflowType = 't'".to_owned() } else { String::new() },
            target_executions: executions.iter().map(target).collect(),
            operation: Some(Operation::SignalOperation(BatchOperationSignal {
                signal: "s".to_owned(),
                identity: "me".to_owned(),
                ..Default::default()
            })),
            ..Default::default()
        }
    }

    #[test]
    fn executions_are_processed_in_order_and_counted() {
        let mut batch = Batch::new(request(&["a", "b"]), "run".to_owned(), 1);
        let mut seen = Vec::new();
        while let Step::Process(execution) = batch.next() {
            seen.push((execution.workflow_id.clone(), batch.request_id(&execution)));
            batch.processed(execution.workflow_id == "a");
        }
        assert_eq!(seen, [("a".to_owned(), "run:0".to_owned()), ("b".to_owned(), "run:1".to_owned())]);
        assert_eq!(batch.next(), Step::Finish);
        batch.close(BatchOperationState::Completed, 2);
        let described = batch.described();
        assert_eq!((described.total_operation_count, described.complete_operation_count), (2, 1));
        assert_eq!(described.executions.len(), 2);
    }

    proptest! {
        /// Wherever the process ends, and whatever the sizes of the pages: each execution is processed, the one under
        /// way when the process ended with the same request id as before.
        #[test]
        fn every_execution_of_every_page_is_processed(
            pages in proptest::collection::vec(0_usize..4, 1..5),
            crashes in proptest::collection::vec(any::<bool>(), 40),
        ) {
            use prost::Message as _;
            let mut crashes = crashes.into_iter();
            let mut batch = Batch::new(request(&[]), "run".to_owned(), 1);
            let mut stored = batch.encode_to_vec();
            let mut sent = std::collections::BTreeMap::new();
            loop {
                let step = batch.next();
                let page = match &step {
                    Step::Finish => break,
                    Step::Process(execution) => {
                        *sent.entry(batch.request_id(execution)).or_insert(0) += 1;
                        batch.processed(true);
                        None
                    }
                    Step::Begin { .. } => Some(0),
                    Step::ReadPage { token, .. } => Some(usize::from(token[0])),
                };
                if let Some(page) = page {
                    let name = |index| WorkflowExecution { workflow_id: "w".to_owned(), run_id: format!("{page}-{index}") };
                    let next = if page + 1 < pages.len() { vec![u8::try_from(page + 1).unwrap()] } else { Vec::new() };
                    batch.page_read((0..pages[page]).map(name).collect(), next);
                }
                if crashes.next() == Some(true) {
                    batch = Batch::decode(&*stored).unwrap();
                } else {
                    stored = batch.encode_to_vec();
                }
            }
            let total: usize = pages.iter().sum();
            prop_assert_eq!(sent.len(), total);
            prop_assert_eq!(batch.succeeded, i64::try_from(total).unwrap());
        }
    }
}
