//! Grants, and the approval rules of sessions and runs.

use serde_json::{Value, json};
use windlass_core::{
    approval::{ApprovalScope, Grant, Layer, OwnRules},
    ids::{RunId, SessionId, WorkspaceId},
    time::Timestamp,
};

use super::{Bench, batch, cancelled, code, new_run, session, workspace};
use crate::{GrantFilter, NewRun, PlanBegin, PlanBeginning, RecordBatch, Retention, testing::reserved};

pub(crate) fn grant(id: &str, tool: &str, scope: Value, granted_at: u64) -> Grant {
    let grant = json!({
        "id": id, "scope": scope, "tool": tool, "shape": {"kind": "any_arguments"},
        "grantedBy": {"id": "key-1", "roles": ["finance"]}, "grantedAt": granted_at,
    });
    serde_json::from_value(grant).unwrap()
}

pub(crate) fn rules(outcome: &str) -> OwnRules {
    let rules = json!({"rules": [{"outcome": outcome}], "setBy": "key-1", "setAt": 7, "mayRelax": true});
    serde_json::from_value(rules).unwrap()
}

fn run(id: &str) -> ApprovalScope {
    ApprovalScope::Run { id: RunId::new(id) }
}

fn filter() -> GrantFilter {
    GrantFilter { workspace: workspace(), tool: None, scopes: None, revoked: false, limit: 10 }
}

async fn ids(bench: &Bench, filter: GrantFilter) -> Vec<String> {
    bench.store.grants(filter).await.unwrap().iter().map(|grant| grant.id.to_string()).collect()
}

pub(crate) async fn a_grant_is_kept_once_listed_and_revoked(bench: Bench) {
    let pay = grant("g1", "pay", json!({"kind": "run", "id": "one"}), 5);
    let mail = grant("g2", "mail", json!({"kind": "session", "id": "chat"}), 6);
    let all = grant("g3", "pay", json!({"kind": "agent", "id": "clerk"}), 7);
    for grant in [&pay, &mail, &all, &pay] {
        bench.store.put_grant(&workspace(), grant.clone()).await.unwrap();
    }
    assert_eq!(bench.store.grants(filter()).await.unwrap(), [all.clone(), mail.clone(), pay.clone()]);
    assert_eq!(ids(&bench, GrantFilter { tool: Some("pay".into()), ..filter() }).await, ["g3", "g1"]);
    assert_eq!(ids(&bench, GrantFilter { limit: 1, ..filter() }).await, ["g3"]);
    let scopes = Some(vec![run("one"), ApprovalScope::Agent { id: "other".into() }]);
    assert_eq!(ids(&bench, GrantFilter { scopes, ..filter() }).await, ["g1"]);
    assert_eq!(ids(&bench, GrantFilter { scopes: Some(Vec::new()), ..filter() }).await, [""; 0]);

    let rival = WorkspaceId::new("rival");
    assert_eq!(ids(&bench, GrantFilter { workspace: rival.clone(), ..filter() }).await, [""; 0]);
    assert_eq!(bench.store.revoke_grant(&rival, &"g1".into()).await.unwrap(), None);
    let revoked = Grant { revoked: true, ..pay.clone() };
    for _ in 0..2 {
        assert_eq!(bench.store.revoke_grant(&workspace(), &"g1".into()).await.unwrap(), Some(revoked.clone()));
    }
    // The activity that stores a grant may be repeated after the grant was revoked.
    bench.store.put_grant(&workspace(), pay).await.unwrap();
    assert_eq!(ids(&bench, filter()).await, ["g3", "g2"]);
    let everything = GrantFilter { revoked: true, ..filter() };
    assert_eq!(bench.store.grants(everything).await.unwrap(), [all, mail, revoked]);

    let unknown = grant("g4", "pay", json!({"kind": "planet"}), 8);
    assert_eq!(code(bench.store.put_grant(&workspace(), unknown).await), "STO0011");
}

