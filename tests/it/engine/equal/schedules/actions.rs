//! Triggers under every overlap policy, backfills, pauses and updates; each reply and each started event is compared.

use std::collections::HashMap;

use temporalio_protos::temporal::api::{
    command::v1::{CancelWorkflowExecutionCommandAttributes, Command, FailWorkflowExecutionCommandAttributes},
    common::v1::{Memo, Payload, SearchAttributes},
    enums::v1::ScheduleOverlapPolicy as Policy,
    failure::v1::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    schedule::v1::{BackfillRequest, CalendarSpec, Schedule, SchedulePatch, ScheduleSpec, ScheduleState},
    workflowservice::v1::{CountSchedulesRequest, DeleteScheduleRequest, ListSchedulesRequest, UpdateScheduleRequest},
};
use uuid::Uuid;

use super::{
    super::{
        Peer, peers,
        starts::{command, complete},
    },
    FAR, at, creation, schedule, trigger,
};
use crate::{diff::normal::Normal, engine::client::NAMESPACE, support::block_on};

/// What one server has answered.
struct Notes<'a> {
    peer: &'a Peer,
    normal: Normal,
    lines: Vec<String>,
}

impl<'a> Notes<'a> {
    fn new(peer: &'a Peer) -> Self {
        Self { peer, normal: Normal::new(&peer.prefix), lines: Vec::new() }
    }

    async fn describe(&mut self, what: &str, name: &str) {
        let described = self.peer.described(name).await;
        let text = match &described {
            Ok(described) => self.normal.message(described),
            Err(status) => self.normal.status(status),
        };
        self.lines.push(format!("{what}: {text}"));
        // The times are in the far future, so they depend on the spec alone.
        let info = described.ok().and_then(|described| described.info).unwrap_or_default();
        self.lines.push(format!("{:?}", info.future_action_times));
    }

    async fn trigger(&self, name: &str, time: i64, policy: Policy) {
        self.peer.patch(name, trigger(time, policy as i32)).await.unwrap();
    }

    /// The next run of the schedule: its history so far, and how it goes on.
    async fn act(&mut self, name: &str, commands: Vec<Command>) {
        let task = self.peer.task(name).await;
        for event in &task.history.as_ref().unwrap().events {
            self.lines.push(self.normal.message(event));
        }
        self.peer.decide(&task, commands, Vec::new()).await;
    }
}

fn fail() -> Command {
    let info = ApplicationFailureInfo { r#type: "broken".to_owned(), ..ApplicationFailureInfo::default() };
    let failure = Failure {
        message: "it broke".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
        ..Failure::default()
    };
    command(FailWorkflowExecutionCommandAttributes { failure: Some(failure) }.into())
}

fn json(text: &str) -> Payload {
    let metadata = HashMap::from([("encoding".to_owned(), b"json/plain".to_vec())]);
    Payload { metadata, data: text.into(), ..Payload::default() }
}

#[test]
fn overlapping_actions_are_those_of_the_server() {
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            let mut notes = Notes::new(&peer);
            let name = "overlap";
            peer.create(creation(&peer, name, schedule(&peer, name))).await.unwrap();
            notes.trigger(name, 1000, Policy::Unspecified).await;
            notes.describe("one runs", name).await;
            for (time, policy) in
                [(2000, Policy::Skip), (3000, Policy::BufferOne), (4000, Policy::BufferOne), (5000, Policy::BufferAll)]
            {
                notes.trigger(name, time, policy).await;
                notes.describe("while it runs", name).await;
            }
            notes.act(name, vec![complete()]).await;
            // The one of 3000, which gets the result.
            notes.act(name, Vec::new()).await;
            notes.describe("a buffered one runs", name).await;
            notes.trigger(name, 6000, Policy::CancelOther).await;
            notes.act(name, vec![command(CancelWorkflowExecutionCommandAttributes::default().into())]).await;
            notes.act(name, Vec::new()).await;
            notes.trigger(name, 7000, Policy::TerminateOther).await;
            notes.act(name, vec![fail()]).await;
            notes.trigger(name, 8000, Policy::AllowAll).await;
            notes.act(name, Vec::new()).await;
            notes.trigger(name, 9000, Policy::Skip).await;
            // It gets the last result, and the failure after it.
            notes.act(name, Vec::new()).await;
            notes.describe("in the end", name).await;
            let lines = notes.lines;
            seen.push(lines);
        }
        assert_same(&seen);
    });
}

