//! Reads of history: in pages, with long polls, the closing event only, or backwards.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use temporalio_protos::temporal::api::{
    enums::v1::HistoryEventFilterType,
    history::v1::History,
    workflowservice::v1::{
        GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryResponse,
        GetWorkflowExecutionHistoryReverseRequest, GetWorkflowExecutionHistoryReverseResponse,
    },
};
use tokio::time::Instant;

use super::checks;
use crate::{
    core::{Core, Target, forgotten, unavailable},
    notifications::Position,
    persist,
    service_error::ServiceError,
    token::HistoryToken,
};

/// Events of a page, unless the request asks for fewer.
pub(super) const PAGE_EVENTS: usize = 256;
/// How long a long poll waits before it returns an empty page with a token.
const TIMEOUT: Duration = Duration::from_secs(20);
const TAIL_ROOM: Duration = Duration::from_secs(1);

impl Core {
    /// `with_unwritten` also returns the events of the pending task that are not in history before it completes, as
    /// workers see them.
    pub(super) async fn workflow_history(
        self: &Arc<Self>,
        request: GetWorkflowExecutionHistoryRequest,
        timeout: Option<Duration>,
        with_unwritten: bool,
    ) -> Result<GetWorkflowExecutionHistoryResponse, ServiceError> {
        let mut target = checks::target(&self.read_namespaces(), &request.namespace, request.execution.clone())?;
        let close_only = request.history_event_filter_type() == HistoryEventFilterType::CloseEvent;
        let token = HistoryToken::read(&request.next_page_token)?;
        if let Some(token) = &token {
            // All pages are of the run of the first one, even if another run is current now.
            target.run_id.clone_from(&token.run_id);
        }
        if let Some(token) = token.as_ref().filter(|token| token.until != 0) {
            return self.rest_for_worker(&target, token, request.maximum_page_size);
        }
        let after = token.as_ref().map_or(0, |token| token.position);
        // The first read for the closing event waits for it even without `wait_new_event`, as on the real server.
        let waits = if token.is_some() { request.wait_new_event } else { close_only };
        let awaited = self.await_events(&target, after, waits, close_only, timeout).await;
        let (number, run_id, position) = match awaited {
            Err(ServiceError::NotFound(message)) if !target.run_id.is_empty() && !request.skip_archival => {
                let limit = page_limit(request.maximum_page_size);
                return self.archived_history(target, after, limit).await?.ok_or(ServiceError::NotFound(message));
            }
            awaited => awaited?,
        };
        if close_only {
            return self.closing_event(number, run_id, position, request.wait_new_event);
        }
        let limit = page_limit(request.maximum_page_size);
        let mut events = self.read(|sql| persist::events_after(sql, number, after, limit))?;
        let reached = events.last().map_or(after, |event| event.event_id);
        let more = reached + 1 < position.next_event_id;
        if with_unwritten && !more && !events.is_empty() {
            let pinned = Target { run_id: run_id.clone(), ..target };
            let unwritten = self.with_run(&pinned, |run, _| Ok(run.unwritten_task()))?.value();
            events.extend(unwritten.into_iter().filter(|event| event.event_id > reached));
        }
        let goes_on = request.wait_new_event && !position.closed;
        let token = HistoryToken { run_id, position: reached, ..HistoryToken::default() };
        Ok(GetWorkflowExecutionHistoryResponse {
            history: Some(History { events }),
            next_page_token: if more || goes_on { token.encode_to_vec() } else { Vec::new() },
            ..GetWorkflowExecutionHistoryResponse::default()
        })
    }

    /// The closing event of a closed run; nothing for an open one.
    fn closing_event(
        &self,
        number: i64,
        run_id: String,
        position: Position,
        waits: bool,
    ) -> Result<GetWorkflowExecutionHistoryResponse, ServiceError> {
        let mut response = GetWorkflowExecutionHistoryResponse {
            history: Some(History::default()),
            ..GetWorkflowExecutionHistoryResponse::default()
        };
        if position.closed {
            let last = self.read(|sql| persist::event(sql, number, position.next_event_id - 1))?;
            response.history = Some(History { events: last.into_iter().collect() });
        } else if waits {
            let token = HistoryToken { run_id, position: position.next_event_id - 1, ..HistoryToken::default() };
            response.next_page_token = token.encode_to_vec();
        }
        Ok(response)
    }

