//! The suite on SQLite, and what only this adapter promises.

mod commits;
mod files;
mod interleavings;
mod shared;
mod splices;
mod stored;
mod upgrade;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::{FutureExt as _, future::ready};
use tempfile::TempDir;
use windlass_core::time::Timestamp;

use super::{Ack, Clock, Database, Options, SqliteStore};
use crate::{
    Store,
    suite::{Bench, store_suite},
};

mod suite {
    use super::*;
    store_suite!(crate::sqlite::tests::bench);
}

mod suite_with_relaxed_writes {
    use super::*;
    store_suite!(crate::sqlite::tests::relaxed_bench);
}

async fn bench() -> Bench {
    bench_of(|path, clock| SqliteStore::open(Options { clock, ..Options::new(path) }).unwrap())
}

async fn relaxed_bench() -> Bench {
    bench_of(|path, clock| {
        let database = Database::open(windlass_sqlite::Options::new(path)).unwrap();
        SqliteStore::on(database, clock, Ack::Relaxed).unwrap()
    })
}

fn bench_of(open: impl Fn(PathBuf, Clock) -> SqliteStore + Send + Sync + 'static) -> Bench {
    let directory = TempDir::new().unwrap();
    let clock = Arc::new(AtomicU64::new(1));
    let open = {
        let clock = Arc::clone(&clock);
        move || -> Arc<dyn Store> {
            let clock = Arc::clone(&clock);
            Arc::new(open(file(&directory), Arc::new(move || Timestamp(clock.load(Ordering::SeqCst)))))
        }
    };
    let store = open();
    let another = move || {
        let store = open();
        ready(store).boxed()
    };
    Bench { store, another: Box::new(another), clock }
}

fn file(directory: &TempDir) -> PathBuf {
    directory.path().join("windlass.db")
}

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(Options::new(path)).unwrap()
}