#[test]
fn pauses_backfills_updates_and_lists_are_those_of_the_server() {
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            let mut notes = Notes::new(&peer);
            let name = "changes";
            let fields = HashMap::from([("kind".to_owned(), json("\"nightly\""))]);
            let attributes = |value: &str| {
                let indexed_fields = HashMap::from([("WindlassAgent".to_owned(), json(&format!("{value:?}")))]);
                Some(SearchAttributes { indexed_fields })
            };
            let calendar =
                CalendarSpec { hour: "3-5/2".into(), day_of_week: "mon-7".into(), ..CalendarSpec::default() };
            let spec = ScheduleSpec {
                calendar: vec![calendar.clone()],
                cron_string: vec!["CRON_TZ=Europe/Berlin 0 12 * jan-mar * # noon".into()],
                exclude_structured_calendar: Vec::new(),
                start_time: Some(at(FAR)),
                ..ScheduleSpec::default()
            };
            let plain = schedule(&peer, name);
            let mut request = creation(&peer, name, Schedule { spec: Some(spec), ..plain.clone() });
            request.memo = Some(Memo { fields });
            request.search_attributes = attributes("first");
            let pause = SchedulePatch { pause: "from the beginning".into(), ..SchedulePatch::default() };
            request.initial_patch = Some(pause);
            let created = peer.create(request.clone()).await.unwrap();
            notes.lines.push(notes.normal.message(&created));
            // The same request again, and another one.
            let again = peer.create(request.clone()).await;
            notes.lines.push(format!("{:?}", again.map_err(|status| notes.normal.status(&status))));
            request.request_id = Uuid::new_v4().to_string();
            let other = peer.create(request).await.unwrap_err();
            notes.lines.push(notes.normal.status(&other));
            notes.describe("created", name).await;

            let range = BackfillRequest {
                start_time: Some(at(FAR)),
                // As few times as one turn takes: the real server takes the others when it next has something to do.
                end_time: Some(at(FAR + 2 * 86_400)),
                overlap_policy: Policy::Skip as i32,
            };
            let backfill = SchedulePatch { backfill_request: vec![range], ..SchedulePatch::default() };
            peer.patch(name, backfill).await.unwrap();
            notes.describe("backfilled", name).await;
            notes.act(name, vec![complete()]).await;

            let mut token = peer.described(name).await.unwrap().conflict_token;
            for (what, right) in [("a wrong token", false), ("the right token", true)] {
                if !right {
                    token[7] += 1;
                } else {
                    token[7] -= 1;
                }
                let state = ScheduleState {
                    notes: what.to_owned(),
                    limited_actions: true,
                    remaining_actions: 2,
                    ..ScheduleState::default()
                };
                let update = UpdateScheduleRequest {
                    namespace: NAMESPACE.to_owned(),
                    schedule_id: peer.id(name),
                    schedule: Some(Schedule { state: Some(state), ..plain.clone() }),
                    conflict_token: token.clone(),
                    request_id: Uuid::new_v4().to_string(),
                    search_attributes: attributes("second"),
                    ..UpdateScheduleRequest::default()
                };
                peer.stub.clone().update_schedule(update).await.unwrap();
                // The run has ended by now; the real server notices it with this description, and shows it in the next.
                while running(&peer, name).await {
                    tokio::task::yield_now().await;
                }
                notes.describe(what, name).await;
            }
            for patch in [
                SchedulePatch { pause: "stop".into(), ..SchedulePatch::default() },
                SchedulePatch { unpause: "go".into(), ..SchedulePatch::default() },
            ] {
                peer.patch(name, patch).await.unwrap();
                notes.describe("switched", name).await;
            }

            for query in [
                format!("ScheduleId = '{}'", peer.id(name)),
                format!("TemporalSchedulePaused = false AND ScheduleId STARTS_WITH '{}'", peer.id(name)),
                format!("WindlassAgent = 'second' AND ScheduleId = '{}'", peer.id(name)),
            ] {
                // Visibility is eventually consistent on the real server.
                let list = ListSchedulesRequest {
                    namespace: NAMESPACE.to_owned(),
                    query: query.clone(),
                    ..ListSchedulesRequest::default()
                };
                let listed = loop {
                    let listed = peer.stub.clone().list_schedules(list.clone()).await.unwrap().into_inner();
                    let current = |entry: &_| is_switched(entry);
                    if listed.schedules.iter().any(current) {
                        break listed;
                    }
                    tokio::task::yield_now().await;
                };
                notes.lines.push(notes.normal.message(&listed));
                let count = CountSchedulesRequest { namespace: NAMESPACE.to_owned(), query };
                let counted = peer.stub.clone().count_schedules(count).await.unwrap().into_inner();
                notes.lines.push(notes.normal.message(&counted));
            }
            let delete = DeleteScheduleRequest {
                namespace: NAMESPACE.to_owned(),
                schedule_id: peer.id(name),
                ..DeleteScheduleRequest::default()
            };
            for _ in 0..2 {
                let deleted = peer.stub.clone().delete_schedule(delete.clone()).await;
                notes.lines.push(format!("{:?}", deleted.map(drop).map_err(|status| notes.normal.status(&status))));
            }
            notes.describe("deleted", name).await;
            let patched = peer.patch(name, trigger(1000, 0)).await.unwrap_err();
            notes.lines.push(notes.normal.status(&patched));
            peer.create(creation(&peer, name, plain)).await.unwrap();
            notes.describe("created again", name).await;
            let lines = notes.lines;
            seen.push(lines);
        }
        assert_same(&seen);
    });
}

async fn running(peer: &Peer, name: &str) -> bool {
    use temporalio_protos::temporal::api::enums::v1::WorkflowExecutionStatus::Running;
    let info = peer.described(name).await.unwrap().info.unwrap();
    !info.running_workflows.is_empty() || info.recent_actions.iter().any(|a| a.start_workflow_status() == Running)
}

fn is_switched(entry: &temporalio_protos::temporal::api::schedule::v1::ScheduleListEntry) -> bool {
    entry.info.as_ref().is_some_and(|info| info.notes == "go" && !info.paused)
}

#[track_caller]
fn assert_same(seen: &[Vec<String>]) {
    for (number, (real, engine)) in seen[0].iter().zip(&seen[1]).enumerate() {
        assert_eq!(engine, real, "note {number}\n{engine}\ninstead of\n{real}");
    }
    assert_eq!(seen[1].len(), seen[0].len());
}
