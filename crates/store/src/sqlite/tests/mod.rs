//! The suite on SQLite, and what only this adapter promises.

mod commits;
mod files;
mod interleavings;
mod stored;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tempfile::TempDir;
use windlass_core::time::Timestamp;

use super::{Options, SqliteStore};
use crate::{
    Store,
    suite::{Bench, store_suite},
};

mod suite {
    use super::*;
    store_suite!(crate::sqlite::tests::bench);
}

fn bench() -> Bench {
    let directory = TempDir::new().unwrap();
    let clock = Arc::new(AtomicU64::new(1));
    let open = {
        let clock = Arc::clone(&clock);
        move || -> Arc<dyn Store> {
            let clock = Arc::clone(&clock);
            let clock = Arc::new(move || Timestamp(clock.load(Ordering::SeqCst)));
            Arc::new(SqliteStore::open(Options { clock, ..Options::new(file(&directory)) }).unwrap())
        }
    };
    Bench { store: open(), another: Box::new(open), clock }
}

fn file(directory: &TempDir) -> PathBuf {
    directory.path().join("windlass.db")
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(Options::new(path)).unwrap()
}
