//! How a command reaches runs.
//!
//! In this order:
//! 1. the API server that --server names
//! 2. the Temporal server or the Postgres store that is given, directly
//! 3. the `windlass dev` that serves the data directory
//! 4. for commands that start, follow or answer runs: a server inside this process. For other commands: Temporal at its
//!    default address, directly
//!
//! A [`Transport`] is one way to reach runs: `direct` and `server`. Another one is another implementation, chosen in
//! [`Reach::find`] and [`lister`]; commands use the trait and do not know which transport they got.

mod direct;
mod server;

use std::{ops::Deref, path::Path, time::Duration};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use windlass_client::{Lost, Update};
use windlass_core::{
    agent::AgentDefinition,
    approval::{ApprovalRule, ApprovalScope, CallApproval, Grant, OwnRules},
    awaits::AwaitView,
    envelope::{
        Actor, Answer, AnswerReply, Labels, PauseRequest, PolicyOverrides, ResumeRequest, RunStatusView, SteerRequest,
    },
    event::Event,
    ids::{AgentId, CallId, GrantId, RunId, SessionId, ToolName},
    message::Message,
};
use windlass_ops::RunEnd;
use windlass_store::{RunFilter, RunPage, RunRow};

use self::{direct::Direct, server::Server};
use super::{Failure, Global, Output, usage};
use crate::{render::Hint, service::Missing};

/// A list of runs can be read without the rest: from a store alone.
#[async_trait]
pub(crate) trait Lister: Send + Sync {
    /// One page of runs, newest first.
    async fn page(&self, filter: RunFilter) -> Result<RunPage, Failure>;
}

/// One way to reach runs.
#[async_trait]
pub(crate) trait Transport: Lister {
    // --- reading

    /// The run's row. Directly on Temporal, a run that no worker has opened yet has none.
    async fn row(&self, run: &RunId) -> Result<Option<RunRow>, Failure>;

    /// The run's state, if a worker answers.
    async fn live(&self, run: &RunId) -> Result<Option<RunStatusView>, Failure>;

    /// The run's open awaits.
    async fn pending(&self, run: &RunId) -> Result<Vec<AwaitView>, Failure>;

    /// The events after `after` that exist now. Awaits have all their arguments.
    async fn events(&self, run: &RunId, after: u64) -> Result<Vec<Event>, Failure>;

    /// The messages of the run's transcript; how many of them it began with; how many of those came from its session.
    async fn transcript(&self, run: &RunId) -> Result<(Vec<Message>, u64, u64), Failure>;

    /// The events after `after`, and new ones as they are written, until the run ends.
    fn log(&self, run: &RunId, after: u64) -> BoxStream<'static, Result<Update<Event>, Failure>>;

    /// The events of the run and of its child runs, from the first one on.
    async fn feed(&self, run: &RunId) -> Result<Box<dyn Feed>, Failure>;

    /// Returns when the run's workflow has ended: `None` if it completed. A transport that gets the end from the log never
    /// returns.
    async fn ended(&self, run: &RunId) -> Option<RunEnd>;

    /// Why a run without a row did not start, if its workflow has failed.
    async fn start_failure(&self, run: &RunId) -> Option<RunEnd>;

    /// The task queue, if no worker polls it. `None` if a worker does, or if the transport cannot tell.
    async fn unpolled_task_queue(&self) -> Option<String>;

    // --- changing

    async fn start(&self, start: NewRun) -> Result<RunId, Failure>;

    async fn pause(&self, run: &RunId, request: PauseRequest) -> Result<(), Failure>;

    /// Resumes a paused run. The message is for the model.
    async fn resume(&self, run: &RunId, request: ResumeRequest, message: Option<String>) -> Result<(), Failure>;

    async fn steer(&self, run: &RunId, request: SteerRequest) -> Result<(), Failure>;

    async fn cancel(&self, run: &RunId, reason: Option<&str>) -> Result<(), Failure>;

    /// Sends an answer and waits for the run's reply.
    async fn send(&self, run: &RunId, answer: Answer) -> Result<AnswerReply, Failure>;

    /// Sends an answer as a signal, which needs no worker and has no reply.
    async fn signal(&self, run: &RunId, answer: Answer) -> Result<(), Failure>;

    // --- approvals

    /// Grants, the newest first.
    async fn grants(&self, tool: Option<ToolName>, revoked: bool, limit: u32) -> Result<Vec<Grant>, Failure>;

    /// `None` if there is no such grant.
    async fn revoke_grant(&self, grant: &GrantId) -> Result<Option<Grant>, Failure>;

    /// The approval rules of a run or a session.
    async fn rules(&self, owner: &ApprovalScope) -> Result<Option<OwnRules>, Failure>;

    /// Replaces them; `None` removes them. A server knows the actor by the API key instead.
    async fn set_rules(&self, owner: &ApprovalScope, rules: Option<(Vec<ApprovalRule>, Actor)>) -> Result<(), Failure>;

    /// What was decided about a call, and what the rules say of it now; `None` if the run has no such call.
    async fn explain_call(&self, run: &RunId, call: &CallId) -> Result<Option<CallApproval>, Failure>;

    // --- this process

