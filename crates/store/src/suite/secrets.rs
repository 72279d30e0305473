//! Secrets: set by operators, split from specs, rotated.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use windlass_core::{
    ids::{RunId, SessionId, WorkspaceId},
    time::Timestamp,
};

use super::{Bench, batch, cancelled, code, new_run, session, workspace};
use crate::{
    KeyRing, MAX_OWNED, MAX_VALUE, NewRun, Reader, RecordBatch, Retention, Rotated, SealedSecret, SecretKey,
    SecretOwner, SecretRow, Vault, testing::reserved,
};

fn key() -> SecretKey {
    SecretKey::random().unwrap()
}

fn vault(bench: &Bench) -> Vault {
    Vault::new(Arc::clone(&bench.store) as _, KeyRing::new(key(), Vec::new()))
}

fn value(text: &str) -> SecretString {
    text.into()
}

/// What the run `one` of the session `chat` reads.
async fn read(vault: &Vault, name: &str) -> crate::Result<String> {
    let (run, session) = (RunId::new("one"), session());
    let reader = Reader { run: &run, session: Some(&session) };
    vault.get(&workspace(), name, reader).await.map(|value| value.expose_secret().to_owned())
}

async fn sealed(bench: &Bench, name: &str) -> SealedSecret {
    bench.store.sealed_secret(&workspace(), name).await.unwrap().unwrap()
}

pub(crate) async fn a_secret_is_set_listed_read_and_removed(bench: Bench) {
    let vault = vault(&bench);
    let at = bench.at(10);
    let key_id = sealed_key_id(&vault, &bench).await;
    let row = |name: &str, created_at, updated_at| SecretRow {
        name: name.to_owned(),
        key_id: key_id.clone(),
        created_at,
        updated_at,
    };
    assert_eq!(vault.set(&workspace(), "b", &value("1")).await.unwrap(), row("b", at, at));
    let later = bench.at(20);
    assert_eq!(vault.set(&workspace(), "a.B_c-1", &value("2")).await.unwrap(), row("a.B_c-1", later, later));
    assert_eq!(vault.set(&workspace(), "b", &value("3")).await.unwrap(), row("b", at, later));
    assert_eq!(vault.list(&workspace()).await.unwrap(), [row("a.B_c-1", later, later), row("b", at, later)]);
    assert_eq!(read(&vault, "b").await.unwrap(), "3");

    // The same name in another workspace is another secret.
    let rival = WorkspaceId::new("rival");
    assert_eq!(vault.list(&rival).await.unwrap(), []);
    assert!(!vault.remove(&rival, "b").await.unwrap());
    assert!(vault.remove(&workspace(), "b").await.unwrap());
    assert!(!vault.remove(&workspace(), "b").await.unwrap());
    assert_eq!(code(read(&vault, "b").await), "STO0024");
    assert_eq!(code(read(&vault, "b\0").await), "STO0024");
}

/// The id of the vault's key, as a row shows it.
async fn sealed_key_id(vault: &Vault, bench: &Bench) -> String {
    vault.set(&workspace(), "probe", &value("x")).await.unwrap();
    let id = sealed(bench, "probe").await.key_id;
    vault.remove(&workspace(), "probe").await.unwrap();
    id
}

pub(crate) async fn names_and_values_have_limits(bench: Bench) {
    let vault = vault(&bench);
    let (longest, longer) = ("n".repeat(128), "n".repeat(129));
    vault.set(&workspace(), &longest, &value(&"v".repeat(MAX_VALUE))).await.unwrap();
    for name in ["", longer.as_str(), "a b", "a/b", "é", "a\0", "split.a"] {
        assert_eq!(code(vault.set(&workspace(), name, &value("x")).await), "STO0011", "{name:?}");
    }
    for value in [value(""), value(&"v".repeat(MAX_VALUE + 1))] {
        assert_eq!(code(vault.set(&workspace(), "a", &value).await), "STO0011");
    }
    let owner = SecretOwner::Run(RunId::new("one"));
    for field in 0..MAX_OWNED {
        vault.split(&workspace(), &owner, &field.to_string(), &value("x")).await.unwrap();
    }
    assert_eq!(code(vault.split(&workspace(), &owner, "one more", &value("x")).await), "STO0025");
    vault.split(&workspace(), &owner, "0", &value("x")).await.unwrap();
    vault.split(&workspace(), &SecretOwner::Run(RunId::new("two")), "0", &value("x")).await.unwrap();
}

