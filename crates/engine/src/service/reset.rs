//! ResetWorkflowExecution: a new run from an earlier event of another one.

use std::sync::Arc;

use prost_wkt_types::FieldMask;
use temporalio_protos::temporal::api::{
    enums::v1::{ResetReapplyExcludeType, ResetReapplyType},
    history::v1::{HistoryEvent, history_event::Attributes},
    workflow::v1::{
        PostResetOperation, WorkflowExecutionOptions,
        post_reset_operation::{UpdateWorkflowOptions, Variant},
    },
    workflowservice::v1::{ResetWorkflowExecutionRequest, ResetWorkflowExecutionResponse},
};
use windlass_sqlite::Ack;

use super::{
    checks,
    deployments::{check_paths, merge},
};
use crate::{
    core::{Applied, Core, Target, unavailable},
    persist,
    registry::Workflow,
    run::{Excluded, Fork, Identity, Run, overrides, part},
    service_error::ServiceError,
};

/// How often history is read again because events were added meanwhile.
const MAX_READS: u32 = 100;

/// Events after the reset event, of the run and of the runs that continued it.
struct Later {
    events: Vec<HistoryEvent>,
    /// The last run whose events these are.
    last_run_id: String,
}

impl Core {
    pub(super) async fn reset_workflow(
        self: &Arc<Self>,
        request: ResetWorkflowExecutionRequest,
    ) -> Result<ResetWorkflowExecutionResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        if request.request_id.is_empty() {
            return Err(ServiceError::invalid("RequestId is not set on request."));
        }
        if request.request_id.len() > self.limits.id_length {
            return Err(ServiceError::invalid("RequestId length exceeds limit."));
        }
        let execution = request.workflow_execution.clone();
        let target = checks::target(&self.read_namespaces(), &request.namespace, execution)?;
        let reapply = Reapply::of(&request)?;
        for _ in 0..MAX_READS {
            if let Some(done) = self.reset(&target, &request, reapply)? {
                return Ok(ResetWorkflowExecutionResponse { run_id: done.acknowledged().await? });
            }
            // Events in memory may not be committed yet.
            self.database.committed().await.map_err(|error| unavailable(&error))?;
        }
        Err(ServiceError::Unavailable("the run keeps changing; try again".to_owned()))
    }

    /// `None` if the history on disk is not complete yet.
    fn reset(
        self: &Arc<Self>,
        target: &Target,
        request: &ResetWorkflowExecutionRequest,
        reapply: Reapply,
    ) -> Result<Option<Applied<String>>, ServiceError> {
        self.with_workflow(&target.namespace, &target.workflow_id, |workflow, epoch| {
            let reset = self.reset_in(workflow, epoch, target, request, reapply);
            if let (Err(_), Ok(base)) = (&reset, self.run_in(workflow, target)) {
                base.drop_transient_state();
            }
            reset
        })
    }

    fn reset_in(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        epoch: u64,
        target: &Target,
        request: &ResetWorkflowExecutionRequest,
        reapply: Reapply,
    ) -> Result<Option<Applied<String>>, ServiceError> {
        let (namespace, workflow_id) = (&target.namespace, &target.workflow_id);
        let base = self.run_in(workflow, target)?;
        let finish_id = request.workflow_task_finish_event_id;
        if finish_id <= 1 || finish_id >= base.state.next_event_id {
            let message = "Workflow task finish ID must be > 1 && <= workflow last event ID.";
            return Err(ServiceError::invalid(message));
        }
        let operations = self.post_reset_operations(&target.namespace, &base.state.task_queue, request)?;
        let (base_id, request_id) = (base.state.run_id.clone(), base.state.create_request_id.clone());
        let Some(batches) = self.batches(base)? else { return Ok(None) };
        let current_id = self.current_in(workflow, namespace, workflow_id)?.map(|(_, run_id)| run_id);
        if let Some(current_id) = &current_id {
            let current = self.run_in(workflow, &Target::new(namespace, workflow_id, current_id))?;
            if current.state.create_request_id == request.request_id {
                let kept = self.commit(workflow, current_id, epoch, Ack::Durable);
                return Ok(Some(Applied::new(current_id.clone(), kept)));
            }
        }
        let (shared, later) = part(batches, finish_id - 1)?;
        let Some(later) = self.later(workflow, target, &base_id, later, reapply)? else { return Ok(None) };
        let fork = Fork {
            number: self.new_number(),
            identity: Identity {
                namespace: namespace.clone(),
                run_id: uuid::Uuid::new_v4().to_string(),
                // A repeated start with the same request id finds this run.
                create_request_id: request_id,
            },
            base_run_id: base_id.clone(),
            reason: request.reason.clone(),
            shared,
        };
        self.in_env(namespace, |env| {
            let mut new = Run::fork(env, fork)?;
            let new_id = new.state.run_id.clone();
            self.run_in(workflow, &Target::new(namespace, workflow_id, &base_id))?.reset_to(&new_id);
            let mut changed = vec![base_id.clone()];
            new.reapply(env, &later.events, reapply.excluded);
            if let Some(current_id) = current_id {
                let current = self.run_in(workflow, &Target::new(namespace, workflow_id, &current_id))?;
                if current.state.is_running() {
                    let last = current.end_for_reset(env, &request.reason)?;
                    if later.last_run_id == current_id {
                        new.reapply(env, &last, reapply.excluded);
                    }
                    changed.push(current_id);
                }
            }
            for (options, mask) in &operations {
                let merged = merge(new.state.options(), options, mask)?;
                new.update_options(env, &merged, "");
            }
            new.resume_after_reset(env);
            changed.dedup();
            Ok(Some(self.commit_with_new(workflow, &changed, new, epoch).map(|()| new_id)))
        })
    }

    /// Checks what is to be done with the new run.
    fn post_reset_operations(
        &self,
        namespace: &str,
        queue: &str,
        request: &ResetWorkflowExecutionRequest,
    ) -> Result<Vec<(WorkflowExecutionOptions, FieldMask)>, ServiceError> {
        let mut operations = Vec::new();
        for operation in &request.post_reset_operations {
            let update = options_update(operation)?;
            let mut options = update.workflow_execution_options.clone().unwrap_or_default();
            let mask = update.update_mask.clone().unwrap_or_default();
            check_paths(&mask)?;
            let given = options.versioning_override.take();
            options.versioning_override =
                given.map(|given| overrides::checked(given, self.limits.id_length)).transpose()?;
            self.check_pinned(namespace, queue, options.versioning_override.as_ref())?;
            operations.push((options, mask));
        }
        Ok(operations)
    }

    /// A run's history; `None` if it is not complete on disk yet.
    fn batches(&self, run: &Run) -> Result<Option<Vec<Vec<HistoryEvent>>>, ServiceError> {
        let mut batches = self.read(|sql| persist::batches(sql, run.number))?;
        batches.extend(run.memory.unwritten.iter().cloned());
        let last = batches.last().and_then(|batch| batch.last()).map_or(0, |event| event.event_id);
        Ok((last + 1 == run.state.next_event_id).then_some(batches))
    }

    /// Follows the chain to its last run, or to the first one that was deleted.
    fn later(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        target: &Target,
        base_id: &str,
        mut events: Vec<HistoryEvent>,
        reapply: Reapply,
    ) -> Result<Option<Later>, ServiceError> {
        let mut last_run_id = base_id.to_owned();
        if reapply.nothing {
            return Ok(Some(Later { events: Vec::new(), last_run_id }));
        }
        while let Some(next_id) = events.last().and_then(continued_by) {
            let next = match self.run_in(workflow, &Target { run_id: next_id.clone(), ..target.clone() }) {
                Ok(next) => next,
                Err(ServiceError::NotFound(_)) => break,
                Err(error) => return Err(error),
            };
            let Some(batches) = self.batches(next)? else { return Ok(None) };
            events.extend(batches.into_iter().flatten());
            last_run_id = next_id;
        }
        Ok(Some(Later { events, last_run_id }))
    }
}

