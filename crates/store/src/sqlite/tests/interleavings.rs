//! Appends with repeated keys, in any order and from two stores, against the obvious model.

use std::cell::Cell;

use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;
use windlass_core::ids::RunId;

use super::{
    super::{Durability, Options, SqliteStore},
    file,
};
use crate::{
    Events, Runs,
    suite::{new_run, note},
};

/// Which store appends, and the keys of its events. Few keys, so that most batches repeat some.
fn appends() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    vec((0..2_usize, vec(0..12_u8, 0..5)), 0..12)
}

#[test]
fn seq_is_gapless_and_what_was_read_once_never_changes() {
    let directory = TempDir::new().unwrap();
    let options = Options { durability: Durability::Relaxed, ..Options::new(file(&directory)) };
    let stores = [0, 1].map(|_| SqliteStore::open(options.clone()).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let cases = Cell::new(0);
    proptest!(|(appends in appends())| {
        cases.set(cases.get() + 1);
        let run = RunId::new(format!("case-{}", cases.get()));
        runtime.block_on(check(&stores, &run, appends))?;
    });
}

async fn check(stores: &[SqliteStore; 2], run: &RunId, appends: Vec<(usize, Vec<u8>)>) -> Result<(), TestCaseError> {
    stores[0].open_run(new_run(run, &["hello"])).await.unwrap();
    let mut model = vec!["started".to_owned()];
    let mut log = stores[0].events(run, 0, u32::MAX).await.unwrap();
    for (writer, keys) in appends {
        let keys: Vec<String> = keys.iter().map(u8::to_string).collect();
        let events = keys.iter().map(|key| note(key, key)).collect();
        let last_seq = stores[writer].append_events(run, events).await.unwrap();
        for key in keys {
            if !model.contains(&key) {
                model.push(key);
            }
        }
        let read = stores[1 - writer].events(run, 0, u32::MAX).await.unwrap();
        prop_assert_eq!(last_seq, model.len() as u64);
        prop_assert_eq!(&read[..log.len()], &log);
        let entries: Vec<_> = read.iter().map(|event| (event.seq, event.key.clone())).collect();
        prop_assert_eq!(entries, (1..).zip(model.iter().cloned()).collect::<Vec<_>>());
        log = read;
    }
    Ok(())
}
