//! Signals with unknown names. The SDK drops them; this interceptor writes a `signal_rejected` event to the run's log.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use temporalio_common::protos::coresdk::workflow_activation::{WorkflowActivation, workflow_activation_job::Variant};
use temporalio_sdk::interceptors::WorkerInterceptor;
use windlass_core::{
    event::{EventBody, NewEvent},
    ids::RunId,
};
use windlass_store::{Store, StoreError};
use windlass_workflows::{contract::RUN_WORKFLOW, signals};

/// Characters of the signal's name in the log.
const NAME_CHARS: usize = 200;

pub(crate) struct UnknownSignals {
    store: Arc<dyn Store>,
    /// The cached runs, by the run id of their current workflow execution.
    cached: Mutex<HashMap<String, Cached>>,
}

struct Cached {
    run: RunId,
    /// Events that are not written yet: the run is not open, or the store was unavailable.
    unlogged: Vec<NewEvent>,
}

impl UnknownSignals {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, cached: Mutex::default() }
    }

    /// Tracks the cached runs. Returns the events to write.
    fn note(&self, activation: &WorkflowActivation) -> Option<(RunId, Vec<NewEvent>)> {
        let execution = &activation.run_id;
        let mut cached = self.lock();
        for job in &activation.jobs {
            match &job.variant {
                Some(Variant::InitializeWorkflow(begun)) if begun.workflow_type == RUN_WORKFLOW => {
                    let run = Cached { run: RunId::new(&begun.workflow_id), unlogged: Vec::new() };
                    cached.insert(execution.clone(), run);
                }
                Some(Variant::SignalWorkflow(signal)) if !signals::is_known(&signal.signal_name) => {
                    if let Some(run) = cached.get_mut(execution) {
                        run.unlogged.push(rejection(execution, signal.originating_event_id, &signal.signal_name));
                    }
                }
                Some(Variant::RemoveFromCache(_)) => {
                    cached.remove(execution);
                }
                _ => {}
            }
        }
        let run = cached.get(execution).filter(|run| !run.unlogged.is_empty())?;
        Some((run.run.clone(), run.unlogged.clone()))
    }

    /// Whether the events are written. After a replay the signals come again; the store ignores events with known keys.
    async fn log(&self, run: &RunId, events: Vec<NewEvent>) -> Result<bool, StoreError> {
        // The run has no log before it is opened.
        let open = self.store.run(run).await?.is_some_and(|row| row.agent_digest.is_some());
        if open {
            self.store.append_events(run, events).await?;
        }
        Ok(open)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Cached>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait(?Send)]
impl WorkerInterceptor for UnknownSignals {
    async fn on_workflow_activation(&self, activation: &WorkflowActivation) -> Result<(), anyhow::Error> {
        let Some((run, events)) = self.note(activation) else { return Ok(()) };
        let done = self.log(&run, events).await.unwrap_or_else(|error| {
            tracing::warn!(%run, %error, "a signal with an unknown name could not be logged");
            !error.retryable()
        });
        if done && let Some(run) = self.lock().get_mut(&activation.run_id) {
            run.unlogged.clear();
        }
        Ok(())
    }
}

fn rejection(execution: &str, event_id: i64, name: &str) -> NewEvent {
    let signal: String = name.chars().take(NAME_CHARS).collect();
    let message = format!("a run has no signal of this name; it has {}", signals::OWN.join(", "));
    NewEvent::new(format!("signal:{execution}:{event_id}"), EventBody::SignalRejected { signal, message })
}
