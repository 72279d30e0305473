//! Opening, reading and listing runs.

use serde_json::json;
use windlass_core::{
    canonical::Digest,
    envelope::TranscriptHead,
    ids::{AgentId, CallId, RunId, SessionId, WorkspaceId},
    message::Message,
    run::{Phase, RunStatus},
    time::Timestamp,
};

use super::{Bench, batch, cancelled, code, head_of, new_run, run_id, session, started, workspace};
use crate::{NewRun, OpenRun, RecordBatch, RunFilter, RunOrder, RunPage, RunRow};

pub(crate) async fn a_run_opens_with_its_messages_and_its_started_event(bench: Bench) {
    let (run, opened_at) = (run_id(), bench.at(10));
    let new = new_run(&run, &["hello", "there"]);
    let head = bench.store.open_run(new.clone()).await.unwrap();
    assert_eq!(head, head_of(&new.messages));
    assert_eq!(bench.store.transcript(&run, head).await.unwrap(), new.messages);
    let log = bench.log(&run).await;
    assert_eq!(log.len(), 1);
    assert_eq!((log[0].seq, log[0].at, log[0].body().unwrap()), (1, opened_at, started().body));
    assert_eq!(
        bench.store.run(&run).await.unwrap(),
        Some(RunRow {
            id: run,
            workspace: workspace(),
            session: None,
            agent_id: AgentId::new("clerk"),
            root_agent: AgentId::new("clerk"),
            agent_digest: Some(Digest::of_bytes(b"clerk")),
            model_id: "script:demo".to_owned(),
            name: None,
            spec: None,
            parent: None,
            parent_call: None,
            children: Vec::new(),
            labels: new.labels,
            metadata: new.metadata,
            status: RunStatus::Running,
            phase: Phase::Planning,
            input_preview: "hello".to_owned(),
            created_at: opened_at,
            updated_at: opened_at,
            closed_at: None,
            head,
            last_seq: 1,
            ending: None,
        })
    );
}

pub(crate) async fn opening_again_returns_the_first_head(bench: Bench) {
    let run = run_id();
    let opened = bench.open(&run).await;
    let grown = bench.append(&run, opened, vec![Message::assistant("hi")]).await.unwrap();
    bench.at(99);
    // The conversation the second attempt starts from may have grown; the first attempt's stands.
    assert_eq!(bench.store.open_run(new_run(&run, &["something else"])).await.unwrap(), opened);
    let row = bench.store.run(&run).await.unwrap().unwrap();
    assert_eq!((row.head, row.last_seq, row.created_at), (grown, 1, row.updated_at));

    let empty = RunId::new("empty");
    assert_eq!(bench.store.open_run(new_run(&empty, &[])).await.unwrap(), TranscriptHead::default());
    assert_eq!(bench.store.open_run(new_run(&empty, &["late"])).await.unwrap(), TranscriptHead::default());
}

pub(crate) async fn opening_again_as_something_else_is_refused(bench: Bench) {
    let run = run_id();
    bench.open(&run).await;
    let mut other_agent = new_run(&run, &["hello"]);
    other_agent.agent_id = AgentId::new("cook");
    let mut other_workspace = new_run(&run, &["hello"]);
    other_workspace.workspace = WorkspaceId::new("rival");
    let mut other_session = new_run(&run, &["hello"]);
    other_session.session = Some(session());
    let mut other_execution = new_run(&run, &["hello"]);
    other_execution.execution = "execution-2".to_owned();
    for other in [other_agent, other_workspace, other_session, other_execution] {
        assert_eq!(code(bench.store.open_run(other).await), "STO0002");
    }
}

pub(crate) async fn the_preview_is_the_start_of_the_first_new_question(bench: Bench) {
    let run = run_id();
    let mut new = new_run(&run, &[]);
    new.messages = vec![Message::assistant("not a question"), Message::user("é".repeat(200)), Message::user("second")];
    bench.store.open_run(new).await.unwrap();
    assert_eq!(bench.store.run(&run).await.unwrap().unwrap().input_preview, "é".repeat(120));
}

pub(crate) async fn a_child_is_listed_with_its_parent(bench: Bench) {
    let parent = run_id();
    bench.open(&parent).await;
    let children = [RunId::new("z-child"), RunId::new("a-child")];
    for (at, child) in (10..).zip(&children) {
        bench.at(at);
        let mut new = new_run(child, &["sub-task"]);
        new.parent = Some(parent.clone());
        new.parent_call = Some(CallId::new("call-1"));
        bench.store.open_run(new).await.unwrap();
    }
    assert_eq!(bench.store.run(&parent).await.unwrap().unwrap().children, children);
    let page = bench.store.runs(RunFilter { parent: Some(parent.clone()), ..RunFilter::default() }).await.unwrap();
    let links: Vec<_> = page.runs.into_iter().map(|row| (row.id, row.parent, row.parent_call)).collect();
    let link = |child: &RunId| (child.clone(), Some(parent.clone()), Some(CallId::new("call-1")));
    assert_eq!(links, [link(&children[1]), link(&children[0])]);
}

