//! The state that all requests share.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use http::Uri;
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{AgentDefinition, ToolSpec},
    approval::ApprovalRule,
};
use windlass_ops::RunOps;
use windlass_store::{Clock, Store, Vault};

use crate::{
    auth::Caller,
    error::{ApiError, Result},
    mcp::StateKey,
    models::Catalogue,
    rate::{Allowance, Bucket, Limiter, Rates},
    routes::Readiness,
    service::{AddressCheck, Limits},
    spec::{Surroundings, Toolbox},
    tails::Tails,
};

pub(crate) struct App {
    pub(crate) ops: RunOps,
    pub(crate) models: Arc<Catalogue>,
    pub(crate) agents: Vec<AgentDefinition>,
    /// The operator's rules for all agents, to explain decisions with.
    pub(crate) approvals: Vec<ApprovalRule>,
    pub(crate) builtins: Vec<ToolSpec>,
    pub(crate) vault: Option<Vault>,
    pub(crate) limits: Limits,
    /// Permits for concurrent requests; streams need none.
    pub(crate) room: Arc<Semaphore>,
    /// Permits for parsing large bodies.
    pub(crate) heavy: Semaphore,
    /// Cancelled when this process shuts down: live streams are cut off, so that their readers reconnect to another server.
    pub(crate) draining: CancellationToken,
    pub(crate) tails: Arc<Tails>,
    pub(crate) rates: Option<Rates>,
    pub(crate) limiter: Mutex<Limiter>,
    pub(crate) began: Instant,
    pub(crate) readiness: Readiness,
    pub(crate) clock: Clock,
    /// Authenticates what MCP clients keep for the server; read from the store when it is first needed.
    pub(crate) mcp_key: OnceCell<Arc<StateKey>>,
    pub(crate) check_receiver: AddressCheck,
    pub(crate) public_url: Option<Uri>,
    pub(crate) public_cards: bool,
}

/// The size up to which a body is parsed on the thread that serves the request.
const LIGHT: usize = 4 * 1024;

impl App {
    /// Runs work whose cost depends on a caller's body: small bodies here, larger ones on a blocking thread.
    pub(crate) async fn apart<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        if bytes <= LIGHT {
            return Ok(work());
        }
        let busy = |_| ApiError::unavailable("the server is about to end; try again");
        let place = self.heavy.acquire().await.map_err(busy)?;
        let done = tokio::task::spawn_blocking(work).await;
        drop(place);
        done.map_err(|error| ApiError::internal(&error))
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.ops.store()
    }

    /// Operating runs of the caller's workspace.
    pub(crate) fn ops_for(&self, caller: &Caller) -> RunOps {
        self.ops.in_workspace(caller.workspace.clone())
    }

    pub(crate) fn around<'a>(&'a self, caller: &'a Caller) -> Surroundings<'a> {
        Surroundings {
            models: &self.models,
            agents: &self.agents,
            toolbox: Toolbox { builtins: &self.builtins, local_tool_timeout: self.limits.local_tool_timeout },
            bound_to: caller.agents.as_deref(),
        }
    }

    /// `None` when nothing is limited.
    pub(crate) fn take(&self, key: &str, bucket: Bucket) -> Option<Allowance> {
        let rates = self.rates.as_ref()?;
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        Some(limiter.take(rates, key, bucket, self.began.elapsed()))
    }
}
