//! Results of children and of external signals and cancellations, and what is sent to parent and children at the end.

use temporalio_protos::temporal::api::{
    common::v1::{WorkflowExecution, WorkflowType},
    enums::v1::{
        CancelExternalWorkflowExecutionFailedCause, ParentClosePolicy, SignalExternalWorkflowExecutionFailedCause,
        StartChildWorkflowExecutionFailedCause,
    },
    history::v1::{
        ChildWorkflowExecutionCanceledEventAttributes, ChildWorkflowExecutionCompletedEventAttributes,
        ChildWorkflowExecutionFailedEventAttributes, ChildWorkflowExecutionStartedEventAttributes,
        ChildWorkflowExecutionTerminatedEventAttributes, ChildWorkflowExecutionTimedOutEventAttributes,
        ExternalWorkflowExecutionCancelRequestedEventAttributes, ExternalWorkflowExecutionSignaledEventAttributes,
        HistoryEvent, RequestCancelExternalWorkflowExecutionFailedEventAttributes,
        SignalExternalWorkflowExecutionFailedEventAttributes, StartChildWorkflowExecutionFailedEventAttributes,
        history_event::Attributes,
    },
};

use super::{
    Env, Run,
    outbox::{CancelRun, ChildEnded, Content, ParentEnded, SignalRun, StartChild},
    reset::RESETTER,
    state::Child,
};

impl Run {
    /// Sends the run's end to its parent and its children.
    pub(super) fn notify_parent_and_children(&mut self) {
        let end = self.last_written().cloned();
        let by_reset = end.as_ref().is_some_and(is_by_reset);
        let chain_goes_on = by_reset || !self.state.successor_run_id.is_empty();
        if let Some(parent) = self.state.parent.clone().filter(|_| !chain_goes_on) {
            self.send(Content::ChildEnded(ChildEnded { parent: Some(parent), end }));
        }
        if !chain_goes_on {
            self.call_back();
        }
        if by_reset && !self.state.reset_run_id.is_empty() {
            // The run that the reset made has the same children.
            return;
        }
        for child in self.state.children.values().cloned().collect::<Vec<_>>() {
            let terminate = match ParentClosePolicy::try_from(child.parent_close_policy) {
                Ok(ParentClosePolicy::Terminate) => true,
                Ok(ParentClosePolicy::RequestCancel) => false,
                _ => continue,
            };
            // A child that was not started yet may have the workflow id of an earlier child of this run.
            self.send(Content::ParentEnded(ParentEnded {
                namespace: child.namespace,
                workflow_id: child.workflow_id,
                first_run_id: child.run_id,
                terminate,
            }));
        }
    }

    pub(crate) fn child_started(&mut self, env: &Env<'_>, message: &StartChild, run_id: &str) {
        if !self.state.is_running() {
            return;
        }
        let Some(child) = self.state.children.get_mut(&message.initiated_id).filter(|child| child.run_id.is_empty())
        else {
            return;
        };
        run_id.clone_into(&mut child.run_id);
        let attributes = ChildWorkflowExecutionStartedEventAttributes {
            namespace: child.namespace.clone(),
            namespace_id: (env.namespace_id)(&child.namespace).unwrap_or_default(),
            initiated_event_id: message.initiated_id,
            workflow_execution: Some(WorkflowExecution {
                workflow_id: child.workflow_id.clone(),
                run_id: run_id.to_owned(),
            }),
            workflow_type: Some(WorkflowType { name: child.workflow_type.clone() }),
            header: message.child.as_ref().and_then(|child| child.header.clone()),
        };
        self.buffer_event(env, Attributes::ChildWorkflowExecutionStartedEventAttributes(attributes));
        self.ensure_task(env);
    }

    pub(crate) fn child_not_started(
        &mut self,
        env: &Env<'_>,
        message: &StartChild,
        cause: StartChildWorkflowExecutionFailedCause,
    ) {
        let Some(child) = self.state.children.remove(&message.initiated_id) else { return };
        if !self.state.is_running() {
            return;
        }
        let attributes = StartChildWorkflowExecutionFailedEventAttributes {
            namespace_id: (env.namespace_id)(&child.namespace).unwrap_or_default(),
            namespace: child.namespace,
            workflow_id: child.workflow_id,
            workflow_type: Some(WorkflowType { name: child.workflow_type }),
            cause: cause as i32,
            initiated_event_id: message.initiated_id,
            ..StartChildWorkflowExecutionFailedEventAttributes::default()
        };
        self.buffer_event(env, Attributes::StartChildWorkflowExecutionFailedEventAttributes(attributes));
        self.ensure_task(env);
    }

