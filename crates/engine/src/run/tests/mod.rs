//! Random scripts against a run. After every step, history must be consistent, and the state rebuilt from it must equal
//! the live state.
//!
//! `script` defines the actions, `world` and `actions` apply them as the engine does, `checks` has the invariants.

mod actions;
mod checks;
mod commands;
mod ends;
mod nexus;
mod resets;
mod script;
mod versions;
mod world;

use std::{cell::RefCell, collections::BTreeSet};

use proptest::{
    collection::vec,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use temporalio_protos::temporal::api::enums::v1::EventType;

use self::{script::beginning, world::World};

#[test]
fn state_rebuilt_from_history_equals_the_live_state() {
    let config = Config { cases: cases(350), failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let lives = (beginning(), vec(script::happening(), 1..120));
    let seen = RefCell::new(BTreeSet::new());
    let lived = runner.run(&lives, |(beginning, happenings)| {
        let mut world = World::begin(beginning);
        world.judge().map_err(TestCaseError::fail)?;
        for happening in happenings {
            world.live(happening);
            world.judge().map_err(TestCaseError::fail)?;
            seen.borrow_mut().extend(world.history.iter().map(|event| event.event_type));
        }
        Ok(())
    });
    if let Err(failure) = lived {
        panic!("{failure}");
    }
    let unseen: Vec<_> = KINDS.into_iter().filter(|kind| !seen.borrow().contains(&(*kind as i32))).collect();
    assert_eq!(unseen, [], "these events were never written");
}

/// All of these events must occur, or the test covers too little.
const KINDS: [EventType; 53] = {
    use EventType as E;
    [
        E::WorkflowExecutionStarted,
        E::WorkflowExecutionCompleted,
        E::WorkflowExecutionFailed,
        E::WorkflowExecutionTimedOut,
        E::WorkflowExecutionCanceled,
        E::WorkflowExecutionTerminated,
        E::WorkflowExecutionContinuedAsNew,
        E::WorkflowExecutionSignaled,
        E::WorkflowExecutionCancelRequested,
        E::WorkflowTaskScheduled,
        E::WorkflowTaskStarted,
        E::WorkflowTaskCompleted,
        E::WorkflowTaskTimedOut,
        E::WorkflowTaskFailed,
        E::ActivityTaskScheduled,
        E::ActivityTaskStarted,
        E::ActivityTaskCompleted,
        E::ActivityTaskFailed,
        E::ActivityTaskTimedOut,
        E::ActivityTaskCancelRequested,
        E::ActivityTaskCanceled,
        E::TimerStarted,
        E::TimerFired,
        E::TimerCanceled,
        E::MarkerRecorded,
        E::StartChildWorkflowExecutionInitiated,
        E::StartChildWorkflowExecutionFailed,
        E::ChildWorkflowExecutionStarted,
        E::ChildWorkflowExecutionCompleted,
        E::ChildWorkflowExecutionFailed,
        E::ChildWorkflowExecutionCanceled,
        E::ChildWorkflowExecutionTimedOut,
        E::ChildWorkflowExecutionTerminated,
        E::SignalExternalWorkflowExecutionInitiated,
        E::SignalExternalWorkflowExecutionFailed,
        E::ExternalWorkflowExecutionSignaled,
        E::RequestCancelExternalWorkflowExecutionInitiated,
        E::RequestCancelExternalWorkflowExecutionFailed,
        E::ExternalWorkflowExecutionCancelRequested,
        E::UpsertWorkflowSearchAttributes,
        E::WorkflowPropertiesModified,
        E::WorkflowExecutionUpdateAdmitted,
        E::WorkflowExecutionUpdateAccepted,
        E::WorkflowExecutionUpdateCompleted,
        E::NexusOperationScheduled,
        E::NexusOperationStarted,
        E::NexusOperationCompleted,
        E::NexusOperationFailed,
        E::NexusOperationCanceled,
        E::NexusOperationTimedOut,
        E::NexusOperationCancelRequested,
        E::NexusOperationCancelRequestCompleted,
        E::NexusOperationCancelRequestFailed,
    ]
};

fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}