    /// Waits until there are events after `after` or the run is closed, if the request asks for it.
    async fn await_events(
        self: &Arc<Self>,
        target: &Target,
        after: i64,
        waits: bool,
        close_only: bool,
        timeout: Option<Duration>,
    ) -> Result<(i64, String, Position), ServiceError> {
        let look = || {
            self.with_run(target, |run, _| {
                let changes = self.notifications.history(&run.state.run_id);
                let position = Position { next_event_id: run.state.next_event_id, closed: !run.state.is_running() };
                Ok((run.number, run.state.run_id.clone(), position, changes))
            })
        };
        let epoch = self.registry.epoch();
        let (number, run_id, mut position, mut changes) = look()?.value();
        let enough = |position: &Position| position.closed || (!close_only && position.next_event_id > after + 1);
        if waits && !enough(&position) {
            let patience = timeout.map_or(TIMEOUT, |timeout| timeout.saturating_sub(TAIL_ROOM).min(TIMEOUT));
            let deadline = Instant::now() + patience;
            while !enough(&position) {
                match tokio::time::timeout_at(deadline, changes.changed()).await {
                    Ok(Ok(())) => position = *changes.borrow_and_update(),
                    Ok(Err(_)) => position = look()?.value().2,
                    Err(_) => break,
                }
            }
        } else {
            // Events in memory may not be committed yet.
            self.written().await?;
            if self.registry.epoch() != epoch {
                return Err(forgotten());
            }
        }
        Ok((number, run_id, position))
    }

    /// Returns when all queued writes can be read.
    async fn written(&self) -> Result<(), ServiceError> {
        self.database.committed().await.map_err(|error| unavailable(&error))
    }

    /// Further pages of the history of a workflow task.
    fn rest_for_worker(
        self: &Arc<Self>,
        target: &Target,
        token: &HistoryToken,
        page_size: i32,
    ) -> Result<GetWorkflowExecutionHistoryResponse, ServiceError> {
        let number = self.with_run(target, |run, _| Ok(run.number))?.value();
        let limit = page_limit(page_size);
        let mut events = self.read(|sql| persist::events_after(sql, number, token.position, limit))?;
        events.retain(|event| event.event_id <= token.until);
        let reached = events.last().map_or(token.until, |event| event.event_id);
        let next_page_token = if reached < token.until {
            HistoryToken { position: reached, ..token.clone() }.encode_to_vec()
        } else {
            events.extend(token.unwritten.iter().cloned());
            Vec::new()
        };
        Ok(GetWorkflowExecutionHistoryResponse {
            history: Some(History { events }),
            next_page_token,
            ..GetWorkflowExecutionHistoryResponse::default()
        })
    }

    pub(super) async fn workflow_history_reverse(
        self: &Arc<Self>,
        request: GetWorkflowExecutionHistoryReverseRequest,
    ) -> Result<GetWorkflowExecutionHistoryReverseResponse, ServiceError> {
        let mut target = checks::target(&self.read_namespaces(), &request.namespace, request.execution)?;
        let token = HistoryToken::read(&request.next_page_token)?;
        if let Some(token) = &token {
            target.run_id.clone_from(&token.run_id);
        }
        let (number, run_id, next) = self
            .with_run(&target, |run, _| Ok((run.number, run.state.run_id.clone(), run.state.next_event_id)))?
            .value();
        self.written().await?;
        let before = token.map_or(next, |token| token.position);
        let limit = page_limit(request.maximum_page_size);
        let events = self.read(|sql| persist::events_before(sql, number, before, limit))?;
        let reached = events.last().map_or(1, |event| event.event_id);
        let next_page_token = if reached > 1 {
            HistoryToken { run_id, position: reached, ..HistoryToken::default() }.encode_to_vec()
        } else {
            Vec::new()
        };
        Ok(GetWorkflowExecutionHistoryReverseResponse { history: Some(History { events }), next_page_token })
    }
}

fn page_limit(asked: i32) -> usize {
    usize::try_from(asked).ok().filter(|asked| *asked > 0).unwrap_or(PAGE_EVENTS).min(PAGE_EVENTS)
}
