//! Runs that are accepted before they begin.

use serde_json::json;
use windlass_core::{
    canonical::Digest,
    envelope::{Labels, TranscriptHead},
    event::{EventBody, NewEvent},
    ids::{AgentId, CallId, RunId, SessionId, WorkspaceId},
    run::{Phase, RunStatus},
    time::Timestamp,
};

use super::{Bench, cancelled, code, head_of, new_run, run_id, session, workspace};
use crate::{NewRun, NewStart, PendingStart, ReservedRun, RunRow, testing::reserved};

/// A reservation that says everything it can, and its row.
async fn reserve_all(bench: &Bench) -> (ReservedRun, RunRow) {
    let spec = bench.store.put_blob(json!({"prompt": "hello"}).into()).await.unwrap().digest;
    let new = ReservedRun {
        session: Some(session()),
        name: Some("nightly".to_owned()),
        spec: Some(spec),
        metadata: Labels::from([("team".to_owned(), "ops".to_owned())]),
        ..reserved("run-1", &"hello ".repeat(50))
    };
    let row = bench.store.reserve_run(new.clone()).await.unwrap().row;
    (new, row)
}

fn opening(reserved: &ReservedRun) -> NewRun {
    NewRun { session: reserved.session.clone(), ..new_run(&reserved.id, &["hello"]) }
}

pub(crate) async fn a_reserved_run_is_queued_until_it_is_opened(bench: Bench) {
    let reserved_at = bench.at(10);
    let (new, row) = reserve_all(&bench).await;
    let expected = RunRow {
        id: run_id(),
        workspace: workspace(),
        session: Some(session()),
        agent_id: AgentId::new("asked-for"),
        root_agent: AgentId::new("asked-for"),
        agent_digest: None,
        model_id: "script:asked-for".to_owned(),
        name: Some("nightly".to_owned()),
        spec: new.spec,
        parent: None,
        parent_call: None,
        children: Vec::new(),
        labels: Labels::new(),
        metadata: [("team".to_owned(), json!("ops"))].into(),
        status: RunStatus::Queued,
        phase: Phase::Planning,
        input_preview: "hello ".repeat(20),
        created_at: reserved_at,
        updated_at: reserved_at,
        closed_at: None,
        head: TranscriptHead::default(),
        last_seq: 0,
        ending: None,
    };
    assert_eq!(row, expected);
    assert_eq!(bench.store.run(&run_id()).await.unwrap(), Some(expected.clone()));
    assert_eq!(bench.log(&run_id()).await, []);

    let opened_at = bench.at(20);
    let head = bench.store.open_run(opening(&new)).await.unwrap();
    let opened = RunRow {
        agent_id: AgentId::new("clerk"),
        root_agent: AgentId::new("clerk"),
        agent_digest: Some(Digest::of_bytes(b"clerk")),
        model_id: "script:demo".to_owned(),
        labels: new_run(&run_id(), &[]).labels,
        status: RunStatus::Running,
        updated_at: opened_at,
        head,
        last_seq: 1,
        ..expected
    };
    assert_eq!(head, head_of(&opening(&new).messages));
    assert_eq!(bench.store.run(&run_id()).await.unwrap(), Some(opened.clone()));
    // Opening is repeated like that of any other run.
    bench.at(30);
    assert_eq!(bench.store.open_run(opening(&new)).await.unwrap(), head);
    assert_eq!(bench.store.run(&run_id()).await.unwrap(), Some(opened));
}

pub(crate) async fn what_was_reserved_stands(bench: Bench) {
    let (new, row) = reserve_all(&bench).await;
    let opening = NewRun { metadata: [("other".to_owned(), json!(1))].into(), ..opening(&new) };
    bench.store.open_run(opening).await.unwrap();
    let opened = bench.store.run(&run_id()).await.unwrap().unwrap();
    assert_eq!(
        (opened.name, opened.spec, opened.metadata, opened.input_preview, opened.created_at),
        (row.name, row.spec, row.metadata, row.input_preview, row.created_at)
    );
}

