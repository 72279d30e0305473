//! What every request works with.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use windlass_core::agent::{AgentDefinition, ToolSpec};
use windlass_ops::RunOps;
use windlass_store::{Clock, Store};

use crate::{
    auth::Caller,
    models::Catalogue,
    rate::{Allowance, Bucket, Limiter, Rates},
    service::Limits,
    spec::{Surroundings, Toolbox},
    tails::Tails,
};

pub(crate) struct App {
    pub(crate) ops: RunOps,
    pub(crate) models: Catalogue,
    pub(crate) agents: Vec<AgentDefinition>,
    pub(crate) builtins: Vec<ToolSpec>,
    pub(crate) limits: Limits,
    /// Requests at work; streams do not count.
    pub(crate) room: Arc<Semaphore>,
    /// Fires when this process is about to end: live streams are cut off so that their readers go elsewhere.
    pub(crate) draining: CancellationToken,
    pub(crate) tails: Arc<Tails>,
    pub(crate) rates: Option<Rates>,
    pub(crate) limiter: Mutex<Limiter>,
    pub(crate) began: Instant,
    pub(crate) clock: Clock,
}

impl App {
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
