//! Nexus tasks: requests of runs, for workers that handle operations.

#![allow(deprecated, reason = "older workers still send the older errors and names of tokens")]

use std::{collections::HashMap, sync::Arc, time::Duration};

use prost::Message as _;
use temporalio_protos::temporal::api::{
    enums::v1::EventType,
    failure::v1::failure::FailureInfo,
    history::v1::{NexusOperationScheduledEventAttributes, history_event::Attributes},
    nexus::v1::{
        CancelOperationRequest, Link, Request, StartOperationRequest, request, response,
        start_operation_response::Variant,
    },
    workflowservice::v1::{
        PollNexusTaskQueueRequest, PollNexusTaskQueueResponse, RespondNexusTaskCompletedRequest,
        RespondNexusTaskCompletedResponse, RespondNexusTaskFailedRequest, RespondNexusTaskFailedResponse,
    },
};

use crate::{
    core::{Core, Target},
    queues::{Kind, Task},
    registry::RunKey,
    run::nexus::{Answer, NexusKey, NexusRequest, WORKFLOW_EVENT, event_url, task_not_found},
    service::tasks::poll_deadline,
    service_error::ServiceError,
    time::{Nanos, SECOND, timestamp},
    token::{CallbackToken, NexusTaskToken},
};

/// The callback URL of operations whose handlers are workers: the engine itself.
pub(crate) const SYSTEM_CALLBACK: &str = "temporal://system";
pub(crate) const CALLBACK_TOKEN: &str = "temporal-callback-token";
const TOKEN_LENGTH: usize = 4096;

impl Core {
    pub(in crate::service) async fn poll_nexus_task(
        self: &Arc<Self>,
        request: PollNexusTaskQueueRequest,
        timeout: Option<Duration>,
    ) -> Result<PollNexusTaskQueueResponse, ServiceError> {
        let deadline = poll_deadline(timeout)?;
        let key = self.polled_queue(&request.namespace, request.task_queue.as_ref(), &request.identity, Kind::Nexus)?;
        while let Some(task) =
            self.next_task(&key, &request.identity, request.deployment_options.as_ref(), deadline).await
        {
            let Task::Nexus { run, key: request } = &task else { continue };
            match self.take_nexus_request(run, *request).await {
                Ok(Some(response)) => return Ok(response),
                Ok(None) => {}
                Err(error) => {
                    self.queues.offer_stored(&key, task);
                    return Err(error);
                }
            }
        }
        Ok(PollNexusTaskQueueResponse::default())
    }

