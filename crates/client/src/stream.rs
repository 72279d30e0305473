//! A run's events in order, from a `seq` to the run's end, across lost connections.
//!
//! A lost connection is opened again after the last event that was returned, so no event is missing and none comes
//! twice. The stream ends after the run's terminal event.

use std::time::{Duration, Instant};

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use futures_util::{StreamExt as _, stream::BoxStream};
use serde_json::Value;
use sse_stream::{Sse, SseByteStream};
use windlass_core::ids::RunId;

use crate::{Client, Error, Event, Options, event::is_terminal, http::innermost};

pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// An event of a run, or a change of the connection to its server.
#[derive(Debug, Clone, PartialEq)]
pub enum Update<T> {
    Event(T),
    /// The connection was lost or refused; the client reconnects.
    Lost(Lost),
    /// The client is connected again, and the events continue.
    Back,
}

/// A lost connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    pub reason: String,
    /// How long the server has been unreachable.
    pub away: Duration,
    pub next_try_in: Duration,
}

/// The events of a run.
pub type EventStream = BoxStream<'static, Result<Update<Event>, Error>>;

/// The entries of a run's log.
pub type LogStream = BoxStream<'static, Result<Update<windlass_core::event::Event>, Error>>;

impl Client {
    /// The run's events after `after`; 0 for all of them.
    pub fn stream(&self, run: &RunId, after: u64) -> EventStream {
        let feed = Feed::new(self, run, after, None);
        feed.stream(|Frame { seq, kind, json }| Ok(Event::new(seq, kind, json)))
    }

    /// The entries of the run's log after `after`, as they are stored. Only Windlass has this.
    pub fn log(&self, run: &RunId, after: u64) -> LogStream {
        let feed = Feed::new(self, run, after, Some("log"));
        let client = self.clone();
        feed.stream(move |frame| {
            let invalid_response = |error: serde_json::Error| invalid_response(&client, &error);
            serde_json::from_value(frame.json).map_err(invalid_response)
        })
    }
}

fn invalid_response(client: &Client, reason: &dyn ToString) -> Error {
    Error::InvalidResponse { url: client.http().origin(), reason: reason.to_string() }
}

/// Exponential backoff with jitter.
pub(crate) fn pauses(options: &Options) -> ExponentialBackoff {
    let longest = options.longest_pause.max(FIRST_PAUSE);
    ExponentialBuilder::new()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(longest)
        .with_jitter()
        .without_max_times()
        .build()
}

struct Frame {
    seq: u64,
    kind: String,
    json: Value,
}

/// The state of a reader.
struct Feed {
    client: Client,
    run: RunId,
    /// The entries of the log, or else the protocol's frames.
    format: Option<&'static str>,
    after: u64,
    connection: Option<BoxStream<'static, Result<Sse, sse_stream::Error>>>,
    pauses: ExponentialBackoff,
    /// The pause before the next attempt to connect.
    pause: Option<Duration>,
    away_since: Option<Instant>,
    ended: bool,
}

impl Feed {
    fn new(client: &Client, run: &RunId, after: u64, format: Option<&'static str>) -> Self {
        Self {
            client: client.clone(),
            run: run.clone(),
            format,
            after,
            connection: None,
            pauses: pauses(client.options()),
            pause: None,
            away_since: None,
            ended: false,
        }
    }

