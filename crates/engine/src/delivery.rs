//! Delivers outbox messages from one run to another.
//!
//! The messages of a run are delivered in order, one at a time. A message is sent after the step that wrote it is
//! durable, and stays in the outbox until its result is durable, too.

mod callbacks;

use std::{collections::HashSet, sync::Arc};

use temporalio_protos::temporal::api::{
    common::v1::WorkflowExecution,
    enums::v1::{
        CancelExternalWorkflowExecutionFailedCause as CancelFailed, ParentClosePolicy,
        SignalExternalWorkflowExecutionFailedCause as SignalFailed,
        StartChildWorkflowExecutionFailedCause as StartFailed, WorkflowIdConflictPolicy, WorkflowIdReusePolicy,
    },
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;
use windlass_sqlite::Ack;

use crate::{
    core::{Applied, Core, Target},
    deployments::Version,
    registry::RunKey,
    run::{
        Env, Inherited, Run, RunState, Signal, StartSpec, cron, cron_initiator,
        outbox::{CancelRun, ChildEnded, Content, OutboxMessage, ParentEnded, SignalRun, StartChild},
        state::Parent,
    },
    service::start::{Policies, Started},
    service_error::ServiceError,
    time::duration,
};

/// Pause before a failed delivery is retried.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(200);

/// How many resets of the parent a child follows to find the run to notify.
const RESETS: usize = 100;

/// Delivers messages until `shutdown` is cancelled.
pub(crate) async fn deliver(
    core: Arc<Core>,
    mut deliveries: mpsc::UnboundedReceiver<RunKey>,
    shutdown: CancellationToken,
) {
    let mut busy: HashSet<RunKey> = HashSet::new();
    let mut again: HashSet<RunKey> = HashSet::new();
    let mut rounds: JoinSet<RunKey> = JoinSet::new();
    loop {
        let run = tokio::select! {
            () = shutdown.cancelled() => return,
            Some(run) = deliveries.recv() => {
                if busy.contains(&run) {
                    again.insert(run);
                    continue;
                }
                run
            }
            Some(Ok(run)) = rounds.join_next() => {
                busy.remove(&run);
                if !again.remove(&run) {
                    continue;
                }
                run
            }
            else => return,
        };
        busy.insert(run.clone());
        let core = Arc::clone(&core);
        rounds.spawn(async move {
            while let Err(error) = Box::pin(core.send_messages(&run)).await {
                if matches!(error, ServiceError::DataLoss(_)) {
                    tracing::error!(%error, run = &*run.run_id, "outbox messages cannot be delivered: a run cannot be read");
                    break;
                }
                tracing::warn!(%error, run = &*run.run_id, "outbox messages could not be delivered; retrying");
                tokio::time::sleep(PAUSE).await;
            }
            run
        });
    }
}

impl Core {
    /// Delivers all messages of a run.
    async fn send_messages(self: &Arc<Self>, run: &RunKey) -> Result<(), ServiceError> {
        let target = Target::of(run);
        loop {
            let next = self.with_run(&target, |run, _| Ok(run.next_message().cloned()));
            let message = match next {
                Ok(done) => done.value(),
                // The run was deleted meanwhile.
                Err(ServiceError::NotFound(_)) => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some(OutboxMessage { id, content }) = message else { return Ok(()) };
            match content {
                Some(Content::StartChild(message)) => self.start_child(&target, id, message).await?,
                Some(Content::Signal(message)) => self.signal_external(&target, id, message).await?,
                Some(Content::Cancel(message)) => self.cancel_external(&target, id, message).await?,
                Some(Content::ChildEnded(message)) => self.child_ended(&target, id, message).await?,
                Some(Content::ParentEnded(message)) => self.parent_ended(&target, id, message).await?,
                Some(Content::CallBack(message)) => self.call_back(&target, id, message).await?,
                None => self.remove_message(&target, id).await?,
            }
        }
    }

    async fn start_child(self: &Arc<Self>, parent: &Target, id: i64, message: StartChild) -> Result<(), ServiceError> {
        let Some(child) = message.child.clone() else { return Ok(()) };
        // Boxed, because it is large and lives while the child is started.
        let parent_state = self.with_run(parent, |run, _| Ok(Box::new(run.state.clone())))?.value();
        let abandoned = child.parent_close_policy() == ParentClosePolicy::Abandon;
        let known = parent_state.children.get(&message.initiated_id);
        if parent_state.is_running() && known.is_none() || !parent_state.is_running() && !abandoned {
            return self.remove_message(parent, id).await;
        }
        if let Some(known) = known.filter(|known| !known.run_id.is_empty()) {
            // The child was started before a restart, and may have made progress since.
            let child = Target::new(&child.namespace, &child.workflow_id, &known.run_id);
            return self.begin_child(parent, id, &child).await;
        }
        if !parent_state.is_running() {
            // A closed run starts no child, but must schedule the first task of a child it has started.
            return match self.started_by(&child.namespace, &child.workflow_id, &message.request_id)? {
                Some(child) => self.begin_child(parent, id, &child).await,
                None => self.remove_message(parent, id).await,
            };
        }
        let queue = child.task_queue.clone().unwrap_or_default().name;
        let given = child.versioning_override.clone();
        let has_queue = |queue: &str, version: &Version| self.has_queue(&child.namespace, queue, version);
        let inherited = if child.namespace == parent.namespace {
            parent_state.inherited_by_child(&queue, given, &has_queue)
        } else {
            Inherited { versioning_override: given, ..Inherited::default() }
        };
        let spec = StartSpec {
            inherited,
            namespace: child.namespace.clone(),
            workflow_id: child.workflow_id.clone(),
            workflow_type: child.workflow_type.clone().unwrap_or_default().name,
            task_queue: queue,
            input: child.input.clone(),
            header: child.header.clone(),
            execution_timeout: child.workflow_execution_timeout,
            run_timeout: child.workflow_run_timeout,
            task_timeout: child.workflow_task_timeout,
            request_id: message.request_id.clone(),
            retry_policy: child.retry_policy.clone(),
            memo: child.memo.clone(),
            search_attributes: child.search_attributes.clone(),
            user_metadata: message.user_metadata.clone(),
            priority: child.priority.clone().or_else(|| parent_state.priority.clone()),
            first_task_backoff: Some(duration(cron::first_backoff(&child.cron_schedule, self.now()))),
            initiator: cron_initiator(&child.cron_schedule),
            cron_schedule: child.cron_schedule.clone(),
            parent_namespace_id: self.read_namespaces().id(&parent.namespace).unwrap_or_default(),
            parent: Some(Parent {
                namespace: parent.namespace.clone(),
                workflow_id: parent.workflow_id.clone(),
                run_id: parent.run_id.clone(),
                initiated_id: message.initiated_id,
            }),
            root: Some(WorkflowExecution {
                workflow_id: parent_state.root_workflow_id.clone(),
                run_id: parent_state.root_run_id.clone(),
            }),
            attempt: 1,
            ..StartSpec::default()
        };
        let policies = Policies {
            reuse: WorkflowIdReusePolicy::try_from(child.workflow_id_reuse_policy).unwrap_or_default(),
            conflict: WorkflowIdConflictPolicy::Fail,
        };
        if message.may_be_running
            && let Some(first_run_id) =
                self.child_started_before_reset(&child.namespace, &child.workflow_id, &parent_state)?
        {
            self.set_child_started(parent, &message, &first_run_id).await?;
            return self.remove_message(parent, id).await;
        }
        // The child's first task is scheduled only after its parent has recorded the start, so that the end cannot come
        // first.
        let started = self.start_held(spec, policies).await;
        let run_id = match started {
            Ok(Started { run_id, .. }) => run_id,
            Err(ServiceError::AlreadyStarted { .. }) => {
                let cause = StartFailed::WorkflowAlreadyExists;
                return self.fail_child_start(parent, id, &message, cause).await;
            }
            Err(ServiceError::NamespaceNotFound(_)) => {
                return self.fail_child_start(parent, id, &message, StartFailed::NamespaceNotFound).await;
            }
            Err(error) => return Err(error),
        };
        self.set_child_started(parent, &message, &run_id).await?;
        self.begin_child(parent, id, &Target::new(&child.namespace, &child.workflow_id, &run_id)).await
    }

    /// The run that was started with this request id, if it is the current one.
    fn started_by(
        self: &Arc<Self>,
        namespace: &str,
        workflow_id: &str,
        request_id: &str,
    ) -> Result<Option<Target>, ServiceError> {
        let current = Target::new(namespace, workflow_id, "");
        let look = |run: &mut Run, _: &Env<'_>| Ok((run.state.create_request_id.clone(), run.state.run_id.clone()));
        let found = found(self.with_run(&current, look))?;
        Ok(found.filter(|(request, _)| request == request_id).map(|(_, run_id)| Target { run_id, ..current }))
    }

    /// Schedules the first task of a child whose start is recorded. The message stays in the outbox until then, because
    /// nothing else would schedule it.
    async fn begin_child(self: &Arc<Self>, parent: &Target, id: i64, child: &Target) -> Result<(), ServiceError> {
        let begun = self.with_run_acked(child, Ack::Relaxed, |run, env| {
            run.schedule_first_task_if_held(env);
            Ok(())
        });
        match begun {
            Ok(done) => done.acknowledged().await?,
            Err(ServiceError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        self.remove_message(parent, id).await
    }

    /// Removes a delivered message. Delivering it again would change nothing, so the write is relaxed.
    async fn remove_message(self: &Arc<Self>, sender: &Target, id: i64) -> Result<(), ServiceError> {
        let done = self.with_run_acked(sender, Ack::Relaxed, |run, _| {
            run.remove_message(id);
            Ok(())
        })?;
        done.acknowledged().await
    }

    async fn set_child_started(
        self: &Arc<Self>,
        parent: &Target,
        message: &StartChild,
        run_id: &str,
    ) -> Result<(), ServiceError> {
        self.with_run(parent, |run, env| {
            run.child_started(env, message, run_id);
            Ok(())
        })?
        .acknowledged()
        .await
    }

    /// The first run of the child, if it was started by the run from which a reset made this one.
    fn child_started_before_reset(
        self: &Arc<Self>,
        namespace: &str,
        workflow_id: &str,
        state: &RunState,
    ) -> Result<Option<String>, ServiceError> {
        let child = Target::new(namespace, workflow_id, "");
        let look = |run: &mut Run, _: &Env<'_>| Ok((run.state.parent.clone(), run.state.first_run_id.clone()));
        let Some((Some(parent), first_run_id)) = found(self.with_run(&child, look))? else { return Ok(None) };
        if (&parent.namespace, &parent.workflow_id) != (&state.namespace, &state.workflow_id) {
            return Ok(None);
        }
        let parent = Target::new(&parent.namespace, &parent.workflow_id, &parent.run_id);
        let original = found(self.with_run(&parent, |run, _| Ok(run.state.original_run_id.clone())))?;
        Ok(original.filter(|original| *original == state.original_run_id).map(|_| first_run_id))
    }

    async fn fail_child_start(
        self: &Arc<Self>,
        parent: &Target,
        id: i64,
        message: &StartChild,
        cause: StartFailed,
    ) -> Result<(), ServiceError> {
        self.with_run(parent, |run, env| {
            run.child_not_started(env, message, cause);
            run.remove_message(id);
            Ok(())
        })?
        .acknowledged()
        .await
    }

    async fn signal_external(
        self: &Arc<Self>,
        sender: &Target,
        id: i64,
        message: SignalRun,
    ) -> Result<(), ServiceError> {
        let Some(signal) = message.signal.clone() else { return Ok(()) };
        let receiver = target_of(&signal.namespace, signal.workflow_execution.as_ref());
        let refused = if receiver.workflow_id == sender.workflow_id && receiver.namespace == sender.namespace {
            Some(SignalFailed::ExternalWorkflowExecutionNotFound)
        } else {
            let delivered = self.with_run(&receiver, |run, env| {
                if signal.child_workflow_only && !is_child_of(run.state.parent.as_ref(), sender) {
                    return Ok(Err(ServiceError::not_found("workflow execution not found")));
                }
                let signal = Signal {
                    name: signal.signal_name.clone(),
                    input: signal.input.clone(),
                    header: signal.header.clone(),
                    identity: "history-service".to_owned(),
                    request_id: message.request_id.clone(),
                    sender: Some(execution_of(sender)),
                };
                Ok(run.signal(env, signal))
            });
            match delivered.and_then(Applied::transpose) {
                Ok(done) => {
                    done.acknowledged().await?;
                    None
                }
                Err(ServiceError::NotFound(_)) => Some(SignalFailed::ExternalWorkflowExecutionNotFound),
                Err(ServiceError::NamespaceNotFound(_)) => Some(SignalFailed::NamespaceNotFound),
                Err(ServiceError::InvalidArgument(_)) => Some(SignalFailed::SignalCountLimitExceeded),
                Err(error) => return Err(error),
            }
        };
        self.with_run(sender, |run, env| {
            run.signal_answered(env, &message, refused);
            run.remove_message(id);
            Ok(())
        })?
        .acknowledged()
        .await
    }

    async fn cancel_external(
        self: &Arc<Self>,
        sender: &Target,
        id: i64,
        message: CancelRun,
    ) -> Result<(), ServiceError> {
        let Some(cancel) = message.cancel.clone() else { return Ok(()) };
        let receiver = target_of(&cancel.namespace, cancel.workflow_execution.as_ref());
        let refused = if receiver.workflow_id == sender.workflow_id && receiver.namespace == sender.namespace {
            Some(CancelFailed::ExternalWorkflowExecutionNotFound)
        } else {
            let delivered = self.with_run(&receiver, |run, env| {
                if run.state.cancel_request_id == message.request_id || !run.state.is_running() {
                    // The request is a duplicate, or the run is already closed.
                    return Ok(());
                }
                if cancel.child_workflow_only && !is_child_of(run.state.parent.as_ref(), sender) {
                    return Err(ServiceError::not_found("workflow execution not found"));
                }
                let asked_by = Some((execution_of(sender), message.initiated_id));
                run.request_cancel(env, &message.request_id, &cancel.reason, "history-service", asked_by)
            });
            match delivered {
                Ok(done) => {
                    done.acknowledged().await?;
                    None
                }
                Err(ServiceError::NotFound(_)) => Some(CancelFailed::ExternalWorkflowExecutionNotFound),
                Err(ServiceError::NamespaceNotFound(_)) => Some(CancelFailed::NamespaceNotFound),
                Err(error) => return Err(error),
            }
        };
        self.with_run(sender, |run, env| {
            run.cancel_answered(env, &message, refused);
            run.remove_message(id);
            Ok(())
        })?
        .acknowledged()
        .await
    }

    async fn child_ended(self: &Arc<Self>, child: &Target, id: i64, message: ChildEnded) -> Result<(), ServiceError> {
        if let (Some(parent), Some(end)) = (message.parent, message.end) {
            let first_run_id = self.with_run(child, |run, _| Ok(run.state.first_run_id.clone()))?.value();
            let mut target = Target::new(&parent.namespace, &parent.workflow_id, &parent.run_id);
            for _ in 0..RESETS {
                let told = self.with_run(&target, |run, env| {
                    let known = run.state.children.get(&parent.initiated_id);
                    if run.state.is_running() && known.is_some_and(|known| known.run_id.is_empty()) {
                        // The child closed before its start was recorded. The start must come first in the parent's
                        // history.
                        return Err(ServiceError::Unavailable(
                            "the parent has not recorded its child's start".to_owned(),
                        ));
                    }
                    run.child_ended(env, parent.initiated_id, execution_of(child), &first_run_id, &end);
                    Ok(if run.state.is_running() { String::new() } else { run.state.reset_run_id.clone() })
                });
                target.run_id = match told {
                    Ok(done) => done.acknowledged().await?,
                    Err(ServiceError::NotFound(_)) => break,
                    Err(error) => return Err(error),
                };
                if target.run_id.is_empty() {
                    break;
                }
            }
        }
        self.remove_message(child, id).await
    }

    async fn parent_ended(
        self: &Arc<Self>,
        parent: &Target,
        id: i64,
        message: ParentEnded,
    ) -> Result<(), ServiceError> {
        let child = Target::new(&message.namespace, &message.workflow_id, "");
        let request_id = format!("{}-{id}", parent.run_id);
        let told = self.with_run(&child, |run, env| {
            // Another run may use the workflow id by now, and a parent that was reset did not start the child.
            let is_first = message.first_run_id.is_empty() || run.state.first_run_id == message.first_run_id;
            if !is_first || !is_child_of(run.state.parent.as_ref(), parent) {
                return Ok(());
            }
            if message.terminate {
                run.terminate(env, "by parent close policy", None, "history-service")
            } else {
                run.request_cancel(env, &request_id, "", "history-service", Some((execution_of(parent), 0)))
            }
        });
        match told {
            Ok(done) => done.acknowledged().await?,
            Err(ServiceError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        self.remove_message(parent, id).await
    }
}

/// The result of reading a run, or `None` if the run does not exist.
fn found<T>(asked: Result<Applied<T>, ServiceError>) -> Result<Option<T>, ServiceError> {
    match asked {
        Ok(done) => Ok(Some(done.value())),
        Err(ServiceError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn target_of(namespace: &str, execution: Option<&WorkflowExecution>) -> Target {
    let execution = execution.cloned().unwrap_or_default();
    Target { namespace: namespace.to_owned(), workflow_id: execution.workflow_id, run_id: execution.run_id }
}

fn execution_of(target: &Target) -> WorkflowExecution {
    WorkflowExecution { workflow_id: target.workflow_id.clone(), run_id: target.run_id.clone() }
}

fn is_child_of(parent: Option<&Parent>, sender: &Target) -> bool {
    parent.is_some_and(|parent| parent.workflow_id == sender.workflow_id && parent.run_id == sender.run_id)
}
