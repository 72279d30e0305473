//! One round of a call: it sends, or it waits.

use std::{
    future::Future,
    pin::pin,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{sleep, timeout, timeout_at};
use windlass_core::{
    canonical::{CanonicalJson, Digest},
    envelope::{Continuation, InputAction, InputRequest, InputResponse, Resumption, ToolErrorKind},
};

use super::{
    access::Access,
    failure::{self, Effect},
    outcome,
    peer::{Endpoint, Outgoing, Peer, Streamed},
    wire::{Event, State, Status, Task},
};
use crate::{CallContext, Progress, ToolFailure, ToolReply, args};

/// The name of the one input that is asked for.
const INPUT: &str = "message";
/// What is left of a round's time for its return.
const MARGIN: Duration = Duration::from_secs(2);
/// What a cancelled call may still take to cancel its task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause that a peer can ask for.
const LONGEST_HINT: Duration = Duration::from_secs(60);
/// How long reads may fail before the round does. Reading changes nothing, so a peer that restarts is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// A stream that is silent for so long may be dead, or may have lost its task: the task is read, and the stream opened
/// again.
const SILENCE: Duration = Duration::from_secs(10);
/// With everything else that a peer decides, this must fit into a continuation.
const MAX_PROMPT: usize = 8 * 1024;
const MAX_PAGE: usize = 2048;
const MAX_REPORT: usize = 1024;

/// What the run keeps of a call between its rounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    #[serde(flatten)]
    endpoint: Endpoint,
    task_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context_id: Option<String>,
    /// The status that a person was last asked about. A peer may show it for a while after it got the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asked: Option<Digest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    message: String,
}

pub(super) struct Round<'a> {
    pub(super) access: Access<'a>,
    pub(super) context: &'a CallContext,
}

/// What a waiting round has read so far.
#[derive(Default)]
struct Readings {
    any: bool,
    /// Since the last one that succeeded.
    failing_since: Option<Instant>,
    last_failure: Option<ToolFailure>,
    reported: Option<String>,
}

