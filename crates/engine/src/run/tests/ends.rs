//! How runs close, and what the next run of the chain inherits.

use temporalio_protos::temporal::api::{
    enums::v1::{EventType, WorkflowTaskFailedCause},
    history::v1::{HistoryEvent, WorkflowTaskFailedEventAttributes, history_event::Attributes},
    workflow::v1::ResetPointInfo,
};

use super::{
    script::{Action, Beginning, Decision, Do, UpdateAnswer},
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

pub(super) fn decide(commands: Vec<Do>) -> Action {
    Action::Decide(decision(commands))
}

#[test]
fn terminating_a_run_fails_its_started_task() {
    let mut world = World::begin(PLAIN);
    world.live(Action::TakeTask);

    world.live(Action::Terminate);

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
fn a_cancellation_does_not_wait_for_the_time_of_the_first_task() {
    let mut world = World::begin(Beginning { delay_seconds: 60, ..PLAIN });
    world.live(Action::Signal);
    world.live(Action::Cancel);

    world.judge().unwrap();
    let kinds: Vec<EventType> = world.history.iter().map(HistoryEvent::event_type).collect();
    let expected = [
        EventType::WorkflowExecutionStarted,
        EventType::WorkflowExecutionSignaled,
        EventType::WorkflowExecutionCancelRequested,
        EventType::WorkflowTaskScheduled,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn continue_as_new_writes_a_started_event_for_the_new_run() {
    let mut world = World::begin(PLAIN);
    world.live(Action::TakeTask);
    world.live(Action::Wait { seconds: 3 });

    world.live(decide(vec![Do::ContinueAsNew { delay_seconds: 0 }]));
    world.move_on();

    let state = &world.run.state;
    assert_eq!((state.start_time, state.original_start_time), (1_003 * SECOND, 0));
}

#[test]
fn reset_points_expire_when_the_chain_continues() {
    let mut world = World::begin(PLAIN);
    world.live(Action::TakeTask);
    world.live(decide(vec![]));
    let expires = |point: &ResetPointInfo| moment(point.expire_time.as_ref());
    let before: Vec<_> = world.run.state.reset_points.iter().map(expires).collect();
    world.live(Action::Signal);
    world.live(Action::TakeTask);

    world.live(decide(vec![Do::ContinueAsNew { delay_seconds: 0 }]));
    world.move_on();

    let after: Vec<_> = world.run.state.reset_points.iter().map(expires).collect();
    assert_eq!((before, after), (vec![0], vec![1_000 * SECOND + 3 * 24 * 3600 * SECOND]));
}