    /// Records the end of a child. Ignored if the child is unknown or its end was already recorded.
    pub(crate) fn child_ended(
        &mut self,
        env: &Env<'_>,
        initiated_id: i64,
        ended: WorkflowExecution,
        first_run_id: &str,
        end: &HistoryEvent,
    ) {
        if !self.state.is_running() {
            return self.drop_transient_state();
        }
        self.adopt_running_child(env, initiated_id, first_run_id);
        let child = self.state.children.get(&initiated_id);
        let ours = |child: &&Child| child.workflow_id == ended.workflow_id && child.run_id == first_run_id;
        let Some(child) = child.filter(ours) else { return self.drop_transient_state() };
        let namespace = child.namespace.clone();
        let namespace_id = (env.namespace_id)(&namespace).unwrap_or_default();
        let workflow_execution = Some(ended);
        let workflow_type = Some(WorkflowType { name: child.workflow_type.clone() });
        let (initiated_event_id, started_event_id) = (initiated_id, child.started_id);
        use Attributes as A;
        let attributes = match end.attributes.clone() {
            Some(A::WorkflowExecutionCompletedEventAttributes(end)) => {
                A::ChildWorkflowExecutionCompletedEventAttributes(ChildWorkflowExecutionCompletedEventAttributes {
                    result: end.result,
                    namespace,
                    namespace_id,
                    workflow_execution,
                    workflow_type,
                    initiated_event_id,
                    started_event_id,
                })
            }
            Some(A::WorkflowExecutionFailedEventAttributes(end)) => {
                A::ChildWorkflowExecutionFailedEventAttributes(ChildWorkflowExecutionFailedEventAttributes {
                    failure: end.failure,
                    namespace,
                    namespace_id,
                    workflow_execution,
                    workflow_type,
                    initiated_event_id,
                    started_event_id,
                    retry_state: end.retry_state,
                })
            }
            Some(A::WorkflowExecutionCanceledEventAttributes(end)) => {
                A::ChildWorkflowExecutionCanceledEventAttributes(ChildWorkflowExecutionCanceledEventAttributes {
                    details: end.details,
                    namespace,
                    namespace_id,
                    workflow_execution,
                    workflow_type,
                    initiated_event_id,
                    started_event_id,
                })
            }
            Some(A::WorkflowExecutionTimedOutEventAttributes(end)) => {
                A::ChildWorkflowExecutionTimedOutEventAttributes(ChildWorkflowExecutionTimedOutEventAttributes {
                    namespace,
                    namespace_id,
                    workflow_execution,
                    workflow_type,
                    initiated_event_id,
                    started_event_id,
                    retry_state: end.retry_state,
                })
            }
            Some(A::WorkflowExecutionTerminatedEventAttributes(_)) => {
                A::ChildWorkflowExecutionTerminatedEventAttributes(ChildWorkflowExecutionTerminatedEventAttributes {
                    namespace,
                    namespace_id,
                    workflow_execution,
                    workflow_type,
                    initiated_event_id,
                    started_event_id,
                })
            }
            _ => return,
        };
        self.state.children.remove(&initiated_id);
        self.buffer_event(env, attributes);
        self.ensure_task(env);
    }

    /// After a reset, a child may end before its start was recorded in this run.
    fn adopt_running_child(&mut self, env: &Env<'_>, initiated_id: i64, first_run_id: &str) {
        let message = self.state.outbox.iter().find_map(|message| match &message.content {
            Some(Content::StartChild(message)) if message.initiated_id == initiated_id && message.may_be_running => {
                Some(message.clone())
            }
            _ => None,
        });
        if let Some(message) = message {
            self.child_started(env, &message, first_run_id);
        }
    }

    /// Records the result of an external signal.
    pub(crate) fn signal_answered(
        &mut self,
        env: &Env<'_>,
        message: &SignalRun,
        refused: Option<SignalExternalWorkflowExecutionFailedCause>,
    ) {
        let known = self.state.signals_out.remove(&message.initiated_id).is_some();
        let Some(signal) = message.signal.clone().filter(|_| known && self.state.is_running()) else { return };
        let attributes = match refused {
            Some(cause) => Attributes::SignalExternalWorkflowExecutionFailedEventAttributes(
                SignalExternalWorkflowExecutionFailedEventAttributes {
                    cause: cause as i32,
                    namespace: signal.namespace,
                    namespace_id: signal.namespace_id,
                    workflow_execution: signal.workflow_execution,
                    initiated_event_id: message.initiated_id,
                    ..SignalExternalWorkflowExecutionFailedEventAttributes::default()
                },
            ),
            None => Attributes::ExternalWorkflowExecutionSignaledEventAttributes(
                ExternalWorkflowExecutionSignaledEventAttributes {
                    initiated_event_id: message.initiated_id,
                    namespace: signal.namespace,
                    namespace_id: signal.namespace_id,
                    workflow_execution: signal.workflow_execution,
                    ..ExternalWorkflowExecutionSignaledEventAttributes::default()
                },
            ),
        };
        self.buffer_event(env, attributes);
        self.ensure_task(env);
    }

    /// Records the result of an external cancellation request.
    pub(crate) fn cancel_answered(
        &mut self,
        env: &Env<'_>,
        message: &CancelRun,
        refused: Option<CancelExternalWorkflowExecutionFailedCause>,
    ) {
        let known = self.state.cancels_out.remove(&message.initiated_id).is_some();
        let Some(cancel) = message.cancel.clone().filter(|_| known && self.state.is_running()) else { return };
        let attributes = match refused {
            Some(cause) => Attributes::RequestCancelExternalWorkflowExecutionFailedEventAttributes(
                RequestCancelExternalWorkflowExecutionFailedEventAttributes {
                    cause: cause as i32,
                    namespace: cancel.namespace,
                    namespace_id: cancel.namespace_id,
                    workflow_execution: cancel.workflow_execution,
                    initiated_event_id: message.initiated_id,
                    ..RequestCancelExternalWorkflowExecutionFailedEventAttributes::default()
                },
            ),
            None => Attributes::ExternalWorkflowExecutionCancelRequestedEventAttributes(
                ExternalWorkflowExecutionCancelRequestedEventAttributes {
                    initiated_event_id: message.initiated_id,
                    namespace: cancel.namespace,
                    namespace_id: cancel.namespace_id,
                    workflow_execution: cancel.workflow_execution,
                },
            ),
        };
        self.buffer_event(env, attributes);
        self.ensure_task(env);
    }
}

fn is_by_reset(end: &HistoryEvent) -> bool {
    matches!(&end.attributes, Some(Attributes::WorkflowExecutionTerminatedEventAttributes(it)) if it.identity == RESETTER)
}
