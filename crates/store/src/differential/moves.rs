//! Calls with arguments from small worlds, so that they meet.

use serde_json::json;
use windlass_core::{
    approval::{ApprovalScope, Grant, OwnRules},
    body::Body,
    canonical::{CanonicalJson, Digest},
    envelope::{CallStatus, Labels, ToolOutput, TranscriptHead},
    event::{EventBody, NewEvent},
    ids::{AgentId, CallId, GrantId, RunId, SessionId, WorkspaceId},
    message::Message,
    run::{Phase, RunStatus},
    time::{Millis, Timestamp},
};

use super::chance::Chance;
use crate::{
    FinishedCall, KeyHash, NewApiKey, NewPushConfig, NewRun, NewSession, NewStart, OpenRun, PlanBegin, PlanCommit,
    RecordBatch, ReservedRun, Result, Retention, RunFilter, RunOrder, SealedSecret, SecretOwner, SessionFilter,
    SessionStatus, Store, Swept,
    suite::{approvals, calls::new_claim, cancelled, endings::result, files::shows, new_run, note, plans::response},
};

const TEXTS: [&str; 6] = ["hello", "and?", "é\u{1F600}", "a\0b", "", "100% _of_ \"it\""];

pub(super) fn runs() -> Vec<RunId> {
    ["a", "b", "B", "a-1", "a.1"].map(RunId::new).to_vec()
}

pub(super) fn workspaces() -> Vec<WorkspaceId> {
    ["acme", "rival"].map(WorkspaceId::new).to_vec()
}

pub(super) fn sessions() -> Vec<SessionId> {
    ["chat", "chat-2", "Chat"].map(SessionId::new).to_vec()
}

/// Of everything that may be stored as a body.
pub(super) fn digests() -> Vec<Digest> {
    let messages =
        TEXTS.iter().flat_map(|text| [Digest::of(&Message::user(*text)), Digest::of(&Message::assistant(*text))]);
    let bodies = bodies().into_iter().map(|body| Digest::of(&body));
    let with_files = files().map(|file| Digest::of(&shows(TEXTS[0], &file)));
    messages.chain(bodies).chain(with_files).map(|digest| digest.unwrap()).collect()
}

pub(super) fn secrets() -> [&'static str; 4] {
    ["s1", "S1", "s-2", "s.3"]
}

fn push_configs() -> [&'static str; 4] {
    ["c1", "C1", "c-2", "a\0b"]
}

fn bodies() -> Vec<CanonicalJson> {
    let mut bodies: Vec<CanonicalJson> =
        [json!({"a": 1}), json!("two"), json!([1.5, null, "\u{0}"])].map(CanonicalJson::from).into();
    let [first, second, _] = files();
    bodies.push(CanonicalJson::of(&[shows("é\0", &first), shows("", &second)]).unwrap());
    bodies.extend([first, second]);
    bodies
}

/// What messages may have as files. One is a body of other kinds, too, and the last is never stored.
fn files() -> [CanonicalJson; 3] {
    ["two", "three", "never"].map(|text| json!(text).into())
}