pub(crate) async fn reserving_again_changes_nothing(bench: Bench) {
    let (new, row) = reserve_all(&bench).await;
    bench.at(20);
    assert_eq!(bench.store.reserve_run(new.clone()).await.unwrap().row, row);
    bench.store.open_run(opening(&new)).await.unwrap();
    let opened = bench.store.run(&run_id()).await.unwrap().unwrap();
    assert_eq!(bench.store.reserve_run(new.clone()).await.unwrap().row, opened);
    let others = [
        ReservedRun { workspace: WorkspaceId::new("rival"), ..new.clone() },
        ReservedRun { session: None, ..new.clone() },
        ReservedRun { spec: None, ..new },
    ];
    for other in others {
        assert_eq!(code(bench.store.reserve_run(other).await), "STO0002");
    }
    let nonsense = [
        ReservedRun { spec: Some(Digest::ZERO), ..reserved("run-2", "q") },
        ReservedRun { name: Some("\0".to_owned()), ..reserved("run-2", "q") },
    ];
    for nonsense in nonsense {
        assert_eq!(code(bench.store.reserve_run(nonsense).await), "STO0011");
    }
    let odd = bench.store.reserve_run(reserved("run-2", "a\0b")).await.unwrap().row;
    assert_eq!(odd.input_preview, "a\u{FFFD}b");
}

/// A reservation with the plan of its start.
fn planned(run: &str, request: &str, plan: &str) -> ReservedRun {
    let start = NewStart { request: Digest::of_json(&json!(request)), plan: json!({"plan": plan}) };
    ReservedRun { start: Some(start), ..reserved(run, "hello") }
}

async fn pending(bench: &Bench, before: u64) -> Vec<PendingStart> {
    bench.store.pending_starts(Timestamp(before), 10).await.unwrap()
}

fn start(run: &str, plan: &str) -> PendingStart {
    PendingStart { run: RunId::new(run), plan: Some(json!({"plan": plan})) }
}

pub(crate) async fn a_start_is_kept_until_its_run_is_opened(bench: Bench) {
    for (at, run) in [(10, "a"), (20, "b"), (30, "c")] {
        bench.at(at);
        bench.store.reserve_run(planned(run, "hello", run)).await.unwrap();
    }
    bench.store.reserve_run(reserved("without", "hello")).await.unwrap();
    assert_eq!(pending(&bench, 30).await, [start("a", "a"), start("b", "b")]);
    assert_eq!(bench.store.pending_start(&RunId::new("b")).await.unwrap(), Some(start("b", "b")));
    bench.open(&RunId::new("a")).await;
    bench.store.start_done(&RunId::new("b")).await.unwrap();
    bench.store.start_done(&RunId::new("missing")).await.unwrap();
    assert_eq!(pending(&bench, 40).await, [start("c", "c")]);
    assert!(bench.store.withdraw_run(&RunId::new("c")).await.unwrap());
    assert_eq!(pending(&bench, 40).await, []);
    assert_eq!(bench.store.pending_start(&RunId::new("c")).await.unwrap(), None);
}

pub(crate) async fn the_same_request_finds_the_first_start(bench: Bench) {
    let first = bench.store.reserve_run(planned("run-1", "hello", "first")).await.unwrap();
    assert_eq!(first.plan, Some(json!({"plan": "first"})));
    assert_eq!(bench.store.reserve_run(planned("run-1", "hello", "second")).await.unwrap(), first);
    for other in [planned("run-1", "good bye", "first"), reserved("run-1", "hello")] {
        assert_eq!(code(bench.store.reserve_run(other).await), "STO0002");
    }
    bench.open(&run_id()).await;
    let opened = bench.store.reserve_run(planned("run-1", "hello", "third")).await.unwrap();
    assert_eq!((opened.row.status, opened.plan), (RunStatus::Running, None));
    // A run that was reserved without a request has no repeat.
    bench.store.reserve_run(reserved("run-2", "hello")).await.unwrap();
    assert_eq!(code(bench.store.reserve_run(planned("run-2", "hello", "x")).await), "STO0002");
}

pub(crate) async fn of_reservations_at_once_one_counts(bench: Bench) {
    let other = (bench.another)().await;
    for round in 0..10 {
        let run = format!("run-{round}");
        let (a, b) = tokio::join!(
            bench.store.reserve_run(planned(&run, "hello", "a")),
            other.reserve_run(planned(&run, "hello", "b"))
        );
        assert_eq!(a.unwrap(), b.unwrap());
    }
}