impl Round<'_> {
    /// Reads before the message is sent end with the call's time, and with its cancellation.
    pub(super) async fn bounded<T>(
        &self,
        read: impl Future<Output = Result<T, ToolFailure>>,
    ) -> Result<T, ToolFailure> {
        let read = self.until(read);
        match self.context.cancel.run_until_cancelled(read).await {
            Some(Some(read)) => read,
            Some(None) => Err(failure::timed_out(Effect::None)),
            None => Err(failure::cancelled("its message was not sent")),
        }
    }

    /// The first round.
    pub(super) async fn begin(
        &self,
        endpoint: &Endpoint,
        context_id: Option<&str>,
        args: &CanonicalJson,
    ) -> Result<ToolReply, ToolFailure> {
        let Args { message } = args::decode(args)?;
        let peer = Peer::new(self.access, endpoint)?;
        let message = Outgoing { id: self.message_id(1), text: &message, context_id, task_id: None };
        match self.send(&peer, &message).await? {
            Event::Message(message) => Ok(ToolReply::Done(outcome::of_message(message))),
            Event::Task(task) => {
                let kept = Kept {
                    endpoint: endpoint.clone(),
                    task_id: task.id.clone(),
                    context_id: task.context_id.clone(),
                    asked: None,
                };
                kept.settle(task)
            }
            Event::StatusUpdate(_) | Event::ArtifactUpdate(_) => Err(failure::unreadable("response")),
        }
    }

    /// A later round.
    pub(super) async fn resume(&self, resumption: &Resumption) -> Result<ToolReply, ToolFailure> {
        let kept: Kept = resumption.state.decode().map_err(|_| {
            let message = "the state of this call was written by another version of windlass and cannot be read";
            ToolFailure::new(ToolErrorKind::Internal, message)
        })?;
        let peer = Peer::new(self.access, &kept.endpoint)?;
        match resumption.responses.get(INPUT) {
            Some(response) => self.answer(&peer, &kept, response, resumption.round).await,
            None => self.or_cancel(&peer, &kept, self.wait(&peer, &kept)).await,
        }
    }

    /// Passes on what a person did with a request of the peer.
    async fn answer(
        &self,
        peer: &Peer<'_>,
        kept: &Kept,
        response: &InputResponse,
        round: u32,
    ) -> Result<ToolReply, ToolFailure> {
        let refused = match response.action {
            InputAction::Accept => None,
            InputAction::Decline => Some((ToolErrorKind::Denied, "a person declined what the peer asked for")),
            InputAction::Cancel => Some((ToolErrorKind::ToolFailed, "the peer's request was closed without an answer")),
        };
        if let Some((kind, message)) = refused {
            let rest = cancel_task(peer, &kept.task_id).await;
            return Err(ToolFailure::new(kind, format!("{message}; {rest}")));
        }
        let read = async {
            let read = self.until(peer.task(&kept.task_id)).await;
            Ok(read.unwrap_or_else(|| Err(failure::timed_out(Effect::None).into()))?)
        };
        let task = self.or_cancel(peer, kept, read).await?;
        // If not, an earlier attempt of this round got through, or the peer went on by itself, as after a sign-in.
        let waits = matches!(task.status.state, State::InputRequired | State::AuthRequired);
        if !waits || (kept.asked.is_some() && !kept.was_asked(&task.status)) {
            return kept.settle(task);
        }
        let text = response.content.as_ref().map_or_else(|| "Done.".to_owned(), text_of);
        let message = Outgoing {
            id: self.message_id(round),
            text: &text,
            context_id: kept.context_id.as_deref(),
            task_id: Some(&kept.task_id),
        };
        match self.send(peer, &message).await? {
            Event::Message(message) => Ok(ToolReply::Done(outcome::of_message(message))),
            Event::Task(task) => kept.settle(task),
            Event::StatusUpdate(_) | Event::ArtifactUpdate(_) => Err(failure::unreadable("response")),
        }
    }

    /// Sends a message. If the call is cancelled meanwhile, the task that comes of it is cancelled.
    async fn send(&self, peer: &Peer<'_>, message: &Outgoing<'_>) -> Result<Event, ToolFailure> {
        let mut send = pin!(self.until(peer.send(message)));
        match self.context.cancel.run_until_cancelled(&mut send).await {
            Some(sent) => sent.unwrap_or_else(|| Err(failure::timed_out(Effect::Message))),
            None => {
                let unsure = "the peer may have accepted its message";
                let cancel = async {
                    match send.await {
                        Some(Ok(Event::Task(task))) => cancel_task(peer, &task.id).await,
                        _ => unsure,
                    }
                };
                Err(failure::cancelled(timeout(CANCEL_TIMEOUT, cancel).await.unwrap_or(unsure)))
            }
        }
    }

    /// Reads the task until it ends or asks for something. If the round's time is up before, the call goes on with the
    /// same state.
    async fn wait(&self, peer: &Peer<'_>, kept: &Kept) -> Result<ToolReply, ToolFailure> {
        let mut readings = Readings::default();
        match self.until(self.follow(peer, kept, &mut readings)).await {
            Some(outcome) => outcome,
            // A round in which the peer never answered is a failed one, so that its retries are counted.
            None if !readings.any => Err(readings.last_failure.unwrap_or_else(|| failure::timed_out(Effect::None))),
            None => Ok(kept.go_on(Vec::new())),
        }
    }

    async fn follow(&self, peer: &Peer<'_>, kept: &Kept, readings: &mut Readings) -> Result<ToolReply, ToolFailure> {
        let mut pause = FIRST_PAUSE;
        let mut told = false;
        loop {
            // The stream is opened before the task is read: what changes in between is in the stream.
            // After a stream that said how the task stands, there is nothing to follow.
            let stream = match kept.endpoint.streaming && !told {
                true => peer.subscribe(&kept.task_id).await.ok(),
                false => None,
            };
            told = false;
            let mut hint = None;
            match peer.task(&kept.task_id).await {
                Ok(task) => {
                    (readings.any, readings.failing_since) = (true, None);
                    self.report_status(&task.status, readings);
                    if let Some(reply) = kept.settled(task) {
                        return reply;
                    }
                }
                Err(failed) => {
                    let since = *readings.failing_since.get_or_insert_with(Instant::now);
                    if !failed.failure.retryable || since.elapsed() > PATIENCE {
                        return Err(failed.failure);
                    }
                    hint = failed.retry_after;
                    readings.last_failure = Some(failed.failure);
                }
            }
            if let Some(mut stream) = stream {
                while let Ok(Some(piece)) = timeout(SILENCE, stream.next()).await {
                    let event = match piece {
                        Streamed::RetryAfter(after) => {
                            hint = Some(after);
                            continue;
                        }
                        Streamed::Event(event) => event,
                    };
                    // A task is how a stream begins, not news.
                    if !matches!(event, Event::Task(_)) {
                        pause = FIRST_PAUSE;
                    }
                    if self.report(event, kept, readings) {
                        // What the task produced is read at its peer: a stream may have begun in the middle of it.
                        (told, hint) = (true, Some(Duration::ZERO));
                        break;
                    }
                }
            }
            sleep(hint.map_or(pause, |hint| hint.min(LONGEST_HINT))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Reports an event. `true` if the task is to be read now.
    fn report(&self, event: Event, kept: &Kept, readings: &mut Readings) -> bool {
        let status = match event {
            Event::Task(Task { status, .. }) => status,
            Event::StatusUpdate(update) => update.status,
            Event::ArtifactUpdate(update) => {
                let name = update.artifact.name.map_or_else(String::new, |name| format!(" {name}"));
                self.report_text(&format!("the peer produced an artifact{name}"));
                return false;
            }
            Event::Message(_) => return false,
        };
        self.report_status(&status, readings);
        match status.state {
            State::Working => false,
            State::InputRequired | State::AuthRequired => !kept.was_asked(&status),
            State::Completed | State::Failed | State::Canceled | State::Rejected => true,
        }
    }

    fn report_status(&self, status: &Status, readings: &mut Readings) {
        let text = status.text();
        if text != readings.reported
            && let Some(text) = &text
        {
            self.report_text(text);
        }
        readings.reported = text;
    }

    fn report_text(&self, text: &str) {
        self.context.progress.report(Progress::message(shown(text, MAX_REPORT)));
    }

    /// Runs a round that may be cancelled at any time, and cancels the task if it is.
    async fn or_cancel<T>(
        &self,
        peer: &Peer<'_>,
        kept: &Kept,
        round: impl Future<Output = Result<T, ToolFailure>>,
    ) -> Result<T, ToolFailure> {
        match self.context.cancel.run_until_cancelled(round).await {
            Some(outcome) => outcome,
            // Another worker goes on with the task.
            None if self.context.draining.is_cancelled() => {
                Err(failure::cancelled("its worker shuts down; the peer's task goes on"))
            }
            None => Err(failure::cancelled(cancel_task(peer, &kept.task_id).await)),
        }
    }

    /// The outcome of work, unless the round's time is up but for the margin. A round of little time has half of it.
    async fn until<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some(deadline) = self.context.deadline else { return Some(work.await) };
        let left = deadline.saturating_duration_since(Instant::now());
        let end = Instant::now() + left.saturating_sub(MARGIN).max(left / 2);
        timeout_at(end.into(), work).await.ok()
    }

    /// Ids of calls are unique in their run only.
    fn message_id(&self, round: u32) -> String {
        format!("{}/{}/{round}", self.context.run_id, self.context.call_id)
    }
}

impl Kept {
    /// How the call goes on with this task: it ends, asks a person, or waits in another round.
    fn settle(&self, task: Task) -> Result<ToolReply, ToolFailure> {
        self.settled(task).unwrap_or_else(|| Ok(self.go_on(Vec::new())))
    }

    /// As [`Self::settle`]; `None` if the task works.
    fn settled(&self, task: Task) -> Option<Result<ToolReply, ToolFailure>> {
        let said = || failure::colon(&task.status.text().unwrap_or_default());
        let reply = match task.status.state {
            State::Working => return None,
            State::InputRequired | State::AuthRequired if self.was_asked(&task.status) => return None,
            State::InputRequired | State::AuthRequired => Ok(self.ask(&task.status)),
            State::Completed => Ok(ToolReply::Done(outcome::of_task(task))),
            State::Failed => Err(failure::failed(format!("the peer's task failed{}", said()))),
            State::Rejected => Err(failure::failed(format!("the peer rejected the task{}", said()))),
            State::Canceled => Err(failure::failed(format!("the peer's task was cancelled there{}", said()))),
        };
        Some(reply)
    }

    /// Whether a person was asked about this very status.
    fn was_asked(&self, status: &Status) -> bool {
        self.asked.is_some() && self.asked == status.mark()
    }

    fn ask(&self, status: &Status) -> ToolReply {
        let (default, url) = match status.state {
            State::AuthRequired => {
                let url = status.message.as_ref().and_then(outcome::page_of).filter(|url| url.len() <= MAX_PAGE);
                ("The peer needs an authorisation to go on.", url)
            }
            _ => ("The peer needs more input to go on.", None),
        };
        let prompt = shown(status.text().as_deref().unwrap_or(default), MAX_PROMPT);
        let asked = Self { asked: status.mark(), ..self.clone() };
        asked.go_on(vec![InputRequest { key: INPUT.to_owned(), prompt, schema: None, url }])
    }

    fn go_on(&self, inputs: Vec<InputRequest>) -> ToolReply {
        // Strings and booleans: there is nothing in it that JSON cannot have.
        let state = CanonicalJson::of(self).unwrap_or_else(|_| CanonicalJson::null());
        // A round without answers only reads the task.
        let repeatable = inputs.is_empty();
        ToolReply::Continue(Continuation { state, inputs, repeatable })
    }
}

/// Cancels a task as well as it can be done in the time, and says whether it was.
async fn cancel_task(peer: &Peer<'_>, id: &str) -> &'static str {
    match timeout(CANCEL_TIMEOUT, peer.cancel(id)).await {
        Ok(Ok(_)) => "the peer's task was cancelled",
        _ => "the peer's task could not be cancelled",
    }
}

/// What a person wrote. Anything but text is passed on as JSON.
fn text_of(content: &CanonicalJson) -> String {
    match content.to_value() {
        Value::String(text) => text,
        _ => content.to_string(),
    }
}

/// A peer's text for people: without control characters, and cut.
fn shown(text: &str, limit: usize) -> String {
    let mut shown: String = text.chars().filter(|char| !char.is_control() || matches!(char, '\n' | '\t')).collect();
    if shown.len() > limit {
        shown.truncate(shown.floor_char_boundary(limit));
        shown.push('…');
    }
    shown
}
