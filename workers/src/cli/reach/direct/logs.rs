//! The logs of a run and of its child runs, read from the store as one sequence.
//!
//! A child's log is read before the parent's result of it, so that the order is the same whether the run is followed live
//! or read afterwards.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt as _, select_all};
use windlass_core::{
    event::{Event, EventBody},
    ids::{CallId, RunId},
};
use windlass_ops::complete_entry;
use windlass_store::{EventWatch, Result, Store};

use super::super::{Feed, News, RunEvent};
use crate::cli::Failure;

const PAGE: u32 = 500;

pub(super) struct Logs {
    store: Arc<dyn Store>,
    logs: Vec<Log>,
}

struct Log {
    run: RunId,
    depth: usize,
    after: u64,
    watch: EventWatch,
    /// Which log answers which call.
    children: HashMap<CallId, usize>,
    ended: bool,
}

impl Logs {
    pub(super) fn of(store: Arc<dyn Store>, run: RunId) -> Self {
        let mut logs = Self { store, logs: Vec::new() };
        logs.open(run, 0);
        logs
    }

    fn open(&mut self, run: RunId, depth: usize) -> usize {
        // Watched before it is read, so that no event is missed in between.
        let watch = self.store.watch(&run);
        self.logs.push(Log { run, depth, after: 0, watch, children: HashMap::new(), ended: false });
        self.logs.len() - 1
    }

    /// Everything new since the last call.
    async fn read_all(&mut self) -> Result<Vec<RunEvent>> {
        let mut read = Vec::new();
        let mut index = 0;
        // A log that is opened meanwhile is read, too.
        while index < self.logs.len() {
            self.read(index, &mut read).await?;
            index += 1;
        }
        Ok(read)
    }

    fn read<'a>(&'a mut self, index: usize, read: &'a mut Vec<RunEvent>) -> BoxFuture<'a, Result<()>> {
        async move {
            loop {
                let Log { run, depth, after, ended, .. } = &self.logs[index];
                if *ended {
                    return Ok(());
                }
                let (run, depth) = (run.clone(), *depth);
                let page = self.store.events(&run, *after, PAGE).await?;
                if page.is_empty() {
                    return Ok(());
                }
                for event in page {
                    self.before(index, &event, read).await?;
                    let log = &mut self.logs[index];
                    (log.after, log.ended) = (event.seq, event.is_terminal());
                    read.push(RunEvent { run: run.clone(), depth, event });
                }
            }
        }
        .boxed()
    }

