//! Keys of the API.

use windlass_core::{
    ids::{AgentId, WorkspaceId},
    time::Timestamp,
};

use super::{Bench, code, workspace};
use crate::{ApiKeyRow, KeyHash, NewApiKey};

pub(crate) fn new_key(id: &str) -> NewApiKey {
    NewApiKey {
        id: id.to_owned(),
        workspace: workspace(),
        name: "laptop".to_owned(),
        prefix: format!("wl_{id}"),
        hash: KeyHash(vec![0, 255, 7]),
        roles: vec!["finance".to_owned()],
        scopes: vec!["runs:read".to_owned(), "runs:write".to_owned()],
        agents: Some(vec![AgentId::new("clerk")]),
        expires_at: Some(Timestamp(99)),
    }
}

async fn key(bench: &Bench, id: &str) -> ApiKeyRow {
    bench.store.key(id).await.unwrap().unwrap()
}

pub(crate) async fn a_key_is_found_by_its_id(bench: Bench) {
    let created_at = bench.at(10);
    let new = new_key("k1");
    let row = ApiKeyRow {
        id: new.id.clone(),
        workspace: new.workspace.clone(),
        name: new.name.clone(),
        prefix: new.prefix.clone(),
        hash: new.hash.clone(),
        scopes: new.scopes.clone(),
        roles: new.roles.clone(),
        agents: new.agents.clone(),
        created_at,
        last_used_at: None,
        revoked_at: None,
        expires_at: new.expires_at,
    };
    assert_eq!(bench.store.create_key(new).await.unwrap(), row);
    assert_eq!(key(&bench, "k1").await, row);
    assert_eq!(bench.store.key("k2").await.unwrap(), None);
    assert!(!format!("{row:?}").contains("255"), "a log shows no hash");
    let any = bench
        .store
        .create_key(NewApiKey { agents: None, roles: Vec::new(), expires_at: None, ..new_key("k2") })
        .await
        .unwrap();
    assert_eq!(any.roles, [""; 0]);
    assert_eq!((&any.agents, any.expires_at, any.has_expired(Timestamp(u64::MAX))), (&None, None, false));
    assert_eq!([98, 99, 100].map(|at| row.has_expired(Timestamp(at))), [false, true, true]);
}

pub(crate) async fn an_id_is_given_once(bench: Bench) {
    let row = bench.store.create_key(new_key("k1")).await.unwrap();
    let other = NewApiKey { workspace: WorkspaceId::new("rival"), ..new_key("k1") };
    assert_eq!(code(bench.store.create_key(other).await), "STO0016");
    assert_eq!(key(&bench, "k1").await, row);
}

pub(crate) async fn a_workspace_sees_and_revokes_its_own_keys(bench: Bench) {
    let rival = WorkspaceId::new("rival");
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    for (at, id) in [(10, "a"), (20, "b"), (20, "c")] {
        bench.at(at);
        mine.insert(0, bench.store.create_key(new_key(id)).await.unwrap());
    }
    theirs.push(bench.store.create_key(NewApiKey { workspace: rival.clone(), ..new_key("d") }).await.unwrap());
    assert_eq!(bench.store.keys(&workspace()).await.unwrap(), mine);
    assert_eq!(bench.store.keys(&rival).await.unwrap(), theirs);

    assert_eq!(bench.store.revoke_key(&rival, "a").await.unwrap(), None);
    assert_eq!(key(&bench, "a").await.revoked_at, None);
    let revoked = ApiKeyRow { revoked_at: Some(bench.at(30)), ..mine[2].clone() };
    assert_eq!(bench.store.revoke_key(&workspace(), "a").await.unwrap(), Some(revoked.clone()));
    bench.at(40);
    assert_eq!(bench.store.revoke_key(&workspace(), "a").await.unwrap(), Some(revoked.clone()));
    assert_eq!(key(&bench, "a").await, revoked);
    assert_eq!(bench.store.revoke_key(&workspace(), "missing").await.unwrap(), None);
}

pub(crate) async fn a_use_is_noted_once_a_minute(bench: Bench) {
    bench.store.create_key(new_key("k1")).await.unwrap();
    bench.store.touch_key("missing").await.unwrap();
    for (at, noted) in [(1_000, 1_000), (30_000, 1_000), (60_999, 1_000), (61_000, 61_000), (500_000, 500_000)] {
        bench.at(at);
        bench.store.touch_key("k1").await.unwrap();
        assert_eq!(key(&bench, "k1").await.last_used_at.unwrap().0, noted);
    }
}