pub(crate) async fn a_run_that_was_not_opened_is_ended_once(bench: Bench) {
    bench.store.reserve_run(planned("run-1", "hello", "x")).await.unwrap();
    let run = run_id();
    let end = |key: &str| bench.store.end_unopened_run(&run, RunStatus::Cancelled, vec![cancelled(key)]);
    assert!(end("end").await.unwrap());
    assert!(!end("again").await.unwrap());
    let row = bench.store.run(&run_id()).await.unwrap().unwrap();
    assert_eq!((row.status, row.phase, row.last_seq), (RunStatus::Cancelled, Phase::Done, 1));
    assert_eq!(pending(&bench, u64::MAX >> 1).await, []);
    // A workflow that comes after all opens nothing.
    assert_eq!(code(bench.store.open_run(new_run(&run_id(), &["hello"])).await), "STO0006");
    assert_eq!(bench.store.run(&run_id()).await.unwrap(), Some(row));

    let opened = RunId::new("run-2");
    bench.store.reserve_run(planned("run-2", "hello", "x")).await.unwrap();
    bench.open(&opened).await;
    assert!(!bench.store.end_unopened_run(&opened, RunStatus::Cancelled, vec![cancelled("end")]).await.unwrap());
    assert_eq!(bench.store.run(&opened).await.unwrap().unwrap().status, RunStatus::Running);
}

pub(crate) async fn a_reservation_must_fit_its_run(bench: Bench) {
    let (new, row) = reserve_all(&bench).await;
    let strangers = [
        NewRun { workspace: WorkspaceId::new("rival"), ..opening(&new) },
        NewRun { session: None, ..opening(&new) },
        NewRun { session: Some(SessionId::new("other")), ..opening(&new) },
    ];
    for stranger in strangers {
        assert_eq!(code(bench.store.open_run(stranger).await), "STO0002");
    }
    assert_eq!(bench.store.run(&run_id()).await.unwrap(), Some(row));
}

pub(crate) async fn a_run_that_never_began_is_withdrawn(bench: Bench) {
    let (new, _) = reserve_all(&bench).await;
    assert!(bench.store.withdraw_run(&run_id()).await.unwrap());
    assert!(!bench.store.withdraw_run(&run_id()).await.unwrap());
    assert_eq!(bench.store.run(&run_id()).await.unwrap(), None);

    bench.store.reserve_run(new.clone()).await.unwrap();
    bench.store.open_run(opening(&new)).await.unwrap();
    assert!(!bench.store.withdraw_run(&run_id()).await.unwrap());
    assert!(bench.store.run(&run_id()).await.unwrap().is_some());
}

pub(crate) async fn a_run_that_something_happened_to_is_not_withdrawn(bench: Bench) {
    bench.store.reserve_run(reserved("a", "q")).await.unwrap();
    bench.store.settle_plan(&RunId::new("a"), 1).await.unwrap();
    bench.store.reserve_run(reserved("b", "q")).await.unwrap();
    bench.store.settle_call(&RunId::new("b"), &CallId::new("c"), 1).await.unwrap();
    for run in ["a", "b"] {
        assert!(!bench.store.withdraw_run(&RunId::new(run)).await.unwrap(), "{run}");
    }
}

pub(crate) async fn a_run_can_fail_before_it_begins(bench: Bench) {
    let (new, _) = reserve_all(&bench).await;
    let status = EventBody::Status { status: RunStatus::Cancelled, phase: Phase::Done };
    let events = vec![NewEvent::new("status", status), cancelled("end")];
    assert_eq!(bench.store.append_events(&run_id(), events).await.unwrap(), 2);
    let row = bench.store.run(&run_id()).await.unwrap().unwrap();
    assert_eq!((row.status, row.closed_at.is_some()), (RunStatus::Cancelled, true));
    assert_eq!(code(bench.store.open_run(opening(&new)).await), "STO0006");
    assert!(!bench.store.withdraw_run(&run_id()).await.unwrap());
    assert_eq!(bench.store.run(&run_id()).await.unwrap(), Some(row));
}

pub(crate) async fn a_run_of_another_workspace_is_not_found(bench: Bench) {
    let (_, row) = reserve_all(&bench).await;
    assert_eq!(bench.store.run_in(&workspace(), &run_id()).await.unwrap(), Some(row));
    assert_eq!(bench.store.run_in(&WorkspaceId::new("rival"), &run_id()).await.unwrap(), None);
    assert_eq!(bench.store.run_in(&workspace(), &RunId::new("missing")).await.unwrap(), None);
}