    fn stream<T: 'static>(
        self,
        read: impl Fn(Frame) -> Result<T, Error> + Send + 'static,
    ) -> BoxStream<'static, Result<Update<T>, Error>> {
        let updates = futures_util::stream::unfold(self, async |mut feed| Some((feed.next().await?, feed)));
        let read = move |update| match update {
            Update::Event(frame) => read(frame).map(Update::Event),
            Update::Lost(lost) => Ok(Update::Lost(lost)),
            Update::Back => Ok(Update::Back),
        };
        updates.map(move |update| update.and_then(&read)).boxed()
    }

    async fn next(&mut self) -> Option<Result<Update<Frame>, Error>> {
        while !self.ended {
            let Some(connection) = &mut self.connection else {
                match self.connect().await {
                    Ok(()) if self.away_since.take().is_some() => return Some(Ok(Update::Back)),
                    Ok(()) => continue,
                    Err(error) if error.is_transient() || self.may_be_another_server() => {
                        return Some(self.lost(&error));
                    }
                    Err(error) => return Some(self.fail(error)),
                }
            };
            match connection.next().await {
                Some(Ok(block)) => match self.take(block) {
                    Ok(Some(frame)) => return Some(Ok(Update::Event(frame))),
                    Ok(None) => {}
                    Err(error) => return Some(self.fail(error)),
                },
                Some(Err(error)) => return Some(self.lost(&self.cut_off(innermost(&error)))),
                None if self.is_over().await => self.ended = true,
                None => {
                    return Some(
                        self.lost(&self.cut_off("the stream ended before the run's terminal event".to_owned())),
                    );
                }
            }
        }
        None
    }

    /// While a server moves to another address, another process may answer at the old one.
    fn may_be_another_server(&self) -> bool {
        self.away_since.is_some() && self.client.options().address_lookup.is_some()
    }

    async fn connect(&mut self) -> Result<(), Error> {
        if let Some(pause) = self.pause.take() {
            tokio::time::sleep(pause).await;
        }
        if self.away_since.is_some() {
            self.client.look_up_address();
        }
        let http = self.client.http();
        let mut url = http.url(&["agent-runs", self.run.as_str(), "stream"]);
        if let Some(format) = self.format {
            url.query_pairs_mut().append_pair("format", format);
        }
        let response = http.open(url, self.after).await?;
        self.connection = Some(SseByteStream::new(response.bytes_stream()).boxed());
        Ok(())
    }

    /// The frame of a block, unless the block has no event or one that was returned already.
    fn take(&mut self, block: Sse) -> Result<Option<Frame>, Error> {
        let Some(data) = block.data else { return Ok(None) };
        let json: Value = serde_json::from_str(&data).map_err(|error| invalid_response(&self.client, &error))?;
        let Some(seq) = json["seq"].as_u64().filter(|seq| *seq > self.after) else { return Ok(None) };
        let kind = block.event.or_else(|| json["type"].as_str().map(str::to_owned)).unwrap_or_default();
        self.after = seq;
        self.ended = is_terminal(&kind);
        self.pauses = pauses(self.client.options());
        Ok(Some(Frame { seq, kind, json }))
    }

    fn cut_off(&self, reason: String) -> Error {
        Error::Unreachable { url: self.client.http().origin(), reason, sent: true }
    }

    /// Whether the run has ended and all its events were returned.
    async fn is_over(&mut self) -> bool {
        let run = self.client.get(&self.run).await;
        run.is_ok_and(|run| run.has_ended() && run.last_seq.is_none_or(|last| last <= self.after))
    }

    fn lost(&mut self, error: &Error) -> Result<Update<Frame>, Error> {
        self.connection = None;
        let away = self.away_since.get_or_insert_with(Instant::now).elapsed();
        let (reason, retry_after) = match error {
            Error::Unreachable { reason, .. } => (reason.clone(), None),
            Error::Refused(refusal) => (refusal.to_string(), refusal.retry_after),
            error => (error.to_string(), None),
        };
        let patience = self.client.options().give_up_after.saturating_sub(away);
        if patience.is_zero() {
            return self.fail(Error::GaveUp { run: self.run.clone(), away, reason });
        }
        let pause = self.pauses.next().unwrap_or(FIRST_PAUSE).min(self.client.options().longest_pause);
        let pause = pause.max(retry_after.unwrap_or_default()).min(patience);
        self.pause = Some(pause);
        Ok(Update::Lost(Lost { reason, away, next_try_in: pause }))
    }

    fn fail(&mut self, error: Error) -> Result<Update<Frame>, Error> {
        self.ended = true;
        Err(error)
    }
}