pub(crate) async fn a_child_is_its_roots_agents_and_so_is_a_session_its_first_runs(bench: Bench) {
    let open = async |id: &str, agent: &str, parent: Option<&str>| {
        let mut new = new_run(&RunId::new(id), &["q"]);
        (new.agent_id, new.parent) = (AgentId::new(agent), parent.map(RunId::new));
        new.session = (id != "lost").then(session);
        bench.store.open_run(new).await.unwrap();
    };
    open("top", "boss", None).await;
    open("top/1", "clerk", Some("top")).await;
    open("top/1/1", "cook", Some("top/1")).await;
    open("lost", "clerk", Some("gone")).await;
    open("later", "clerk", None).await;
    let of = |agents: &[&str]| RunFilter {
        root_agents: Some(agents.iter().map(|agent| AgentId::new(*agent)).collect()),
        ..RunFilter::default()
    };
    assert_eq!(ids(&bench, of(&["boss"])).await, ["top/1/1", "top/1", "top"]);
    assert_eq!(ids(&bench, of(&["clerk", "cook"])).await, ["later"]);
    assert_eq!(ids(&bench, of(&[])).await, Vec::<String>::new());
    let row = bench.store.session(&workspace(), &session()).await.unwrap().unwrap();
    assert_eq!(row.agent, Some(AgentId::new("boss")));
}

pub(crate) async fn lists_go_from_new_to_old_in_pages(bench: Bench) {
    // Two runs share a moment: the id decides.
    for (at, id) in [(10, "a"), (20, "b"), (20, "c.with.dots"), (30, "d"), (40, "e")] {
        bench.at(at);
        bench.open(&RunId::new(id)).await;
    }
    let mut pages = Vec::new();
    let mut cursor = None;
    loop {
        let page = bench.store.runs(RunFilter { cursor, limit: 2, ..RunFilter::default() }).await.unwrap();
        pages.push(page.runs.into_iter().map(|row| row.id.to_string()).collect::<Vec<_>>());
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec!["e", "d"], vec!["c.with.dots", "b"], vec!["a"]]);
    let exact = bench.store.runs(RunFilter { limit: 5, ..RunFilter::default() }).await.unwrap();
    assert_eq!((exact.runs.len(), exact.next), (5, None));
    assert_eq!(bench.store.runs(RunFilter::default()).await.unwrap().runs.len(), 5);
}

pub(crate) async fn a_list_of_changes_goes_from_the_last_one_back(bench: Bench) {
    for (at, id) in [(10, "a"), (20, "b"), (30, "c")] {
        bench.at(at);
        bench.open(&RunId::new(id)).await;
    }
    bench.at(40);
    bench.store.append_events(&RunId::new("a"), vec![cancelled("end")]).await.unwrap();
    let child = NewRun { parent: Some(RunId::new("b")), ..new_run(&RunId::new("child"), &["q"]) };
    bench.store.open_run(child).await.unwrap();
    let wanted = RunFilter { order: RunOrder::Updated, roots: true, total: true, ..RunFilter::default() };
    let first = bench.store.runs(RunFilter { limit: 2, ..wanted.clone() }).await.unwrap();
    let ids = |page: &RunPage| page.runs.iter().map(|row| row.id.to_string()).collect::<Vec<_>>();
    assert_eq!((ids(&first), first.total), (vec!["a".to_owned(), "c".to_owned()], Some(3)));
    let rest = bench.store.runs(RunFilter { cursor: first.next, ..wanted.clone() }).await.unwrap();
    assert_eq!((ids(&rest), rest.next), (vec!["b".to_owned()], None));
    let since = RunFilter { updated_since: Some(Timestamp(30)), ..wanted };
    assert_eq!(ids(&bench.store.runs(since).await.unwrap()), ["a", "c"]);
}

pub(crate) async fn filters_narrow_a_list_together(bench: Bench) {
    let mut rival = new_run(&RunId::new("rival"), &["q"]);
    rival.workspace = WorkspaceId::new("rival");
    rival.session = Some(session());
    let mut chat = new_run(&RunId::new("chat"), &["q"]);
    chat.session = Some(session());
    let mut cook = new_run(&RunId::new("cook"), &["q"]);
    cook.agent_id = AgentId::new("cook");
    for (at, new) in (10..).zip([rival, chat, cook]) {
        bench.at(at);
        bench.store.open_run(new).await.unwrap();
    }
    let head = bench.store.run(&RunId::new("cook")).await.unwrap().unwrap().head;
    let mut paused = batch(&RunId::new("cook"), head);
    paused.status = RunStatus::Paused;
    bench.store.record(paused).await.unwrap();

    let ids = async |filter| ids(&bench, filter).await;
    let all = RunFilter::default;
    assert_eq!(ids(RunFilter { workspace: Some(workspace()), ..all() }).await, ["cook", "chat"]);
    assert_eq!(ids(RunFilter { session: Some(session()), ..all() }).await, ["chat", "rival"]);
    assert_eq!(ids(RunFilter { session: Some(session()), workspace: Some(workspace()), ..all() }).await, ["chat"]);
    assert_eq!(ids(RunFilter { agent_id: Some(AgentId::new("clerk")), ..all() }).await, ["chat", "rival"]);
    assert_eq!(ids(RunFilter { statuses: vec![RunStatus::Paused], ..all() }).await, ["cook"]);
    assert_eq!(ids(RunFilter { session: Some(SessionId::new("none")), ..all() }).await, Vec::<String>::new());
}

