//! The stored state of a schedule. Tags are never reused.

use temporalio_protos::temporal::api::{
    common::v1::{Memo, Payloads, SearchAttributes},
    enums::v1::ScheduleOverlapPolicy,
    failure::v1::Failure,
    schedule::v1::{BackfillRequest, Schedule, ScheduleInfo},
};

use crate::time::Nanos;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScheduleState {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(string, tag = "2")]
    pub(crate) schedule_id: String,
    #[prost(string, tag = "3")]
    pub(crate) create_request_id: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) memo: Option<Memo>,
    #[prost(message, optional, tag = "5")]
    pub(crate) search_attributes: Option<SearchAttributes>,
    /// With the canonical spec and all defaults.
    #[prost(message, optional, tag = "6")]
    pub(crate) schedule: Option<Schedule>,
    /// Without what is computed for replies.
    #[prost(message, optional, tag = "7")]
    pub(crate) info: Option<ScheduleInfo>,
    #[prost(int64, tag = "8")]
    pub(crate) conflict_token: i64,
    /// Times up to this one were processed.
    #[prost(int64, tag = "9")]
    pub(crate) processed_until: Nanos,
    /// Actions that wait for the end of what runs.
    #[prost(message, repeated, tag = "10")]
    pub(crate) buffer: Vec<BufferedStart>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) backfills: Vec<BackfillRequest>,
    #[prost(message, optional, tag = "12")]
    pub(crate) last_completion_result: Option<Payloads>,
    #[prost(message, optional, tag = "13")]
    pub(crate) continued_failure: Option<Failure>,
    /// Recent request ids of updates and patches, the latest last.
    #[prost(string, repeated, tag = "14")]
    pub(crate) request_ids: Vec<String>,
    /// Starts that were decided on and may have happened; their results are not recorded yet.
    #[prost(message, repeated, tag = "15")]
    pub(crate) starting: Vec<DecidedStart>,
    /// Zero while the schedule exists.
    #[prost(int64, tag = "16")]
    pub(crate) closed_at: Nanos,
}

/// An action to be taken.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BufferedStart {
    #[prost(int64, tag = "1")]
    pub(crate) nominal: Nanos,
    #[prost(int64, tag = "2")]
    pub(crate) actual: Nanos,
    #[prost(enumeration = "ScheduleOverlapPolicy", tag = "3")]
    pub(crate) policy: i32,
    /// By a trigger or a backfill: the schedule's pause and limits do not apply.
    #[prost(bool, tag = "4")]
    pub(crate) manual: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DecidedStart {
    #[prost(message, required, tag = "1")]
    pub(crate) start: BufferedStart,
    /// A repeated start with it finds the run that the first one started.
    #[prost(string, tag = "2")]
    pub(crate) request_id: String,
    /// Nothing else of the schedule may run at the same time.
    #[prost(bool, tag = "3")]
    pub(crate) alone: bool,
}

impl BufferedStart {
    pub(super) fn overlap_policy(&self) -> ScheduleOverlapPolicy {
        ScheduleOverlapPolicy::try_from(self.policy).unwrap_or_default()
    }
}
