//! Plays one script against one server: it is the worker and the client, does one action at a time, waits until the
//! server has come to rest, and writes down everything it saw.

mod activities;
mod attended;
mod background;
mod builds;
mod clients;
mod commands;
mod finish;
mod names;
mod operations;
mod reads;
mod settle;
mod state;
mod tasks;

use std::time::Duration;

use prost::{Message, Name};
use tonic::{Request, Response, Status};

use self::state::Memory;
use super::{
    normal::Normal,
    peer::{Client, Peer},
    script::{self, Action, Listing, Who},
};

/// One thing that was seen, in words that do not depend on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) what: String,
    pub(super) seen: String,
}

/// All that was seen of one script.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) observations: Vec<Observation>,
    pub(super) histories: usize,
    pub(super) events: usize,
    /// Whether something that was bound to happen did not.
    pub(super) restless: bool,
    /// Whether a workflow task came without the query that was asked before it was taken.
    raced: bool,
    /// Whether a task may have timed out that the script was not done with.
    overtaken: bool,
    /// Whether a call that is answered at once was not answered in time.
    unanswered: bool,
}

impl Played {
    /// Whether the machine was too slow to play the script as it is written. That an engine does not answer is its own
    /// fault, not the machine's.
    pub(super) fn was_too_slow(&self, peer: Peer) -> bool {
        self.overtaken || (peer == Peer::Real && self.unanswered)
    }
}

struct Player {
    client: Client,
    /// Begins every name of this script on this server.
    prefix: String,
    normal: Normal,
    /// The action under way, for the observations.
    action: String,
    /// The workflows the script knows of.
    cast: Vec<Who>,
    peer: Peer,
    memory: Memory,
    /// How many requests are answered before the task is taken that is to carry a query.
    head_start: usize,
    /// Asked at the end, when everything is visible.
    listings: Vec<Listing>,
    played: Played,
}

/// Nothing that is answered at once takes this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Nothing shows that a query has arrived while a workflow task is pending; that many later requests were answered makes
/// it likely. Each is for one try: the task that is taken shows whether it was enough, and if not, the script is played
/// again with more.
const QUERY_HEAD_STARTS: [usize; 3] = [20, 200, 1000];

/// How often a script is played again because the machine was too slow for its timeouts.
const TRIES: usize = 6;

/// A server that never brings a query along with a task has no more luck with the last try, and that is what is compared.
pub(super) async fn play(peer: Peer, script: &[Action]) -> Played {
    let mut played = Played::default();
    let mut head_starts = QUERY_HEAD_STARTS.iter();
    let mut head_start = head_starts.next();
    let mut tries = 0;
    while let Some(requests) = head_start {
        played = play_once(peer, script, *requests).await;
        tries += 1;
        if played.overtaken && tries < TRIES {
            continue;
        }
        if !played.raced {
            break;
        }
        head_start = head_starts.next();
    }
    played
}

async fn play_once(peer: Peer, script: &[Action], head_start: usize) -> Played {
    let unique = uuid::Uuid::now_v7().simple().to_string();
    let prefix = format!("x{}-", &unique[16..]);
    let mut player = Player {
        client: peer.connect(),
        normal: Normal::new(&prefix),
        prefix,
        action: String::new(),
        cast: script::cast(script),
        peer,
        memory: Memory::default(),
        head_start,
        listings: Vec::new(),
        played: Played::default(),
    };
    for (index, action) in script.iter().enumerate() {
        player.action = format!("{}. {action:?}", index + 1);
        player.keep_sticky_queues_polled().await;
        player.act(action).await;
        player.settle().await;
        if player.played.overtaken {
            break;
        }
    }
    player.finish().await;
    player.played
}

impl Player {
    async fn act(&mut self, action: &Action) {
        if !self.memory.queries.is_empty() && action.may_end_a_run() {
            // Nothing says when a server gives up a query that waits for a task of a run that ended.
            return self.note("act", "left out: a query is under way");
        }
        let waits = |who: &Who| {
            let memory = &self.memory;
            memory.updates.iter().any(|update| update.who == *who)
                || memory.queries.contains_key(who)
                || memory.lost.contains(who)
        };
        let mut refusing = action.may_be_refused_by();
        if action.may_be_refused() {
            refusing.extend(action.names());
        }
        if refusing.iter().any(waits) {
            // The real server forgets what is only in memory, speculative tasks above all, whenever it refuses something;
            // it takes an update or a query again from its caller after a while of its own choosing. That stickiness was
            // reset it forgets as well, and then a lost task is found again.
            return self.note("act", "left out: an update or a query is under way, or a task is lost");
        }
        match action {
            Action::Start(start) => self.start(start).await,
            Action::SignalWithStart(start) => self.signal_with_start(start).await,
            Action::UpdateWithStart(start, update) => self.update_with_start(start, *update).await,
            Action::Signal { who, request, run } => self.signal(*who, *request, *run).await,
            Action::Cancel { who, request, run } => self.cancel(*who, *request, *run).await,
            Action::Terminate { who, run } => self.terminate(*who, *run).await,
            Action::Reset { who, to, request, reapply } => self.reset(*who, *to, *request, *reapply).await,
            Action::Delete { who, run } => self.delete(*who, *run).await,
            Action::PollTask(who) => self.poll_task(*who).await,
            Action::PollNothing(who, queue) => self.poll_nothing(*who, *queue).await,
            Action::CompleteTask { who, token, with } => self.complete_task(*who, *token, with).await,
            Action::FailTask { who, token, cause, build } => self.fail_task(*who, *token, *cause, *build).await,
            Action::Attended { cause, with } => Box::pin(self.attended(cause, with)).await,
            Action::LetTaskTimeOut(who) => self.let_task_time_out(*who).await,
            Action::Query { who, reject, answer } => self.query(*who, *reject, *answer).await,
            Action::Update(who, update) => self.update(*who, *update).await,
            Action::PollUpdate { who, update, wait } => self.poll_update(*who, *update, *wait).await,
            Action::PollActivity { who, activity } => self.poll_activity(*who, *activity).await,
            Action::ReportActivity { who, activity, by, report } => {
                self.report_activity(*who, *activity, *by, *report).await;
            }
            Action::Operate { who, on, operation } => self.operate(*who, *on, *operation).await,
            Action::History { who, how } => self.read_history(*who, *how).await,
            Action::List(listing) => self.listings.push(*listing),
            Action::ResetSticky(who) => self.reset_sticky(*who).await,
        }
    }

    fn note(&mut self, what: &str, seen: impl Into<String>) {
        self.memory.changed_since_look = true;
        self.played.observations.push(Observation { what: format!("{}: {what}", self.action), seen: seen.into() });
    }

    /// Writes down the answer and returns its message, if it is one.
    fn saw<M: Message + Name>(&mut self, what: &str, answer: Result<Response<M>, Status>) -> Option<M> {
        let (seen, message) = match answer {
            Ok(response) => {
                let message = response.into_inner();
                (format!("ok\n{}", self.normal.message(&message)), Some(message))
            }
            Err(status) => {
                // What tonic says when the caller's own deadline has passed.
                self.played.unanswered |= status.message() == "Timeout expired";
                (self.normal.status(&status), None)
            }
        };
        self.note(what, seen);
        message
    }
}

fn timed<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    request
}

fn prompt<T>(message: T) -> Request<T> {
    timed(message, PATIENCE)
}
