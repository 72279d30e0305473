//! Batch operations as clients see them: start, stop, describe, list. `batch_operations` executes them.

use std::sync::Arc;

use prost::Message as _;
use temporalio_protos::temporal::api::{
    batch::v1::BatchOperationInfo,
    enums::v1::{BatchOperationState, ResourceExhaustedCause},
    workflowservice::v1::{
        DescribeBatchOperationRequest, DescribeBatchOperationResponse, ListBatchOperationsRequest,
        ListBatchOperationsResponse, StartBatchOperationRequest, StartBatchOperationResponse,
        StopBatchOperationRequest, StopBatchOperationResponse,
    },
};
use windlass_sqlite::{Ack, DatabaseError};

use crate::{
    batch::{self, Batch},
    core::{Core, Target, unavailable},
    persist::{self, BatchPosition},
    service_error::ServiceError,
    time::{Nanos, optional_timestamp, timestamp},
    visibility::check_syntax,
};

/// Batches of a page, unless the request asks for fewer.
const PAGE: usize = 1000;
/// Batches of a namespace that run at a time, as on the real server.
const AT_A_TIME: i64 = 1;

/// What became of a start.
enum Started {
    Now,
    /// Another batch has the job id.
    Taken(Box<Batch>),
    TooMany,
}

impl Core {
    pub(super) async fn start_batch(
        self: &Arc<Self>,
        request: StartBatchOperationRequest,
    ) -> Result<StartBatchOperationResponse, ServiceError> {
        batch::check(&request)?;
        if !request.visibility_query.is_empty() {
            check_syntax(&request.visibility_query)?;
        }
        let (namespace, job_id) = (request.namespace.clone(), request.job_id.clone());
        self.read_namespaces().named(&namespace)?;
        self.no_run_has_this_id(&namespace, &job_id)?;
        let batch = Batch::new(request, uuid::Uuid::new_v4().to_string(), self.now());
        let started = self.database.apply(Ack::Durable, move |tx| {
            if let Some(other) = persist::find_batch(tx, &namespace, &job_id)?
                && other.run_id != batch.run_id
                && !other.runs()
            {
                return Ok(Started::Taken(Box::new(other)));
            }
            let running = persist::running_batches(tx, &namespace)?;
            let is_known = persist::find_batch(tx, &namespace, &job_id)?.is_some_and(|it| it.run_id == batch.run_id);
            if running >= AT_A_TIME && !is_known {
                return Ok(Started::TooMany);
            }
            persist::add_batch(tx, &namespace, &job_id, &batch)?;
            Ok(Started::Now)
        });
        match started.await.map_err(|error| unavailable(&error))? {
            Started::Now => {
                self.batch_started.notify_one();
                Ok(StartBatchOperationResponse {})
            }
            Started::Taken(other) => Err(taken(&other)),
            Started::TooMany => Err(ServiceError::Exhausted {
                message: "Max concurrent batch operations is reached".to_owned(),
                cause: ResourceExhaustedCause::ConcurrentLimit,
            }),
        }
    }

