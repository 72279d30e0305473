//! How runs end, and what the next of a chain takes along.

use temporalio_protos::temporal::api::{
    enums::v1::WorkflowTaskFailedCause,
    history::v1::{WorkflowTaskFailedEventAttributes, history_event::Attributes},
    workflow::v1::ResetPointInfo,
};

use super::{
    script::{Beginning, Decision, Do, Happening, UpdateAnswer},
    world::World,
};
use crate::time::{SECOND, moment};

pub(super) const PLAIN: Beginning = Beginning {
    retried: false,
    is_child: false,
    delay_seconds: 0,
    run_seconds: 0,
    execution_seconds: 0,
    described: false,
};

pub(super) fn decision(commands: Vec<Do>) -> Decision {
    let updates = UpdateAnswer::Silence;
    Decision { commands, described: false, heartbeat: false, wants_next: false, caches: false, updates }
}

pub(super) fn decide(commands: Vec<Do>) -> Happening {
    Happening::Decide(decision(commands))
}

#[test]
fn the_service_fails_the_task_of_a_run_it_ends() {
    let mut world = World::begin(PLAIN);
    world.live(Happening::TakeTask);

    world.live(Happening::Terminate);

    let failed = WorkflowTaskFailedEventAttributes {
        scheduled_event_id: 2,
        started_event_id: 3,
        cause: WorkflowTaskFailedCause::ForceCloseCommand as i32,
        identity: "history-service".to_owned(),
        ..WorkflowTaskFailedEventAttributes::default()
    };
    let written = world.history.get(3).and_then(|event| event.attributes.clone());
    assert_eq!(written, Some(Attributes::WorkflowTaskFailedEventAttributes(failed)));
}

#[test]
fn a_continued_run_has_a_start_of_its_own() {
    let mut world = World::begin(PLAIN);
    world.live(Happening::TakeTask);
    world.live(Happening::Wait { seconds: 3 });

    world.live(decide(vec![Do::ContinueAsNew { delay_seconds: 0 }]));
    world.move_on();

    let state = &world.run.state;
    assert_eq!((state.start_time, state.original_start_time), (1_003 * SECOND, 0));
}

#[test]
fn points_to_reset_to_expire_once_the_chain_has_moved_on() {
    let mut world = World::begin(PLAIN);
    world.live(Happening::TakeTask);
    world.live(decide(vec![]));
    let expires = |point: &ResetPointInfo| moment(point.expire_time.as_ref());
    let before: Vec<_> = world.run.state.reset_points.iter().map(expires).collect();
    world.live(Happening::Signal);
    world.live(Happening::TakeTask);

    world.live(decide(vec![Do::ContinueAsNew { delay_seconds: 0 }]));
    world.move_on();

    let after: Vec<_> = world.run.state.reset_points.iter().map(expires).collect();
    assert_eq!((before, after), (vec![0], vec![1_000 * SECOND + 3 * 24 * 3600 * SECOND]));
}