pub(crate) async fn a_split_secret_is_read_by_its_owner_alone(bench: Bench) {
    let vault = vault(&bench);
    let cases = [
        (SecretOwner::Run(RunId::new("one")), "one", None, true),
        (SecretOwner::Run(RunId::new("one")), "one/child", None, true),
        (SecretOwner::Run(RunId::new("one")), "one-more", Some("chat"), false),
        (SecretOwner::Run(RunId::new("one/child")), "one", None, false),
        (SecretOwner::Session(session()), "two", Some("chat"), true),
        (SecretOwner::Session(session()), "two", Some("other"), false),
        (SecretOwner::Session(session()), "two", None, false),
    ];
    for (owner, run, joined, readable) in cases {
        let name = vault.split(&workspace(), &owner, "tools/0/headers", &value("s3cret")).await.unwrap();
        let (run, joined) = (RunId::new(run), joined.map(SessionId::new));
        let reader = Reader { run: &run, session: joined.as_ref() };
        let read = vault.get(&workspace(), &name, reader).await;
        assert_eq!(read.is_ok(), readable, "{owner:?} {reader:?}");
        if !readable {
            assert_eq!(code(read), "STO0024");
        }
    }
    assert_eq!(vault.list(&workspace()).await.unwrap(), [], "operators see what operators set");
    let name = SecretOwner::Session(session()).secret_name("tools/0/headers");
    assert!(!vault.remove(&workspace(), &name).await.unwrap());
}

pub(crate) async fn a_split_secret_keeps_its_first_value(bench: Bench) {
    let vault = vault(&bench);
    let owner = SecretOwner::Run(RunId::new("one"));
    let name = vault.split(&workspace(), &owner, "a", &value("first")).await.unwrap();
    assert_eq!(vault.split(&workspace(), &owner, "a", &value("first")).await.unwrap(), name);
    assert_eq!(code(vault.split(&workspace(), &owner, "a", &value("second")).await), "STO0026");
    assert_eq!(read(&vault, &name).await.unwrap(), "first");
    assert_ne!(vault.split(&workspace(), &owner, "b", &value("second")).await.unwrap(), name);
}

pub(crate) async fn a_sweep_deletes_split_secrets_with_their_owner(bench: Bench) {
    let vault = vault(&bench);
    bench.at(10);
    let split = async |owner: SecretOwner| vault.split(&workspace(), &owner, "a", &value("x")).await.unwrap();
    let of_run = split(SecretOwner::Run(RunId::new("one"))).await;
    let of_session = split(SecretOwner::Session(session())).await;
    let of_open_run = split(SecretOwner::Run(RunId::new("open"))).await;
    let of_withdrawn = split(SecretOwner::Run(RunId::new("withdrawn"))).await;
    let of_nothing = split(SecretOwner::Run(RunId::new("never-reserved"))).await;
    vault.set(&workspace(), "named", &value("x")).await.unwrap();
    // A run of this id in another workspace is another owner.
    let rival = WorkspaceId::new("rival");
    vault.split(&rival, &SecretOwner::Run(RunId::new("one")), "a", &value("x")).await.unwrap();

    let stored = async |name: &str| bench.store.sealed_secret(&workspace(), name).await.unwrap().is_some();
    bench.store.reserve_run(reserved("withdrawn", "q")).await.unwrap();
    bench.store.withdraw_run(&RunId::new("withdrawn")).await.unwrap();
    assert!(!stored(&of_withdrawn).await);
    bench.open(&RunId::new("open")).await;
    let run = RunId::new("one");
    let new = NewRun { session: Some(session()), ..new_run(&run, &["q"]) };
    let head = bench.store.open_run(new).await.unwrap();
    bench.store.record(RecordBatch { events: vec![cancelled("end")], ..batch(&run, head) }).await.unwrap();
    bench.store.end_session(&workspace(), &session()).await.unwrap();
    let sweep = async |before| {
        bench.store.sweep(Retention { before: Timestamp(before), limit: 10 }).await.unwrap();
        [stored(&of_run).await, stored(&of_session).await, stored(&of_open_run).await, stored(&of_nothing).await]
    };
    assert_eq!(sweep(10).await, [true; 4]);
    assert_eq!(sweep(11).await, [false, false, true, false]);
    assert_eq!(read(&vault, "named").await.unwrap(), "x");
    let of_rival = bench.store.sealed_secret(&rival, &of_run).await.unwrap();
    assert_eq!(of_rival, None, "no run of that workspace owns it");
}

