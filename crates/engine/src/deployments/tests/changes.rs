//! Requests against a deployment.

use temporalio_protos::temporal::api::enums::v1::{VersionDrainageStatus, WorkerDeploymentVersionStatus as Status};

use crate::{
    deployments::{Deployment, Drainage, Set, SetCurrent, SetRamping, Target, Version},
    queues::Kind,
    service_error::ServiceError,
    time::SECOND,
};

fn unused(act: impl FnOnce(&Drainage<'_>)) {
    act(&Drainage::new(&|_| 0, &|_| false));
}

/// A deployment with the builds 1 and 2, which poll the same task queue.
fn two_builds() -> Deployment {
    let mut deployment = Deployment::new("d", "_auto_create_", "", 1);
    unused(|drainage| {
        for build_id in ["1", "2"] {
            deployment.register(build_id, "q", Kind::Workflow, drainage, 2).unwrap();
        }
    });
    deployment
}

fn common<'a>(identity: &'a str, conflict_token: &'a [u8]) -> Set<'a> {
    Set { identity, conflict_token, ignore_missing_task_queues: false, allow_no_pollers: false, is_busy: &|_, _| true }
}

fn build(id: &str) -> Target {
    Target::Build(id.to_owned())
}

fn current(deployment: &mut Deployment, target: Target, now: i64) -> Result<Target, ServiceError> {
    let mut result = Ok(Target::None);
    unused(|drainage| {
        result = deployment.set_current(&SetCurrent { target, common: common("me", b"") }, drainage, now);
    });
    result
}

fn ramp(deployment: &mut Deployment, target: Target, percentage: f32, now: i64) -> Result<(Target, f32), ServiceError> {
    let mut result = Ok((Target::None, 0.0));
    unused(|drainage| {
        let set = SetRamping { target, percentage, common: common("me", b"") };
        result = deployment.set_ramping(&set, drainage, now);
    });
    result
}

fn statuses(deployment: &Deployment) -> Vec<Status> {
    deployment.versions.values().map(|version| version.status()).collect()
}

fn text<T>(result: Result<T, ServiceError>) -> String {
    result.map(drop).unwrap_err().to_string()
}

#[test]
fn a_rollout_moves_through_its_statuses() {
    let mut it = two_builds();
    assert_eq!(statuses(&it), [Status::Inactive, Status::Inactive]);
    assert_eq!(current(&mut it, build("1"), 10), Ok(Target::Unversioned));
    assert_eq!(statuses(&it), [Status::Current, Status::Inactive]);
    assert_eq!(ramp(&mut it, build("2"), 20.0, 20), Ok((Target::None, 0.0)));
    assert_eq!(ramp(&mut it, build("2"), 50.0, 30), Ok((build("2"), 20.0)));
    assert_eq!(statuses(&it), [Status::Current, Status::Ramping]);
    let second = &it.versions["2"];
    assert_eq!((second.ramping_since, second.routing_updated, second.first_activated), (20, 30, 20));
    assert_eq!(current(&mut it, build("2"), 40), Ok(build("1")));
    assert_eq!(statuses(&it), [Status::Draining, Status::Current]);
    assert_eq!((it.ramp.clone(), it.ramping_changed, it.revision), (None, 40, 4));
    assert_eq!(it.versions["1"].last_deactivated, 40);

    // It has drained when no run is pinned to it any more, and is not asked before its time.
    let runs = std::cell::Cell::new(1);
    let (pinned, pollers) = (|_: &Version| runs.get(), |_: &Version| false);
    let drainage = Drainage::new(&pinned, &pollers);
    assert!(!it.check_drainage(&drainage, 40 + 179 * SECOND));
    assert!(it.check_drainage(&drainage, 40 + 180 * SECOND));
    assert_eq!(statuses(&it), [Status::Draining, Status::Current]);
    runs.set(0);
    assert!(it.check_drainage(&drainage, 40 + 360 * SECOND));
    assert_eq!(statuses(&it), [Status::Drained, Status::Current]);
    let state = it.versions["1"].drainage.unwrap();
    assert_eq!((state.status(), state.changed), (VersionDrainageStatus::Drained, 40 + 360 * SECOND));

    // A run is pinned to it again.
    assert!(it.reactivate("1", 500));
    assert!(!it.reactivate("1", 501));
    assert_eq!(statuses(&it), [Status::Draining, Status::Current]);
}

#[test]
fn a_ramp_to_unversioned_workers_and_no_ramp_are_different() {
    let mut it = two_builds();
    current(&mut it, build("1"), 10).unwrap();
    assert_eq!(ramp(&mut it, Target::Unversioned, 30.0, 20), Ok((Target::None, 0.0)));
    assert_eq!(ramp(&mut it, Target::None, 0.0, 30), Ok((Target::Unversioned, 30.0)));
    assert_eq!(ramp(&mut it, Target::None, 0.0, 40), Ok((Target::None, 0.0)));
    assert_eq!(it.revision, 3);
    assert_eq!(text(ramp(&mut it, build("1"), 5.0, 50)), "requested ramping version d.1 is already current");
}

#[test]
fn a_repeated_request_changes_nothing() {
    let mut it = two_builds();
    current(&mut it, build("1"), 10).unwrap();
    let before = it.clone();
    assert_eq!(current(&mut it, build("1"), 20), Ok(build("1")));
    assert_eq!(it, before);
    ramp(&mut it, build("2"), 5.0, 30).unwrap();
    let before = it.clone();
    assert_eq!(ramp(&mut it, build("2"), 5.0, 40), Ok((build("2"), 5.0)));
    assert_eq!(it, before);
}

#[test]
fn unknown_builds_stale_tokens_and_strangers_are_refused() {
    let mut it = two_builds();
    assert_eq!(text(current(&mut it, build("9"), 10)), "build ID '9' not found in Worker Deployment 'd'");
    unused(|drainage| {
        let set = SetCurrent { target: build("1"), common: common("me", b"stale") };
        assert_eq!(text(it.set_current(&set, drainage, 10)), "conflict token mismatch");
        let token = it.conflict_token.clone();
        let set = SetCurrent { target: build("1"), common: common("me", &token) };
        it.set_current(&set, drainage, 10).unwrap();
        assert_ne!(it.conflict_token, token);
        let set = SetCurrent {
            target: build("9"),
            common: Set { allow_no_pollers: true, ignore_missing_task_queues: true, ..common("me", b"") },
        };
        it.set_current(&set, drainage, 20).unwrap();
    });
    assert_eq!(it.set_manager("boss", "me", b"", 30), Ok(String::new()));
    assert_eq!(it.set_manager("boss", "me", b"", 30), Ok("boss".to_owned()));
    assert!(text(current(&mut it, build("1"), 40)).starts_with("ManagerIdentity 'boss' is set and does not match"));
}

#[test]
fn a_version_without_a_busy_task_queue_is_refused() {
    let mut it = two_builds();
    unused(|drainage| it.register("1", "more", Kind::Activity, drainage, 5).unwrap());
    current(&mut it, build("1"), 10).unwrap();
    assert!(text(current(&mut it, build("2"), 20)).starts_with("proposed current version 'd:2' is missing active"));
    assert!(text(ramp(&mut it, build("2"), 5.0, 20)).starts_with("proposed ramping version 'd:2' is missing active"));
    unused(|drainage| {
        let idle = Set { is_busy: &|_, _| false, ..common("me", b"") };
        it.set_current(&SetCurrent { target: build("2"), common: idle }, drainage, 30).unwrap();
    });
}

#[test]
fn only_unused_versions_are_deleted() {
    let mut it = two_builds();
    current(&mut it, build("1"), 10).unwrap();
    current(&mut it, build("2"), 20).unwrap();
    let free = |_: &Version| false;
    let refused = |build: &str, why: &str| format!("version 'd:{build}' cannot be deleted since {why}");
    assert_eq!(text(it.delete_version("2", "me", false, &free)), refused("2", "it is current or ramping"));
    assert_eq!(text(it.delete_version("1", "me", false, &free)), refused("1", "it is draining"));
    assert_eq!(text(it.delete_version("1", "me", true, &|_| true)), refused("1", "it has active pollers"));
    assert_eq!(it.delete_version("1", "me", true, &free), Ok(()));
    assert_eq!(it.delete_version("1", "me", true, &free), Ok(()));
    assert_eq!(it.versions.keys().collect::<Vec<_>>(), ["2"]);
}

#[test]
fn the_oldest_unused_version_gives_way_to_the_hundred_and_first() {
    let mut it = Deployment::new("d", "r", "", 1);
    unused(|drainage| {
        for number in 0..100 {
            it.register(&number.to_string(), "q", Kind::Workflow, drainage, 10 + number).unwrap();
        }
    });
    current(&mut it, build("0"), 500).unwrap();
    unused(|drainage| it.register("new", "q", Kind::Workflow, drainage, 600).unwrap());
    assert!(it.versions.contains_key("0") && !it.versions.contains_key("1") && it.versions.contains_key("new"));
    let busy = |_: &Version| true;
    let drainage = Drainage::new(&|_| 0, &busy);
    let refused = text(it.register("another", "q", Kind::Workflow, &drainage, 700));
    assert!(refused.starts_with("cannot add version d.another since maximum number of versions (100)"), "{refused}");
}
