//! The way to runs, by one rule: the server that was named, else the cluster that was named, else a `windlass dev` on the
//! data directory, else a server inside this process.

use std::time::Duration;

use secrecy::SecretString;
use windlass_client::{Client, Error, Options};
use windlass_core::{
    envelope::{Answer, AnswerBody, AnswerReply, AnswerStatus},
    ids::RunId,
};

use super::{
    Failure, Global, Output,
    context::{Context, Missing, look_for_store},
    runs,
};
use crate::{
    dev::{Address, Here},
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

impl Reach {
    /// `actor` is who acts; `give_up_after` is how long a server may be away.
    pub(crate) async fn open(
        global: &Global,
        missing: Missing,
        actor: &str,
        give_up_after: Duration,
    ) -> Result<Self, Failure> {
        let connect = |url: &str, key: SecretString| {
            let options = Options::new(url, key, global.workspace.as_str()).give_up_after(give_up_after);
            Client::new(if actor.is_empty() { options } else { options.actor(actor) })
        };
        let remote =
            |client, here| Self::Server(Remote { client, out: Output::new(global.json), hint: global.hint(), here });
        if let Some(url) = &global.server {
            return Ok(remote(connect(url, global.server_key()?)?, None));
        }
        // A Postgres store is a cluster's, too.
        if global.temporal.is_some() || global.postgres()?.is_some() {
            return Ok(Self::Direct(Context::open(global, missing).await?));
        }
        if let Some(Address { api, api_key }) = Address::read(&global.data_dir) {
            let client = connect(&api, api_key)?;
            match client.identity().await {
                Ok(_) => return Ok(remote(client, None)),
                // It was killed.
                Err(Error::Unreachable { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        look_for_store(global, missing)?;
        let here = Box::pin(Here::start(global)).await?;
        let client = connect(&here.url, here.key.clone())?;
        Ok(remote(client, Some(here)))
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

    /// Sends an answer and waits for the run's reply.
    pub(crate) async fn send(&self, run: &RunId, answer: &Answer) -> Result<AnswerReply, Failure> {
        match self {
            Self::Direct(context) => runs::send(context, run, answer).await,
            Self::Server(remote) => remote.send(run, answer).await,
        }
    }

    /// Lets go of what was started for this command.
    pub(crate) async fn close(self) -> Result<(), Failure> {
        match self {
            Self::Server(Remote { here: Some(here), .. }) => Box::pin(here.stop()).await,
            Self::Server(_) | Self::Direct(_) => Ok(()),
        }
    }
}

impl Remote {
    async fn send(&self, run: &RunId, answer: &Answer) -> Result<AnswerReply, Failure> {
        let id = &answer.await_id;
        let replied = match &answer.body {
            AnswerBody::Clarification { answer } => self.client.answer(run, id, answer).await,
            AnswerBody::Confirmation { approved, digest } => {
                self.client.confirm(run, id, digest.filter(|_| *approved)).await
            }
            AnswerBody::ToolResults { results } => self.client.answer_calls(run, id, results).await,
        };
        match replied {
            Ok(status) => Ok(AnswerReply::new(status, "")),
            Err(Error::Refused(refusal)) => {
                let status = match refusal.status {
                    400 => AnswerStatus::Invalid,
                    404 => AnswerStatus::Unknown,
                    409 => AnswerStatus::Stale,
                    _ => return Err(Error::Refused(refusal).into()),
                };
                Ok(AnswerReply::new(status, refusal.message))
            }
            Err(error) => Err(error.into()),
        }
    }
}
