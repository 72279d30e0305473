//! Notices what other processes write to the same file.
//!
//! SQLite has no notifications across processes, but it keeps a number that changes with every commit of another
//! connection. One thread per store reads that number while runs are watched, and sleeps otherwise. After a commit
//! it reads which events came since it last looked; they lie in the order in which they were written.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension as _, Row};
use windlass_core::ids::RunId;

use super::columns::{Uint, readable};
use crate::{
    Result, StoreError,
    watch::{Look, Watchers},
};

const INTERVAL: Duration = Duration::from_millis(50);

const EVENTS_FROM: &str = "SELECT events.number, id, seq FROM events CROSS JOIN runs ON runs.number = run WHERE events.number >= ?1 ORDER BY events.number";
const NEWEST_EVENT: &str = "SELECT events.number, id, seq FROM events CROSS JOIN runs ON runs.number = run ORDER BY events.number DESC LIMIT 1";
const LAST_SEQ: &str = "SELECT last_seq FROM runs WHERE id = ?1";

/// The thread that looks. It ends when the registry is closed.
#[derive(Debug)]
pub(super) struct Poller {
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Poller {
    pub(super) fn start(sql: Connection, watchers: Arc<Watchers>) -> Result<Self> {
        let thread = thread::Builder::new()
            .name("windlass-store-poll".to_owned())
            .spawn(move || poll(&sql, &watchers))
            .map_err(|error| StoreError::Unavailable { action: "start its poller", detail: error.to_string() })?;
        Ok(Self { thread: Mutex::new(Some(thread)) })
    }

    /// Waits for the thread to end.
    pub(super) fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the store's poller panicked");
        }
    }
}

fn poll(sql: &Connection, watchers: &Watchers) {
    let mut seen = None;
    let mut failing = false;
    while let Some(whom) = watchers.next_look(INTERVAL) {
        match look(sql, watchers, seen.take(), whom) {
            Ok(now) => (seen, failing) = (Some(now), false),
            Err(_) if failing => {}
            Err(error) => {
                tracing::warn!(%error, "cannot look for events of other processes");
                failing = true;
            }
        }
    }
}

/// How far a look saw.
struct Seen {
    version: i64,
    newest: Place,
}

/// An event by its place among those of all runs. Place zero is before the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Place {
    number: i64,
    run: String,
    seq: u64,
}

impl Place {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { number: row.get(0)?, run: row.get(1)?, seq: row.get::<_, Uint>(2)?.0 })
    }
}

/// Tells the watchers what is new. Without an earlier look to go by, each run is asked for; what a failed look missed is
/// found that way.
///
/// The version is read before the logs: a commit in between shows up as a new version next time.
fn look(sql: &Connection, watchers: &Watchers, seen: Option<Seen>, whom: Look) -> Result<Seen> {
    let version = sql.pragma_query_value(None, "data_version", |row| row.get(0))?;
    let followed = match seen {
        Some(seen) if seen.version == version => Some(seen.newest),
        // While no run was watched, more may have been written than there are runs to ask for.
        Some(seen) if whom.others => follow(sql, watchers, seen.newest)?,
        _ => None,
    };
    let (newest, runs) = match followed {
        Some(newest) => (newest, whom.newcomers),
        None => (newest_event(sql)?, watchers.watched()),
    };
    for run in runs {
        if let Some(Uint(seq)) = sql.prepare_cached(LAST_SEQ)?.query_row([run.as_str()], |row| row.get(0)).optional()? {
            watchers.reached(&run, seq);
        }
    }
    Ok(Seen { version, newest })
}

/// Tells of the events after `from` and returns the newest of them. A sweep that deletes the newest events lets their
/// numbers be given again: when `from` is no longer where it was, what came after it is unknown.
fn follow(sql: &Connection, watchers: &Watchers, from: Place) -> Result<Option<Place>> {
    let mut events = sql.prepare_cached(EVENTS_FROM)?;
    let mut events = readable(events.query([from.number])?, ("events", 0), Place::of)?.into_iter();
    if from != Place::default() && events.next().as_ref() != Some(&from) {
        return Ok(None);
    }
    let (mut newest, mut reached) = (from, HashMap::new());
    for event in events {
        newest = event;
        reached.insert(newest.run.clone(), newest.seq);
    }
    for (run, seq) in reached {
        watchers.reached(&RunId::new(run), seq);
    }
    Ok(Some(newest))
}

