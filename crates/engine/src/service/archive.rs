//! Archives: what a sweep writes before it removes closed runs, and requests that read it.

use std::{path::PathBuf, sync::Arc};

use prost::Message as _;
use temporalio_protos::temporal::api::{
    history::v1::History,
    workflowservice::v1::{
        GetWorkflowExecutionHistoryResponse, ListArchivedWorkflowExecutionsRequest,
        ListArchivedWorkflowExecutionsResponse,
    },
};

use crate::{
    archive::{self, Archiving, Line},
    core::{Core, Target},
    namespaces::Archives as _,
    persist::{self, NamespaceRecord},
    service_error::ServiceError,
    token::HistoryToken,
    visibility::sql::{self, VisibilityRow},
};

/// Whether a sweep had as many runs as it may remove at once, so that there may be more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swept {
    Whole,
    Rest,
}

impl Core {
    /// Removes closed runs whose retention has passed. They are archived first, if the namespace asks for it; a run
    /// that cannot be archived is not removed.
    pub(crate) async fn sweep(
        self: &Arc<Self>,
        namespace: &NamespaceRecord,
        at_once: usize,
    ) -> Result<Swept, ServiceError> {
        let before = self.now() - namespace.retention;
        let expired = self.read(|sql| persist::expired(sql, &namespace.name, before, at_once))?;
        let mut removed = 0;
        if !self.archived(namespace, &expired).await {
            return Ok(Swept::Rest);
        }
        for row in &expired {
            let target = Target::new(&namespace.name, &row.workflow_id, &row.run_id);
            match self.delete(&target).await {
                Ok(()) => removed += 1,
                Err(error) => {
                    let workflow_id = &row.workflow_id;
                    tracing::warn!(%error, workflow_id, "an expired run could not be deleted; it is tried again at the next sweep");
                }
            }
        }
        Ok(if removed > 0 && expired.len() == at_once { Swept::Whole } else { Swept::Rest })
    }

    /// Writes the archive of these runs. Returns whether they may be removed.
    async fn archived(self: &Arc<Self>, namespace: &NamespaceRecord, rows: &[VisibilityRow]) -> bool {
        let (history, list) = (&namespace.history_archival, &namespace.visibility_archival);
        if rows.is_empty() || !(history.enabled || list.enabled) {
            return true;
        }
        let mut places: Vec<(PathBuf, bool)> = Vec::new();
        for (config, with_history) in [(history, true), (list, false)] {
            let allowed = config.enabled && self.archive.check(&config.uri).is_ok();
            match archive::place(&config.uri, namespace).filter(|_| allowed) {
                Some(place) if places.iter().all(|(known, _)| *known != place) => places.push((place, with_history)),
                Some(_) => {}
                None if config.enabled => {
                    let (namespace, uri) = (&namespace.name, &config.uri);
                    tracing::error!(
                        namespace,
                        uri,
                        "archival is enabled, and the engine has no such directory for archives; expired runs are kept"
                    );
                    return false;
                }
                None => {}
            }
        }
        let core = Arc::clone(self);
        let (namespace, rows) = (namespace.clone(), rows.to_vec());
        let written = tokio::task::spawn_blocking(move || {
            for (directory, with_history) in places {
                let lines = rows.iter().map(|row| core.line(&namespace, row, with_history));
                let lines: Vec<Line> = lines.collect::<Result<_, _>>()?;
                archive::append(&Archiving { directory, lines })
                    .map_err(|error| ServiceError::Unavailable(format!("the archive cannot be written: {error}")))?;
            }
            Ok::<_, ServiceError>(())
        });
        match written.await {
            Ok(Ok(())) => true,
            failed => {
                tracing::error!(
                    ?failed,
                    "expired runs could not be archived, so they are kept; it is tried again at the next sweep"
                );
                false
            }
        }
    }

    fn line(&self, namespace: &NamespaceRecord, row: &VisibilityRow, with_history: bool) -> Result<Line, ServiceError> {
        let events = match with_history {
            true => Some(self.read(|sql| persist::events_after(sql, row.run, 0, usize::MAX))?),
            false => None,
        };
        archive::written(row, &namespace.id, events)
            .map_err(|error| ServiceError::Internal(format!("run {} cannot be archived: {error}", row.run_id)))
    }

    pub(super) async fn list_archived_workflows(
        self: &Arc<Self>,
        request: ListArchivedWorkflowExecutionsRequest,
    ) -> Result<ListArchivedWorkflowExecutionsResponse, ServiceError> {
        let most = self.limits.archived_page;
        let size = match usize::try_from(request.page_size) {
            Ok(size) if size > most => {
                return Err(ServiceError::invalid(format!("PageSize is larger than allowed {most}.")));
            }
            Ok(size) if size > 0 => size,
            _ => most,
        };
        let namespace = self.read_namespaces().named(&request.namespace)?.clone();
        if self.archive.default_uri().is_none() {
            return Err(ServiceError::invalid("Cluster is not configured for visibility archival."));
        }
        if !namespace.visibility_archival.enabled {
            return Err(ServiceError::invalid("Namespace is not configured for visibility archival."));
        }
        let query = self.filter(&namespace.name, &request.query)?;
        let attributes = self.read_namespaces().attributes(&namespace.name);
        let uri = &namespace.visibility_archival.uri;
        let Some(directory) = archive::place(uri, &namespace) else {
            return Err(ServiceError::invalid("URI is invalid"));
        };
        let token = request.next_page_token;
        let listed = tokio::task::spawn_blocking(move || {
            archive::list(&directory, &namespace.name, &query, &attributes, size, &token)
        });
        let page = listed.await.map_err(|error| ServiceError::Internal(error.to_string()))?;
        let page = page.map_err(|error| match error {
            sql::Error::Refused(error) => error,
            sql::Error::Database(error) => ServiceError::Internal(error.to_string()),
        })?;
        let (executions, next_page_token) = self.shown(&request.namespace, page);
        Ok(ListArchivedWorkflowExecutionsResponse { executions, next_page_token })
    }

    /// A page of the archived history of a run that is not there any more; `None` if the namespace has no archive.
    pub(super) async fn archived_history(
        &self,
        target: Target,
        after: i64,
        limit: usize,
    ) -> Result<Option<GetWorkflowExecutionHistoryResponse>, ServiceError> {
        let namespace = self.read_namespaces().named(&target.namespace)?.clone();
        let attributes = self.read_namespaces().attributes(&target.namespace);
        let Some(directory) = archive::place(&namespace.history_archival.uri, &namespace) else { return Ok(None) };
        let run_id = target.run_id.clone();
        let found = tokio::task::spawn_blocking(move || {
            archive::find(&directory, &target.workflow_id, &target.run_id, &attributes)
        });
        let found = found.await.map_err(|error| ServiceError::Internal(error.to_string()))?;
        let found = found.map_err(|error| ServiceError::Internal(format!("the archive cannot be read: {error}")))?;
        let Some(events) = found.and_then(|archived| archived.events) else {
            return Err(ServiceError::not_found("requested workflow history does not exist"));
        };
        let mut events: Vec<_> = events.into_iter().filter(|event| event.event_id > after).collect();
        let more = events.len() > limit;
        events.truncate(limit);
        let position = events.last().map_or(after, |event| event.event_id);
        let token = HistoryToken { run_id, position, ..HistoryToken::default() };
        Ok(Some(GetWorkflowExecutionHistoryResponse {
            history: Some(History { events }),
            next_page_token: if more { token.encode_to_vec() } else { Vec::new() },
            archived: true,
            ..GetWorkflowExecutionHistoryResponse::default()
        }))
    }
}