    /// Whether runs make progress only while this command runs.
    fn serves_here(&self) -> bool {
        false
    }

    /// Stops what was started for this command.
    async fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Events of a run and its child runs, in the order in which they happened: a child's events come before the parent's
/// result of it.
#[async_trait]
pub(crate) trait Feed: Send {
    /// Everything new since the last call.
    async fn news(&mut self) -> Result<Vec<News>, Failure>;

    /// Returns when there may be news.
    async fn changed(&mut self);
}

pub(crate) enum News {
    Event(RunEvent),
    /// The server does not respond; the feed tries again.
    ServerLost(Lost),
    ServerBack,
    /// The server did not respond for too long; the feed has ended.
    GaveUp(String),
}

/// An event and the run it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunEvent {
    pub(crate) run: RunId,
    /// 0 for the run that is followed, 1 for its children, …
    pub(crate) depth: usize,
    pub(crate) event: Event,
}

/// A run to start.
#[derive(Debug)]
pub(crate) struct NewRun {
    pub(crate) agent_id: AgentId,
    /// Without it, the worker's own definition of this agent is used.
    pub(crate) definition: Option<AgentDefinition>,
    pub(crate) prompt: String,
    /// Chosen by the transport if it is absent.
    pub(crate) run_id: Option<RunId>,
    pub(crate) session: Option<SessionId>,
    pub(crate) model: Option<String>,
    pub(crate) policy: Option<PolicyOverrides>,
    pub(crate) labels: Labels,
    /// A server knows its caller by the API key instead.
    pub(crate) started_by: Actor,
}

/// How a command presents itself to a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visitor<'a> {
    /// Who acts, for the logs of runs. Empty for commands that only read.
    pub(crate) actor: &'a str,
    /// How long to wait for a server that does not respond.
    pub(crate) give_up_after: Duration,
}

/// The transport of a command, with how it prints.
pub(crate) struct Reach {
    transport: Box<dyn Transport>,
    out: Output,
    hint: Hint,
}

/// A command uses a reach as the transport that it has.
impl Deref for Reach {
    type Target = dyn Transport;

    fn deref(&self) -> &Self::Target {
        &*self.transport
    }
}

impl Reach {
    fn new(global: &Global, transport: Box<dyn Transport>) -> Self {
        Self { transport, out: Output::new(global.json), hint: global.hint() }
    }

    /// For commands that start runs, follow them or answer them. If no server is found, this process serves, with these
    /// scripts.
    pub(crate) async fn open(
        global: &Global,
        missing: Missing,
        visitor: Visitor<'_>,
        scripts: Option<&Path>,
    ) -> Result<Self, Failure> {
        if let Some(found) = Self::find(global, missing, visitor).await? {
            return Ok(found);
        }
        global.store()?.check(missing)?;
        Ok(Self::new(global, Box::new(Server::here(global, visitor, scripts).await?)))
    }

    /// For commands that read, or send a durable request: these do not start a server in this process.
    pub(crate) async fn open_existing(global: &Global, visitor: Visitor<'_>) -> Result<Self, Failure> {
        match Self::find(global, Missing::Refuse, visitor).await? {
            Some(found) => Ok(found),
            None => Self::direct(global, Missing::Refuse).await,
        }
    }

    /// Directly to Temporal and the store.
    pub(crate) async fn direct(global: &Global, missing: Missing) -> Result<Self, Failure> {
        Ok(Self::new(global, Box::new(Direct::open(global, missing).await?)))
    }

    async fn find(global: &Global, missing: Missing, visitor: Visitor<'_>) -> Result<Option<Self>, Failure> {
        if let Some(server) = Server::named(global, visitor)? {
            return Ok(Some(Self::new(global, Box::new(server))));
        }
        // A Postgres store is shared by a cluster, so it is never served from inside a command.
        if global.temporal.is_some() || global.postgres()?.is_some() {
            return Ok(Some(Self::direct(global, missing).await?));
        }
        let server = Server::of_data_dir(global, visitor).await?;
        Ok(server.map(|server| Self::new(global, Box::new(server))))
    }

    pub(crate) fn out(&self) -> Output {
        self.out
    }

    pub(crate) fn hint(&self) -> &Hint {
        &self.hint
    }

    pub(crate) async fn close(self) -> Result<(), Failure> {
        self.transport.close().await
    }
}

/// Whether a `windlass dev` serves the data directory.
pub(crate) async fn serves(global: &Global) -> Result<bool, Failure> {
    let visitor = Visitor { actor: "", give_up_after: Duration::ZERO };
    Ok(Server::of_data_dir(global, visitor).await?.is_some())
}

/// For `runs list`: the server that --server names, else the store. The store can be read while no server runs.
pub(crate) async fn lister(global: &Global, all_workspaces: bool) -> Result<Box<dyn Lister>, Failure> {
    match Server::named(global, Visitor { actor: "", give_up_after: Duration::ZERO })? {
        Some(_) if all_workspaces => Err(usage(
            "an API key is valid for one workspace: remove --all-workspaces, or remove --server to read the store",
        )),
        Some(server) => Ok(Box::new(server)),
        None => Ok(Box::new(global.open_store(Missing::Refuse).await?.port())),
    }
}
