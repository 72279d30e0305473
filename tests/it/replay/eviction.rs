//! What a worker keeps of a run that ended or was evicted: nothing.
//!
//! The SDK keeps an operation that is dropped before it ends together with the cancellation token it was begun with, and
//! the operation keeps its workflow. An operation begun with the workflow's own token is therefore never freed, and
//! neither is its workflow (see `workflows/src/drive.rs`); a local activity keeps its token and must be cancelled when it is
//! dropped (see `workflows/src/execute.rs`). A worker drops operations at two moments: when a run stops waiting for one, as
//! for the deadline of a question that was answered, and when the run leaves its cache.

use std::sync::Arc;

use serde_json::Value;
use temporalio_client::WorkflowHistory;
use temporalio_protos::temporal::api::enums::v1::EventType;
use temporalio_sdk::{
    workflow_interceptors::{WorkflowInterceptor, WorkflowInterceptorConstructor},
    workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions},
};
use windlass_workflows::{PushWorkflow, RunWorkflow};

use super::{folder, shapes::SHAPES};
use crate::support::block_on;

/// Lives as long as the workflow it was made for, and does nothing.
struct Witness {
    _alive: Arc<()>,
}

impl WorkflowInterceptor for Witness {}

/// A replayer whose workflows each hold on to `alive`.
fn witnessed_by(alive: &Arc<()>) -> WorkflowReplayer {
    let alive = alive.clone();
    let witness = WorkflowInterceptorConstructor::new(move |_| Witness { _alive: alive.clone() });
    let options = WorkflowReplayerOptions::new().register_workflow::<RunWorkflow>().unwrap();
    let options = options.register_workflow::<PushWorkflow>().unwrap();
    WorkflowReplayer::new(options.workflow_interceptor(witness).build()).unwrap()
}

/// The history up to each of its workflow tasks, where a worker may evict the run, and the whole of it.
fn moments(json: &[u8]) -> Vec<Vec<u8>> {
    let history: Value = serde_json::from_slice(json).unwrap();
    let events = history["events"].as_array().unwrap();
    let tasks =
        events.iter().enumerate().filter(|(_, event)| event["event_type"] == EventType::WorkflowTaskStarted as i32);
    let ends = tasks.map(|(at, _)| at + 1).chain([events.len()]);
    ends.map(|end| {
        let mut until = history.clone();
        until["events"] = events[..end].into();
        serde_json::to_vec(&until).unwrap()
    })
    .collect()
}

#[test]
fn an_evicted_run_leaves_nothing_in_memory() {
    block_on(async {
        let mut left = Vec::new();
        for (name, _) in SHAPES {
            let moments = moments(&std::fs::read(folder().join(format!("{name}.json"))).unwrap());
            for (moment, json) in moments.iter().enumerate() {
                let alive = Arc::new(());
                let replayer = witnessed_by(&alive);
                replayer.replay_workflow(WorkflowHistory::from_json(json).unwrap()).await.unwrap();
                drop(replayer);
                let kept = Arc::strong_count(&alive) - 1;
                if kept > 0 {
                    left.push(format!("{name} at {moment} of {}", moments.len()));
                }
            }
        }
        assert_eq!(left, Vec::<String>::new(), "these runs are still in memory");
    });
}
