//! One authenticated request to one agent.

use std::sync::Arc;

use a2a::A2AError;
use axum::response::Response;
use http::{HeaderMap, Uri};
use tokio::sync::SemaphorePermit;
use windlass_core::{agent::AgentDefinition, row::RunRow};

use super::error::{Refusal, Result};
use crate::{
    app::App,
    auth::{Caller, Scope},
    error::ApiError,
    guard,
    query::Query,
    rate::{Allowance, Bucket},
    routes::runs,
};

/// The header, or the query parameter, with the version of the protocol.
const VERSION: &str = "A2A-Version";

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V0_3,
    V1_0,
}

impl Version {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V0_3 => super::v03::VERSION,
            Self::V1_0 => "1.0",
        }
    }

    /// A request without a version is one of 0.3.
    pub(crate) fn of(headers: &HeaderMap, uri: &Uri) -> std::result::Result<Self, A2AError> {
        let query = Query::of(uri);
        let header = headers.get(VERSION).map(|value| value.to_str().unwrap_or("?").trim());
        match header.filter(|version| !version.is_empty()).or_else(|| query.get(VERSION)) {
            None | Some("0.3") => Ok(Self::V0_3),
            Some("1.0") => Ok(Self::V1_0),
            Some(other) => {
                let shown: String = other.chars().take(16).collect();
                let message = format!("this server has A2A 1.0 and 0.3, not {shown:?}; send `{VERSION}: 1.0`");
                Err(A2AError::new(a2a::error_code::VERSION_NOT_SUPPORTED, message))
            }
        }
    }
}

/// A caller and the agent it asks.
pub(crate) struct Visit {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) agent: AgentDefinition,
    /// Of the request, and of the notifications that it asks for.
    pub(crate) version: Version,
    /// The state of the rate limit that the operation counts against.
    allowance: Option<(Bucket, Allowance)>,
}

impl Visit {
    /// Checks the key. An agent that the key may not start does not exist for it.
    pub(crate) async fn of(app: Arc<App>, headers: &HeaderMap, slug: &str, agent: &str) -> Result<Self> {
        let caller = guard::caller_in(&app, headers, slug).await.map_err(Refusal::Http)?;
        let agent = agents_of(&app, &caller).find(|known| known.id.as_str() == agent).cloned();
        let agent = agent.ok_or_else(|| Refusal::Http(ApiError::not_found("agent")))?;
        Ok(Self::with(app, caller, agent))
    }

    /// A caller whose key was checked, and an agent that it may start.
    pub(crate) fn with(app: Arc<App>, caller: Caller, agent: AgentDefinition) -> Self {
        tracing::Span::current().record("key", &caller.key_id);
        Self { app, caller, agent, version: Version::V1_0, allowance: None }
    }

    /// Checks the scope and the rate limit of an operation.
    pub(crate) fn admit(&mut self, scope: Option<Scope>, bucket: Bucket) -> Result<()> {
        if let Some(scope) = scope {
            self.caller.require(scope)?;
        }
        let Some(allowance) = self.app.take(&self.caller.key_id, bucket) else { return Ok(()) };
        self.allowance = Some((bucket, allowance));
        if allowance.allowed { Ok(()) } else { Err(Refusal::Http(guard::too_often(bucket, allowance))) }
    }

    /// A permit for work on a request; waiting and streaming need none.
    pub(crate) fn place(&self) -> Result<Option<SemaphorePermit<'_>>> {
        guard::place(&self.app, Bucket::Reads).map_err(Refusal::Http)
    }

    /// Adds the state of the rate limit to the response.
    pub(crate) fn tell(&self, mut response: Response) -> Response {
        if let Some((bucket, allowance)) = self.allowance {
            guard::tell(response.headers_mut(), bucket, allowance);
        }
        response
    }

    /// The run of a task of this agent. Runs of other agents, and child runs, are not its tasks.
    pub(crate) async fn task(&self, id: &str) -> Result<RunRow> {
        let own = |row: &RunRow| row.agent_id == self.agent.id && row.parent.is_none();
        let row = runs::find(&self.app, &self.caller, id).await?;
        if own(&row) { Ok(row) } else { Err(A2AError::task_not_found(id).into()) }
    }
}

/// The agents that a caller may start.
pub(crate) fn agents_of<'a>(app: &'a App, caller: &'a Caller) -> impl Iterator<Item = &'a AgentDefinition> + Clone {
    app.agents.iter().filter(|agent| caller.may_use(Some(&agent.id)))
}