pub(crate) async fn rotation_encrypts_everything_with_the_current_key(bench: Bench) {
    let (first, second) = (|| KeyRing::parse(&value(&"11".repeat(32)), "a test").unwrap(), "22".repeat(32));
    let both = || KeyRing::parse(&value(&format!("{second} {}", "11".repeat(32))), "a test").unwrap();
    let of = |keys: KeyRing| Vault::new(Arc::clone(&bench.store) as _, keys);
    let at = bench.at(10);
    let old = of(first());
    for number in 0..130 {
        old.set(&workspace(), &format!("s{number}"), &value(&format!("value {number}"))).await.unwrap();
    }
    let split = old.split(&workspace(), &SecretOwner::Session(session()), "a", &value("split")).await.unwrap();
    // A value of a key that is gone.
    let lost = of(KeyRing::new(key(), Vec::new()));
    lost.set(&WorkspaceId::new("rival"), "lost", &value("x")).await.unwrap();

    bench.at(20);
    let vault = of(both());
    assert_eq!(read(&vault, "s7").await.unwrap(), "value 7", "both keys decrypt");
    assert_eq!(vault.rotate().await.unwrap(), Rotated { rotated: 131, unreadable: 1 });
    assert_eq!(vault.rotate().await.unwrap(), Rotated { rotated: 0, unreadable: 1 });

    let new = of(KeyRing::parse(&value(&second), "a test").unwrap());
    assert_eq!(read(&new, "s129").await.unwrap(), "value 129");
    assert_eq!(read(&new, &split).await.unwrap(), "split");
    assert!(new.list(&workspace()).await.unwrap().iter().all(|row| row.updated_at == at), "no value has changed");
    let refused = read(&old, "s129").await.unwrap_err();
    assert_eq!(refused.code(), "STO0023");
    let (ours, theirs) = (both().current().id().to_owned(), first().current().id().to_owned());
    assert_eq!(
        refused.to_string(),
        format!(
            "secret s129 of workspace acme is encrypted with key {ours}, which is not among the keys of this process \
             ({theirs}); add that key, or set the secret again"
        )
    );
}

pub(crate) async fn a_rotation_does_not_undo_a_set(bench: Bench) {
    let vault = vault(&bench);
    vault.set(&workspace(), "a", &value("old")).await.unwrap();
    let read_by_rotation = sealed(&bench, "a").await;
    vault.set(&workspace(), "a", &value("new")).await.unwrap();
    let resealed = SealedSecret { nonce: vec![0; 12], ..read_by_rotation.clone() };
    assert!(!bench.store.replace_sealed(&read_by_rotation, resealed).await.unwrap());
    assert_eq!(read(&vault, "a").await.unwrap(), "new");
}

pub(crate) async fn a_ciphertext_belongs_to_its_row(bench: Bench) {
    let vault = vault(&bench);
    vault.set(&workspace(), "a", &value("x")).await.unwrap();
    let stolen = sealed(&bench, "a").await;
    let mut flipped = stolen.clone();
    flipped.ciphertext[0] ^= 1;
    let cases = [
        SealedSecret { name: "b".to_owned(), ..stolen.clone() },
        SealedSecret { name: "c".to_owned(), owner: Some(SecretOwner::Session(session())), ..stolen.clone() },
        SealedSecret { name: "d".to_owned(), nonce: vec![0; 12], ..stolen.clone() },
        SealedSecret { name: "e".to_owned(), nonce: vec![0; 3], ..stolen },
        flipped,
    ];
    for moved in cases {
        let name = moved.name.clone();
        bench.store.put_secret(moved).await.unwrap();
        assert_eq!(code(read(&vault, &name).await), "STO0008", "{name}");
    }
}
