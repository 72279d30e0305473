//! The direct transport: a Temporal client and the store, without an API server in between.

mod logs;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use tokio::time::timeout;
use windlass_client::Update;
use windlass_core::{
    approval::{ApprovalRule, ApprovalScope, CallApproval, Grant, OwnRules},
    awaits::AwaitView,
    body::Body,
    envelope::{
        Actor, Answer, AnswerBody, AnswerReply, AnswerStatus, Extra, PauseRequest, ResumeRequest, RunStatusView,
        SteerRequest, Tuning,
    },
    event::Event,
    ids::{CallId, GrantId, RunId, ToolName},
    message::Message,
    time::friendly,
};
use windlass_ops::{OpsError, Pairing, RunEnd, RunOps, StartRun, complete_entry};
use windlass_store::{GrantFilter, RunFilter, RunPage, RunRow, Store};
use windlass_tools::{HttpGetOptions, ToolRegistry};

use self::logs::Logs;
use super::{Feed, Lister, NewRun, Transport};
use crate::{
    cli::{Failure, Global, failed, now},
    service::Missing,
    temporal::{connect, ensure_search_attributes, pollers},
};

/// How long to wait for a worker's reply to an answer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for the end of a run that has no row.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two requests to a Temporal server that does not respond.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct Direct {
    ops: RunOps,
    /// The operator's rules for all agents, of this command's config.
    approvals: Vec<ApprovalRule>,
}

impl Direct {
    pub(super) async fn open(global: &Global, missing: Missing) -> Result<Self, Failure> {
        let store = global.open_store(missing).await?.port();
        let client = connect(&global.connect("cli")?).await?;
        let ops = RunOps::new(client, store, global.task_queue.clone(), global.workspace.clone());
        // A command that only reads must not claim the namespace for its store.
        let how = if missing == Missing::Create { Pairing::Claim } else { Pairing::Look };
        let paired = ops.pair(how).await?;
        let approvals = global.config().approvals.clone();
        Ok(Self { ops: if paired.kept { ops } else { ops.checking_owners() }, approvals })
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.ops.store()
    }

    async fn has_ended(&self, run: &RunId) -> Result<bool, Failure> {
        Ok(self.store().run(run).await?.is_some_and(|row| row.status.is_terminal()))
    }

    async fn complete(&self, events: Vec<Event>) -> Result<Vec<Event>, Failure> {
        let mut complete = Vec::with_capacity(events.len());
        for event in events {
            complete.push(complete_entry(&**self.store(), event).await?);
        }
        Ok(complete)
    }

    /// Puts results above the inline limit into the store and leaves references to them.
    async fn with_stored_results(&self, mut answer: Answer) -> Result<Answer, Failure> {
        if let AnswerBody::ToolResults { results } = &mut answer.body {
            for provided in results {
                let Some(result) = provided.result.take() else { continue };
                let (body, large) = Body::fit(result, Tuning::INLINE_LIMIT_OF_NEW_RUNS);
                if let Some(large) = large {
                    self.store().put_blob(large).await?;
                }
                *provided = provided.clone().with_result(&body);
            }
        }
        Ok(answer)
    }
}

#[async_trait]
impl Lister for Arc<dyn Store> {
    async fn page(&self, filter: RunFilter) -> Result<RunPage, Failure> {
        Ok(self.runs(filter).await?)
    }
}

#[async_trait]
impl Lister for Direct {
    async fn page(&self, filter: RunFilter) -> Result<RunPage, Failure> {
        self.store().page(filter).await
    }
}

#[async_trait]
impl Transport for Direct {
    async fn row(&self, run: &RunId) -> Result<Option<RunRow>, Failure> {
        let row = self.store().run(run).await?;
        match &row {
            None => self.ops.exists(run).await?,
            // If its workflow was closed on the server, the terminal event is written now, so that readers do not wait.
            Some(open) if open.closed_at.is_none() => match self.ops.end_if_closed_externally(run).await {
                Ok(true) => return Ok(self.store().run(run).await?),
                Ok(false) => {}
                Err(error) => tracing::debug!(%run, %error, "cannot compare the run with its workflow"),
            },
            Some(_) => {}
        }
        Ok(row)
    }

