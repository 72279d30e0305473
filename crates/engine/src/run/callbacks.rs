//! Completion callbacks: who is told when the run's chain ends.
//!
//! A callback is attached by the start of the run or by a later start that finds it. The next run of the chain takes
//! them over. At the end each becomes an outbox message; its state says what became of it.

use temporalio_protos::temporal::api::{
    common::v1::Callback as Target,
    enums::v1::CallbackState,
    failure::v1::{ApplicationFailureInfo, Failure, failure::FailureInfo},
};

use super::{
    Env, Run,
    nexus::Outcome,
    outbox::{CallBack, Content},
};
use crate::{service_error::ServiceError, time::Nanos};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Callback {
    #[prost(message, optional, tag = "1")]
    pub(crate) target: Option<Target>,
    /// The request that attached it.
    #[prost(string, tag = "2")]
    pub(crate) request_id: String,
    #[prost(int64, tag = "3")]
    pub(crate) registered: Nanos,
    #[prost(enumeration = "CallbackState", tag = "4")]
    pub(crate) state: i32,
    #[prost(int32, tag = "5")]
    pub(crate) attempt: i32,
    #[prost(int64, tag = "6")]
    pub(crate) last_attempt_time: Nanos,
    #[prost(message, optional, tag = "7")]
    pub(crate) last_failure: Option<Failure>,
}

impl Callback {
    /// The callbacks of a request.
    pub(super) fn attached(targets: &[Target], request_id: &str, at: Nanos) -> impl Iterator<Item = Self> {
        targets.iter().map(move |target| Self {
            target: Some(target.clone()),
            request_id: request_id.to_owned(),
            registered: at,
            state: CallbackState::Standby as i32,
            ..Self::default()
        })
    }
}

impl Run {
    /// Rejects more callbacks than a run may have.
    pub(crate) fn check_callbacks(&self, new: usize, limit: usize) -> Result<(), ServiceError> {
        let attached = self.state.callbacks.len();
        if new == 0 || attached + new <= limit {
            return Ok(());
        }
        Err(ServiceError::FailedPrecondition(format!(
            "cannot attach more than {limit} callbacks to a workflow ({attached} callbacks already attached)"
        )))
    }

    /// The callbacks that the next run of the chain takes over.
    pub(super) fn standing_callbacks(&self) -> Vec<Target> {
        let standing = self.state.callbacks.iter().filter(|it| it.state() == CallbackState::Standby);
        standing.filter_map(|it| it.target.clone()).collect()
    }

    /// The chain has ended with the event that was written last: sends it to all who wait for it.
    pub(super) fn call_back(&mut self) {
        if self.state.callbacks.is_empty() {
            return;
        }
        let end = self.last_written().cloned();
        if end.as_ref().and_then(Outcome::of_run).is_none() {
            return;
        }
        for index in 0..self.state.callbacks.len() {
            if let Some(callback) =
                self.state.callbacks.get_mut(index).filter(|it| it.state() == CallbackState::Standby)
            {
                callback.set_state(CallbackState::Scheduled);
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                self.send(Content::CallBack(CallBack { index, end: end.clone() }));
            }
        }
    }

    pub(crate) fn callback(&self, index: u32) -> Option<&Callback> {
        self.state.callbacks.get(usize::try_from(index).ok()?)
    }

    /// Records what became of a callback.
    pub(crate) fn called_back(&mut self, env: &Env<'_>, index: u32, refused: Option<String>) {
        let callback = usize::try_from(index).ok().and_then(|index| self.state.callbacks.get_mut(index));
        let Some(callback) = callback.filter(|callback| callback.state() == CallbackState::Scheduled) else { return };
        callback.attempt += 1;
        callback.last_attempt_time = env.now;
        callback.set_state(if refused.is_none() { CallbackState::Succeeded } else { CallbackState::Failed });
        callback.last_failure = refused.map(|message| Failure {
            message,
            failure_info: Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo {
                non_retryable: true,
                ..ApplicationFailureInfo::default()
            })),
            ..Failure::default()
        });
        self.touch();
    }
}
