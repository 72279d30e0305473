//! The stored state of a run.
//!
//! The messages are written by hand, not generated, because only the engine reads them. Tags are never reused. State
//! that is not stored (pollers, queries, sticky queues, admitted updates) is in [`Memory`](super::Memory).

use std::collections::BTreeMap;

use prost_wkt_types::Duration;
use temporalio_protos::temporal::api::{
    common::v1::{Memo, Payloads, Priority, RetryPolicy, SearchAttributes, WorkerVersionStamp},
    enums::v1::{SuggestContinueAsNewReason, WorkflowExecutionStatus},
    failure::v1::Failure,
    history::v1::{DeclinedTargetVersionUpgrade, HistoryEvent},
    sdk::v1::UserMetadata,
    workflow::v1::{ResetPointInfo, WorkflowExecutionVersioningInfo},
};

use super::{callbacks::Callback, nexus::NexusOperation, outbox::OutboxMessage, versioning::NotifiedTarget};
use crate::{deployments::Version, time::Nanos};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RunState {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(string, tag = "2")]
    pub(crate) workflow_id: String,
    #[prost(string, tag = "3")]
    pub(crate) run_id: String,
    #[prost(string, tag = "4")]
    pub(crate) first_run_id: String,
    #[prost(string, tag = "5")]
    pub(crate) workflow_type: String,
    #[prost(string, tag = "6")]
    pub(crate) task_queue: String,
    #[prost(enumeration = "WorkflowExecutionStatus", tag = "7")]
    pub(crate) status: i32,
    #[prost(string, tag = "8")]
    pub(crate) create_request_id: String,

    #[prost(int64, tag = "10")]
    pub(crate) next_event_id: i64,
    #[prost(int64, tag = "11")]
    pub(crate) history_size: i64,
    /// The started event of the last completed workflow task.
    #[prost(int64, tag = "12")]
    pub(crate) previous_started_id: i64,
    #[prost(int64, tag = "13")]
    pub(crate) state_transitions: i64,

    #[prost(int64, tag = "20")]
    pub(crate) start_time: Nanos,
    #[prost(int64, tag = "21")]
    pub(crate) execution_time: Nanos,
    #[prost(int64, tag = "22")]
    pub(crate) close_time: Nanos,
    #[prost(message, optional, tag = "23")]
    pub(crate) execution_timeout: Option<Duration>,
    #[prost(message, optional, tag = "24")]
    pub(crate) run_timeout: Option<Duration>,
    #[prost(message, optional, tag = "25")]
    pub(crate) task_timeout: Option<Duration>,
    #[prost(int64, tag = "26")]
    pub(crate) execution_expires: Nanos,
    #[prost(int64, tag = "27")]
    pub(crate) run_expires: Nanos,
    /// The first workflow task is not scheduled before this time.
    #[prost(int64, tag = "28")]
    pub(crate) first_task_due: Nanos,

    #[prost(int32, tag = "30")]
    pub(crate) attempt: i32,
    #[prost(message, optional, tag = "31")]
    pub(crate) retry_policy: Option<RetryPolicy>,
    #[prost(message, optional, tag = "32")]
    pub(crate) parent: Option<Parent>,
    #[prost(string, tag = "33")]
    pub(crate) root_workflow_id: String,
    #[prost(string, tag = "34")]
    pub(crate) root_run_id: String,
    /// The run that replaced this one: by continue-as-new, retry or reset.
    #[prost(string, tag = "35")]
    pub(crate) successor_run_id: String,
    /// The start time of the base run of a reset; zero for other runs.
    #[prost(int64, tag = "36")]
    pub(crate) original_start_time: Nanos,

    /// The run that a reset made from this one.
    #[prost(string, tag = "37")]
    pub(crate) reset_run_id: String,
    /// When a reset made this run.
    #[prost(int64, tag = "38")]
    pub(crate) reset_time: Nanos,
    /// The base run of a reset; its own id for other runs.
    #[prost(string, tag = "39")]
    pub(crate) original_run_id: String,

    #[prost(bool, tag = "40")]
    pub(crate) cancel_requested: bool,
    #[prost(string, tag = "41")]
    pub(crate) cancel_request_id: String,
    #[prost(message, optional, tag = "42")]
    pub(crate) memo: Option<Memo>,
    #[prost(message, optional, tag = "43")]
    pub(crate) search_attributes: Option<SearchAttributes>,
    #[prost(message, optional, tag = "44")]
    pub(crate) user_metadata: Option<UserMetadata>,
    #[prost(message, optional, tag = "45")]
    pub(crate) priority: Option<Priority>,

    /// Events to which the chain can be reset, one for each build of the worker.
    #[prost(message, repeated, tag = "46")]
    pub(crate) reset_points: Vec<ResetPointInfo>,
    /// The deployment of the worker that last completed a workflow task.
    #[prost(string, tag = "48")]
    pub(crate) worker_deployment_name: String,

    /// The build of the worker that last completed a workflow task.
    #[prost(message, optional, tag = "47")]
    pub(crate) most_recent_build: Option<WorkerVersionStamp>,

    #[prost(message, optional, tag = "50")]
    pub(crate) task: Option<WorkflowTask>,
    /// Attempt of the pending or, if there is none, of the next workflow task.
    #[prost(int32, tag = "51")]
    pub(crate) task_attempt: i32,
    /// Consecutive failed workflow tasks.
    #[prost(int32, tag = "52")]
    pub(crate) task_failures: i32,
    /// The cause of the last failure that is in history.
    #[prost(string, repeated, tag = "53")]
    pub(crate) task_problem: Vec<String>,

    #[prost(btree_map = "int64, message", tag = "60")]
    pub(crate) activities: BTreeMap<i64, Activity>,
    #[prost(btree_map = "string, message", tag = "61")]
    pub(crate) timers: BTreeMap<String, Timer>,
    #[prost(btree_map = "int64, message", tag = "62")]
    pub(crate) children: BTreeMap<i64, Child>,
    #[prost(btree_map = "int64, message", tag = "63")]
    pub(crate) signals_out: BTreeMap<i64, ExternalRequest>,
    #[prost(btree_map = "int64, message", tag = "64")]
    pub(crate) cancels_out: BTreeMap<i64, ExternalRequest>,
    #[prost(string, repeated, tag = "65")]
    pub(crate) signal_request_ids: Vec<String>,
    #[prost(btree_map = "string, message", tag = "66")]
    pub(crate) updates: BTreeMap<String, UpdateRecord>,
    #[prost(message, repeated, tag = "67")]
    pub(crate) buffered: Vec<HistoryEvent>,
    /// Messages to other runs, in order. Delivering one twice is harmless.
    #[prost(message, repeated, tag = "68")]
    pub(crate) outbox: Vec<OutboxMessage>,
    /// The id of the last outbox message.
    #[prost(int64, tag = "69")]
    pub(crate) last_message_id: i64,
    /// The last event that carries the request that created the run, if it is not the first event.
    #[prost(int64, tag = "71")]
    pub(crate) create_request_event: i64,
    /// Request ids of starts that found this run, with their event; zero while the event is buffered.
    #[prost(btree_map = "string, int64", tag = "70")]
    pub(crate) attached_requests: BTreeMap<String, i64>,
    /// By their scheduled events.
    #[prost(btree_map = "int64, message", tag = "90")]
    pub(crate) nexus_operations: BTreeMap<i64, NexusOperation>,
    /// Completion callbacks of the chain.
    #[prost(message, repeated, tag = "91")]
    pub(crate) callbacks: Vec<Callback>,

    /// The version of the workers that the run is on; `None` for unversioned runs.
    #[prost(message, optional, tag = "72")]
    pub(crate) versioning: Option<WorkflowExecutionVersioningInfo>,
    /// The version that the worker of a pinned run was told of.
    #[prost(message, optional, tag = "73")]
    pub(crate) notified_target: Option<NotifiedTarget>,
    /// The version that an earlier run of the chain was told of and did not move to.
    #[prost(message, optional, tag = "74")]
    pub(crate) declined_target: Option<DeclinedTargetVersionUpgrade>,

    /// When further runs of the chain start; empty for other runs.
    #[prost(string, tag = "76")]
    pub(crate) cron_schedule: String,
    /// The schedule that started the chain; empty for other runs.
    #[prost(string, tag = "77")]
    pub(crate) schedule_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Parent {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(string, tag = "2")]
    pub(crate) workflow_id: String,
    #[prost(string, tag = "3")]
    pub(crate) run_id: String,
    #[prost(int64, tag = "4")]
    pub(crate) initiated_id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WorkflowTask {
    #[prost(int64, tag = "1")]
    pub(crate) scheduled_id: i64,
    /// Zero before a worker has started it.
    #[prost(int64, tag = "2")]
    pub(crate) started_id: i64,
    #[prost(int64, tag = "3")]
    pub(crate) scheduled_time: Nanos,
    /// When the first of a series of heartbeats was scheduled.
    #[prost(int64, tag = "4")]
    pub(crate) original_scheduled_time: Nanos,
    #[prost(int64, tag = "5")]
    pub(crate) started_time: Nanos,
    #[prost(string, tag = "6")]
    pub(crate) request_id: String,
    #[prost(int64, tag = "7")]
    pub(crate) timeout: Nanos,
    /// The events are written only if the task has an effect.
    #[prost(bool, tag = "8")]
    pub(crate) speculative: bool,
    #[prost(int64, tag = "9")]
    pub(crate) history_size: i64,
    #[prost(enumeration = "SuggestContinueAsNewReason", repeated, tag = "10")]
    pub(crate) suggest_continue_as_new: Vec<i32>,
    #[prost(int32, tag = "11")]
    pub(crate) attempt: i32,
    /// The incarnation of the engine if a local worker has the task; zero for a remote worker.
    #[prost(uint64, tag = "12")]
    pub(crate) incarnation: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Activity {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) kind: String,
    #[prost(string, tag = "3")]
    pub(crate) task_queue: String,
    #[prost(int32, tag = "4")]
    pub(crate) attempt: i32,
    /// When the first attempt was scheduled.
    #[prost(int64, tag = "5")]
    pub(crate) first_scheduled_time: Nanos,
    #[prost(int64, tag = "6")]
    pub(crate) scheduled_time: Nanos,
    /// The attempt waits for its backoff to end at `scheduled_time`.
    #[prost(bool, tag = "7")]
    pub(crate) backing_off: bool,
    /// Zero unless a worker has started it.
    #[prost(int64, tag = "8")]
    pub(crate) started_time: Nanos,
    /// Zero, or the started event that is still buffered or already written.
    #[prost(string, tag = "9")]
    pub(crate) start_request_id: String,
    #[prost(string, tag = "10")]
    pub(crate) started_identity: String,
    #[prost(int64, tag = "11")]
    pub(crate) schedule_to_close: Nanos,
    #[prost(int64, tag = "12")]
    pub(crate) schedule_to_start: Nanos,
    #[prost(int64, tag = "13")]
    pub(crate) start_to_close: Nanos,
    #[prost(int64, tag = "14")]
    pub(crate) heartbeat_timeout: Nanos,
    #[prost(message, optional, tag = "15")]
    pub(crate) retry_policy: Option<RetryPolicy>,
    #[prost(message, optional, tag = "16")]
    pub(crate) last_failure: Option<Failure>,
    #[prost(message, optional, tag = "17")]
    pub(crate) heartbeat_details: Option<Payloads>,
    #[prost(int64, tag = "18")]
    pub(crate) last_heartbeat: Nanos,
    #[prost(bool, tag = "19")]
    pub(crate) cancel_requested: bool,
    #[prost(int64, tag = "20")]
    pub(crate) cancel_requested_id: i64,
    #[prost(int64, tag = "21")]
    pub(crate) last_attempt_complete_time: Nanos,
    #[prost(string, tag = "22")]
    pub(crate) last_worker_identity: String,
    #[prost(message, optional, tag = "23")]
    pub(crate) priority: Option<Priority>,
    /// As for a workflow task.
    #[prost(uint64, tag = "24")]
    pub(crate) incarnation: u64,
    /// The version of the worker that started the last attempt.
    #[prost(message, optional, tag = "30")]
    pub(crate) last_version: Option<Version>,
    /// Set while the activity is paused: no attempt starts, and no timeout fires.
    #[prost(message, optional, tag = "25")]
    pub(crate) pause: Option<Pause>,
    /// It was reset, and its next attempt is not scheduled yet.
    #[prost(bool, tag = "26")]
    pub(crate) reset: bool,
    /// The next attempt does not get the heartbeat details.
    #[prost(bool, tag = "27")]
    pub(crate) reset_heartbeats: bool,
    /// Identifies the task to dispatch. A task in a queue with another stamp is stale.
    #[prost(int32, tag = "28")]
    pub(crate) stamp: i32,
    /// The limit for retries before the options were changed; zero for none. It does not change with them.
    #[prost(int64, optional, tag = "29")]
    pub(crate) retries_until: Option<Nanos>,
}

