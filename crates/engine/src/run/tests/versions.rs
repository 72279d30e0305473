//! The version of a run: behaviors, transitions, overrides, and what is inherited.

use temporalio_protos::temporal::api::{
    deployment::v1::WorkerDeploymentVersion,
    enums::v1::{ContinueAsNewVersioningBehavior as Initial, VersioningBehavior as Behavior},
    history::v1::WorkflowTaskCompletedEventAttributes,
    workflow::v1::{
        DeploymentVersionTransition, VersioningOverride, WorkflowExecutionVersioningInfo,
        versioning_override::{OneTimeOverride, Override, PinnedOverride, PinnedOverrideBehavior},
    },
};

use crate::{
    deployments::Version,
    run::{Polled, RunState},
};

fn version(build_id: &str) -> WorkerDeploymentVersion {
    WorkerDeploymentVersion { deployment_name: "d".to_owned(), build_id: build_id.to_owned() }
}

fn pinned(build_id: &str) -> VersioningOverride {
    let pinned = PinnedOverride { behavior: PinnedOverrideBehavior::Pinned as i32, version: Some(version(build_id)) };
    VersioningOverride { r#override: Some(Override::Pinned(pinned)), ..VersioningOverride::default() }
}

fn completed(behavior: Behavior, build_id: &str) -> WorkflowTaskCompletedEventAttributes {
    WorkflowTaskCompletedEventAttributes {
        versioning_behavior: behavior as i32,
        deployment_version: Some(version(build_id)),
        worker_deployment_name: "d".to_owned(),
        ..WorkflowTaskCompletedEventAttributes::default()
    }
}

fn on(behavior: Behavior, build_id: &str) -> RunState {
    let mut state = RunState { task_queue: "q".to_owned(), ..RunState::default() };
    state.follow_version(&completed(behavior, build_id));
    state
}

fn effective(state: &RunState) -> (Behavior, Option<String>) {
    (state.behavior(), state.version().map(|version| version.build_id))
}

fn at(behavior: Behavior, build_id: &str) -> (Behavior, Option<String>) {
    (behavior, Some(build_id.to_owned()))
}

#[test]
fn an_unversioned_run_has_no_versioning() {
    let mut state = RunState::default();
    assert!(!state.follow_version(&WorkflowTaskCompletedEventAttributes::default()));
    assert_eq!((effective(&state), state.directive(), state.versioning), ((Behavior::Unspecified, None), None, None));
}

#[test]
fn a_transition_ends_with_a_task_of_its_version() {
    let mut state = on(Behavior::AutoUpgrade, "1");
    state.versioning.as_mut().unwrap().version_transition =
        Some(DeploymentVersionTransition { deployment_version: Some(version("2")), ..Default::default() });
    assert_eq!(effective(&state), at(Behavior::AutoUpgrade, "2"));
    // A task that the old version had started before goes on.
    assert!(!state.follow_version(&completed(Behavior::AutoUpgrade, "1")));
    assert!(state.in_transition());
    assert!(state.follow_version(&completed(Behavior::Pinned, "2")));
    assert!(!state.in_transition());
    assert_eq!(effective(&state), at(Behavior::Pinned, "2"));
}

#[test]
fn an_override_replaces_behavior_and_version() {
    let mut state = on(Behavior::AutoUpgrade, "1");
    assert!(state.override_version(Some(&pinned("3"))));
    assert_eq!(effective(&state), at(Behavior::Pinned, "3"));
    assert!(!state.override_version(Some(&pinned("3"))));
    assert!(state.override_version(None));
    assert_eq!(effective(&state), at(Behavior::AutoUpgrade, "1"));
    let auto = VersioningOverride { r#override: Some(Override::AutoUpgrade(true)), ..Default::default() };
    assert!(!state.override_version(Some(&auto)));
    state.follow_version(&completed(Behavior::Pinned, "1"));
    assert_eq!(effective(&state), at(Behavior::AutoUpgrade, "1"));
}

/// As on the real server, where a transition comes before an override.
#[test]
fn an_override_during_a_transition_waits_for_its_end() {
    let mut state = on(Behavior::AutoUpgrade, "1");
    state.versioning.as_mut().unwrap().version_transition =
        Some(DeploymentVersionTransition { deployment_version: Some(version("2")), ..Default::default() });
    assert!(!state.override_version(Some(&pinned("1"))));
    assert_eq!(effective(&state), at(Behavior::AutoUpgrade, "2"));
    assert!(state.follow_version(&completed(Behavior::AutoUpgrade, "2")));
    assert_eq!(effective(&state), at(Behavior::Pinned, "1"));
}

#[test]
fn a_one_time_override_ends_with_a_task_on_its_target() {
    let mut state = on(Behavior::AutoUpgrade, "1");
    let once = OneTimeOverride { target_deployment_version: Some(version("2")) };
    state.override_version(Some(&VersioningOverride {
        r#override: Some(Override::OneTime(once)),
        ..Default::default()
    }));
    assert_eq!(effective(&state), at(Behavior::Pinned, "2"));
    state.follow_version(&completed(Behavior::AutoUpgrade, "2"));
    assert_eq!(effective(&state), at(Behavior::AutoUpgrade, "2"));
    assert_eq!(state.options().versioning_override, None);
}

#[test]
fn lists_show_the_version_and_all_that_were_used() {
    let shown = |state: &RunState, name: &str| {
        let fields = state.search_attributes.clone().unwrap_or_default().indexed_fields;
        fields.get(name).map(|value| String::from_utf8(value.data.clone()).unwrap())
    };
    let mut state = on(Behavior::Pinned, "1");
    assert!(state.list_version(Some(&Version::new("d", "1"))));
    assert!(!state.list_version(Some(&Version::new("d", "1"))));
    assert_eq!(shown(&state, "BuildIds").unwrap(), r#"["pinned:d:1"]"#);
    state.follow_version(&completed(Behavior::AutoUpgrade, "2"));
    state.list_version(Some(&Version::new("d", "2")));
    assert_eq!(shown(&state, "BuildIds"), None);
    assert_eq!(shown(&state, "TemporalUsedWorkerDeploymentVersions").unwrap(), r#"["d:1","d:2"]"#);
    assert_eq!(shown(&state, "TemporalWorkerDeploymentVersion").unwrap(), r#""d:2""#);
    assert_eq!(shown(&state, "TemporalWorkflowVersioningBehavior").unwrap(), r#""AutoUpgrade""#);
    assert_eq!(shown(&state, "TemporalWorkerDeployment").unwrap(), r#""d""#);
}

#[test]
fn a_pinned_run_is_told_once_of_each_new_target() {
    let polled = |build: &str, revision| Polled {
        target: Some(Version::new("d", build)),
        target_revision: revision,
        ..Polled::default()
    };
    let mut state = on(Behavior::Pinned, "1");
    state.note_target(&polled("1", 1));
    assert!(!state.has_new_target());
    state.note_target(&polled("2", 2));
    assert!(state.has_new_target());
    // What was declined by the last run of the chain is not told again.
    state.declined_target = state.declined();
    state.notified_target = None;
    state.note_target(&polled("2", 2));
    assert!(!state.has_new_target());
    state.note_target(&polled("3", 3));
    assert!(state.has_new_target());
    state.note_target(&Polled::inline());
    assert!(state.has_new_target());
    state.override_version(Some(&pinned("1")));
    state.note_target(&polled("3", 3));
    assert!(!state.has_new_target());
}

#[test]
fn the_next_run_and_children_inherit_as_on_the_real_server() {
    let nowhere = |_: &str, _: &Version| false;
    let stays = on(Behavior::Pinned, "1");
    let next = stays.inherited_by_next("q", Initial::Unspecified, &nowhere);
    assert_eq!((next.pinned, next.auto_upgrade), (Some(version("1")), None));
    assert_eq!(stays.inherited_by_next("other", Initial::Unspecified, &nowhere).pinned, None);
    assert_eq!(stays.inherited_by_next("other", Initial::Unspecified, &|_, _| true).pinned, Some(version("1")));
    assert_eq!(stays.inherited_by_child("q", None, &nowhere).pinned, Some(version("1")));
    assert_eq!(stays.inherited_by_child("q", Some(pinned("2")), &nowhere).pinned, None);
    // A retry starts as its first run did.
    assert_eq!(stays.inherited_by_retry(&Default::default()).pinned, None);

    let mut moves = on(Behavior::AutoUpgrade, "1");
    assert_eq!(moves.inherited_by_next("q", Initial::Unspecified, &nowhere).auto_upgrade, None);
    moves.versioning.as_mut().unwrap().revision_number = 4;
    let info = moves.inherited_by_child("q", None, &nowhere).auto_upgrade.unwrap();
    assert_eq!((info.source_deployment_version, info.source_deployment_revision_number), (Some(version("1")), 4));

    let mut given = on(Behavior::AutoUpgrade, "1");
    given.override_version(Some(&pinned("2")));
    let next = given.inherited_by_next("q", Initial::Unspecified, &nowhere);
    assert_eq!((next.pinned, next.versioning_override), (Some(version("2")), Some(pinned("2"))));
    assert_eq!(given.inherited_by_next("other", Initial::Unspecified, &nowhere).versioning_override, None);
}

/// A record of a release without versioning is one of a run without a version.
#[test]
fn older_records_are_of_unversioned_runs() {
    let info = WorkflowExecutionVersioningInfo::default();
    let state = RunState { versioning: Some(info), ..RunState::default() };
    assert_eq!((state.behavior(), state.directive()), (Behavior::Unspecified, None));
    let older = <RunState as prost::Message>::decode(&*prost::Message::encode_to_vec(&RunState::default())).unwrap();
    assert_eq!(older.versioning, None);
}
