//! Push configs.

use std::sync::Arc;

use windlass_core::{ids::RunId, limits::PUSH_CONFIGS, time::Timestamp};

use super::{Bench, batch, cancelled, code, run_id, workspace};
use crate::{
    KeyRing, NewPushConfig, PushConfigRow, Reader, RecordBatch, ReservedRun, Retention, SecretKey, SecretOwner, Vault,
    testing::reserved,
};

fn config(id: &str, secret: &str) -> NewPushConfig {
    let (id, secret) = (id.to_owned(), secret.to_owned());
    NewPushConfig { run: run_id(), id, workspace: workspace(), version: "1.0".to_owned(), secret }
}

fn row(id: &str, secret: &str, created_at: Timestamp) -> PushConfigRow {
    let NewPushConfig { run, id, workspace, version, secret } = config(id, secret);
    PushConfigRow { run, id, workspace, version, secret, created_at, ended_at: None, error: None }
}

/// A secret of the run, and its name.
async fn secret(vault: &Vault, field: &str) -> String {
    vault.split(&workspace(), &SecretOwner::Run(run_id()), field, &"https://example.com/".into()).await.unwrap()
}

async fn is_there(vault: &Vault, name: &str) -> bool {
    vault.get(&workspace(), name, Reader { run: &run_id(), session: None }).await.is_ok()
}

fn vault(bench: &Bench) -> Vault {
    Vault::new(Arc::clone(&bench.store) as _, KeyRing::new(SecretKey::random().unwrap(), Vec::new()))
}

pub(crate) async fn a_config_is_put_listed_and_deleted(bench: Bench) {
    let store = &bench.store;
    assert_eq!(code(store.put_push_config(config("a", "s")).await), "STO0001");
    bench.open(&run_id()).await;
    let elsewhere = NewPushConfig { workspace: "rival".into(), ..config("a", "s") };
    assert_eq!(code(store.put_push_config(elsewhere).await), "STO0001", "a run of another workspace");
    let at = bench.at(10);
    let later = Timestamp(20);
    assert_eq!(store.put_push_config(config("b", "s-b")).await.unwrap(), row("b", "s-b", at));
    bench.at(20);
    assert_eq!(store.put_push_config(config("a", "s-a")).await.unwrap(), row("a", "s-a", later));
    assert_eq!(store.push_configs(&run_id()).await.unwrap(), [row("b", "s-b", at), row("a", "s-a", later)]);
    assert_eq!(store.push_config(&run_id(), "a").await.unwrap(), Some(row("a", "s-a", later)));
    for (run, id) in [(run_id(), "c"), (run_id(), "a\0"), (RunId::new("other"), "a")] {
        assert_eq!(store.push_config(&run, id).await.unwrap(), None);
        assert!(!store.delete_push_config(&run, id).await.unwrap());
    }
    assert!(store.delete_push_config(&run_id(), "b").await.unwrap());
    assert!(!store.delete_push_config(&run_id(), "b").await.unwrap());
    assert_eq!(store.push_configs(&run_id()).await.unwrap(), [row("a", "s-a", later)]);
}

pub(crate) async fn a_config_that_was_given_up_is_open_again_when_it_is_put_again(bench: Bench) {
    let store = &bench.store;
    bench.open(&run_id()).await;
    let created = bench.at(10);
    store.put_push_config(config("a", "s")).await.unwrap();
    let ended = bench.at(20);
    store.end_push_config(&run_id(), "a", Some("gone")).await.unwrap();
    store.end_push_config(&run_id(), "unknown", None).await.unwrap();
    let given_up = PushConfigRow { ended_at: Some(ended), error: Some("gone".to_owned()), ..row("a", "s", created) };
    assert_eq!(store.push_config(&run_id(), "a").await.unwrap(), Some(given_up));
    assert_eq!(store.put_push_config(config("a", "s-2")).await.unwrap(), row("a", "s-2", created));
}

pub(crate) async fn a_run_has_a_limited_number_of_configs(bench: Bench) {
    bench.open(&run_id()).await;
    for number in 0..PUSH_CONFIGS {
        bench.store.put_push_config(config(&number.to_string(), "s")).await.unwrap();
    }
    assert_eq!(code(bench.store.put_push_config(config("more", "s")).await), "STO0011");
    bench.store.put_push_config(config("0", "s")).await.unwrap();
}

pub(crate) async fn a_secret_goes_with_its_config(bench: Bench) {
    let (store, vault) = (&bench.store, vault(&bench));
    bench.open(&run_id()).await;
    let [first, second, other] = [secret(&vault, "1").await, secret(&vault, "2").await, secret(&vault, "3").await];
    store.put_push_config(config("a", &first)).await.unwrap();
    store.put_push_config(config("a", &first)).await.unwrap();
    assert!(is_there(&vault, &first).await);
    store.put_push_config(config("a", &second)).await.unwrap();
    assert_eq!((is_there(&vault, &first).await, is_there(&vault, &second).await), (false, true));
    store.delete_push_config(&run_id(), "a").await.unwrap();
    assert_eq!((is_there(&vault, &second).await, is_there(&vault, &other).await), (false, true));
}

pub(crate) async fn a_sweep_deletes_configs_with_their_run(bench: Bench) {
    let store = &bench.store;
    bench.at(1);
    let head = bench.open(&run_id()).await;
    store.put_push_config(config("a", "s")).await.unwrap();
    let last = RecordBatch { events: vec![cancelled("end")], ..batch(&run_id(), head) };
    store.record(last).await.unwrap();
    store.sweep(Retention { before: Timestamp(100), limit: 100 }).await.unwrap();
    assert_eq!(store.push_configs(&run_id()).await.unwrap(), []);
}

pub(crate) async fn a_run_that_is_withdrawn_leaves_no_config(bench: Bench) {
    let store = &bench.store;
    let reserve = || store.reserve_run(ReservedRun { id: run_id(), ..reserved("run-1", "hello") });
    reserve().await.unwrap();
    store.put_push_config(config("a", "s")).await.unwrap();
    assert!(store.withdraw_run(&run_id()).await.unwrap());
    reserve().await.unwrap();
    assert_eq!(store.push_configs(&run_id()).await.unwrap(), []);
}

pub(crate) async fn all_processes_sign_with_the_key_that_was_made_first(bench: Bench) {
    let keys = || KeyRing::new(SecretKey::random().unwrap(), Vec::new());
    let vault = Vault::new(Arc::clone(&bench.store) as _, keys());
    let path = tempfile::tempdir().unwrap();
    let file = path.path().join("key");
    let shared = || KeyRing::load_or_create(&file).unwrap();
    let one = Vault::new((bench.another)().await as _, shared());
    let other = Vault::new((bench.another)().await as _, shared());
    let (one, other) = tokio::join!(one.signing_key(), other.signing_key());
    let id = one.unwrap().id();
    assert_eq!(id, other.unwrap().id());
    let later = Vault::new(Arc::clone(&bench.store) as _, shared());
    assert_eq!(later.signing_key().await.unwrap().id(), id);
    bench.store.sweep(Retention { before: Timestamp(u64::MAX >> 1), limit: 100 }).await.unwrap();
    let swept = Vault::new(Arc::clone(&bench.store) as _, shared());
    assert_eq!(swept.signing_key().await.unwrap().id(), id, "a sweep leaves it");
    assert_eq!(code(vault.signing_key().await), "STO0023", "its encryption key is needed");
}