/// Who paused an activity, and why.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Pause {
    #[prost(int64, tag = "1")]
    pub(crate) time: Nanos,
    #[prost(string, tag = "2")]
    pub(crate) identity: String,
    #[prost(string, tag = "3")]
    pub(crate) reason: String,
    #[prost(string, tag = "4")]
    pub(crate) request_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Timer {
    #[prost(int64, tag = "1")]
    pub(crate) started_id: i64,
    #[prost(int64, tag = "2")]
    pub(crate) fires: Nanos,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Child {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(string, tag = "2")]
    pub(crate) workflow_id: String,
    /// Empty before the child has started.
    #[prost(string, tag = "3")]
    pub(crate) run_id: String,
    #[prost(string, tag = "4")]
    pub(crate) workflow_type: String,
    #[prost(int64, tag = "5")]
    pub(crate) started_id: i64,
    #[prost(int32, tag = "6")]
    pub(crate) parent_close_policy: i32,
    #[prost(string, tag = "7")]
    pub(crate) create_request_id: String,
}

/// A signal or a cancellation request to another run.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExternalRequest {
    #[prost(string, tag = "1")]
    pub(crate) request_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct UpdateRecord {
    /// Zero before a worker has accepted it.
    #[prost(int64, tag = "1")]
    pub(crate) accepted_id: i64,
    /// Zero before it is completed.
    #[prost(int64, tag = "2")]
    pub(crate) completed_id: i64,
    /// The admitted event by which a reset reapplied the update; zero for other updates.
    #[prost(int64, tag = "3")]
    pub(crate) admitted_id: i64,
}

impl RunState {
    pub(crate) fn is_running(&self) -> bool {
        self.status == WorkflowExecutionStatus::Running as i32
    }

    /// The next workflow task retries a failed one. Its events are not written before it completes.
    pub(crate) fn is_transient(&self) -> bool {
        self.task_attempt > 1
    }
}

impl Activity {
    pub(crate) fn is_started(&self) -> bool {
        self.started_time != 0
    }

    /// Whether it may be executed twice, so that it may start before its start is durable.
    pub(crate) fn may_be_repeated(&self) -> bool {
        self.retry_policy.as_ref().is_none_or(|policy| policy.maximum_attempts != 1)
    }

    /// Whether it waits for a worker, for its backoff to end, or to be unpaused. Not if its cancellation was requested.
    pub(crate) fn is_scheduled(&self) -> bool {
        !self.is_started() && !self.cancel_requested
    }
}
