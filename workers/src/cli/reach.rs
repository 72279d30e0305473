//! The way to runs, by one rule: the server that was named, else the cluster that was named, else a `windlass dev` on the
//! data directory, else a server inside this process or, for whoever only looks or sends a word, Temporal at its usual
//! address.
//!
//! What a command asks of runs is here in both ways, so that the commands themselves do not know which one was taken.

use std::{path::Path, time::Duration};

use futures_util::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use windlass_client::{Address, Client, Error, Options, Transcript, Update};
use windlass_core::{
    awaits::AwaitView,
    envelope::{Answer, AnswerReply, PauseRequest, ResumeRequest, RunStatusView, SteerRequest},
    event::Event,
    ids::RunId,
    message::Message,
};
use windlass_ops::OpsError;
use windlass_store::{RunFilter, RunRow};

use super::{
    Failure, Global, Output,
    context::{Context, Missing, look_for_store},
    runs,
};
use crate::{
    dev::{Here, address_of},
    render::Hint,
};

/// How runs are reached.
pub(crate) enum Reach {
    /// Straight to Temporal and the store: an operator's way.
    Direct(Context),
    /// Over a server's API.
    Server(Remote),
}

pub(crate) struct Remote {
    pub(crate) client: Client,
    out: Output,
    hint: Hint,
    /// The server, if it is in this process.
    here: Option<Here>,
}

/// Who comes to a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visitor<'a> {
    /// Who acts, for the logs of runs; empty if nobody does.
    pub(crate) actor: &'a str,
    /// How long a server may be away.
    pub(crate) give_up_after: Duration,
}

impl Visitor<'_> {
    fn options(self, global: &Global, address: Address) -> Options {
        let Address { base_url, api_key } = address;
        let options = Options::new(base_url, api_key, global.workspace.as_str()).give_up_after(self.give_up_after);
        if self.actor.is_empty() { options } else { options.actor(self.actor) }
    }
}

impl Remote {
    fn of(global: &Global, options: Options, here: Option<Here>) -> Result<Self, Error> {
        Ok(Self { client: Client::new(options)?, out: Output::new(global.json), hint: global.hint(), here })
    }

    /// The server that was named, if one was.
    pub(crate) fn named(global: &Global, visitor: Visitor<'_>) -> Result<Option<Self>, Failure> {
        let Some(url) = &global.server else { return Ok(None) };
        let address = Address { base_url: url.clone(), api_key: global.server_key()? };
        Ok(Some(Self::of(global, visitor.options(global, address), None)?))
    }