    /// Gives a request to a worker, after the operation is durable: otherwise its handler could start something of
    /// which no run knows.
    async fn take_nexus_request(
        self: &Arc<Self>,
        run: &RunKey,
        key: NexusKey,
    ) -> Result<Option<PollNexusTaskQueueResponse>, ServiceError> {
        let target = Target::of(run);
        let taken = self.with_run(&target, |run, env| Ok((run.number, run.give_nexus_request(env, key))));
        let (number, request) = match taken {
            Ok(done) => done.acknowledged().await?,
            Err(ServiceError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(request) = request else { return Ok(None) };
        let response = self.operation_scheduled(number, key.scheduled_id);
        if response.is_err() {
            // Another worker may get it.
            self.with_run(&target, |run, _| {
                run.memory.nexus_given.remove(&key);
                Ok(())
            })?
            .value();
        }
        let token = NexusTaskToken {
            namespace: target.namespace.clone(),
            workflow_id: target.workflow_id.clone(),
            run_id: target.run_id.clone(),
            scheduled_id: key.scheduled_id,
            cancel: key.cancel,
            attempt: key.attempt,
        };
        Ok(Some(PollNexusTaskQueueResponse {
            task_token: token.encode_to_vec(),
            request: Some(nexus_request(&target, request, response?, self.now())),
            ..PollNexusTaskQueueResponse::default()
        }))
    }

    fn operation_scheduled(
        &self,
        run: i64,
        scheduled_id: i64,
    ) -> Result<NexusOperationScheduledEventAttributes, ServiceError> {
        match self.event(run, scheduled_id)?.and_then(|event| event.attributes) {
            Some(Attributes::NexusOperationScheduledEventAttributes(scheduled)) => Ok(scheduled),
            _ => Err(ServiceError::Unavailable("the operation's event cannot be read; try again".to_owned())),
        }
    }

    pub(in crate::service) async fn complete_nexus_task(
        self: &Arc<Self>,
        request: RespondNexusTaskCompletedRequest,
    ) -> Result<RespondNexusTaskCompletedResponse, ServiceError> {
        let started = request.response.as_ref().and_then(|response| match &response.variant {
            Some(response::Variant::StartOperation(started)) => started.variant.as_ref(),
            _ => None,
        });
        match started {
            Some(Variant::AsyncSuccess(started)) => {
                let token =
                    if started.operation_token.is_empty() { &started.operation_id } else { &started.operation_token };
                if token.is_empty() {
                    return Err(ServiceError::invalid("missing opration token in response"));
                }
                if token.len() > TOKEN_LENGTH {
                    return Err(ServiceError::invalid(format!(
                        "operation token length exceeds allowed limit ({}/{TOKEN_LENGTH})",
                        token.len()
                    )));
                }
            }
            Some(Variant::OperationError(error)) => check_details(error.failure.as_ref())?,
            _ => {}
        }
        let token = NexusTaskToken::read(&request.task_token)?;
        self.answer_nexus(token, |cancel| Answer::of(request.response, cancel)).await?;
        Ok(RespondNexusTaskCompletedResponse {})
    }

    pub(in crate::service) async fn fail_nexus_task(
        self: &Arc<Self>,
        request: RespondNexusTaskFailedRequest,
    ) -> Result<RespondNexusTaskFailedResponse, ServiceError> {
        let token = NexusTaskToken::read(&request.task_token)?;
        if request.error.is_none() && request.failure.is_none() {
            return Err(ServiceError::invalid("request must contain error or failure"));
        }
        check_details(request.error.as_ref().and_then(|error| error.failure.as_ref()))?;
        let is_handlers = |failure: &temporalio_protos::temporal::api::failure::v1::Failure| {
            matches!(failure.failure_info, Some(FailureInfo::NexusHandlerFailureInfo(_)))
        };
        if request.failure.as_ref().is_some_and(|failure| !is_handlers(failure)) {
            return Err(ServiceError::invalid(
                "request Failure must contain error or failure with NexusHandlerFailureInfo",
            ));
        }
        self.answer_nexus(token, |cancel| Answer::of_failed(request.error, request.failure, cancel)).await?;
        Ok(RespondNexusTaskFailedResponse {})
    }

    async fn answer_nexus(
        self: &Arc<Self>,
        token: NexusTaskToken,
        answer: impl FnOnce(bool) -> Answer,
    ) -> Result<(), ServiceError> {
        let NexusTaskToken { namespace, workflow_id, run_id, scheduled_id, cancel, attempt } = token;
        let key = NexusKey { scheduled_id, cancel, attempt };
        let caller = Target { namespace, workflow_id, run_id };
        match self.with_run(&caller, |run, env| run.answer_nexus_request(env, key, answer(cancel))) {
            Ok(done) => done.acknowledged().await,
            Err(ServiceError::NotFound(_)) => Err(task_not_found()),
            Err(error) => Err(error),
        }
    }
}

fn check_details(failure: Option<&temporalio_protos::temporal::api::nexus::v1::Failure>) -> Result<(), ServiceError> {
    let details = failure.map(|failure| &failure.details).filter(|details| !details.is_empty());
    match details.map(|details| serde_json::from_slice::<serde_json::Value>(details)) {
        Some(Err(_)) => Err(ServiceError::invalid("failure details must be JSON serializable")),
        _ => Ok(()),
    }
}

/// The request as a worker gets it.
fn nexus_request(
    caller: &Target,
    request: NexusRequest,
    scheduled: NexusOperationScheduledEventAttributes,
    now: Nanos,
) -> Request {
    let NexusRequest { operation, key, time, time_to_complete } = request;
    let mut header = scheduled.nexus_header;
    let mut set = |name: &str, value: String| header.insert(name.to_owned(), value);
    set("user-agent", "temporalio/server".to_owned());
    set("request-timeout", seconds(time));
    // Workers in Java look for it in this form.
    set("Request-Timeout", seconds(time));
    let variant = if key.cancel {
        set("content-length", "0".to_owned());
        request::Variant::CancelOperation(CancelOperationRequest {
            service: operation.service,
            operation: operation.operation,
            operation_id: operation.token.clone(),
            operation_token: operation.token,
        })
    } else {
        let Target { namespace, workflow_id, run_id } = caller;
        let event = EventType::NexusOperationScheduled;
        let url = event_url(namespace, workflow_id, run_id, key.scheduled_id, event);
        set("nexus-link", format!("<{url}>; type=\"{WORKFLOW_EVENT}\""));
        set("nexus-request-id", operation.request_id.clone());
        if let Some(time) = time_to_complete {
            header.entry("operation-timeout".to_owned()).or_insert_with(|| format!("{}ms", time / 1_000_000));
        }
        let token = CallbackToken {
            namespace: namespace.clone(),
            workflow_id: workflow_id.clone(),
            run_id: run_id.clone(),
            scheduled_id: key.scheduled_id,
            request_id: operation.request_id.clone(),
        };
        request::Variant::StartOperation(StartOperationRequest {
            service: operation.service,
            operation: operation.operation,
            request_id: operation.request_id,
            callback: SYSTEM_CALLBACK.to_owned(),
            payload: scheduled.input,
            callback_header: HashMap::from([(CALLBACK_TOKEN.to_owned(), token.text())]),
            links: vec![Link { url, r#type: WORKFLOW_EVENT.to_owned() }],
        })
    };
    Request {
        header,
        scheduled_time: Some(timestamp(now)),
        capabilities: Some(request::Capabilities { temporal_failure_responses: !key.cancel }),
        endpoint: operation.endpoint,
        variant: Some(variant),
    }
}

/// A time as Go prints it.
fn seconds(time: Nanos) -> String {
    let fraction = format!("{:09}", time % SECOND);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { format!("{}s", time / SECOND) } else { format!("{}.{fraction}s", time / SECOND) }
}
