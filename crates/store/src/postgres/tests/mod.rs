//! The suite on Postgres, and what only this adapter promises.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures_util::FutureExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use windlass_core::time::Timestamp;

use super::{Clock, Options, PostgresStore, testing::TestServer};
use crate::{
    Store,
    suite::{Bench, store_suite},
};

mod connections;
mod older_build;
mod processes;
mod tls;

mod suite {
    use super::*;
    store_suite!(crate::postgres::tests::bench);
}

async fn bench() -> Bench {
    let url = TestServer::shared().database().await;
    let clock = Arc::new(AtomicU64::new(1));
    let store: Arc<dyn Store> = Arc::new(connect(url.clone(), &clock).await);
    let another = {
        let clock = Arc::clone(&clock);
        move || {
            let (url, clock) = (url.clone(), Arc::clone(&clock));
            async move { Arc::new(connect(url, &clock).await) as Arc<dyn Store> }.boxed()
        }
    };
    Bench { store, another: Box::new(another), clock }
}

async fn connect(url: SecretString, clock: &Arc<AtomicU64>) -> PostgresStore {
    let clock = Arc::clone(clock);
    let clock: Clock = Arc::new(move || Timestamp(clock.load(Ordering::SeqCst)));
    PostgresStore::connect(Options { clock, ..Options::new(url) }).await.unwrap()
}

/// A shell on a store's database.
async fn shell(url: &SecretString) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url.expose_secret(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn open(url: SecretString) -> PostgresStore {
    PostgresStore::connect(Options::new(url)).await.unwrap()
}
