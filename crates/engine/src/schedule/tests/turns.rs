//! What a schedule does at its times.

use proptest::{collection::vec, prelude::*};
use prost_wkt_types::Timestamp;
use temporalio_protos::temporal::api::{
    enums::v1::{ScheduleOverlapPolicy as Policy, WorkflowExecutionStatus as Status},
    schedule::v1::{
        BackfillRequest, ScheduleInfo, SchedulePatch, ScheduleState as Switches, TriggerImmediatelyRequest,
    },
};

use super::{
    super::machine::{Change, Machine},
    world::{START, World, schedule},
};
use crate::time::{Nanos, SECOND, duration, timestamp};

const MINUTE: Nanos = 60 * SECOND;
const DAY: Nanos = 24 * 60 * MINUTE;

fn info(world: &World) -> ScheduleInfo {
    world.state.info.clone().unwrap()
}

fn switches(world: &World) -> Switches {
    world.state.schedule.clone().unwrap().state.unwrap()
}

fn starts(world: &World) -> Vec<Nanos> {
    let mut starts: Vec<Nanos> = world.runs.values().map(|run| (run.at - START) / SECOND).collect();
    starts.sort_unstable();
    starts
}

fn backfill(from: Nanos, to: Nanos, policy: Policy) -> Change {
    let range = BackfillRequest {
        start_time: Some(timestamp(from)),
        end_time: Some(timestamp(to)),
        overlap_policy: policy as i32,
    };
    Change::Patch(SchedulePatch { backfill_request: vec![range], ..SchedulePatch::default() })
}

/// Runs of 150 seconds, every minute for six minutes.
fn overlapping(policy: Policy) -> World {
    let mut world = World::new(schedule(policy, MINUTE), vec![150 * SECOND]);
    world.run_until(START + 6 * MINUTE);
    world
}

#[test]
fn overlap_policies_decide_about_runs_that_take_longer_than_the_interval() {
    for (policy, expected, skipped, buffered) in [
        (Policy::Skip, vec![60, 240], 4, 0),
        (Policy::BufferOne, vec![60, 210, 360], 2, 1),
        (Policy::BufferAll, vec![60, 210, 360], 0, 3),
        (Policy::CancelOther, vec![60, 121, 182, 242, 302], 0, 1),
        (Policy::TerminateOther, vec![60, 121, 182, 242, 302], 0, 1),
        (Policy::AllowAll, vec![60, 120, 180, 240, 300, 360], 0, 0),
    ] {
        let world = overlapping(policy);
        let info = info(&world);
        if matches!(policy, Policy::CancelOther | Policy::TerminateOther) {
            assert_eq!(starts(&world)[..2], expected[..2], "{policy:?}");
            continue;
        }
        assert_eq!(starts(&world), expected, "{policy:?}");
        assert_eq!((info.overlap_skipped, world.state.buffer.len()), (skipped, buffered), "{policy:?}");
        assert_eq!(info.action_count, i64::try_from(expected.len()).unwrap());
    }
}

#[test]
fn a_failure_pauses_the_schedule_if_it_is_asked_to() {
    let mut asked = schedule(Policy::Skip, MINUTE);
    asked.policies.as_mut().unwrap().pause_on_failure = true;
    let mut world = World::new(asked, vec![SECOND]);
    world.failing = true;
    world.run_until(START + 5 * MINUTE);
    assert_eq!(starts(&world), [60]);
    assert_eq!(switches(&world).notes, "paused due to workflow failure: request 1: broken");
    assert_eq!(info(&world).recent_actions[0].start_workflow_status, Status::Failed as i32);
    assert_eq!(world.state.continued_failure.unwrap().message, "broken");
    assert_eq!(world.state.conflict_token, 2);
}

#[test]
fn limited_actions_are_counted_down_and_the_schedule_ends_a_week_later() {
    let mut limited = schedule(Policy::Skip, MINUTE);
    limited.state = Some(Switches { limited_actions: true, remaining_actions: 2, ..Switches::default() });
    let mut world = World::new(limited, vec![SECOND]);
    world.run_until(START + DAY);
    assert_eq!(starts(&world), [60, 120]);
    assert_eq!((switches(&world).remaining_actions, world.state.conflict_token), (0, 3));
    let mut machine = Machine::new(world.state.clone(), "namespace", world.now);
    machine.turn(None, "namespace");
    assert_eq!(machine.alarm(), Some(START + 120 * SECOND + 7 * DAY));
    assert!(!machine.is_over());
    let mut machine = Machine::new(world.state, "namespace", START + 8 * DAY);
    machine.turn(None, "namespace");
    assert!(machine.is_over());
}

#[test]
fn times_before_the_catchup_window_are_missed() {
    let mut windowed = schedule(Policy::BufferAll, MINUTE);
    windowed.policies.as_mut().unwrap().catchup_window = Some(duration(3 * MINUTE));
    let mut world = World::new(windowed, vec![SECOND]);
    // The engine was not running.
    world.now = START + 10 * MINUTE;
    world.turn(None);
    assert_eq!(info(&world).missed_catchup_window, 6);
    world.run_until(START + 10 * MINUTE + 10 * SECOND);
    assert_eq!(info(&world).action_count, 4);
}