    async fn live(&self, run: &RunId) -> Result<Option<RunStatusView>, Failure> {
        Ok(if_started(self.ops.live(run).await)?.flatten())
    }

    async fn pending(&self, run: &RunId) -> Result<Vec<AwaitView>, Failure> {
        Ok(if_started(self.ops.pending(run).await)?.unwrap_or_default())
    }

    async fn events(&self, run: &RunId, after: u64) -> Result<Vec<Event>, Failure> {
        self.complete(self.ops.events(run, after).await?).await
    }

    async fn transcript(&self, run: &RunId) -> Result<(Vec<Message>, u64, u64), Failure> {
        const PAGE: u32 = 200;
        let mut messages = Vec::new();
        loop {
            let page = self.store().transcript_page(run, messages.len() as u64, PAGE).await?;
            let more = page.messages.len() == PAGE as usize;
            messages.extend(page.messages.into_iter().map(|(_, message)| message));
            if !more {
                return Ok((messages, page.opening, page.earlier));
            }
        }
    }

    fn log(&self, run: &RunId, after: u64) -> BoxStream<'static, Result<Update<Event>, Failure>> {
        // Watched before it is read, so that no event is missed in between.
        let watch = self.store().watch(run);
        let pages = stream::try_unfold(Some((self.clone(), run.clone(), watch, after)), async |reading| {
            let Some((direct, run, mut watch, after)) = reading else { return Ok(None) };
            loop {
                // The row is read before the log: if the run ends in between, the terminal event is still read.
                let closed = direct.store().run(&run).await?.is_some_and(|row| row.closed_at.is_some());
                let events = direct.events(&run, after).await?;
                if let Some((last, terminal)) = events.last().map(|event| (event.seq, event.is_terminal())) {
                    return Ok(Some((events, (!terminal).then_some((direct, run, watch, last)))));
                }
                // No event follows the terminal event, even if reading began after it.
                if closed {
                    return Ok::<_, Failure>(None);
                }
                watch.changed().await;
            }
        });
        pages
            .map_ok(|events| stream::iter(events.into_iter().map(|event| Ok(Update::Event(event)))))
            .try_flatten()
            .boxed()
    }

    async fn feed(&self, run: &RunId) -> Result<Box<dyn Feed>, Failure> {
        // Fails if there is no such run.
        self.row(run).await?;
        Ok(Box::new(Logs::of(self.store().clone(), run.clone())))
    }

    async fn ended(&self, run: &RunId) -> Option<RunEnd> {
        loop {
            match self.ops.result(run).await {
                Err(RunEnd::Unknown { message }) => {
                    tracing::debug!(message, "the server did not report how the run ended");
                    tokio::time::sleep(RETRY).await;
                }
                ended => return ended.err(),
            }
        }
    }

    async fn start_failure(&self, run: &RunId) -> Option<RunEnd> {
        timeout(END_TIMEOUT, self.ops.result(run)).await.ok()?.err()
    }

    async fn unpolled_task_queue(&self) -> Option<String> {
        let task_queue = self.ops.task_queue();
        let found = pollers(self.ops.client(), task_queue).await.ok()?;
        found.workflows.is_empty().then(|| task_queue.to_owned())
    }

    async fn start(&self, start: NewRun) -> Result<RunId, Failure> {
        // A run that is started before the first worker needs the search attributes, too.
        ensure_search_attributes(self.ops.client()).await?;
        let NewRun { agent_id, mut definition, prompt, run_id, session, model, policy, labels, started_by } = start;
        if let Some(definition) = &mut definition {
            // The worker's own tools, so that it pins the definition that is stored here.
            let tools = ToolRegistry::with_builtins(self.store().clone(), HttpGetOptions::default())?;
            definition.complete_builtins(&|name| tools.get(name).map(|tool| tool.spec()));
        }
        let defaults = StartRun::of(agent_id, definition, prompt);
        let start = StartRun {
            run_id: run_id.unwrap_or_else(|| defaults.run_id.clone()),
            session_id: session,
            model_id: model,
            labels,
            policy,
            started_by: Some(started_by).filter(|actor| !actor.is_empty()),
            ..defaults
        };
        Ok(self.ops.start(start).await?)
    }

    async fn pause(&self, run: &RunId, request: PauseRequest) -> Result<(), Failure> {
        Ok(self.ops.pause(run, &request).await?)
    }

    async fn resume(&self, run: &RunId, request: ResumeRequest, message: Option<String>) -> Result<(), Failure> {
        let messages = message.map(Message::user).into_iter().collect();
        Ok(self.ops.resume(run, &ResumeRequest { messages, ..request }).await?)
    }

    async fn steer(&self, run: &RunId, request: SteerRequest) -> Result<(), Failure> {
        Ok(self.ops.steer(run, &request).await?)
    }

    async fn cancel(&self, run: &RunId, reason: Option<&str>) -> Result<(), Failure> {
        Ok(self.ops.cancel(run, reason.unwrap_or("cancelled by an operator")).await?)
    }

    async fn send(&self, run: &RunId, answer: Answer) -> Result<AnswerReply, Failure> {
        let answer = self.with_stored_results(answer).await?;
        match timeout(REPLY_TIMEOUT, self.ops.answer(run, &answer)).await {
            Ok(Ok(reply)) => Ok(reply),
            // Temporal reports a run that has ended like one that never existed.
            Ok(Err(OpsError::NotFound { .. })) if self.has_ended(run).await? => {
                Ok(AnswerReply::new(AnswerStatus::Stale, "the run has ended"))
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(failed(format!(
                "no worker responded within {}; start a worker and send the answer again (a repeat is harmless), or \
                 send it as a signal with --signal",
                friendly::print(REPLY_TIMEOUT)
            ))
            .temporary()),
        }
    }

    async fn grants(&self, tool: Option<ToolName>, revoked: bool, limit: u32) -> Result<Vec<Grant>, Failure> {
        let workspace = self.ops.workspace().clone();
        Ok(self.store().grants(GrantFilter { workspace, tool, scopes: None, revoked, limit }).await?)
    }

    async fn revoke_grant(&self, grant: &GrantId) -> Result<Option<Grant>, Failure> {
        Ok(self.store().revoke_grant(self.ops.workspace(), grant).await?)
    }

    async fn rules(&self, owner: &ApprovalScope) -> Result<Option<OwnRules>, Failure> {
        Ok(self.store().rules(self.ops.workspace(), owner).await?)
    }

    async fn set_rules(&self, owner: &ApprovalScope, rules: Option<(Vec<ApprovalRule>, Actor)>) -> Result<(), Failure> {
        if let ApprovalScope::Run { id } = owner {
            self.ops.exists(id).await?;
        }
        // With access to Temporal and the store, the command is the operator's.
        let own = |(rules, set_by)| OwnRules { rules, set_by, set_at: now(), may_relax: true, extra: Extra::new() };
        Ok(self.store().set_rules(self.ops.workspace(), owner, rules.map(own)).await?)
    }

    async fn explain_call(&self, run: &RunId, call: &CallId) -> Result<Option<CallApproval>, Failure> {
        let Some(row) = self.row(run).await? else { return Ok(None) };
        Ok(self.ops.explain_call(&row, call, &self.approvals, None).await?)
    }

    async fn signal(&self, run: &RunId, answer: Answer) -> Result<(), Failure> {
        Ok(self.ops.signal_answer(run, self.with_stored_results(answer).await?).await?)
    }
}

/// The workflow's reply; `None` if the workflow was not started yet.
fn if_started<T>(reply: Result<T, OpsError>) -> Result<Option<T>, OpsError> {
    match reply {
        Err(OpsError::NotFound { .. }) => Ok(None),
        reply => reply.map(Some),
    }
}
