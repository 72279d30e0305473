//! The model and the tool of the benchmark: the scripted model and a lookup, which also note when they were called.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::oneshot;
use windlass_core::{
    agent::{ToolSource, ToolSpec},
    canonical::CanonicalJson,
    envelope::ToolErrorKind,
    ids::ToolName,
};
use windlass_models::{DeltaSink, Model, ModelError, ModelRequest, ModelResponse, script::ScriptModel};
use windlass_tools::{CallContext, Tool, ToolFailure, ToolSuccess};

use super::work::{TOOL, Work};

/// When steps began, in the order in which they did.
#[derive(Debug, Default)]
pub(super) struct Beats(Mutex<Vec<Beat>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beat {
    pub(super) step: Step,
    pub(super) at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Plan,
    Call,
}

impl Beats {
    fn note(&self, step: Step) {
        let at = Instant::now();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Beat { step, at });
    }

    /// What was noted since the last time.
    pub(super) fn take(&self) -> Vec<Beat> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// From the start of each step to the start of the next. Parallel calls are one step: the run continues when the last of
/// them has ended, and the gaps between their starts are not waiting time.
pub(super) fn gaps(beats: &[Beat]) -> Vec<Duration> {
    let mut steps: Vec<Beat> = beats.to_vec();
    steps.dedup_by(|later, earlier| later.step == Step::Call && earlier.step == Step::Call);
    steps.windows(2).map(|pair| pair[1].at - pair[0].at).collect()
}

/// From the beginning of each plan to the beginning of the next.
pub(super) fn turns(beats: &[Beat]) -> Vec<Duration> {
    let plans: Vec<Instant> = beats.iter().filter(|beat| beat.step == Step::Plan).map(|beat| beat.at).collect();
    plans.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Every execution of a call, one line each. A line is one `write` to a file opened for appending, so it is there even
/// if the process is killed right after it.
#[derive(Debug)]
pub(super) struct Ledger {
    file: File,
    calls: AtomicU64,
    /// Told when so many calls have begun.
    halfway: Mutex<Option<(u64, oneshot::Sender<()>)>>,
}

impl Ledger {
    pub(super) fn open(path: &Path, halfway: Option<(u64, oneshot::Sender<()>)>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file, calls: AtomicU64::new(0), halfway: Mutex::new(halfway) })
    }

    fn note(&self, context: &CallContext) -> io::Result<()> {
        (&self.file).write_all(format!("{} {}\n", context.run_id, context.call_id).as_bytes())?;
        let begun = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let mut halfway = self.halfway.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, told)) = halfway.take_if(|(calls, _)| begun >= *calls) {
            let _ = told.send(());
        }
        Ok(())
    }
}

/// Who wants to know when steps begin.
#[derive(Debug, Clone, Default)]
pub(super) struct Probe {
    pub(super) beats: Option<Arc<Beats>>,
    pub(super) ledger: Option<Arc<Ledger>>,
}

impl Probe {
    fn begins(&self, step: Step) {
        if let Some(beats) = &self.beats {
            beats.note(step);
        }
    }
}

/// The scripted model.
pub(super) struct ProbedModel {
    pub(super) scripts: ScriptModel,
    pub(super) probe: Probe,
}

#[async_trait]
impl Model for ProbedModel {
    async fn respond(&self, request: ModelRequest, sink: &mut dyn DeltaSink) -> Result<ModelResponse, ModelError> {
        self.probe.begins(Step::Plan);
        self.scripts.respond(request, sink).await
    }
}

/// Returns about 1 KB at once.
pub(super) struct Lookup {
    pub(super) work: Work,
    pub(super) probe: Probe,
}

#[async_trait]
impl Tool for Lookup {
    fn spec(&self) -> ToolSpec {
        let mut spec = ToolSpec::new(ToolName::new(TOOL), ToolSource::Builtin);
        spec.description = "Looks something up.".to_owned();
        spec.idempotent = !self.work.once;
        spec.input_schema = Some(json!({
            "type": "object",
            "properties": {"turn": {"type": "integer"}, "call": {"type": "integer"}},
            "required": ["turn", "call"],
            "additionalProperties": false,
        }));
        spec
    }

    async fn call(&self, context: CallContext, _args: CanonicalJson) -> Result<ToolSuccess, ToolFailure> {
        self.probe.begins(Step::Call);
        if let Some(ledger) = &self.probe.ledger {
            ledger.note(&context).map_err(|error| {
                ToolFailure::new(ToolErrorKind::Internal, format!("the ledger takes no more lines: {error}"))
            })?;
        }
        Ok(ToolSuccess::new(self.work.result(&context.run_id, &context.call_id)))
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use windlass_core::{
        ids::{CallId, RunId, WorkspaceId},
        secret::SecretRef,
    };
    use windlass_tools::{ProgressSink, SecretSource};

    use super::*;

    fn beats(steps: &[(Step, u64)]) -> Vec<Beat> {
        let begun = Instant::now();
        steps.iter().map(|(step, ms)| Beat { step: *step, at: begun + Duration::from_millis(*ms) }).collect()
    }

    struct NoSecrets;

    #[async_trait]
    impl SecretSource for NoSecrets {
        async fn secret(&self, reference: &SecretRef) -> Result<SecretString, ToolFailure> {
            Err(ToolFailure::new(ToolErrorKind::ToolUnavailable, reference.to_string()))
        }
    }

    fn context(call: &str) -> CallContext {
        CallContext {
            workspace: WorkspaceId::new("w"),
            session_id: None,
            run_id: RunId::new("run-1"),
            call_id: CallId::new(call),
            attempt: 1,
            deadline: None,
            progress: ProgressSink::none(),
            secrets: Arc::new(NoSecrets),
            cancel: Default::default(),
            draining: Default::default(),
            resumption: None,
        }
    }

    #[test]
    fn a_step_lasts_until_the_next_begins() {
        let run = beats(&[(Step::Plan, 0), (Step::Call, 2), (Step::Plan, 5), (Step::Call, 6), (Step::Plan, 9)]);
        assert_eq!(gaps(&run), [2, 3, 1, 3].map(Duration::from_millis));
        assert_eq!(turns(&run), [5, 4].map(Duration::from_millis));
    }

    #[test]
    fn parallel_calls_are_one_step() {
        let run = beats(&[(Step::Plan, 0), (Step::Call, 2), (Step::Call, 3), (Step::Plan, 7)]);
        assert_eq!(gaps(&run), [2, 5].map(Duration::from_millis));
        assert_eq!(gaps(&[]), []);
    }

    #[tokio::test]
    async fn the_ledger_has_a_line_for_every_execution_and_tells_at_halfway() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ledger");
        let (told, mut halfway) = oneshot::channel();
        let ledger = Ledger::open(&path, Some((2, told))).unwrap();
        let probe = Probe { beats: None, ledger: Some(Arc::new(ledger)) };
        let lookup = Lookup { work: Work { turns: 1, calls: 2, once: false, seed: 1 }, probe };
        lookup.call(context("call-0-0"), json!({}).into()).await.unwrap();
        assert!(halfway.try_recv().is_err());
        lookup.call(context("call-0-0"), json!({}).into()).await.unwrap();
        assert!(halfway.try_recv().is_ok());
        assert_eq!(std::fs::read_to_string(path).unwrap(), "run-1 call-0-0\nrun-1 call-0-0\n");
    }
}
