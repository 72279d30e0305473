//! Sessions as the API creates, lists and ends them.

use serde_json::json;
use windlass_core::{
    envelope::Labels,
    ids::{AgentId, RunId, SessionId, WorkspaceId},
    message::Message,
    run::RunStatus,
};

use super::{Bench, batch, cancelled, code, new_run, session, workspace};
use crate::{NewSession, RecordBatch, ReservedRun, SessionFilter, SessionRow, SessionStatus, testing::reserved};

pub(crate) fn new_session(id: &str) -> NewSession {
    NewSession {
        workspace: workspace(),
        id: SessionId::new(id),
        name: None,
        spec: None,
        metadata: Labels::new(),
        agent: None,
    }
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

async fn ids(bench: &Bench, filter: SessionFilter) -> Vec<String> {
    let page = bench.store.sessions(filter).await.unwrap();
    page.sessions.into_iter().map(|row| row.id.to_string()).collect()
}

fn all() -> SessionFilter {
    SessionFilter::of(workspace())
}

/// A run of the session that asks `question`.
async fn ask(bench: &Bench, id: &str, session: &str, question: &str) {
    let mut new = new_run(&RunId::new(id), &[question]);
    new.session = Some(SessionId::new(session));
    bench.store.open_run(new).await.unwrap();
}

pub(crate) async fn a_session_is_created_and_ended(bench: Bench) {
    let spec = bench.store.put_blob(json!({"systemPrompt": "be brief"}).into()).await.unwrap().digest;
    let created_at = bench.at(10);
    let new = NewSession {
        name: Some("support".to_owned()),
        spec: Some(spec),
        metadata: labels(&[("team", "ops")]),
        agent: Some(AgentId::new("clerk")),
        ..new_session("chat")
    };
    let row = SessionRow {
        workspace: workspace(),
        id: session(),
        name: new.name.clone(),
        spec: new.spec,
        metadata: new.metadata.clone(),
        agent: new.agent.clone(),
        summary: String::new(),
        created_at,
        last_used_at: created_at,
        ended_at: None,
    };
    assert_eq!(bench.store.create_session(new).await.unwrap(), row);
    assert_eq!(bench.store.session(&workspace(), &session()).await.unwrap(), Some(row.clone()));
    assert_eq!(row.status(), SessionStatus::Active);
    // Runs without an API use it like any other.
    assert_eq!(bench.store.ensure_session(&workspace(), &session()).await.unwrap(), row);

    let ended = SessionRow { ended_at: Some(bench.at(20)), ..row };
    assert_eq!(bench.store.end_session(&workspace(), &session()).await.unwrap(), Some(ended.clone()));
    bench.at(30);
    assert_eq!(bench.store.end_session(&workspace(), &session()).await.unwrap(), Some(ended.clone()));
    assert_eq!(bench.store.session(&workspace(), &session()).await.unwrap(), Some(ended.clone()));
    assert_eq!(ended.status(), SessionStatus::Ended);

    let rival = WorkspaceId::new("rival");
    assert_eq!(bench.store.session(&rival, &session()).await.unwrap(), None);
    assert_eq!(bench.store.end_session(&rival, &session()).await.unwrap(), None);
}

pub(crate) async fn creating_again_must_mean_the_same(bench: Bench) {
    let created = bench.store.create_session(new_session("chat")).await.unwrap();
    bench.at(20);
    assert_eq!(bench.store.create_session(new_session("chat")).await.unwrap(), created);
    let spec = bench.store.put_blob(json!("spec").into()).await.unwrap().digest;
    let others = [
        NewSession { name: Some("x".to_owned()), ..new_session("chat") },
        NewSession { spec: Some(spec), ..new_session("chat") },
        NewSession { metadata: labels(&[("a", "b")]), ..new_session("chat") },
    ];
    for other in others {
        assert_eq!(code(bench.store.create_session(other).await), "STO0015");
    }
}

pub(crate) async fn the_first_question_is_the_summary(bench: Bench) {
    bench.store.create_session(new_session("chat")).await.unwrap();
    ask(&bench, "one", "chat", &"é".repeat(200)).await;
    ask(&bench, "two", "chat", "and then?").await;
    let row = bench.store.session(&workspace(), &session()).await.unwrap().unwrap();
    assert_eq!(row.summary, "é".repeat(120));

    let reserved = ReservedRun { session: Some(SessionId::new("other")), ..reserved("three", "what now?") };
    bench.store.reserve_run(reserved).await.unwrap();
    let row = bench.store.session(&workspace(), &SessionId::new("other")).await.unwrap().unwrap();
    assert_eq!(row.summary, "what now?");
}

pub(crate) async fn the_most_recently_used_come_first(bench: Bench) {
    for (at, id) in [(10, "a"), (20, "b"), (20, "c"), (30, "d")] {
        bench.at(at);
        bench.store.create_session(new_session(id)).await.unwrap();
    }
    assert_eq!(ids(&bench, all()).await, ["d", "c", "b", "a"]);
    bench.at(40);
    ask(&bench, "one", "a", "q").await;
    assert_eq!(ids(&bench, all()).await, ["a", "d", "c", "b"]);
    bench.at(50);
    let in_b = ReservedRun { session: Some(SessionId::new("b")), ..reserved("two", "q") };
    bench.store.reserve_run(in_b).await.unwrap();
    assert_eq!(ids(&bench, all()).await, ["b", "a", "d", "c"]);

    let one = RunId::new("one");
    let head = bench.store.run(&one).await.unwrap().unwrap().head;
    let closing = RecordBatch {
        messages: vec![Message::assistant("done")],
        events: vec![cancelled("end")],
        status: RunStatus::Completed,
        closes_session_turn: true,
        ..batch(&one, head)
    };
    let used_at = bench.at(60);
    bench.store.record(closing.clone()).await.unwrap();
    assert_eq!(ids(&bench, all()).await, ["a", "b", "d", "c"]);
    bench.at(70);
    bench.store.record(closing).await.unwrap();
    let row = bench.store.session(&workspace(), &SessionId::new("a")).await.unwrap().unwrap();
    assert_eq!(row.last_used_at, used_at, "a repeat is no use");
}

pub(crate) async fn a_list_goes_on_from_an_offset_or_a_cursor(bench: Bench) {
    for (at, id) in [(10, "a"), (20, "b"), (20, "c.with.dots"), (30, "d"), (40, "e")] {
        bench.at(at);
        bench.store.create_session(new_session(id)).await.unwrap();
    }
    let mut pages = Vec::new();
    let mut cursor = None;
    loop {
        let page = bench.store.sessions(SessionFilter { cursor, limit: 2, ..all() }).await.unwrap();
        pages.push(page.sessions.into_iter().map(|row| row.id.to_string()).collect::<Vec<_>>());
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec!["e", "d"], vec!["c.with.dots", "b"], vec!["a"]]);
    assert_eq!(ids(&bench, SessionFilter { offset: 3, limit: 1, ..all() }).await, ["b"]);
    assert_eq!(ids(&bench, SessionFilter { offset: 9, ..all() }).await, Vec::<String>::new());
    let first = bench.store.sessions(SessionFilter { limit: 4, ..all() }).await.unwrap();
    assert_eq!(ids(&bench, SessionFilter { cursor: first.next, offset: 9, ..all() }).await, ["a"], "the cursor wins");
    assert_eq!(code(bench.store.sessions(SessionFilter { cursor: Some("x".to_owned()), ..all() }).await), "STO0011");
}

