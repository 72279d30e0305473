//! The API server as a component: options, the service, and a handle with its address.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread::available_parallelism,
    time::{Duration, Instant},
};

use http::Uri;
use tokio::{
    net::TcpListener,
    sync::{OnceCell, Semaphore},
};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{AgentDefinition, ToolSource, ToolSpec},
    approval::ApprovalRule,
    time::Millis,
};
use windlass_ops::RunOps;
use windlass_store::{Clock, Vault};

use crate::{
    app::App,
    connections,
    models::Catalogue,
    rate::{Limiter, Rates},
    routes,
    spec::add_default_budgets,
};

/// Says whether notifications may be sent to an address, as far as its form tells.
pub type AddressCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// What the API server offers, and its limits.
#[derive(Clone)]
pub struct Options {
    pub ops: RunOps,
    pub models: Catalogue,
    /// Agents that callers may name.
    pub agents: Vec<AgentDefinition>,
    /// The operator's approval rules for all agents, to explain decisions with. Workers apply them.
    pub approvals: Vec<ApprovalRule>,
    /// Tools that callers may name.
    pub builtins: Vec<ToolSpec>,
    /// Keeps the secrets that arrive in specs. Without it such specs are refused.
    pub vault: Option<Vault>,
    /// Without rates there are no rate limits.
    pub rates: Option<Rates>,
    pub limits: Limits,
    pub clock: Clock,
    /// The rule for addresses that callers want notifications at. The worker that sends them has the last word.
    pub check_receiver: AddressCheck,
    /// The address of this server in agent cards, if it is not the one that requests are sent to: behind a proxy.
    pub public_url: Option<Uri>,
    /// Whether agent cards are shown without a key.
    pub public_cards: bool,
}

/// The limits of requests, connections and timeouts.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The timeout of a call of a local tool.
    pub local_tool_timeout: Millis,
    /// The number of connections; further ones wait in the listener's backlog.
    pub connections: usize,
    /// The number of concurrent requests, without streams.
    pub requests: usize,
    /// The timeout for the head of a request, from its first byte.
    pub head_timeout: Duration,
    /// The timeout for the body of a request.
    pub body_timeout: Duration,
    /// The interval of keep-alive comments on silent streams.
    pub keep_alive: Duration,
    /// How long a request waits for a worker's reply to an answer or a tool result.
    pub worker_reply_timeout: Duration,
    /// How long a message to an agent waits for the end of its task, unless the client asks for an immediate response.
    pub blocking_send: Duration,
    /// How often the API server looks for runs whose workflows were closed without a terminal event, and for accepted runs
    /// without a workflow.
    pub repair_interval: Duration,
    /// How long the start of an accepted run may take before another API server repeats it.
    pub start_grace: Millis,
    /// How long requests may continue after the shutdown began.
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
            worker_reply_timeout: Duration::from_secs(10),
            blocking_send: Duration::from_secs(300),
            repair_interval: Duration::from_secs(5),
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

/// A handle to the running service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    pub address: SocketAddr,
}

impl Service {
    pub fn new(listener: TcpListener, options: Options) -> io::Result<(Self, Handle)> {
        let address = listener.local_addr()?;
        let Options {
            ops,
            models,
            agents,
            approvals,
            builtins,
            vault,
            rates,
            limits,
            clock,
            check_receiver,
            public_url,
            public_cards,
        } = options;
        let app = App {
            ops,
            models: Arc::new(models),
            agents: agents.into_iter().map(|agent| offered(agent, &builtins)).collect(),
            approvals,
            builtins,
            vault,
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
            mcp_key: OnceCell::new(),
            check_receiver,
            public_url,
            public_cards,
        };
        Ok((Self { listener, app: Arc::new(app) }, Handle { address }))
    }

    /// Serves until the token is cancelled. Then live streams are cut off between two frames, so that their readers reconnect
    /// to another server, and requests must end within the grace.
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
        let Limits { repair_interval: every, start_grace, .. } = app.limits;
        let mend = async {
            tokio::join!(
                app.ops.end_externally_closed_runs(every, app.clock.clone()),
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
    for tool in agent.tools.iter_mut().filter(|tool| tool.source == ToolSource::Builtin) {
        let own = builtins.iter().find(|builtin| builtin.name == tool.name).and_then(|builtin| builtin.timeout_ms);
        tool.timeout_ms = tool.timeout_ms.or(own);
    }
    agent
}
