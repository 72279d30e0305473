//! The server transport: an API server, over HTTP.

mod logs;

use std::path::Path;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use windlass_client::{Address, Client, Error, Options, RunSpec, Tools, Transcript, Update};
use windlass_core::{
    approval::{ApprovalRule, ApprovalScope, CallApproval, Grant, OwnRules},
    awaits::AwaitView,
    envelope::{Actor, Answer, AnswerReply, PauseRequest, ResumeRequest, RunStatusView, SteerRequest},
    event::Event,
    ids::{CallId, GrantId, RunId, ToolName},
    message::Message,
};
use windlass_ops::RunEnd;
use windlass_store::{RunFilter, RunPage, RunRow};

use self::logs::LogFeed;
use super::{Feed, Lister, NewRun, Transport, Visitor};
use crate::{
    cli::{Failure, Global, usage},
    dev::{Here, address_of},
};

/// The most runs that a server returns on a page.
const LARGEST_PAGE: u32 = 200;

pub(super) struct Server {
    client: Client,
    /// The server, if it is in this process.
    here: Option<Here>,
}

fn options(global: &Global, visitor: Visitor<'_>, address: Address) -> Options {
    let Address { base_url, api_key } = address;
    let options = Options::new(base_url, api_key, global.workspace.as_str()).give_up_after(visitor.give_up_after);
    if visitor.actor.is_empty() { options } else { options.actor(visitor.actor) }
}

impl Server {
    /// The server that --server names, if it is set.
    pub(super) fn named(global: &Global, visitor: Visitor<'_>) -> Result<Option<Self>, Failure> {
        let Some(url) = &global.server else { return Ok(None) };
        let address = Address { base_url: url.clone(), api_key: global.server_key()? };
        Ok(Some(Self { client: Client::new(options(global, visitor, address))?, here: None }))
    }

