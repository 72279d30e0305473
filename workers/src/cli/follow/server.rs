//! The logs of a run and of the runs below it, told by a server as one story.
//!
//! A task reads a stream for each run and puts the events in order: a child's before the parent's result of it. What
//! happened before anybody looked is told at once, so that nobody takes a question for open that was answered long ago.

use std::{collections::HashMap, pin::Pin, time::Duration};

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

use super::{logs::Told, source::News};

/// Between two looks for a child that is announced and not there yet.
const NOT_YET: Duration = Duration::from_millis(100);
/// A child that has ended says its last word at once, or never.
const LAST_WORD: Duration = Duration::from_secs(2);

/// What the server tells.
pub(super) struct Feed {
    news: mpsc::UnboundedReceiver<Result<Vec<News>, Error>>,
    /// What came while nobody asked.
    waiting: Vec<Result<Vec<News>, Error>>,
    /// Ends when the feed is dropped.
    _reader: JoinSet<()>,
}

impl Feed {
    pub(super) fn of(client: Client, run: RunId) -> Self {
        let (sender, news) = mpsc::unbounded_channel();
        let mut reader = JoinSet::new();
        reader.spawn(async move {
            let past = client.get(&run).await.ok().and_then(|run| run.last_seq).unwrap_or(0);
            let mut logs = Logs { logs: Vec::new(), client, sender, held: Vec::new(), past };
            let stream = logs.client.log(&run, 0);
            logs.open(run, 0, stream);
            match logs.read().await {
                Ok(()) => {}
                Err(error @ Error::GaveUp { .. }) => logs.tell(News::GaveUp(error.to_string())),
                Err(error) => drop(logs.sender.send(Err(error))),
            }
        });
        Self { news, waiting: Vec::new(), _reader: reader }
    }

    /// Everything that came since the last call.
    pub(super) fn news(&mut self) -> Result<Vec<News>, Error> {
        while let Ok(news) = self.news.try_recv() {
            self.waiting.push(news);
        }
        let mut all = Vec::new();
        for news in self.waiting.drain(..) {
            all.extend(news?);
        }
        Ok(all)
    }

    /// Returns when there is news.
    pub(super) async fn changed(&mut self) {
        match self.news.recv().await {
            Some(news) => self.waiting.push(news),
            None => std::future::pending().await,
        }
    }
}

struct Logs {
    logs: Vec<Log>,
    client: Client,
    sender: mpsc::UnboundedSender<Result<Vec<News>, Error>>,
    /// What is told together.
    held: Vec<News>,
    /// The first log's last event when reading began.
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

    /// Reads whatever comes from whichever log, until the first one has ended.
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
                    let told = Told { run: run.clone(), depth: *depth, event };
                    self.tell(News::Told(told));
                }
                // All go over the same way; one of them tells about it.
                Some(Update::Lost(lost)) if index == 0 => self.tell(News::Gone(lost)),
                Some(Update::Back) if index == 0 => self.tell(News::Back),
                Some(Update::Lost(_) | Update::Back) => {}
            }
            Ok(())
        }
        .boxed()
    }

    fn tell(&mut self, news: News) {
        match &news {
            News::Told(Told { depth: 0, event, .. }) if event.seq >= self.past => self.past = 0,
            News::Told(_) => {}
            // Whoever waits for the past should know why.
            News::Gone(_) | News::Back | News::GaveUp(_) => self.past = 0,
        }
        self.held.push(news);
        if self.past == 0 {
            self.sender.send(Ok(std::mem::take(&mut self.held))).ok();
        }
    }

    /// What must be told before this event is.
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
        // It may never have begun.
        if *begun || self.client.get(run).await.is_ok() {
            while !self.logs[child].ended
                && let Ok(update) = timeout(LAST_WORD, self.logs[child].stream.next()).await
            {
                self.take(child, update).await?;
            }
        }
        self.logs[child].ended = true;
        Ok(())
    }
}

/// A child is announced before it is there.
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