    /// The `windlass dev` of the data directory, if one answers. It may come back at another address.
    async fn of_data_dir(global: &Global, visitor: Visitor<'_>) -> Result<Option<Self>, Failure> {
        let Some(address) = address_of(&global.data_dir) else { return Ok(None) };
        let data_dir = global.data_dir.clone();
        let options = visitor.options(global, address).address_lookup(move || address_of(&data_dir));
        let remote = Self::of(global, options, None)?;
        match remote.client.identity().await {
            Ok(_) => Ok(Some(remote)),
            // It was killed.
            Err(Error::Unreachable { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Reach {
    /// For commands that start runs, follow them or answer them: where no server is up, this process serves, with these
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
        look_for_store(global, missing)?;
        let here = Box::pin(Here::start(global, scripts)).await?;
        let address = Address { base_url: here.url.clone(), api_key: here.key.clone() };
        Ok(Self::Server(Remote::of(global, visitor.options(global, address), Some(here))?))
    }

    /// For whoever looks, or sends a word that is durable: that must not make runs go on which nobody serves.
    pub(crate) async fn open_existing(global: &Global, visitor: Visitor<'_>) -> Result<Self, Failure> {
        match Self::find(global, Missing::Refuse, visitor).await? {
            Some(found) => Ok(found),
            None => Ok(Self::Direct(Context::open(global, Missing::Refuse).await?)),
        }
    }

    async fn find(global: &Global, missing: Missing, visitor: Visitor<'_>) -> Result<Option<Self>, Failure> {
        if let Some(remote) = Remote::named(global, visitor)? {
            return Ok(Some(Self::Server(remote)));
        }
        // A Postgres store is a cluster's, too.
        if global.temporal.is_some() || global.postgres()?.is_some() {
            return Ok(Some(Self::Direct(Context::open(global, missing).await?)));
        }
        Ok(Remote::of_data_dir(global, visitor).await?.map(Self::Server))
    }

    pub(crate) fn out(&self) -> Output {
        match self {
            Self::Direct(context) => context.out,
            Self::Server(remote) => remote.out,
        }
    }

    pub(crate) fn hint(&self) -> &Hint {
        match self {
            Self::Direct(context) => &context.hint,
            Self::Server(remote) => &remote.hint,
        }
    }

    /// Whether runs stop when this command does.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Self::Server(Remote { here: Some(_), .. }))
    }

    /// Lets go of what was started for this command.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        match self {
            Self::Server(Remote { here: Some(here), .. }) => Box::pin(here.stop()).await,
            Self::Server(_) | Self::Direct(_) => Ok(()),
        }
    }

    // --- looking

    /// The run's row. Straight on a cluster, a run that no worker has opened yet has none.
    pub(crate) async fn row(&self, run: &RunId) -> Result<Option<RunRow>, Failure> {
        match self {
            Self::Direct(context) => context.row(run).await,
            Self::Server(remote) => Ok(Some(remote.client.row(run).await?)),
        }
    }

    /// What the run's workflow says, if a worker answers.
    pub(crate) async fn live(&self, run: &RunId) -> Result<Option<RunStatusView>, Failure> {
        match self {
            Self::Direct(context) => Ok(begun(context.ops.live(run).await)?.flatten()),
            Self::Server(remote) => Ok(remote.client.look(run).await?.live),
        }
    }

    /// What the run waits for.
    pub(crate) async fn pending(&self, run: &RunId) -> Result<Vec<AwaitView>, Failure> {
        match self {
            Self::Direct(context) => Ok(begun(context.ops.pending(run).await)?.unwrap_or_default()),
            Self::Server(remote) => Ok(remote.client.awaits(run).await?),
        }
    }

    /// The runs below a run, the newest first.
    pub(crate) async fn children(&self, run: &RunId) -> Result<Vec<RunRow>, Failure> {
        match self {
            Self::Direct(context) => {
                let below = RunFilter { parent: Some(run.clone()), ..RunFilter::default() };
                Ok(context.store().runs(below).await?.runs)
            }
            Self::Server(remote) => {
                let below = windlass_client::RunFilter { parent_run_id: Some(run.clone()), ..Default::default() };
                Ok(remote.client.rows(&below).await?.rows)
            }
        }
    }

    /// The run's log after `after`, as far as it reaches by now; awaits come with all arguments.
    pub(crate) async fn events(&self, run: &RunId, after: u64) -> Result<Vec<Event>, Failure> {
        match self {
            Self::Direct(context) => context.events(run, after).await,
            Self::Server(remote) => Ok(remote.client.log_so_far(run, after).await?),
        }
    }

    /// The messages of the run's conversation; how many it began with, and how many of those were its session's.
    pub(crate) async fn transcript(&self, run: &RunId) -> Result<(Vec<Message>, u64, u64), Failure> {
        match self {
            Self::Direct(context) => context.transcript(run).await,
            Self::Server(remote) => {
                let Transcript { messages, opening, earlier, .. } = remote.client.transcript(run).await?;
                Ok((messages, opening, earlier))
            }
        }
    }

    /// The run's log after `after`, and whatever is appended to it, until the run has ended.
    pub(crate) fn log(&self, run: &RunId, after: u64) -> BoxStream<'static, Result<Update<Event>, Failure>> {
        match self {
            Self::Direct(context) => context.log(run, after).map_ok(Update::Event).boxed(),
            Self::Server(remote) => remote.client.log(run, after).map_err(Failure::from).boxed(),
        }
    }

    // --- sending

    pub(crate) async fn pause(&self, run: &RunId, request: PauseRequest) -> Result<(), Failure> {
        match self {
            Self::Direct(context) => context.ops.pause(run, &request).await?,
            Self::Server(remote) => remote.client.pause(run, &request.reason).await?,
        }
        Ok(())
    }

    /// Lets a paused run go on, and says something to the model before it does.
    pub(crate) async fn resume(
        &self,
        run: &RunId,
        request: ResumeRequest,
        message: Option<String>,
    ) -> Result<(), Failure> {
        match (self, message) {
            (Self::Direct(context), message) => {
                let messages = message.map(Message::user).into_iter().collect();
                context.ops.resume(run, &ResumeRequest { messages, ..request }).await?;
            }
            (Self::Server(remote), None) => remote.client.resume(run, &request.notes).await?,
            (Self::Server(remote), Some(message)) => remote.client.resume_with(run, &request.notes, &message).await?,
        }
        Ok(())
    }

    pub(crate) async fn steer(&self, run: &RunId, request: SteerRequest) -> Result<(), Failure> {
        match self {
            Self::Direct(context) => context.ops.steer(run, &request).await?,
            Self::Server(remote) => remote.client.steer(run, &request.text).await?,
        }
        Ok(())
    }

    /// Stops a run for good. A server that is told no reason says whose key it was.
    pub(crate) async fn cancel(&self, run: &RunId, reason: Option<&str>) -> Result<(), Failure> {
        match (self, reason) {
            (Self::Direct(context), reason) => {
                context.ops.cancel(run, reason.unwrap_or("cancelled by an operator")).await?;
            }
            (Self::Server(remote), None) => remote.client.cancel(run).await?,
            (Self::Server(remote), Some(reason)) => remote.client.cancel_because(run, reason).await?,
        }
        Ok(())
    }

    /// Sends an answer and waits for the run's reply.
    pub(crate) async fn send(&self, run: &RunId, answer: &Answer) -> Result<AnswerReply, Failure> {
        match self {
            Self::Direct(context) => runs::send(context, run, answer).await,
            Self::Server(remote) => Ok(remote.client.submit(run, &answer.await_id, &answer.body).await?),
        }
    }
}

/// What a run's workflow said; nothing if it was not started yet.
fn begun<T>(said: Result<T, OpsError>) -> Result<Option<T>, OpsError> {
    match said {
        Err(OpsError::NotFound { .. }) => Ok(None),
        said => said.map(Some),
    }
}