fn newest_event(sql: &Connection) -> Result<Place> {
    Ok(sql.prepare_cached(NEWEST_EVENT)?.query_row([], Place::of).optional()?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use rusqlite::StatementStatus;
    use tempfile::TempDir;
    use windlass_core::{
        run::{Phase, RunStatus},
        time::Timestamp,
    };

    use super::*;
    use crate::{
        EventWatch, Events, Housekeeping, RecordBatch, Retention, Runs,
        sqlite::{Options, SqliteStore},
        suite::{batch, endings::result, new_run, note},
    };

    /// A poller that looks when it is told to, on a file that another process writes.
    struct Bench {
        other: SqliteStore,
        sql: Connection,
        watchers: Arc<Watchers>,
        seen: Option<Seen>,
        _directory: TempDir,
    }

    /// What a look did.
    #[derive(Debug, PartialEq)]
    struct Looked {
        woken: Vec<&'static str>,
        read_on: i32,
        asked_for: i32,
    }

    impl Bench {
        async fn with_runs(runs: &[&str]) -> Self {
            let directory = TempDir::new().unwrap();
            let path = directory.path().join("windlass.db");
            let other = SqliteStore::open(Options::new(&path)).unwrap();
            for run in runs {
                other.open_run(new_run(&RunId::new(*run), &["hello"])).await.unwrap();
            }
            let sql = Connection::open(&path).unwrap();
            Self { other, sql, watchers: Arc::default(), seen: None, _directory: directory }
        }

        fn watch(&self, run: &'static str) -> (&'static str, EventWatch) {
            (run, self.watchers.watch(&RunId::new(run)))
        }

        async fn append(&self, run: &str, keys: &[&str]) {
            let events = keys.iter().map(|key| note(key, "x")).collect();
            self.other.append_events(&RunId::new(run), events).await.unwrap();
        }

        fn look(&mut self, watches: &mut [(&'static str, EventWatch)]) -> Looked {
            let whom = self.watchers.next_look(Duration::ZERO).unwrap();
            self.seen = Some(look(&self.sql, &self.watchers, self.seen.take(), whom).unwrap());
            let times = |sql| self.sql.prepare_cached(sql).unwrap().reset_status(StatementStatus::Run);
            let woken = watches.iter_mut().filter_map(|(run, watch)| watch.changed().now_or_never().map(|()| *run));
            Looked { woken: woken.collect(), read_on: times(EVENTS_FROM), asked_for: times(LAST_SEQ) }
        }
    }

    #[tokio::test]
    async fn one_query_finds_all_runs_with_new_events_and_no_others() {
        let mut bench = Bench::with_runs(&["a", "b", "c", "d", "e"]).await;
        let mut watches = vec![bench.watch("a"), bench.watch("b"), bench.watch("c")];
        assert_eq!(bench.look(&mut watches), Looked { woken: vec!["a", "b", "c"], read_on: 0, asked_for: 3 });
        assert_eq!(bench.look(&mut watches), Looked { woken: vec![], read_on: 0, asked_for: 0 });

        bench.append("a", &["1", "2"]).await;
        bench.append("d", &["1"]).await;
        bench.append("c", &["1"]).await;
        assert_eq!(bench.look(&mut watches), Looked { woken: vec!["a", "c"], read_on: 1, asked_for: 0 });

        watches.push(bench.watch("d"));
        assert_eq!(bench.look(&mut watches), Looked { woken: vec!["d"], read_on: 0, asked_for: 1 });

        bench.append("b", &["1"]).await;
        watches.push(bench.watch("e"));
        assert_eq!(bench.look(&mut watches), Looked { woken: vec!["b", "e"], read_on: 1, asked_for: 1 });
    }

    #[tokio::test]
    async fn events_written_while_no_run_was_watched_are_not_read() {
        let mut bench = Bench::with_runs(&["a", "b"]).await;
        let mut watches = [bench.watch("a")];
        bench.look(&mut watches);
        drop(watches);
        bench.append("a", &["1"]).await;
        bench.append("b", &["1"]).await;
        let mut watches = [bench.watch("b")];
        assert_eq!(bench.look(&mut watches), Looked { woken: vec!["b"], read_on: 0, asked_for: 1 });
        bench.append("b", &["2"]).await;
        assert_eq!(bench.look(&mut watches), Looked { woken: vec!["b"], read_on: 1, asked_for: 0 });
    }

    #[tokio::test]
    async fn events_at_the_places_of_swept_ones_are_found() {
        let mut bench = Bench::with_runs(&["a", "b"]).await;
        let over = RunId::new("over");
        let head = bench.other.open_run(new_run(&over, &["hello"])).await.unwrap();
        let (status, phase, events) = (RunStatus::Completed, Phase::Done, vec![result("done")]);
        bench.other.record(RecordBatch { events, status, phase, ..batch(&over, head) }).await.unwrap();
        let mut watches = [bench.watch("a"), bench.watch("b")];
        bench.look(&mut watches);

        let forever = Retention { before: Timestamp(i64::MAX as u64), limit: 10 };
        assert_eq!(bench.other.sweep(forever).await.unwrap().events, 2);
        bench.append("a", &["1"]).await;
        bench.append("b", &["1", "2"]).await;
        assert_eq!(bench.look(&mut watches), Looked { woken: vec!["a", "b"], read_on: 1, asked_for: 2 });
        bench.append("a", &["2"]).await;
        assert_eq!(bench.look(&mut watches), Looked { woken: vec!["a"], read_on: 1, asked_for: 0 });
    }
}