    /// The `windlass dev` of the data directory, if one responds. After a restart it may have another address.
    pub(super) async fn of_data_dir(global: &Global, visitor: Visitor<'_>) -> Result<Option<Self>, Failure> {
        let Some(address) = address_of(&global.data_dir) else { return Ok(None) };
        let data_dir = global.data_dir.clone();
        let options = options(global, visitor, address).address_lookup(move || address_of(&data_dir));
        let client = Client::new(options)?;
        match client.identity().await {
            Ok(_) => Ok(Some(Self { client, here: None })),
            // It was killed and left its address behind.
            Err(Error::Unreachable { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A server in this process, with these scripts.
    pub(super) async fn here(global: &Global, visitor: Visitor<'_>, scripts: Option<&Path>) -> Result<Self, Failure> {
        let here = Box::pin(Here::start(&global.place("worker")?, global.config(), scripts)).await?;
        let address = Address { base_url: here.url.clone(), api_key: here.key.clone() };
        Ok(Self { client: Client::new(options(global, visitor, address))?, here: Some(here) })
    }
}

#[async_trait]
impl Lister for Server {
    async fn page(&self, filter: RunFilter) -> Result<RunPage, Failure> {
        let asked = windlass_client::RunFilter {
            state: filter.statuses.first().map(|status| status.as_str().to_owned()),
            agent_id: filter.agent_id,
            session_id: filter.session,
            parent_run_id: filter.parent,
            limit: Some(filter.limit.min(LARGEST_PAGE)).filter(|limit| *limit > 0),
            cursor: filter.cursor,
            ..Default::default()
        };
        let page = self.client.rows(&asked).await?;
        Ok(RunPage { runs: page.rows, next: page.next_cursor, unreadable: page.unreadable, total: None })
    }
}

#[async_trait]
impl Transport for Server {
    async fn row(&self, run: &RunId) -> Result<Option<RunRow>, Failure> {
        Ok(Some(self.client.row(run).await?))
    }

    async fn live(&self, run: &RunId) -> Result<Option<RunStatusView>, Failure> {
        Ok(self.client.look(run).await?.live)
    }

    async fn pending(&self, run: &RunId) -> Result<Vec<AwaitView>, Failure> {
        Ok(self.client.awaits(run).await?)
    }

    async fn events(&self, run: &RunId, after: u64) -> Result<Vec<Event>, Failure> {
        Ok(self.client.log_so_far(run, after).await?)
    }

    async fn transcript(&self, run: &RunId) -> Result<(Vec<Message>, u64, u64), Failure> {
        let Transcript { messages, opening, earlier, .. } = self.client.transcript(run).await?;
        Ok((messages, opening, earlier))
    }

    fn log(&self, run: &RunId, after: u64) -> BoxStream<'static, Result<Update<Event>, Failure>> {
        self.client.log(run, after).map_err(Failure::from).boxed()
    }

    async fn feed(&self, run: &RunId) -> Result<Box<dyn Feed>, Failure> {
        Ok(Box::new(LogFeed::of(self.client.clone(), run.clone())))
    }

    /// The log has the terminal event.
    async fn ended(&self, _: &RunId) -> Option<RunEnd> {
        std::future::pending().await
    }

    async fn start_failure(&self, _: &RunId) -> Option<RunEnd> {
        None
    }

    async fn unpolled_task_queue(&self) -> Option<String> {
        None
    }

    async fn start(&self, start: NewRun) -> Result<RunId, Failure> {
        let NewRun { agent_id, definition, prompt, run_id, session, model, policy, labels, started_by: _ } = start;
        let mut spec = RunSpec::new(prompt);
        match definition {
            Some(definition) => spec.definition = Some(Box::new(definition)),
            None => spec.agent.agent_id = Some(agent_id),
        }
        spec.agent.model_id = model;
        spec.run_id = run_id;
        spec.session_id = session;
        spec.policy = policy;
        spec.labels = labels;
        Ok(self.client.start(&spec, &Tools::new()).await?)
    }

    async fn pause(&self, run: &RunId, request: PauseRequest) -> Result<(), Failure> {
        Ok(self.client.pause(run, &request.reason).await?)
    }

    async fn resume(&self, run: &RunId, request: ResumeRequest, message: Option<String>) -> Result<(), Failure> {
        let sent = match message {
            None => self.client.resume(run, &request.notes).await,
            Some(message) => self.client.resume_with(run, &request.notes, &message).await,
        };
        Ok(sent?)
    }

    async fn steer(&self, run: &RunId, request: SteerRequest) -> Result<(), Failure> {
        Ok(self.client.steer(run, &request.text).await?)
    }

    async fn cancel(&self, run: &RunId, reason: Option<&str>) -> Result<(), Failure> {
        let sent = match reason {
            None => self.client.cancel(run).await,
            Some(reason) => self.client.cancel_because(run, reason).await,
        };
        Ok(sent?)
    }

    async fn send(&self, run: &RunId, answer: Answer) -> Result<AnswerReply, Failure> {
        if !answer.actor.roles.is_empty() {
            return Err(usage(
                "an API server knows your roles by your key: remove --role, or use a key that has the role",
            ));
        }
        Ok(self.client.submit(run, &answer.await_id, &answer.body).await?)
    }

    async fn signal(&self, _: &RunId, _: Answer) -> Result<(), Failure> {
        Err(usage("--signal sends a Temporal signal, which an API server does not do: remove it, or set --temporal"))
    }

    async fn grants(&self, tool: Option<ToolName>, revoked: bool, limit: u32) -> Result<Vec<Grant>, Failure> {
        Ok(self.client.grants(tool.as_ref(), revoked, limit).await?)
    }

    async fn revoke_grant(&self, grant: &GrantId) -> Result<Option<Grant>, Failure> {
        found(self.client.revoke_grant(grant).await)
    }

    async fn rules(&self, owner: &ApprovalScope) -> Result<Option<OwnRules>, Failure> {
        Ok(self.client.rules(owner).await?)
    }

    async fn set_rules(&self, owner: &ApprovalScope, rules: Option<(Vec<ApprovalRule>, Actor)>) -> Result<(), Failure> {
        match rules {
            Some((rules, _)) => self.client.set_rules(owner, &rules).await?,
            None => self.client.remove_rules(owner).await?,
        }
        Ok(())
    }

    async fn explain_call(&self, run: &RunId, call: &CallId) -> Result<Option<CallApproval>, Failure> {
        // Of a run that is not there, this says so.
        self.client.row(run).await?;
        found(self.client.explain_call(run, call).await)
    }

    fn serves_here(&self) -> bool {
        self.here.is_some()
    }

    async fn close(self: Box<Self>) -> Result<(), Failure> {
        match self.here {
            Some(here) => Box::pin(here.stop()).await,
            None => Ok(()),
        }
    }
}

/// What a server has, or nothing if it says that there is none.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Failure> {
    match answer {
        Err(Error::Refused(refusal)) if refusal.status == 404 => Ok(None),
        answer => Ok(Some(answer?)),
    }
}
