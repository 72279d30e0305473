//! Files after a power failure: the end of the log is missing or damaged. The engine continues with the intact part.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use temporalio_protos::temporal::api::enums::v1::EventType;
use windlass_engine::Limits;

use super::host::{Host, file, workflow_of};
use crate::{proofs::dice::Dice, support::block_on};

const RUNS: usize = 6;

/// Copies of a living engine's files.
struct Wreck {
    database: Vec<u8>,
    log: Vec<u8>,
    /// The log's length after every run had its first signal, and at the end.
    safe: usize,
    end: usize,
}

fn log_of(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Starts runs and signals each of them twice. `None` if the log was checkpointed meanwhile.
async fn wreck() -> Option<Wreck> {
    let directory = TempDir::new().unwrap();
    let (database, log) = (file(directory.path()), log_of(&file(directory.path())));
    let host = Host::start(&directory, Limits::default()).await;
    for n in 0..RUNS {
        host.begin(&format!("w{n}")).await.unwrap();
        host.signal(&format!("w{n}"), "first").await.unwrap();
    }
    let before = (fs::read(&database).unwrap(), fs::read(&log).unwrap());
    for n in 0..RUNS {
        host.signal(&format!("w{n}"), "second").await.unwrap();
    }
    let after = (fs::read(&database).unwrap(), fs::read(&log).unwrap());
    host.stop().await;
    // The rest of the file is preallocated.
    let end = |log: &[u8]| log.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let (safe, end) = (end(&before.1), end(&after.1));
    let appended = before.0 == after.0 && safe < end && after.1.starts_with(&before.1[..safe]);
    appended.then_some(Wreck { database: after.0, log: after.1, safe, end })
}

/// Starts an engine with this log and returns how many of the second signals it has.
async fn signals_found(wreck: &Wreck, log: &[u8]) -> usize {
    let directory = TempDir::new().unwrap();
    let database = file(directory.path());
    fs::write(&database, &wreck.database).unwrap();
    fs::write(log_of(&database), log).unwrap();
    let host = Host::start(&directory, Limits::default()).await;
    let mut second = Vec::new();
    for n in 0..RUNS {
        let events = host.history(&format!("w{n}")).await;
        let kinds: Vec<_> = events.iter().map(|event| event.event_type()).collect();
        let ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
        let whole = [
            EventType::WorkflowExecutionStarted,
            EventType::WorkflowTaskScheduled,
            EventType::WorkflowExecutionSignaled,
            EventType::WorkflowExecutionSignaled,
        ];
        assert!(kinds == whole || kinds == whole[..3], "{kinds:?}");
        assert_eq!(ids, [1, 2, 3, 4][..ids.len()]);
        second.push(kinds.len() == whole.len());
    }
    // They were sent one after the other, so the remaining ones are a prefix.
    assert!(second.is_sorted_by(|a, b| a >= b), "{second:?}");

    // Every workflow task is there, and the lost signals can be sent again.
    let mut handed_out = Vec::new();
    for n in 0..RUNS {
        host.signal(&format!("w{n}"), "second").await.unwrap();
        let task = host.workflow_task(false).await.unwrap();
        handed_out.push(workflow_of(&task));
        host.decide(&task, Vec::new()).await.unwrap();
    }
    handed_out.sort();
    assert_eq!(handed_out, (0..RUNS).map(|n| format!("w{n}")).collect::<Vec<_>>());
    host.stop().await;
    second.into_iter().filter(|found| *found).count()
}

#[test]
fn a_truncated_log_loses_only_its_end() {
    block_on(async {
        let wreck = loop {
            if let Some(wreck) = wreck().await {
                break wreck;
            }
        };
        let mut dice = Dice::seeded(3);
        assert_eq!(signals_found(&wreck, &wreck.log).await, RUNS);
        assert_eq!(signals_found(&wreck, &wreck.log[..wreck.safe]).await, 0);
        let mut found = Vec::new();
        for _ in 0..6 {
            let at = wreck.safe + dice.roll((wreck.end - wreck.safe) as u64) as usize;
            let cut = signals_found(&wreck, &wreck.log[..at]).await;
            let mut damaged = wreck.log.clone();
            damaged[at] ^= 0xff;
            assert_eq!(signals_found(&wreck, &damaged).await, cut, "damage at {at} cuts there");
            found.push(cut);
        }
        println!("torn at 6 places: {found:?} of {RUNS} unsafe signals were left, all safe ones were there");
    });
}
