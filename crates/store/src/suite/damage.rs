//! Rows that hold what no build has written. A shell on the database damages them, so each adapter calls this itself.

use windlass_core::{
    envelope::Labels,
    ids::{RunId, SessionId},
};

use super::{code, keys::new_key, new_run, session, workspace};
use crate::{NewSession, RunFilter, SessionFilter, Store};

fn filter(cursor: Option<String>, limit: u32) -> RunFilter {
    RunFilter { cursor, limit, total: true, ..RunFilter::default() }
}

pub(crate) async fn one_bad_row_hides_no_other(store: &dyn Store, shell: impl AsyncFn(&str)) {
    for number in 1..=6 {
        store.open_run(new_run(&RunId::new(format!("run-{number}")), &["hello"])).await.unwrap();
        shell(&format!("UPDATE runs SET created_at = {number} WHERE id = 'run-{number}'")).await;
    }
    shell("UPDATE runs SET status = 'no-such-status' WHERE id IN ('run-6', 'run-3', 'run-1')").await;
    shell("UPDATE runs SET metadata = '{' WHERE id = 'run-2'").await;
    let listed = async |filter: RunFilter| {
        let page = store.runs(filter).await.unwrap();
        let ids: Vec<_> = page.runs.iter().map(|run| run.id.to_string()).collect();
        (ids.join(" "), page.next, page.unreadable, page.total)
    };
    let all = ("run-5 run-4".to_owned(), None, 4, Some(6));
    assert_eq!(listed(filter(None, 50)).await, all);
    // Reading page by page skips nothing, counts nothing twice and returns no empty page.
    let (first, next, unreadable, _) = listed(filter(None, 1)).await;
    assert_eq!((first.as_str(), next.is_some(), unreadable), ("run-5", true, 1));
    let second = listed(filter(next, 1)).await;
    assert_eq!(second, ("run-4".to_owned(), None, 3, Some(6)));
    // What is about one damaged run says so.
    assert_eq!(code(store.run(&RunId::new("run-3")).await), "STO0008");
    // A condition on what is damaged concerns the damaged row alone.
    let labelled = RunFilter { metadata: Labels::from([("a".to_owned(), "b".to_owned())]), ..filter(None, 50) };
    assert_eq!(listed(labelled).await.0, "");

    for name in ["one", "two"] {
        let (name, metadata) = (SessionId::new(name), Labels::new());
        let new = NewSession { workspace: workspace(), id: name, name: None, spec: None, metadata, agent: None };
        store.create_session(new).await.unwrap();
    }
    shell("UPDATE sessions SET metadata = '{' WHERE id = 'one'").await;
    let page = store.sessions(SessionFilter::of(workspace())).await.unwrap();
    let ids: Vec<_> = page.sessions.iter().map(|session| session.id.to_string()).collect();
    assert_eq!((ids.join(" ").as_str(), page.unreadable), ("two", 1));
    assert!(store.session(&workspace(), &session()).await.unwrap().is_none());

    for id in ["k1", "k2"] {
        store.create_key(new_key(id)).await.unwrap();
    }
    shell("UPDATE api_keys SET scopes = '[' WHERE id = 'k1'").await;
    let ids: Vec<_> = store.keys(&workspace()).await.unwrap().into_iter().map(|key| key.id).collect();
    assert_eq!(ids, ["k2"]);

    for key in ["n1", "n2"] {
        store.put_note(&workspace(), key, "hello").await.unwrap();
    }
    shell("UPDATE notes SET updated_at = -1 WHERE key = 'n1'").await;
    let found: Vec<_> =
        store.notes(&workspace(), "hello", 10).await.unwrap().into_iter().map(|note| note.key).collect();
    assert_eq!(found, ["n2"]);
}
