//! Requests that are refused: code, text and details.

use temporalio_protos::temporal::api::{
    common::v1::WorkflowType,
    enums::v1::WorkflowIdReusePolicy,
    schedule::v1::{IntervalSpec, Schedule, SchedulePatch, ScheduleSpec, schedule_action::Action},
    workflow::v1::NewWorkflowExecutionInfo,
    workflowservice::v1::{
        CountSchedulesRequest, CreateScheduleRequest, ListScheduleMatchingTimesRequest, ListSchedulesRequest,
        PatchScheduleRequest, UpdateScheduleRequest,
    },
};
use tonic::Status;

use super::{
    super::{Peer, peers},
    creation, schedule, span, trigger,
};
use crate::{diff::normal::Normal, engine::client::NAMESPACE, support::block_on};

fn with_action(peer: &Peer, change: impl FnOnce(&mut NewWorkflowExecutionInfo)) -> CreateScheduleRequest {
    let mut schedule = schedule(peer, "refused");
    let Some(Action::StartWorkflow(action)) = &mut schedule.action.as_mut().unwrap().action else { unreachable!() };
    change(action);
    creation(peer, "refused", schedule)
}

fn with_spec(peer: &Peer, spec: ScheduleSpec) -> CreateScheduleRequest {
    creation(peer, "refused", Schedule { spec: Some(spec), ..schedule(peer, "refused") })
}

fn creations(peer: &Peer) -> Vec<CreateScheduleRequest> {
    let plain = creation(peer, "refused", schedule(peer, "refused"));
    let intervals = [(0, 0), (10, -1), (10, 10)].map(|(interval, phase)| ScheduleSpec {
        interval: vec![IntervalSpec { interval: Some(span(interval)), phase: Some(span(phase)) }],
        ..ScheduleSpec::default()
    });
    let crons = ["", "1 2 3", "61 * * * *", "@every", "@every x", "TZ=UTC", "TZ=Nowhere/Town 0 0 * * *"]
        .map(|cron| ScheduleSpec { cron_string: vec![cron.to_owned()], ..ScheduleSpec::default() });
    let zones = ["Nowhere/Town", "../x"].map(|zone| ScheduleSpec { timezone_name: zone.into(), ..Default::default() });
    let data = ScheduleSpec { timezone_data: b"no zone".to_vec(), ..ScheduleSpec::default() };
    let mut requests = vec![
        CreateScheduleRequest { request_id: String::new(), ..plain.clone() },
        CreateScheduleRequest { request_id: "r".repeat(1001), ..plain.clone() },
        CreateScheduleRequest { schedule_id: "s".repeat(1000), ..plain.clone() },
        CreateScheduleRequest { namespace: "nowhere".to_owned(), ..plain },
        with_action(peer, |action| action.workflow_type = None),
        with_action(peer, |action| action.workflow_type = Some(WorkflowType { name: "t".repeat(1001) })),
        with_action(peer, |action| action.workflow_id = "w".repeat(990)),
        with_action(peer, |action| action.task_queue = None),
        with_action(peer, |action| action.workflow_run_timeout = Some(span(-1))),
        with_action(peer, |action| action.cron_schedule = "* * * * *".to_owned()),
        with_action(peer, |action| action.set_workflow_id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)),
    ];
    requests.extend(intervals.into_iter().chain(crons).chain(zones).chain([data]).map(|spec| with_spec(peer, spec)));
    requests
}

#[test]
fn refused_requests_have_the_servers_errors() {
    block_on(async {
        let mut seen = Vec::new();
        for peer in peers().await {
            let mut normal = Normal::new(&peer.prefix);
            let mut refused = Vec::new();
            let mut note = |status: Status| refused.push(normal.status(&status));
            for request in creations(&peer) {
                note(peer.create(request).await.unwrap_err());
            }
            note(peer.described("missing").await.unwrap_err());
            note(peer.patch("missing", trigger(1, 0)).await.unwrap_err());
            note(
                peer.patch("missing", SchedulePatch { pause: "p".repeat(1001), ..Default::default() })
                    .await
                    .unwrap_err(),
            );
            let without = PatchScheduleRequest { namespace: NAMESPACE.to_owned(), ..PatchScheduleRequest::default() };
            note(peer.stub.clone().patch_schedule(without).await.unwrap_err());
            let update = UpdateScheduleRequest {
                namespace: NAMESPACE.to_owned(),
                schedule_id: peer.id("missing"),
                schedule: Some(schedule(&peer, "missing")),
                ..UpdateScheduleRequest::default()
            };
            note(peer.stub.clone().update_schedule(update.clone()).await.unwrap_err());
            note(
                peer.stub
                    .clone()
                    .update_schedule(UpdateScheduleRequest { schedule: None, ..update.clone() })
                    .await
                    .unwrap_err(),
            );
            note(
                peer.stub
                    .clone()
                    .update_schedule(UpdateScheduleRequest { memo: Some(Default::default()), ..update })
                    .await
                    .unwrap_err(),
            );
            let times = ListScheduleMatchingTimesRequest {
                namespace: NAMESPACE.to_owned(),
                schedule_id: peer.id("missing"),
                ..ListScheduleMatchingTimesRequest::default()
            };
            note(peer.stub.clone().list_schedule_matching_times(times).await.unwrap_err());
            for query in
                ["Nothing = 1", "WorkflowId = 'x'", "ExecutionStatus = 'Running'", "ScheduleId =", "StartTime > 0"]
            {
                let list = ListSchedulesRequest {
                    namespace: NAMESPACE.to_owned(),
                    query: query.to_owned(),
                    ..ListSchedulesRequest::default()
                };
                note(peer.stub.clone().list_schedules(list).await.unwrap_err());
                let count = CountSchedulesRequest { namespace: NAMESPACE.to_owned(), query: query.to_owned() };
                note(peer.stub.clone().count_schedules(count).await.unwrap_err());
            }
            seen.push(refused);
        }
        for (number, (real, engine)) in seen[0].iter().zip(&seen[1]).enumerate() {
            assert_eq!(engine, real, "request {number}");
        }
    });
}
