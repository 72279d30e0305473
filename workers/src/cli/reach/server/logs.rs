//! The logs of a run and of its child runs, read from an API server as one sequence.
//!
//! A task reads one stream per run and puts the events in order: a child's before the parent's result of it. Events that
//! were written before the feed began are delivered together, so that a question that was answered meanwhile is not asked.

use std::{collections::HashMap, pin::Pin, time::Duration};

use async_trait::async_trait;
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, select_all},
    stream,
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use windlass_client::{Client, Error, LogStream, Update};
use windlass_core::{
    event::{Event, EventBody},
    ids::{CallId, RunId},
};

use super::super::{Feed, News, RunEvent};
use crate::cli::Failure;

/// The pause between two requests for a child run that is linked and not started yet.
const NOT_YET: Duration = Duration::from_millis(100);
/// How long to wait for the terminal event of a child run that has ended.
const LAST_EVENT: Duration = Duration::from_secs(2);

pub(super) struct LogFeed {
    received: mpsc::UnboundedReceiver<Result<Vec<News>, Error>>,
    /// Received by `changed`, not yet returned by `news`.
    waiting: Vec<Result<Vec<News>, Error>>,
    /// The reading task ends when the feed is dropped.
    _reader: JoinSet<()>,
}

impl LogFeed {
    pub(super) fn of(client: Client, run: RunId) -> Self {
        let (sender, received) = mpsc::unbounded_channel();
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            let past = client.get(&run).await.ok().and_then(|run| run.last_seq).unwrap_or(0);
            let mut logs = Logs { logs: Vec::new(), client, sender, held: Vec::new(), past };
            let stream = logs.client.log(&run, 0);
            logs.open(run, 0, stream);
            match logs.read().await {
                Ok(()) => {}
                Err(error @ Error::GaveUp { .. }) => logs.deliver(News::GaveUp(error.to_string())),
                Err(error) => drop(logs.sender.send(Err(error))),
            }
        });
        Self { received, waiting: Vec::new(), _reader: reader }
    }
}

#[async_trait]
impl Feed for LogFeed {
    async fn news(&mut self) -> Result<Vec<News>, Failure> {
        while let Ok(news) = self.received.try_recv() {
            self.waiting.push(news);
        }
        let mut all = Vec::new();
        for news in self.waiting.drain(..) {
            all.extend(news?);
        }
        Ok(all)
    }

    async fn changed(&mut self) {
        match self.received.recv().await {
            Some(news) => self.waiting.push(news),
            None => std::future::pending().await,
        }
    }
}

struct Logs {
    logs: Vec<Log>,
    client: Client,
    sender: mpsc::UnboundedSender<Result<Vec<News>, Error>>,
    /// Events that are delivered together.
    held: Vec<News>,
    /// The last seq of the first log when the feed began; 0 once it was delivered.
    past: u64,
}

struct Log {
    run: RunId,
    depth: usize,
    stream: LogStream,
    /// Which log answers which call.
    children: HashMap<CallId, usize>,
    begun: bool,
    ended: bool,
}

impl Logs {
    fn open(&mut self, run: RunId, depth: usize, stream: LogStream) -> usize {
        self.logs.push(Log { run, depth, stream, children: HashMap::new(), begun: false, ended: false });
        self.logs.len() - 1
    }

    /// Reads from all logs until the first one has ended.
    async fn read(&mut self) -> Result<(), Error> {
        while !self.logs[0].ended {
            let open: Vec<usize> = (0..self.logs.len()).filter(|index| !self.logs[*index].ended).collect();
            let streams = self.logs.iter_mut().filter(|log| !log.ended).map(|log| log.stream.next());
            let (update, first, _) = select_all(streams).await;
            self.take(open[first], update).await?;
        }
        Ok(())
    }

    fn take(&mut self, index: usize, update: Option<Result<Update<Event>, Error>>) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            match update.transpose()? {
                None => self.logs[index].ended = true,
                Some(Update::Event(event)) => {
                    self.before(index, &event).await?;
                    let Log { run, depth, begun, ended, .. } = &mut self.logs[index];
                    (*begun, *ended) = (true, event.is_terminal());
                    let event = RunEvent { run: run.clone(), depth: *depth, event };
                    self.deliver(News::Event(event));
                }
                // All streams use the same connection; the first one reports its state.
                Some(Update::Lost(lost)) if index == 0 => self.deliver(News::ServerLost(lost)),
                Some(Update::Back) if index == 0 => self.deliver(News::ServerBack),
                Some(Update::Lost(_) | Update::Back) => {}
            }
            Ok(())
        }
        .boxed()
    }

    fn deliver(&mut self, news: News) {
        match &news {
            News::Event(RunEvent { depth: 0, event, .. }) if event.seq >= self.past => self.past = 0,
            News::Event(_) => {}
            // Delivered at once: they explain why events are missing.
            News::ServerLost(_) | News::ServerBack | News::GaveUp(_) => self.past = 0,
        }
        self.held.push(news);
        if self.past == 0 {
            self.sender.send(Ok(std::mem::take(&mut self.held))).ok();
        }
    }

    /// Reads what comes before this event.
    async fn before(&mut self, index: usize, event: &Event) -> Result<(), Error> {
        match event.body() {
            Ok(EventBody::ChildRunLinked { tool_use_id, child_run_id, .. }) => {
                let stream = log_of_child(self.client.clone(), child_run_id.clone());
                let child = self.open(child_run_id, self.logs[index].depth + 1, stream);
                self.logs[index].children.insert(tool_use_id, child);
            }
            Ok(EventBody::ToolResult { tool_use_id, .. }) => {
                if let Some(child) = self.logs[index].children.remove(&tool_use_id) {
                    self.read_to_its_end(child).await?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    async fn read_to_its_end(&mut self, child: usize) -> Result<(), Error> {
        let Log { run, begun, .. } = &self.logs[child];
        // It may never have started.
        if *begun || self.client.get(run).await.is_ok() {
            while !self.logs[child].ended
                && let Ok(update) = timeout(LAST_EVENT, self.logs[child].stream.next()).await
            {
                self.take(child, update).await?;
            }
        }
        self.logs[child].ended = true;
        Ok(())
    }
}

/// The log of a child run. Its link is written before the child is started.
fn log_of_child(client: Client, run: RunId) -> LogStream {
    let opened = async move {
        loop {
            let mut log = client.log(&run, 0).peekable();
            match Pin::new(&mut log).peek().await {
                Some(Err(error)) if error.status() == Some(404) => tokio::time::sleep(NOT_YET).await,
                _ => return log,
            }
        }
    };
    stream::once(opened).flatten().boxed()
}