pub(crate) async fn lists_are_filtered_and_counted(bench: Bench) {
    let sessions = [
        NewSession {
            metadata: labels(&[("team", "ops"), ("a:b", "c")]),
            agent: Some(AgentId::new("clerk")),
            ..new_session("a")
        },
        NewSession { metadata: labels(&[("team", "ops")]), ..new_session("b") },
        NewSession { metadata: labels(&[("team", "sales")]), agent: Some(AgentId::new("clerk")), ..new_session("c") },
        NewSession { workspace: WorkspaceId::new("rival"), metadata: labels(&[("team", "ops")]), ..new_session("d") },
    ];
    for (at, new) in (10..).zip(sessions) {
        bench.at(at);
        bench.store.create_session(new).await.unwrap();
    }
    bench.store.end_session(&workspace(), &SessionId::new("b")).await.unwrap();
    let cases = [
        (all(), vec!["c", "b", "a"]),
        (SessionFilter { metadata: labels(&[("team", "ops")]), ..all() }, vec!["b", "a"]),
        (SessionFilter { metadata: labels(&[("team", "ops"), ("a:b", "c")]), ..all() }, vec!["a"]),
        (SessionFilter { metadata: labels(&[("team", "none")]), ..all() }, vec![]),
        (SessionFilter { agents: Some(vec![AgentId::new("clerk")]), ..all() }, vec!["c", "a"]),
        (SessionFilter { agents: Some(vec![AgentId::new("cook")]), ..all() }, vec![]),
        (SessionFilter { agents: Some(vec![]), ..all() }, vec![]),
        (SessionFilter { status: Some(SessionStatus::Active), ..all() }, vec!["c", "a"]),
        (SessionFilter { status: Some(SessionStatus::Ended), ..all() }, vec!["b"]),
    ];
    for (filter, expected) in cases {
        let counted = bench.store.sessions(SessionFilter { total: true, limit: 1, ..filter.clone() }).await.unwrap();
        assert_eq!((counted.total, counted.sessions.len()), (Some(expected.len() as u64), expected.len().min(1)));
        assert_eq!(ids(&bench, filter).await, expected);
    }
}

pub(crate) async fn an_ended_session_takes_no_more_runs(bench: Bench) {
    ask(&bench, "one", "chat", "q").await;
    bench.store.end_session(&workspace(), &session()).await.unwrap();
    assert_eq!(code(bench.store.ensure_session(&workspace(), &session()).await), "STO0007");
    let late = ReservedRun { session: Some(session()), ..reserved("two", "q") };
    assert_eq!(code(bench.store.reserve_run(late).await), "STO0007");
    let mut late = new_run(&RunId::new("three"), &["q"]);
    late.session = Some(session());
    assert_eq!(code(bench.store.open_run(late).await), "STO0007");
    assert_eq!(bench.store.run(&RunId::new("three")).await.unwrap(), None);
    // A run that was accepted before goes on.
    ask(&bench, "one", "chat", "q").await;
}
