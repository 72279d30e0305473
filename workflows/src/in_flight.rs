//! The calls in flight, polled in the order they began, so that a replay sees the same one end first.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

use temporalio_workflow::WorkflowCancellationToken;
use windlass_core::{envelope::ToolOutput, ids::CallId, run::ChildReport};

/// How a call ended.
pub(crate) enum CallEnd {
    /// `recorded`: its result event is in the log already.
    Tool {
        call: CallId,
        output: Box<ToolOutput>,
        recorded: bool,
    },
    Child {
        call: CallId,
        report: ChildReport,
    },
}

#[derive(Default)]
pub(crate) struct InFlight {
    calls: Vec<Pin<Box<dyn Future<Output = CallEnd>>>>,
    token: WorkflowCancellationToken,
}

impl InFlight {
    pub(crate) fn push(&mut self, call: impl Future<Output = CallEnd> + 'static) {
        self.calls.push(Box::pin(call));
    }

    /// Cancels everything begun with it.
    pub(crate) fn token(&self) -> WorkflowCancellationToken {
        self.token.clone()
    }

    pub(crate) fn cancel(&self, reason: &str) {
        self.token.cancel_with_reason(reason);
    }

    /// The next call to end; pending for ever while nothing is in flight.
    pub(crate) async fn next(&mut self) -> CallEnd {
        poll_fn(|cx| {
            for index in 0..self.calls.len() {
                if let Poll::Ready(end) = self.calls[index].as_mut().poll(cx) {
                    drop(self.calls.remove(index));
                    return Poll::Ready(end);
                }
            }
            Poll::Pending
        })
        .await
    }
}