/// Which later events are reapplied.
#[derive(Debug, Clone, Copy)]
struct Reapply {
    excluded: Excluded,
    /// Everything that can be excluded is excluded.
    nothing: bool,
}

impl Reapply {
    #[allow(deprecated, reason = "clients may still use the deprecated field")]
    fn of(request: &ResetWorkflowExecutionRequest) -> Result<Self, ServiceError> {
        use ResetReapplyExcludeType as Exclude;
        let Ok(wanted) = ResetReapplyType::try_from(request.reset_reapply_type) else {
            let unknown = request.reset_reapply_type;
            return Err(ServiceError::Internal(format!("unknown reset reapply type: {unknown}")));
        };
        let named = |kind: Exclude| request.reset_reapply_exclude_types.contains(&(kind as i32));
        let excluded = Excluded {
            signals: named(Exclude::Signal) || wanted == ResetReapplyType::None,
            nexus: named(Exclude::Nexus),
            updates: named(Exclude::Update) || matches!(wanted, ResetReapplyType::None | ResetReapplyType::Signal),
        };
        let nothing = excluded.signals && excluded.updates && excluded.nexus && named(Exclude::CancelRequest);
        Ok(Self { excluded, nothing })
    }
}

fn continued_by(end: &HistoryEvent) -> Option<String> {
    match &end.attributes {
        Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(it)) => Some(it.new_execution_run_id.clone()),
        _ => None,
    }
}

/// The only operation after a reset is a change of the options.
fn options_update(operation: &PostResetOperation) -> Result<&UpdateWorkflowOptions, ServiceError> {
    let name = match &operation.variant {
        Some(Variant::UpdateWorkflowOptions(update)) => return Ok(update),
        Some(Variant::SignalWorkflow(_)) => "*workflow.PostResetOperation_SignalWorkflow_",
        None => "<nil>",
    };
    Err(ServiceError::InvalidArgument(format!("unsupported post reset operation: {name}")))
}