/// What a filter lets through, as ids.
async fn ids(bench: &Bench, filter: RunFilter) -> Vec<String> {
    let page = bench.store.runs(filter).await.unwrap();
    page.runs.into_iter().map(|row| row.id.to_string()).collect()
}

pub(crate) async fn a_filter_looks_into_metadata(bench: Bench) {
    let runs = [
        ("a", json!({"team": "ops", "a.b": "1"})),
        ("b", json!({"team": "ops", "a.b": "2"})),
        ("c", json!({"team": "sales", "nested": {"team": "ops"}})),
        ("d", json!({"team": ["ops"], "number": 1})),
    ];
    for (at, (id, metadata)) in (10..).zip(runs) {
        bench.at(at);
        let mut new = new_run(&RunId::new(id), &["q"]);
        new.model_id = format!("model-{id}");
        new.metadata = serde_json::from_value(metadata).unwrap();
        bench.store.open_run(new).await.unwrap();
    }
    let with = |wanted: &[(&str, &str)]| RunFilter {
        metadata: wanted.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..RunFilter::default()
    };
    assert_eq!(ids(&bench, with(&[("team", "ops")])).await, ["b", "a"]);
    assert_eq!(ids(&bench, with(&[("team", "ops"), ("a.b", "1")])).await, ["a"]);
    assert_eq!(ids(&bench, with(&[("number", "1")])).await, Vec::<String>::new());
    assert_eq!(ids(&bench, with(&[("missing", "ops")])).await, Vec::<String>::new());
    assert_eq!(ids(&bench, RunFilter { model_id: Some("model-c".to_owned()), ..RunFilter::default() }).await, ["c"]);
}

pub(crate) async fn a_list_can_be_counted(bench: Bench) {
    for id in ["a", "b", "c"] {
        bench.open(&RunId::new(id)).await;
    }
    let head = bench.store.run(&RunId::new("b")).await.unwrap().unwrap().head;
    let paused = RecordBatch { status: RunStatus::Paused, ..batch(&RunId::new("b"), head) };
    bench.store.record(paused).await.unwrap();
    let counted = |statuses: &[RunStatus]| RunFilter {
        statuses: statuses.to_vec(),
        limit: 1,
        total: true,
        ..RunFilter::default()
    };
    let total = async |filter| bench.store.runs(filter).await.unwrap().total;
    assert_eq!(total(counted(&[])).await, Some(3));
    assert_eq!(total(counted(&[RunStatus::Running])).await, Some(2));
    assert_eq!(total(counted(&[RunStatus::Running, RunStatus::Paused])).await, Some(3));
    assert_eq!(total(RunFilter { total: false, ..counted(&[]) }).await, None);
    let first = bench.store.runs(counted(&[])).await.unwrap();
    assert_eq!(total(RunFilter { cursor: first.next, ..counted(&[]) }).await, Some(3), "a page does not change it");
}

pub(crate) async fn a_cursor_must_come_from_a_page(bench: Bench) {
    for cursor in ["", "run-1", "x.run-1"] {
        let filter = RunFilter { cursor: Some(cursor.to_owned()), ..RunFilter::default() };
        assert_eq!(code(bench.store.runs(filter).await), "STO0011");
    }
}

pub(crate) async fn open_runs_are_walked_from_old_to_new(bench: Bench) {
    for (at, run) in [(10, "b"), (10, "a"), (20, "ended"), (30, "c")] {
        bench.at(at);
        bench.open(&RunId::new(run)).await;
    }
    bench.store.append_events(&RunId::new("ended"), vec![cancelled("end")]).await.unwrap();
    let open = |at, run: &str| OpenRun { created_at: Timestamp(at), id: RunId::new(run) };
    assert_eq!(bench.store.open_runs(None, 2).await.unwrap(), [open(10, "a"), open(10, "b")]);
    assert_eq!(bench.store.open_runs(Some(open(10, "a")), 9).await.unwrap(), [open(10, "b"), open(30, "c")]);
    assert_eq!(bench.store.open_runs(Some(open(30, "c")), 9).await.unwrap(), []);
}
