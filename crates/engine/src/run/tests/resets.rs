//! Resets of a run.

use temporalio_protos::temporal::api::{
    enums::v1::EventType as E,
    history::v1::{
        HistoryEvent, WorkflowExecutionSignaledEventAttributes, WorkflowTaskScheduledEventAttributes,
        WorkflowTaskStartedEventAttributes, history_event::Attributes,
    },
};

use super::{
    ends::{PLAIN, decide, decision},
    script::{Action, ActivityEnd, Beginning, ChildEnd, Decision, Do},
    world::World,
};
use crate::{
    run::{Dispatch, events::new_event, outbox::Content, part},
    service_error::ServiceError,
    time::SECOND,
};

/// Resets the run to the state after an event, and continues with the new run.
fn reset(world: &mut World, after: usize) {
    world.live(Action::Reset { to: after - 1, signals: false, updates: false, nexus: false });
    world.move_on();
}

/// The worker gets the next task at once, so that events are buffered.
fn decide_and_take_next(commands: Vec<Do>) -> Action {
    Action::Decide(Decision { heartbeat: true, wants_next: true, ..decision(commands) })
}

fn kinds(world: &World) -> Vec<E> {
    world.history.iter().map(HistoryEvent::event_type).collect()
}

const ACTIVITY: Do = Do::ScheduleActivity { attempts: 0, eager: false, heartbeat: false, whole_seconds: 0 };

#[test]
fn history_is_split_between_batches_and_after_workflow_task_started() {
    let event = |event_id: i64, attributes: Attributes| HistoryEvent { event_id, ..new_event(0, attributes) };
    let scheduled = |id| {
        let attributes = WorkflowTaskScheduledEventAttributes::default();
        event(id, Attributes::WorkflowTaskScheduledEventAttributes(attributes))
    };
    let started = |id| {
        let attributes = WorkflowTaskStartedEventAttributes::default();
        event(id, Attributes::WorkflowTaskStartedEventAttributes(attributes))
    };
    let signalled = |id| {
        let attributes = WorkflowExecutionSignaledEventAttributes::default();
        event(id, Attributes::WorkflowExecutionSignaledEventAttributes(attributes))
    };
    let batches = vec![vec![signalled(1), scheduled(2)], vec![signalled(3), started(4), signalled(5)]];

    let parted = [1, 2, 3, 4, 5].map(|after| part(batches.clone(), after));

    let refused = |id: i64| {
        Err(ServiceError::InvalidArgument(format!(
            "StateRebuilder unable to Rebuild mutable state to event ID: {id}, version: 0, this event must be at the \
             boundary"
        )))
    };
    let first = vec![signalled(1), scheduled(2)];
    let expected = [
        refused(1),
        Ok((vec![first.clone()], vec![signalled(3), started(4), signalled(5)])),
        refused(3),
        Ok((vec![first.clone(), vec![signalled(3), started(4)]], vec![signalled(5)])),
        Ok((vec![first, vec![signalled(3), started(4), signalled(5)]], vec![])),
    ];
    assert_eq!(parted, expected);
}

#[test]
fn a_reset_restarts_activities_and_keeps_timer_deadlines() {
    let mut world = World::begin(PLAIN);
    world.live(decide(vec![ACTIVITY, Do::StartTimer { seconds: 30 }]));
    world.live(Action::StartActivity(0));
    world.live(Action::EndActivity(0, ActivityEnd::Failed { retryable: true }));
    world.live(Action::Signal);
    world.live(Action::TakeTask);
    world.live(Action::Wait { seconds: 5 });

    reset(&mut world, 9);

    let activity = world.run.state.activities.get(&5).cloned().unwrap_or_default();
    let times = (activity.attempt, activity.first_scheduled_time, activity.scheduled_time, activity.last_failure);
    assert_eq!(times, (1, 1_005 * SECOND, 1_005 * SECOND, None));
    assert_eq!(world.run.state.timers.values().map(|timer| timer.fires).collect::<Vec<_>>(), [1_030 * SECOND]);
    let handed_out = [
        Dispatch::Activity { queue: "activities".to_owned(), scheduled_id: 5, attempt: 1, stamp: 0 },
        Dispatch::Workflow { queue: "queue".to_owned(), sticky: false, scheduled_id: 11 },
    ];
    assert_eq!(world.handed_out, handed_out);
}

#[test]
fn timeouts_count_from_the_reset() {
    let mut world = World::begin(Beginning { run_seconds: 40, execution_seconds: 60, ..PLAIN });
    world.live(Action::TakeTask);
    world.live(Action::Wait { seconds: 7 });

    reset(&mut world, 3);

    let state = &world.run.state;
    assert_eq!(
        (state.start_time, state.original_start_time, state.run_expires, state.execution_expires),
        (1_007 * SECOND, 1_000 * SECOND, 1_047 * SECOND, 1_067 * SECOND)
    );
}

#[test]
fn a_reset_writes_a_retried_task_to_history_before_failing_it() {
    let mut world = World::begin(PLAIN);
    world.live(Action::TakeTask);
    world.live(Action::FailTask);

    reset(&mut world, 4);

    assert_eq!(
        kinds(&world)[3..],
        [
            E::WorkflowTaskFailed,
            E::WorkflowTaskScheduled,
            E::WorkflowTaskStarted,
            E::WorkflowTaskFailed,
            E::WorkflowTaskScheduled,
        ]
    );
}

#[test]
fn a_reset_sends_unanswered_external_requests_again() {
    let mut world = World::begin(PLAIN);
    let asks = vec![Do::SignalOther, Do::StartChild { policy: 1 }, Do::CancelOther];
    world.live(decide_and_take_next(asks));
    world.live(Action::AnswerMessage { refused: false });

    reset(&mut world, 9);

    let asked = world.run.state.outbox.iter().map(|message| match &message.content {
        Some(Content::Signal(signal)) => ("signal", signal.initiated_id),
        Some(Content::StartChild(child)) if child.may_be_running => ("child", child.initiated_id),
        Some(Content::Cancel(cancel)) => ("cancel", cancel.initiated_id),
        _ => ("something else", 0),
    });
    assert_eq!(asked.collect::<Vec<_>>(), [("signal", 5), ("child", 6), ("cancel", 7)]);
}

#[test]
fn a_reset_reapplies_later_child_events() {
    let mut world = World::begin(PLAIN);
    world.live(decide_and_take_next(vec![Do::StartChild { policy: 1 }]));
    world.live(Action::AnswerMessage { refused: false });
    world.live(Action::EndChild(0, ChildEnd::Completed));

    reset(&mut world, 7);

    assert_eq!(
        kinds(&world)[7..],
        [
            E::WorkflowTaskFailed,
            E::ChildWorkflowExecutionStarted,
            E::ChildWorkflowExecutionCompleted,
            E::WorkflowTaskScheduled,
        ]
    );
    assert_eq!((world.run.state.children.len(), world.run.state.outbox.len()), (0, 0));
}