#[test]
fn triggers_and_backfills_do_not_care_for_a_pause() {
    let mut world = World::new(schedule(Policy::Skip, MINUTE), vec![SECOND]);
    let pause = SchedulePatch { pause: "stop".to_owned(), ..SchedulePatch::default() };
    world.turn(Some(Change::Patch(pause)));
    world.run_until(START + 10 * MINUTE);
    assert_eq!(starts(&world), Vec::<Nanos>::new());
    let trigger = TriggerImmediatelyRequest { scheduled_time: Some(timestamp(world.now)), ..Default::default() };
    let trigger = SchedulePatch { trigger_immediately: Some(trigger), ..SchedulePatch::default() };
    world.turn(Some(Change::Patch(trigger)));
    assert_eq!(starts(&world), [600]);
    world.turn(Some(backfill(START - 24 * MINUTE, START, Policy::AllowAll)));
    world.run_until(START + 11 * MINUTE);
    // Ten in each second, the first and the last minute included.
    assert_eq!(starts(&world)[1..], [[600; 10].as_slice(), &[601; 10], &[602; 5]].concat());
    let unpause = SchedulePatch { unpause: "go".to_owned(), ..SchedulePatch::default() };
    world.turn(Some(Change::Patch(unpause)));
    world.run_until(START + 12 * MINUTE);
    assert_eq!(*starts(&world).last().unwrap(), 720);
}

#[test]
fn an_update_takes_effect_only_with_the_right_token() {
    let mut world = World::new(schedule(Policy::Skip, MINUTE), vec![SECOND]);
    let change = |token| Change::Update {
        schedule: Box::new(schedule(Policy::AllowAll, 10 * MINUTE)),
        search_attributes: None,
        conflict_token: token,
    };
    world.turn(Some(change(7)));
    assert_eq!((world.state.conflict_token, info(&world).update_time), (1, None));
    world.now += 30 * SECOND;
    world.turn(Some(change(1)));
    assert_eq!(world.state.conflict_token, 2);
    assert_eq!(info(&world).update_time, Some(Timestamp { seconds: START / SECOND + 30, nanos: 0 }));
    world.run_until(START + 25 * MINUTE);
    assert_eq!(starts(&world), [600, 1200]);
}

#[test]
fn a_request_is_remembered() {
    let mut machine = Machine::create(Default::default(), "namespace", START);
    assert!(!machine.is_repeated("a"));
    assert!(machine.is_repeated("a"));
    assert!(!machine.is_repeated("") && !machine.is_repeated(""));
    for n in 0..100 {
        machine.is_repeated(&n.to_string());
    }
    assert_eq!(machine.state.request_ids.len(), 100);
    assert!(!machine.is_repeated("a"));
}

#[derive(Debug, Clone)]
enum Step {
    Pass(Nanos),
    Trigger(i32),
    Backfill(Nanos, i32),
    Pause(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..600_i64).prop_map(|seconds| Step::Pass(seconds * SECOND)),
        1 => (0..=6).prop_map(Step::Trigger),
        1 => (1..30_i64, 0..=6).prop_map(|(minutes, policy)| Step::Backfill(minutes * MINUTE, policy)),
        1 => any::<bool>().prop_map(Step::Pause),
    ]
}

fn play(policy: i32, lengths: &[Nanos], steps: &[Step], interrupted: bool) -> World {
    let mut world = World::new(schedule(Policy::try_from(policy).unwrap(), MINUTE), lengths.to_vec());
    world.interrupted = interrupted;
    for step in steps {
        let patch = match step {
            Step::Pass(span) => {
                world.run_until(world.now + span);
                continue;
            }
            Step::Trigger(policy) => {
                let at = Some(timestamp(world.now));
                let trigger = TriggerImmediatelyRequest { overlap_policy: *policy, scheduled_time: at };
                SchedulePatch { trigger_immediately: Some(trigger), ..SchedulePatch::default() }
            }
            Step::Backfill(span, policy) => {
                let policy = Policy::try_from(*policy).unwrap();
                world.turn(Some(backfill(world.now - span, world.now, policy)));
                continue;
            }
            Step::Pause(true) => SchedulePatch { pause: "p".to_owned(), ..SchedulePatch::default() },
            Step::Pause(false) => SchedulePatch { unpause: "u".to_owned(), ..SchedulePatch::default() },
        };
        world.turn(Some(Change::Patch(patch)));
    }
    world
}

proptest! {
    #[test]
    fn interruptions_lose_and_double_nothing(
        policy in 0..=6, lengths in vec((1..400_i64).prop_map(|seconds| seconds * SECOND), 1..4), steps in vec(step(), 1..20)
    ) {
        let (whole, torn) = (play(policy, &lengths, &steps, false), play(policy, &lengths, &steps, true));
        prop_assert_eq!(&whole.runs, &torn.runs);
        prop_assert_eq!(&whole.state, &torn.state);
        let info = info(&whole);
        prop_assert_eq!(info.action_count, i64::try_from(whole.runs.len()).unwrap());
        prop_assert!(whole.state.starting.is_empty());
    }

    #[test]
    fn without_overlap_each_time_is_taken_once(minutes in 1..200_i64, policy in 1..=6) {
        let policy = Policy::try_from(policy).unwrap();
        let mut world = World::new(schedule(policy, MINUTE), vec![SECOND]);
        world.run_until(START + minutes * MINUTE);
        let mut nominal: Vec<Nanos> = world.runs.values().map(|run| run.nominal).collect();
        nominal.sort_unstable();
        prop_assert_eq!(nominal, (1..=minutes).map(|minute| START + minute * MINUTE).collect::<Vec<_>>());
    }
}