    /// On the real server a batch is a run, so job ids and workflow ids exclude each other.
    fn no_run_has_this_id(self: &Arc<Self>, namespace: &str, job_id: &str) -> Result<(), ServiceError> {
        let found = self.with_run(&Target::new(namespace, job_id, ""), |run, _| {
            let (state, message) = (&run.state, if run.state.is_running() { RUNNING } else { FINISHED });
            Ok(already(message, job_id, (&state.run_id, &state.first_run_id), &state.create_request_id))
        });
        match found {
            Ok(refusal) => Err(refusal.value()),
            Err(ServiceError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Stops a batch. The execution under way is still processed.
    pub(super) async fn stop_batch(
        self: &Arc<Self>,
        request: StopBatchOperationRequest,
    ) -> Result<StopBatchOperationResponse, ServiceError> {
        job(&request.job_id, &request.namespace)?;
        if request.reason.is_empty() {
            return Err(ServiceError::invalid("Reason is not set on request."));
        }
        self.read_namespaces().named(&request.namespace)?;
        let (now, namespace, job_id) = (self.now(), request.namespace, request.job_id.clone());
        let stopped = self.database.apply(Ack::Durable, move |tx| {
            let Some(mut batch) = persist::find_batch(tx, &namespace, &job_id)? else { return Ok(None) };
            batch.close(BatchOperationState::Failed, now);
            persist::save_batch(tx, &namespace, &job_id, &batch).map(Some)
        });
        match stopped.await.map_err(|error| unavailable(&error))? {
            Some(true) => Ok(StopBatchOperationResponse {}),
            Some(false) => Err(ServiceError::not_found("workflow execution already completed")),
            None => Err(unknown(&request.job_id)),
        }
    }

    pub(super) async fn describe_batch(
        self: &Arc<Self>,
        request: DescribeBatchOperationRequest,
    ) -> Result<DescribeBatchOperationResponse, ServiceError> {
        job(&request.job_id, &request.namespace)?;
        self.read_namespaces().named(&request.namespace)?;
        let batch = self.batch(&request.namespace, &request.job_id).await?;
        batch.map(|batch| batch.described()).ok_or_else(|| unknown(&request.job_id))
    }

    pub(super) async fn batch(&self, namespace: &str, job_id: &str) -> Result<Option<Batch>, ServiceError> {
        let (namespace, job_id) = (namespace.to_owned(), job_id.to_owned());
        let found =
            self.database.read(move |sql| Ok::<_, DatabaseError>(persist::find_batch(sql, &namespace, &job_id)?));
        found.await.map_err(|error| unavailable(&error))
    }

    pub(super) async fn list_batches(
        self: &Arc<Self>,
        request: ListBatchOperationsRequest,
    ) -> Result<ListBatchOperationsResponse, ServiceError> {
        if request.namespace.is_empty() {
            return Err(ServiceError::invalid("Namespace is not set on request."));
        }
        self.read_namespaces().named(&request.namespace)?;
        let size = usize::try_from(request.page_size).ok().filter(|size| *size > 0).unwrap_or(PAGE).min(PAGE);
        let after = position(&request.next_page_token)?;
        let namespace = request.namespace;
        // One more than requested shows whether there is another page.
        let listed = self.database.read(move |sql| {
            Ok::<_, DatabaseError>(persist::list_batches(sql, &namespace, &after, size.saturating_add(1))?)
        });
        let mut listed = listed.await.map_err(|error| unavailable(&error))?;
        let more = listed.len() > size;
        listed.truncate(size);
        let next_page_token = listed.last().filter(|_| more).map(|(position, _)| token(position)).unwrap_or_default();
        let operation_info = listed.into_iter().map(|(_, batch)| info(&batch)).collect();
        Ok(ListBatchOperationsResponse { operation_info, next_page_token })
    }

    /// Removes the batches whose retention has passed.
    pub(crate) async fn remove_batches(&self, namespace: &str, before: Nanos) {
        // Mostly there are none, and a write would be queued before those of clients.
        if let Ok(false) = self.read(|sql| persist::has_expired_batches(sql, namespace, before)) {
            return;
        }
        let namespace = namespace.to_owned();
        let removed = self.database.apply(Ack::Relaxed, move |tx| persist::remove_batches(tx, &namespace, before));
        if let Err(error) = removed.await {
            tracing::warn!(%error, "expired batches could not be deleted; it is tried again at the next sweep");
        }
    }
}

const RUNNING: &str = "is already running.";
const FINISHED: &str = "already finished.";

fn taken(batch: &Batch) -> ServiceError {
    let job_id = batch.request.as_ref().map(|request| request.job_id.clone()).unwrap_or_default();
    let message = if batch.runs() { RUNNING } else { FINISHED };
    already(message, &job_id, (&batch.run_id, &batch.run_id), &batch.run_id)
}

fn already(state: &str, id: &str, (run_id, first_run_id): (&str, &str), request_id: &str) -> ServiceError {
    let policy = if state == FINISHED { " Workflow Id reuse policy: reject duplicate workflow Id." } else { "" };
    ServiceError::AlreadyStarted {
        message: format!("Workflow execution {state} WorkflowId: {id}, RunId: {run_id}.{policy}"),
        start_request_id: request_id.to_owned(),
        run_id: run_id.to_owned(),
        first_run_id: first_run_id.to_owned(),
    }
}

fn job(job_id: &str, namespace: &str) -> Result<(), ServiceError> {
    if job_id.is_empty() {
        return Err(ServiceError::invalid("JobId is not set on request."));
    }
    if namespace.is_empty() {
        return Err(ServiceError::invalid("Namespace is not set on request."));
    }
    Ok(())
}

fn unknown(job_id: &str) -> ServiceError {
    ServiceError::not_found(format!("workflow not found for ID: {job_id}"))
}

fn info(batch: &Batch) -> BatchOperationInfo {
    BatchOperationInfo {
        job_id: batch.request.as_ref().map(|request| request.job_id.clone()).unwrap_or_default(),
        state: batch.state,
        start_time: Some(timestamp(batch.start_time)),
        close_time: optional_timestamp(batch.close_time),
        operation_type: batch.kind() as i32,
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct PageToken {
    #[prost(int64, tag = "1")]
    closing: Nanos,
    #[prost(int64, tag = "2")]
    start_time: Nanos,
    #[prost(string, tag = "3")]
    job_id: String,
}

fn token((closing, start_time, job_id): &BatchPosition) -> Vec<u8> {
    PageToken { closing: *closing, start_time: *start_time, job_id: job_id.clone() }.encode_to_vec()
}

fn position(token: &[u8]) -> Result<BatchPosition, ServiceError> {
    if token.is_empty() {
        return Ok((Nanos::MAX, Nanos::MAX, String::new()));
    }
    let token = PageToken::decode(token).map_err(|_| ServiceError::invalid("invalid NextPageToken"))?;
    Ok((token.closing, token.start_time, token.job_id))
}