/// One call.
#[derive(Debug)]
pub(super) enum Move {
    CreateSession(NewSession),
    EnsureSession(WorkspaceId, SessionId),
    EndSession(WorkspaceId, SessionId),
    Sessions(SessionFilter),
    Page(WorkspaceId, SessionId, Option<u64>, Option<u32>),
    Reserve(ReservedRun),
    Withdraw(RunId),
    EndUnopened(RunId, Vec<NewEvent>),
    PendingStarts(Timestamp),
    StartDone(RunId),
    OpenRuns(Option<OpenRun>),
    Open(Box<NewRun>),
    Runs(RunFilter),
    Begin(PlanBegin),
    Commit(Box<PlanCommit>),
    SettlePlan(RunId, u32),
    Claim(RunId, &'static str, u32, bool),
    Finish(Box<FinishedCall>),
    SettleCall(RunId, CallId, u32),
    Record(RecordBatch),
    Append(RunId, Vec<NewEvent>),
    Events(RunId, u64, u32),
    PutBlob(CanonicalJson),
    PutNote(WorkspaceId, &'static str, &'static str),
    Notes(WorkspaceId, &'static str, u32),
    CreateKey(NewApiKey),
    RevokeKey(WorkspaceId, &'static str),
    TouchKey(&'static str),
    PutSecret(SealedSecret),
    RemoveSecret(WorkspaceId, &'static str),
    SecretsOfOtherKeys(&'static str, Option<(WorkspaceId, String)>),
    ReplaceSealed(SealedSecret, SealedSecret),
    PutGrant(WorkspaceId, Box<Grant>),
    RevokeGrant(WorkspaceId, GrantId),
    SetRules(WorkspaceId, ApprovalScope, Option<OwnRules>),
    RulesFor(WorkspaceId, RunId, SessionId),
    PutPushConfig(NewPushConfig),
    EndPushConfig(RunId, &'static str, Option<&'static str>),
    DeletePushConfig(RunId, &'static str),
    Sweep(Retention),
}

impl Move {
    pub(super) async fn draw(chance: &mut Chance, store: &dyn Store, now: Timestamp) -> Self {
        let run = chance.pick(&runs());
        let (workspace, session) = (some_workspace(chance), chance.pick(&sessions()));
        let head = some_head(chance, store, &run).await;
        let (turn, dispatch) = (u32::try_from(chance.below(3)).unwrap(), u32::try_from(1 + chance.below(3)).unwrap());
        let (call, key) = (chance.pick(&["c1", "c2"]), chance.pick(&["k1", "k2"]));
        match chance.below(42) {
            0 => Self::CreateSession(NewSession {
                workspace,
                id: session,
                name: chance.pick(&[None, Some("name".to_owned())]),
                spec: some_body(chance),
                metadata: some_labels(chance),
                agent: chance.pick(&[None, Some(AgentId::new("clerk"))]),
            }),
            1 => Self::EnsureSession(workspace, session),
            2 => Self::EndSession(workspace, session),
            3 => Self::Sessions(SessionFilter {
                status: chance.pick(&[None, Some(SessionStatus::Active), Some(SessionStatus::Ended)]),
                metadata: some_labels(chance),
                agents: chance.pick(&[None, Some(vec![AgentId::new("clerk")])]),
                cursor: chance.pick(&[None, Some(format!("{}.chat", now.0)), Some("chat".to_owned())]),
                offset: u32::try_from(chance.below(3)).unwrap(),
                limit: u32::try_from(chance.below(3)).unwrap(),
                total: chance.one_in(2),
                ..SessionFilter::of(workspace)
            }),
            4 => Self::Page(
                workspace,
                session,
                chance.pick(&[None, Some(0), Some(2), Some(9)]),
                chance.pick(&[None, Some(1)]),
            ),
            5 | 6 => Self::Reserve(ReservedRun {
                id: run,
                workspace,
                session: chance.pick(&[None, Some(session)]),
                agent_id: AgentId::new("asked-for"),
                model_id: chance.pick(&["m1", "m2"]).to_owned(),
                name: chance.pick(&[None, Some("name".to_owned()), Some("na\0me".to_owned())]),
                spec: some_body(chance),
                metadata: some_labels(chance),
                input: chance.pick(&TEXTS).to_owned(),
                start: chance.pick(&[None, Some("x"), Some("x"), Some("y")]).map(|request| NewStart {
                    request: Digest::of_json(&json!(request)),
                    plan: chance.pick(&bodies()).to_value(),
                }),
            }),
            7 => Self::Withdraw(run),
            8..=11 => {
                let known = store.run(&run).await.unwrap();
                // Mostly as it was reserved or opened before.
                let (workspace, joins) = match known {
                    Some(row) if !chance.one_in(8) => (row.workspace, row.session),
                    _ => (workspace, chance.pick(&[None, Some(session)])),
                };
                let texts: Vec<&str> = (0..chance.below(3)).map(|_| chance.pick(&TEXTS)).collect();
                Self::Open(Box::new(NewRun {
                    workspace,
                    continues_session: joins.is_some() && !chance.one_in(3),
                    session: joins,
                    metadata: some_labels(chance).into_iter().map(|(key, value)| (key, json!(value))).collect(),
                    parent: chance.pick(&[None, None, Some(RunId::new("a"))]),
                    messages: texts.iter().copied().map(Message::user).chain(some_messages(chance)).collect(),
                    ..new_run(&run, &[])
                }))
            }
            12 => Self::Runs(RunFilter {
                workspace: chance.pick(&[None, Some(workspace)]),
                session: chance.pick(&[None, None, Some(session)]),
                model_id: chance.pick(&[None, None, Some("m1".to_owned())]),
                root_agents: chance.pick(&[None, None, Some(vec![]), Some(vec![AgentId::new("clerk")])]),
                statuses: chance.pick(&[
                    vec![],
                    vec![RunStatus::Queued, RunStatus::Running],
                    vec![RunStatus::Completed],
                ]),
                metadata: some_labels(chance),
                roots: chance.one_in(3),
                updated_since: chance.pick(&[None, None, Some(now)]),
                order: chance.pick(&[RunOrder::Created, RunOrder::Updated]),
                cursor: chance.pick(&[None, Some(format!("{}.a-1", now.0)), Some("x".to_owned())]),
                limit: u32::try_from(chance.below(3)).unwrap(),
                total: chance.one_in(2),
                ..RunFilter::default()
            }),
            13..=15 => {
                let (messages, events, session) = (some_messages(chance), some_events(chance), Some(session));
                Self::Begin(PlanBegin { run, workspace, session, turn, head, messages, events })
            }
            16 | 17 => {
                let events = some_events(chance);
                Self::Commit(Box::new(PlanCommit { turn, events, ..response(&run, head, chance.pick(&TEXTS)) }))
            }
            18 => Self::SettlePlan(run, turn),
            19..=21 => Self::Claim(run, call, dispatch, chance.one_in(2)),
            22 | 23 => Self::Finish(Box::new(FinishedCall {
                run,
                call: CallId::new(call),
                dispatch,
                idempotent: true,
                output: match chance.pick(&[None, Some(json!(1.0)), Some(json!("x"))]) {
                    Some(result) => ToolOutput::new(CallStatus::Ok).with_result(&Body::Inline(result.into())),
                    None => ToolOutput::new(CallStatus::Ok),
                },
                body: chance.pick(&[None, Some(bodies()[0].clone()), Some(bodies()[2].clone())]),
                event: note(&format!("result/{call}"), "done"),
            })),
            24 => Self::SettleCall(run, CallId::new(call), dispatch),
            25 | 26 => Self::Record(RecordBatch {
                run,
                head,
                messages: some_messages(chance),
                events: some_events(chance),
                status: chance.pick(&[RunStatus::Running, RunStatus::Waiting, RunStatus::Completed]),
                phase: chance.pick(&[Phase::Planning, Phase::Done]),
                closes_session_turn: chance.one_in(2),
            }),
            27 | 28 => Self::Append(run, some_events(chance)),
            29 => Self::Events(run, chance.below(5), u32::try_from(chance.below(4)).unwrap()),
            30 => Self::PutBlob(chance.pick(&bodies())),
            31 => match chance.one_in(2) {
                true => Self::PutNote(workspace, chance.pick(&["key", "Öl", "KEY"]), chance.pick(&TEXTS)),
                false => Self::Notes(workspace, chance.pick(&["", "É", "key of", "100% _OF_", "\0"]), 2),
            },
            34 | 35 => Self::PutSecret(some_secret(chance, workspace, &run, &session)),
            36 => match chance.below(3) {
                0 => Self::RemoveSecret(workspace, chance.pick(&secrets())),
                1 => {
                    let after = (workspace, chance.pick(&secrets()).to_owned());
                    Self::SecretsOfOtherKeys(chance.pick(&["k1", "k2"]), chance.pick(&[None, Some(after)]))
                }
                _ => {
                    let old = some_secret(chance, workspace, &run, &session);
                    let new = SealedSecret { key_id: "k3".to_owned(), ..old.clone() };
                    Self::ReplaceSealed(old, new)
                }
            },
            38 => Self::PutPushConfig(NewPushConfig {
                run,
                id: chance.pick(&push_configs()).to_owned(),
                workspace,
                version: chance.pick(&["1.0", "0.3"]).to_owned(),
                secret: chance.pick(&secrets()).to_owned(),
            }),
            39 => match chance.one_in(2) {
                true => Self::EndPushConfig(run, chance.pick(&push_configs()), chance.pick(&[None, Some("gone")])),
                false => Self::DeletePushConfig(run, chance.pick(&push_configs())),
            },
            32 => match chance.below(4) {
                0 | 1 => Self::CreateKey(NewApiKey {
                    id: key.to_owned(),
                    workspace,
                    name: "laptop".to_owned(),
                    prefix: "wl_".to_owned(),
                    hash: KeyHash(vec![0, 255]),
                    roles: chance.pick(&[Vec::new(), vec!["finance".to_owned()]]),
                    scopes: vec!["runs:read".to_owned()],
                    agents: chance.pick(&[None, Some(vec![]), Some(vec![AgentId::new("clerk")])]),
                    expires_at: chance.pick(&[None, Some(now)]),
                }),
                2 => Self::RevokeKey(workspace, key),
                _ => Self::TouchKey(key),
            },
            40 | 41 => some_approval(chance, workspace, run, session, now),
            33 => match chance.below(4) {
                0 => Self::EndUnopened(run, some_events(chance)),
                1 => Self::PendingStarts(now),
                2 => Self::StartDone(run),
                _ => {
                    let after = OpenRun { created_at: Timestamp(now.0 / 2), id: run };
                    Self::OpenRuns(chance.pick(&[None, Some(after)]))
                }
            },
            _ => {
                let age = chance.pick(&[0, 1, 100_000, 200_000_000]);
                Self::Sweep(Retention { before: Timestamp(now.0.saturating_sub(age)), limit: chance.pick(&[1, 2, 10]) })
            }
        }
    }

    /// What the store answers, as text; of a refusal, its code.
    pub(super) async fn make(&self, store: &dyn Store) -> String {
        match self {
            Self::CreateSession(new) => said(store.create_session(new.clone()).await),
            Self::EnsureSession(workspace, session) => said(store.ensure_session(workspace, session).await),
            Self::EndSession(workspace, session) => said(store.end_session(workspace, session).await),
            Self::Sessions(filter) => said(store.sessions(filter.clone()).await),
            Self::Page(workspace, session, before, last) => {
                said(store.session_page(workspace, session, *before, *last).await)
            }
            Self::Reserve(new) => said(store.reserve_run(new.clone()).await),
            Self::Withdraw(run) => said(store.withdraw_run(run).await),
            Self::EndUnopened(run, events) => {
                said(store.end_unopened_run(run, RunStatus::Failed, events.clone()).await)
            }
            Self::PendingStarts(before) => said(store.pending_starts(*before, 3).await),
            Self::StartDone(run) => said(store.start_done(run).await),
            Self::OpenRuns(after) => said(store.open_runs(after.clone(), 3).await),
            Self::Open(new) => said(store.open_run((**new).clone()).await),
            Self::Runs(filter) => said(store.runs(filter.clone()).await),
            Self::Begin(begin) => said(store.begin_plan(begin.clone()).await),
            Self::Commit(commit) => said(store.commit_plan((**commit).clone()).await),
            Self::SettlePlan(run, turn) => said(store.settle_plan(run, *turn).await),
            Self::Claim(run, call, dispatch, idempotent) => {
                said(store.claim_call(new_claim(run, call, *dispatch, *idempotent)).await)
            }
            Self::Finish(finished) => said(store.finish_call(finished).await),
            Self::SettleCall(run, call, dispatch) => said(store.settle_call(run, call, *dispatch).await),
            Self::Record(batch) => said(store.record(batch.clone()).await),
            Self::Append(run, events) => said(store.append_events(run, events.clone()).await),
            Self::Events(run, after, limit) => said(store.events(run, *after, *limit).await),
            Self::PutBlob(body) => said(store.put_blob(body.clone()).await),
            Self::PutNote(workspace, key, text) => said(store.put_note(workspace, key, text).await),
            Self::Notes(workspace, query, limit) => said(store.notes(workspace, query, *limit).await),
            Self::CreateKey(new) => said(store.create_key(new.clone()).await),
            Self::RevokeKey(workspace, id) => said(store.revoke_key(workspace, id).await),
            Self::TouchKey(id) => said(store.touch_key(id).await),
            Self::PutSecret(new) => said(store.put_secret(new.clone()).await),
            Self::RemoveSecret(workspace, name) => said(store.remove_secret(workspace, name).await),
            Self::SecretsOfOtherKeys(key, after) => said(store.secrets_of_other_keys(key, after.clone(), 2).await),
            Self::PutPushConfig(new) => said(store.put_push_config(new.clone()).await),
            Self::EndPushConfig(run, id, error) => said(store.end_push_config(run, id, *error).await),
            Self::DeletePushConfig(run, id) => said(store.delete_push_config(run, id).await),
            Self::ReplaceSealed(old, new) => said(store.replace_sealed(old, new.clone()).await),
            Self::PutGrant(workspace, grant) => said(store.put_grant(workspace, (**grant).clone()).await),
            Self::RevokeGrant(workspace, id) => said(store.revoke_grant(workspace, id).await),
            Self::SetRules(workspace, owner, rules) => said(store.set_rules(workspace, owner, rules.clone()).await),
            Self::RulesFor(workspace, run, session) => said(store.rules_for(workspace, run, Some(session)).await),
            Self::Sweep(retention) => said(counted_sweep(store, *retention).await),
        }
    }
}

fn some_approval(chance: &mut Chance, workspace: WorkspaceId, run: RunId, session: SessionId, now: Timestamp) -> Move {
    let scope = chance.pick(&[
        ApprovalScope::Run { id: run.clone() },
        ApprovalScope::Session { id: session.clone() },
        ApprovalScope::Agent { id: AgentId::new("clerk") },
        ApprovalScope::Unknown,
    ]);
    let id = chance.pick(&["g1", "g2", "\0"]);
    match chance.below(5) {
        0 | 1 => {
            let kept = chance.pick(&["g1", "g2", "g3"]);
            let tool = chance.pick(&["pay", "mail"]);
            Move::PutGrant(
                workspace,
                Box::new(Grant { scope, ..approvals::grant(kept, tool, json!({"kind": "x"}), now.0) }),
            )
        }
        2 => Move::RevokeGrant(workspace, id.into()),
        3 => {
            let rules = chance.pick(&[None, Some(approvals::rules("ask")), Some(approvals::rules("deny"))]);
            Move::SetRules(workspace, scope, rules)
        }
        _ => Move::RulesFor(workspace, run, session),
    }
}

/// A sweep that leaves nothing did what was counted.
async fn counted_sweep(store: &dyn Store, retention: Retention) -> Result<(Swept, Swept)> {
    let counted = store.would_sweep(retention.before).await?;
    let swept = store.sweep(retention).await?;
    assert!(swept.more || swept == counted, "{counted:?} was counted for {retention:?}, and it was {swept:?}");
    Ok((counted, swept))
}

fn said<T: std::fmt::Debug>(answer: Result<T>) -> String {
    format!("{:?}", answer.map_err(|error| (error.code(), error.to_string())))
}

fn some_workspace(chance: &mut Chance) -> WorkspaceId {
    WorkspaceId::new(if chance.one_in(5) { "rival" } else { "acme" })
}

/// Mostly where the transcript stands, sometimes where it stood or never will.
async fn some_head(chance: &mut Chance, store: &dyn Store, run: &RunId) -> TranscriptHead {
    let end = store.run(run).await.unwrap().map_or_else(TranscriptHead::default, |row| row.head);
    match chance.below(12) {
        0 => TranscriptHead::default(),
        1 => TranscriptHead { len: end.len + 1, ..end },
        2 => TranscriptHead { len: end.len.saturating_sub(1), ..end },
        _ => end,
    }
}

fn some_body(chance: &mut Chance) -> Option<Digest> {
    let digest = Digest::of(&chance.pick(&bodies())).unwrap();
    chance.pick(&[None, None, Some(digest)])
}

/// Ciphertext is opaque to a store, so any will do.
fn some_secret(chance: &mut Chance, workspace: WorkspaceId, run: &RunId, session: &SessionId) -> SealedSecret {
    let owners = [None, None, Some(SecretOwner::Run(run.clone())), Some(SecretOwner::Session(session.clone()))];
    SealedSecret {
        workspace,
        name: chance.pick(&secrets()).to_owned(),
        owner: chance.pick(&owners),
        key_id: chance.pick(&["k1", "k2"]).to_owned(),
        nonce: vec![chance.pick(&[0, 255]); 12],
        ciphertext: vec![chance.pick(&[0, 1, 255]); 20],
    }
}

fn some_labels(chance: &mut Chance) -> Labels {
    let pairs = [("team", "ops"), ("team", "Ops"), ("a.b", "ops"), ("a", "b\"c")];
    let count = chance.pick(&[0, 0, 1, 2]);
    (0..count).map(|_| chance.pick(&pairs)).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn some_messages(chance: &mut Chance) -> Vec<Message> {
    let count = chance.pick(&[0, 0, 1, 2]);
    let message = |chance: &mut Chance| match chance.below(4) {
        0 => shows(TEXTS[0], &chance.pick(&files())),
        1 => Message::user(chance.pick(&TEXTS)),
        _ => Message::assistant(chance.pick(&TEXTS)),
    };
    (0..count).map(|_| message(chance)).collect()
}

fn some_events(chance: &mut Chance) -> Vec<NewEvent> {
    let count = chance.pick(&[0, 1, 1, 2, 3]);
    (0..count).map(|_| some_event(chance)).collect()
}

fn some_event(chance: &mut Chance) -> NewEvent {
    let key = format!("e{}", chance.below(40));
    match chance.below(40) {
        0 => cancelled("end"),
        1 => result(chance.pick(&TEXTS)),
        2 => {
            let body = EventBody::Error {
                code: "RUN0001".to_owned(),
                error: chance.pick(&TEXTS).to_owned(),
                error_class: Some("overloaded".to_owned()),
                failure: None,
                retryable: true,
                api_status: None,
                api_code: None,
                finish_reason: None,
                partial_text: chance.pick(&[None, Some("So far".to_owned())]),
                turns: 1,
                tool_calls: 0,
                active_ms: Millis(5),
                usage: Default::default(),
                model: None,
                structured_output: None,
            };
            NewEvent::new("end", body)
        }
        3..=6 => {
            let (status, phase) =
                chance.pick(&[(RunStatus::Waiting, Phase::Waiting), (RunStatus::Running, Phase::Planning)]);
            NewEvent::new(format!("s{}", chance.below(10)), EventBody::Status { status, phase })
        }
        // Nearly always the same text under the same key.
        7 => note(&key, chance.pick(&TEXTS)),
        _ => note(&key, TEXTS[0]),
    }
}
