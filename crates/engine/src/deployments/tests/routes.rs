//! Where tasks go.

use proptest::prelude::*;
use temporalio_protos::temporal::api::enums::v1::VersioningBehavior as Behavior;

use crate::{
    deployments::{Deployment, Directive, Drainage, Place, QueueRouting, Version, place, state::Ramp},
    queues::Kind,
};

fn version(build_id: &str) -> Version {
    Version::new("d", build_id)
}

/// A deployment of these builds, all of which poll the task queue `q` for workflow tasks.
fn routed(current: &str, ramp: Option<(&str, f32)>) -> Deployment {
    let mut deployment = Deployment::new("d", "r", "", 1);
    for build_id in ["1", "2"] {
        let drainage = Drainage::new(&|_| 0, &|_| false);
        deployment.register(build_id, "q", Kind::Workflow, &drainage, 2).unwrap();
    }
    current.clone_into(&mut deployment.current);
    deployment.current_changed = 3;
    deployment.percentage_changed = 3;
    deployment.revision = 7;
    deployment.ramp = ramp.map(|(build_id, percentage)| Ramp { build_id: build_id.to_owned(), percentage });
    deployment
}

fn routing(current: &str, ramp: Option<(&str, f32)>) -> QueueRouting {
    QueueRouting::of([routed(current, ramp)].iter(), "q", Kind::Workflow).unwrap()
}

fn on(behavior: Behavior, build_id: &str) -> Directive {
    Directive { behavior, version: Some(version(build_id)), revision: 7, use_ramping: false }
}

fn placed(routing: Option<&QueueRouting>, sticky: bool, directive: Option<&Directive>) -> Place {
    place(routing, Kind::Workflow, sticky, "w", directive).place
}

#[test]
fn pinned_runs_stay_and_all_others_follow_the_routing() {
    let (pinned, auto) = (on(Behavior::Pinned, "1"), on(Behavior::AutoUpgrade, "1"));
    let workers = |build_id: &str| Place::Workers(Some(version(build_id)));
    let to_2 = routing("2", None);
    assert_eq!(placed(Some(&to_2), false, Some(&pinned)), workers("1"));
    assert_eq!(placed(Some(&to_2), true, Some(&pinned)), Place::Sticky);
    assert_eq!(placed(Some(&to_2), false, Some(&auto)), workers("2"));
    assert_eq!(placed(Some(&to_2), true, Some(&auto)), Place::NotSticky);
    assert_eq!(placed(Some(&to_2), true, Some(&on(Behavior::AutoUpgrade, "2"))), Place::Sticky);
    assert_eq!(placed(Some(&to_2), false, None), workers("2"));
    assert_eq!(placed(Some(&to_2), true, None), Place::NotSticky);

    let plain = routing("", None);
    assert_eq!(placed(Some(&plain), false, Some(&auto)), Place::Workers(None));
    assert_eq!(placed(Some(&plain), true, None), Place::Sticky);
    assert_eq!(placed(None, false, None), Place::Workers(None));
    assert_eq!(placed(None, false, Some(&pinned)), workers("1"));
}

#[test]
fn an_activity_on_a_task_queue_that_its_version_lacks_is_independent() {
    let pinned = on(Behavior::Pinned, "1");
    let activity = |routing: Option<&QueueRouting>| place(routing, Kind::Activity, false, "w", Some(&pinned)).place;
    assert_eq!(activity(None), Place::Workers(None));
    let mut other = Deployment::new("e", "r", "", 1);
    other.register("9", "q", Kind::Activity, &Drainage::new(&|_| 0, &|_| false), 2).unwrap();
    (other.current, other.current_changed) = ("9".to_owned(), 4);
    let routing = QueueRouting::of([other].iter(), "q", Kind::Activity).unwrap();
    assert_eq!(activity(Some(&routing)), Place::Workers(Some(Version::new("e", "9"))));
}

#[test]
fn a_task_queue_that_lags_behind_the_run_does_not_move_it_back() {
    let newer = Directive { revision: 9, ..on(Behavior::AutoUpgrade, "2") };
    let routing = routing("1", None);
    let routed = place(Some(&routing), Kind::Workflow, false, "w", Some(&newer));
    assert_eq!((routed.place, routed.revision), (Place::Workers(Some(version("2"))), 9));
}

#[test]
fn a_version_comes_before_a_newer_routing_to_unversioned_workers() {
    let mut plain = Deployment { name: "e".to_owned(), ..routed("", None) };
    plain.current_changed = 100;
    let routing = QueueRouting::of([routed("1", None), plain].iter(), "q", Kind::Workflow).unwrap();
    assert_eq!(routing.current, Some(version("1")));
    assert_eq!(QueueRouting::of([routed("1", None)].iter(), "other", Kind::Workflow), None);
}

#[test]
fn the_first_task_of_a_run_may_ask_for_the_ramping_version() {
    let routing = routing("1", Some(("2", 0.0)));
    assert_eq!(routing.target("w", false).0, Some(version("1")));
    assert_eq!(routing.target("w", true).0, Some(version("2")));
}

proptest! {
    /// A workflow id always goes to the same version, and stays with the ramping one when the ramp grows.
    #[test]
    fn a_ramp_only_adds_workflow_ids(id in ".{0,60}", less in 0.0_f32..100.0, more in 0.0_f32..100.0) {
        let (less, more) = (less.min(more), less.max(more));
        let target = |percentage| routing("1", Some(("2", percentage))).target(&id, false).0;
        prop_assert_eq!(target(less), target(less));
        if target(less) == Some(version("2")) && less > 0.0 {
            prop_assert_eq!(target(more), Some(version("2")));
        }
        prop_assert_eq!(target(100.0), Some(version("2")));
        prop_assert_eq!(target(0.0), Some(version("1")));
    }
}