pub(crate) async fn a_run_follows_the_rules_of_its_session_and_of_its_ancestors(bench: Bench) {
    let chat = ApprovalScope::Session { id: session() };
    for (owner, outcome) in
        [(run("one"), "ask"), (run("one/call-1"), "allow"), (run("on"), "deny"), (chat.clone(), "deny")]
    {
        bench.store.set_rules(&workspace(), &owner, Some(rules(outcome))).await.unwrap();
    }
    let found = async |run: &str, session: Option<SessionId>| {
        let layers = bench.store.rules_for(&workspace(), &RunId::new(run), session.as_ref()).await.unwrap();
        layers.iter().map(|layer| (layer.layer, layer.rules[0].outcome.to_string())).collect::<Vec<_>>()
    };
    let said = |layer, outcome: &str| (layer, outcome.to_owned());
    assert_eq!(found("one", None).await, [said(Layer::Run, "ask")]);
    assert_eq!(found("one", Some(session())).await, [said(Layer::Session, "deny"), said(Layer::Run, "ask")]);
    assert_eq!(found("one/call-1/call-2", None).await, [said(Layer::Run, "ask"), said(Layer::Run, "allow")]);
    assert_eq!(found("one-more", None).await, []);
    let one = RunId::new("one");
    let head = bench.open(&one).await;
    let begin = PlanBegin {
        run: one.clone(),
        workspace: workspace(),
        session: Some(session()),
        turn: 1,
        head,
        messages: Vec::new(),
        events: Vec::new(),
    };
    let rules_of_turn = match bench.store.begin_plan(begin).await.unwrap() {
        PlanBeginning::Ask { rules, .. } => rules,
        PlanBeginning::Journalled(plan) => panic!("{plan:?}"),
    };
    let expected = bench.store.rules_for(&workspace(), &one, Some(&session())).await.unwrap();
    assert_eq!(rules_of_turn, expected, "a turn begins with them");
    assert_eq!(found("other", Some("chatty".into())).await, []);

    assert_eq!(bench.store.rules(&workspace(), &chat).await.unwrap(), Some(rules("deny")));
    bench.store.set_rules(&workspace(), &chat, Some(rules("allow"))).await.unwrap();
    assert_eq!(bench.store.rules(&workspace(), &chat).await.unwrap(), Some(rules("allow")));
    bench.store.set_rules(&workspace(), &chat, None).await.unwrap();
    assert_eq!(bench.store.rules(&workspace(), &chat).await.unwrap(), None);
    assert_eq!(found("one", Some(session())).await, [said(Layer::Run, "ask")]);
}

pub(crate) async fn a_sweep_deletes_grants_and_rules_with_their_owner(bench: Bench) {
    bench.at(10);
    let chat = ApprovalScope::Session { id: session() };
    let owners = [run("one"), chat, run("open"), run("withdrawn"), run("never-reserved")];
    for owner in &owners {
        bench.store.set_rules(&workspace(), owner, Some(rules("ask"))).await.unwrap();
    }
    for (id, scope) in [
        ("of-run", json!({"kind": "run", "id": "one"})),
        ("of-session", json!({"kind": "session", "id": "chat"})),
        ("of-agent", json!({"kind": "agent", "id": "one"})),
        ("of-open-run", json!({"kind": "run", "id": "open"})),
    ] {
        bench.store.put_grant(&workspace(), grant(id, "pay", scope, 5)).await.unwrap();
    }
    let left = async || {
        let mut left = Vec::new();
        for owner in &owners {
            left.push(bench.store.rules(&workspace(), owner).await.unwrap().is_some());
        }
        (left, ids(&bench, filter()).await)
    };
    bench.store.reserve_run(reserved("withdrawn", "q")).await.unwrap();
    bench.store.withdraw_run(&RunId::new("withdrawn")).await.unwrap();
    bench.open(&RunId::new("open")).await;
    let one = RunId::new("one");
    let new = NewRun { session: Some(session()), ..new_run(&one, &["q"]) };
    let head = bench.store.open_run(new).await.unwrap();
    bench.store.record(RecordBatch { events: vec![cancelled("end")], ..batch(&one, head) }).await.unwrap();
    bench.store.end_session(&workspace(), &session()).await.unwrap();
    let all = ["of-session", "of-run", "of-open-run", "of-agent"].map(str::to_owned);
    bench.store.sweep(Retention { before: Timestamp(10), limit: 10 }).await.unwrap();
    assert_eq!(left().await, (vec![true, true, true, false, true], all.to_vec()));
    bench.store.sweep(Retention { before: Timestamp(11), limit: 10 }).await.unwrap();
    let kept = ["of-open-run", "of-agent"].map(str::to_owned);
    assert_eq!(left().await, (vec![false, false, true, false, false], kept.to_vec()));
}