    /// Reads what comes before this event.
    async fn before(&mut self, index: usize, event: &Event, read: &mut Vec<RunEvent>) -> Result<()> {
        match event.body() {
            Ok(EventBody::ChildRunLinked { tool_use_id, child_run_id, .. }) => {
                let child = self.open(child_run_id, self.logs[index].depth + 1);
                self.logs[index].children.insert(tool_use_id, child);
            }
            Ok(EventBody::ToolResult { tool_use_id, .. }) => {
                if let Some(child) = self.logs[index].children.remove(&tool_use_id) {
                    self.read(child, read).await?;
                    // It may have ended without a terminal event; no event will follow.
                    self.logs[child].ended = true;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[async_trait]
impl Feed for Logs {
    async fn news(&mut self) -> std::result::Result<Vec<News>, Failure> {
        let mut news = Vec::new();
        for RunEvent { run, depth, event } in self.read_all().await? {
            let event = complete_entry(&*self.store, event).await?;
            news.push(News::Event(RunEvent { run, depth, event }));
        }
        Ok(news)
    }

    async fn changed(&mut self) {
        let open = self.logs.iter_mut().filter(|log| !log.ended).map(|log| log.watch.changed().boxed());
        let open: Vec<_> = open.collect();
        if open.is_empty() {
            return std::future::pending().await;
        }
        select_all(open).await;
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{
        canonical::Digest,
        envelope::{CallStatus, Extra, Labels, TokenUsage},
        event::NewEvent,
        time::Millis,
    };
    use windlass_store::{
        Events, NewRun, Runs,
        sqlite::{Options, SqliteStore},
    };

    use super::*;

    async fn open_run(store: &SqliteStore, id: &str, parent: Option<&str>) {
        let started = EventBody::Started {
            agent_id: "a".into(),
            workspace: "w".into(),
            session_id: None,
            parent_run_id: parent.map(Into::into),
            parent_tool_call_id: None,
            model_id: "m".into(),
            labels: Labels::new(),
            metadata: Extra::new(),
            started_by: None,
        };
        let run = NewRun {
            id: id.into(),
            workspace: "w".into(),
            session: None,
            execution: "execution-1".to_owned(),
            agent_id: "a".into(),
            agent_digest: Digest::ZERO,
            model_id: "m".into(),
            parent: parent.map(Into::into),
            parent_call: parent.map(|_| "call-0-0".into()),
            labels: Labels::new(),
            metadata: Extra::new(),
            continues_session: false,
            messages: Vec::new(),
            started: NewEvent::new("started", started),
        };
        store.open_run(run).await.unwrap();
    }

    async fn append(store: &SqliteStore, run: &str, key: &str, body: EventBody) {
        store.append_events(&run.into(), vec![NewEvent::new(key, body)]).await.unwrap();
    }

    fn linked() -> EventBody {
        EventBody::ChildRunLinked {
            tool_use_id: "call-0-0".into(),
            name: "sub".into(),
            child_run_id: "r/c".into(),
            child_agent_id: "a".into(),
        }
    }

    fn result_of_child() -> EventBody {
        EventBody::ToolResult {
            tool_use_id: "call-0-0".into(),
            name: "sub".into(),
            ok: true,
            status: CallStatus::Ok,
            result: None,
            result_bytes: 0,
            error: None,
            retry_hint: None,
            telemetry: None,
        }
    }

    fn end() -> EventBody {
        EventBody::Cancelled {
            reason: "x".into(),
            turns: 1,
            tool_calls: 0,
            active_ms: Millis(1),
            usage: TokenUsage::default(),
            model: None,
            structured_output: None,
        }
    }

    async fn new_events(logs: &mut Logs) -> Vec<String> {
        let read = logs.read_all().await.unwrap();
        read.into_iter().map(|read| format!("{}:{} {}", read.depth, read.run, read.event.kind)).collect()
    }

    #[tokio::test]
    async fn the_logs_of_a_finished_run_are_read_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(Options::new(directory.path().join("x.db"))).unwrap());
        open_run(&store, "r", None).await;
        append(&store, "r", "link", linked()).await;
        open_run(&store, "r/c", Some("r")).await;
        append(&store, "r/c", "end", end()).await;
        append(&store, "r", "result", result_of_child()).await;
        append(&store, "r", "end", end()).await;
        let mut logs = Logs::of(store, "r".into());
        let expected = [
            "0:r started",
            "0:r child_run_linked",
            "1:r/c started",
            "1:r/c cancelled",
            "0:r tool_result",
            "0:r cancelled",
        ];
        assert_eq!(new_events(&mut logs).await, expected);
        assert_eq!(new_events(&mut logs).await, [""; 0]);
    }

    #[tokio::test]
    async fn the_logs_of_a_running_run_are_read_as_they_grow() {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(Options::new(directory.path().join("x.db"))).unwrap());
        let mut logs = Logs::of(store.clone(), "r".into());
        assert_eq!(new_events(&mut logs).await, [""; 0]);
        open_run(&store, "r", None).await;
        logs.changed().await;
        assert_eq!(new_events(&mut logs).await, ["0:r started"]);
        append(&store, "r", "link", linked()).await;
        logs.changed().await;
        assert_eq!(new_events(&mut logs).await, ["0:r child_run_linked"]);
        open_run(&store, "r/c", Some("r")).await;
        logs.changed().await;
        assert_eq!(new_events(&mut logs).await, ["1:r/c started"]);
    }
}
