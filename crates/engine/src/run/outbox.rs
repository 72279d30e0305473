//! Messages of a run to other runs.
//!
//! A message is stored with the run until its delivery is answered. After a crash it is delivered again; receivers
//! recognise duplicates by the request id.

use temporalio_protos::temporal::api::history::v1::{
    HistoryEvent, RequestCancelExternalWorkflowExecutionInitiatedEventAttributes,
    SignalExternalWorkflowExecutionInitiatedEventAttributes, StartChildWorkflowExecutionInitiatedEventAttributes,
};

use super::{Run, state::Parent};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OutboxMessage {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
    #[prost(oneof = "Content", tags = "2, 3, 4, 5, 6, 20")]
    pub(crate) content: Option<Content>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Content {
    #[prost(message, tag = "2")]
    StartChild(StartChild),
    #[prost(message, tag = "3")]
    Signal(SignalRun),
    #[prost(message, tag = "4")]
    Cancel(CancelRun),
    #[prost(message, tag = "5")]
    ChildEnded(ChildEnded),
    #[prost(message, tag = "6")]
    ParentEnded(ParentEnded),
    #[prost(message, tag = "20")]
    CallBack(CallBack),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StartChild {
    #[prost(int64, tag = "1")]
    pub(crate) initiated_id: i64,
    #[prost(string, tag = "2")]
    pub(crate) request_id: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) child: Option<StartChildWorkflowExecutionInitiatedEventAttributes>,
    #[prost(message, optional, tag = "4")]
    pub(crate) user_metadata: Option<temporalio_protos::temporal::api::sdk::v1::UserMetadata>,
    /// The base run of a reset may have started the child already.
    #[prost(bool, tag = "5")]
    pub(crate) may_be_running: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SignalRun {
    #[prost(int64, tag = "1")]
    pub(crate) initiated_id: i64,
    #[prost(string, tag = "2")]
    pub(crate) request_id: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) signal: Option<SignalExternalWorkflowExecutionInitiatedEventAttributes>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CancelRun {
    #[prost(int64, tag = "1")]
    pub(crate) initiated_id: i64,
    #[prost(string, tag = "2")]
    pub(crate) request_id: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) cancel: Option<RequestCancelExternalWorkflowExecutionInitiatedEventAttributes>,
}

/// To the parent: the child's closing event.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ChildEnded {
    #[prost(message, optional, tag = "1")]
    pub(crate) parent: Option<Parent>,
    #[prost(message, optional, tag = "2")]
    pub(crate) end: Option<HistoryEvent>,
}

/// To a child: its parent has closed.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ParentEnded {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(string, tag = "2")]
    pub(crate) workflow_id: String,
    /// The first run of the child's chain.
    #[prost(string, tag = "3")]
    pub(crate) first_run_id: String,
    #[prost(bool, tag = "4")]
    pub(crate) terminate: bool,
}

/// To whom a completion callback names: the chain's closing event.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CallBack {
    /// The place of the callback in the run's list.
    #[prost(uint32, tag = "1")]
    pub(crate) index: u32,
    #[prost(message, optional, tag = "2")]
    pub(crate) end: Option<HistoryEvent>,
}

impl Run {
    pub(super) fn send(&mut self, content: Content) {
        self.state.last_message_id += 1;
        self.state.outbox.push(OutboxMessage { id: self.state.last_message_id, content: Some(content) });
        self.touch();
    }

    pub(crate) fn next_message(&self) -> Option<&OutboxMessage> {
        self.state.outbox.first()
    }

    /// Removes a message that was delivered or cannot be delivered.
    pub(crate) fn remove_message(&mut self, id: i64) {
        let before = self.state.outbox.len();
        self.state.outbox.retain(|message| message.id != id);
        if self.state.outbox.len() != before {
            self.touch();
        }
    }
}
