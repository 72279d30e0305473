//! The API as a component: options in, a service that runs until it is told to stop, a handle to it.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread::available_parallelism,
    time::{Duration, Instant},
};

use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{AgentDefinition, ToolKind, ToolSpec},
    time::Millis,
};
use windlass_ops::RunOps;
use windlass_store::Clock;

use crate::{
    app::App,
    connections,
    models::Catalogue,
    rate::{Limiter, Rates},
    routes,
    spec::add_default_budgets,
};

/// What a server offers and how much of it.
#[derive(Clone)]
pub struct Options {
    pub ops: RunOps,
    pub models: Catalogue,
    /// Agents that callers may name.
    pub agents: Vec<AgentDefinition>,
    /// Tools that callers may name.
    pub builtins: Vec<ToolSpec>,
    /// Without rates nothing is limited.
    pub rates: Option<Rates>,
    pub limits: Limits,
    pub clock: Clock,
}

/// How much one caller, one connection and all of them together may take up.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long a caller may take for one call of its own tools.
    pub local_tool_timeout: Millis,
    /// Further ones wait in the listener's backlog.
    pub connections: usize,
    /// Requests at work at a time; streams do not count.
    pub requests: usize,
    /// For the head of a request, from the first byte on an idle connection.
    pub head_timeout: Duration,
    /// For the body of a request.
    pub body_timeout: Duration,
    /// How often a silent stream shows that it is alive.
    pub keep_alive: Duration,
    /// How long a worker may take to judge an answer.
    pub judged_within: Duration,
    /// How often the API server looks for runs that were closed on the server without a last event, and for accepted runs
    /// without a workflow.
    pub overruled_every: Duration,
    /// How long the start of an accepted run may take before it is taken for abandoned.
    pub start_grace: Millis,
    /// How long requests may go on after a stop was asked for.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            local_tool_timeout: Millis::from_secs(300),
            connections: 20_000,
            requests: 512,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            judged_within: Duration::from_secs(10),
            overruled_every: Duration::from_secs(5),
            start_grace: Millis::from_secs(5),
            grace: Duration::from_secs(5),
        }
    }
}

/// A server ready to run.
pub struct Service {
    listener: TcpListener,
    app: Arc<App>,
}

/// The way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    pub address: SocketAddr,
}

impl Service {
    pub fn new(listener: TcpListener, options: Options) -> io::Result<(Self, Handle)> {
        let address = listener.local_addr()?;
        let Options { ops, models, agents, builtins, rates, limits, clock } = options;
        let app = App {
            ops,
            models,
            agents: agents.into_iter().map(|agent| offered(agent, &builtins)).collect(),
            builtins,
            room: Arc::new(Semaphore::new(limits.requests)),
            heavy: Semaphore::new(available_parallelism().map_or(2, usize::from).clamp(2, 8)),
            limits,
            draining: CancellationToken::new(),
            tails: Arc::default(),
            rates,
            limiter: Mutex::new(Limiter::default()),
            began: Instant::now(),
            readiness: routes::Readiness::default(),
            clock,
        };
        Ok((Self { listener, app: Arc::new(app) }, Handle { address }))
    }

    /// Serves until the token fires. Then live streams are dropped between two frames, so that their readers reconnect
    /// to whoever serves next, and requests end within the grace.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { listener, app } = self;
        let drained = {
            let app = Arc::clone(&app);
            async move {
                shutdown.cancelled().await;
                app.draining.cancel();
            }
        };
        let router = routes::router(Arc::clone(&app));
        let Limits { overruled_every: every, start_grace, .. } = app.limits;
        let mend = async {
            tokio::join!(
                app.ops.end_overruled_runs(every, app.clock.clone()),
                app.ops.finish_starts(every, start_grace, app.clock.clone()),
                app.ops.end_deleted_runs(every),
            )
        };
        let mended = app.draining.run_until_cancelled(Box::pin(mend));
        let ((), (), _) = tokio::join!(connections::serve(listener, router, &app), drained, mended);
    }
}

/// A configured agent as callers start it: with the timeouts of this server's tools and the protocol's default budgets, so
/// that a caller who asks for more than these does not get it.
fn offered(mut agent: AgentDefinition, builtins: &[ToolSpec]) -> AgentDefinition {
    add_default_budgets(&mut agent);
    for tool in agent.tools.iter_mut().filter(|tool| tool.kind == ToolKind::Builtin) {
        let own = builtins.iter().find(|builtin| builtin.name == tool.name).and_then(|builtin| builtin.timeout_ms);
        tool.timeout_ms = tool.timeout_ms.or(own);
    }
    agent
}
