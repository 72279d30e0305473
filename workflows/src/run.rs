//! The workflow: its messages. What it does is in `drive.rs`.

use temporalio_common::data_converters::RawValue;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_workflow::{SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult};
use windlass_core::{
    awaits::AwaitView,
    envelope::{
        Answer, AnswerReply, AnswerStatus, CallAnswer, ClarificationAnswer, ConfirmationDecision, PauseRequest,
        ResumeRequest, RunInput, RunOutput, RunStatusView, SteerRequest, ToolResultsSet,
    },
    ids::RunId,
    run::Run,
    time::Timestamp,
};

use crate::{
    drive,
    signals::{self, Dialect, decode},
};

/// An agent run.
#[workflow]
#[derive(Debug)]
pub struct RunWorkflow {
    pub(crate) stage: Stage,
    /// Counts messages from outside, so that a waiting loop notices them.
    pub(crate) revision: u64,
    /// The workflow's time at the last message or step; queries have no clock.
    pub(crate) now: Timestamp,
}

/// A run has a state once its agent is known.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per workflow, never moved")]
pub(crate) enum Stage {
    Opening { input: Box<RunInput>, early: Vec<EarlySignal> },
    Open(Run),
}

/// A signal that came before the run was open; it is applied as soon as it is.
#[derive(Debug)]
pub(crate) struct EarlySignal {
    kind: SignalKind,
    payload: RawValue,
    dialect: Dialect,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum SignalKind {
    Pause,
    Resume,
    Steer,
    Clarification,
    ToolResults,
    Confirmation,
}

#[workflow_methods]
impl RunWorkflow {
    #[init]
    fn new(_ctx: &WorkflowContextView, input: RunInput) -> Self {
        let stage = match Run::resume(input) {
            Ok(run) => Stage::Open(run),
            Err(input) => Stage::Opening { input, early: Vec::new() },
        };
        Self { stage, revision: 0, now: Timestamp(0) }
    }

    #[run(name = crate::contract::RUN_WORKFLOW)]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<RunOutput> {
        drive::drive(ctx).await
    }

    #[query(name = signals::STATUS)]
    pub fn status(&self, _ctx: &WorkflowContextView) -> Option<RunStatusView> {
        self.opened().map(|run| run.view(self.now))
    }

    #[query(name = signals::AWAITS)]
    pub fn awaits(&self, _ctx: &WorkflowContextView) -> Vec<AwaitView> {
        self.opened().map(|run| run.state().awaits.pending().to_vec()).unwrap_or_default()
    }

    // No validators: the SDK would decode an update for its validator and again for its handler, and a payload that does
    // not fit gets the same reply from the handler as any other invalid answer.

    #[update(name = signals::ANSWER)]
    pub fn answer(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) -> AnswerReply {
        self.touch(ctx);
        let now = self.now;
        match (decode::<Answer>(&payload, Dialect::Own), &mut self.stage) {
            (Ok(answer), Stage::Open(run)) => run.answer(answer, now),
            (Ok(_), Stage::Opening { .. }) => AnswerReply::new(AnswerStatus::Unknown, "the run is only starting"),
            (Err(why), _) => AnswerReply::new(AnswerStatus::Invalid, why),
        }
    }

    #[update(name = signals::TOOL_RESULT)]
    pub fn tool_result(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) -> AnswerReply {
        self.touch(ctx);
        let now = self.now;
        match (decode::<CallAnswer>(&payload, Dialect::Own), &mut self.stage) {
            (Ok(answer), Stage::Open(run)) => run.answer_call(answer, now),
            (Ok(_), Stage::Opening { .. }) => AnswerReply::new(AnswerStatus::Unknown, "the run is only starting"),
            (Err(why), _) => AnswerReply::new(AnswerStatus::Invalid, why),
        }
    }

    #[signal(name = signals::PAUSE)]
    pub fn pause(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::Pause, payload, Dialect::Own);
    }

    #[signal(name = signals::RESUME)]
    pub fn resume(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::Resume, payload, Dialect::Own);
    }

    #[signal(name = signals::STEER)]
    pub fn steer(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::Steer, payload, Dialect::Own);
    }

    #[signal(name = signals::CLARIFICATION)]
    pub fn provide_clarification(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::Clarification, payload, Dialect::Own);
    }

    #[signal(name = signals::TOOL_RESULTS)]
    pub fn provide_tool_results(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::ToolResults, payload, Dialect::Own);
    }

    #[signal(name = signals::CONFIRMATION)]
    pub fn provide_confirmation(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::Confirmation, payload, Dialect::Own);
    }

    // loom-mcp's names.

    #[signal(name = "loom_mcp.runtime.pause")]
    pub fn loom_mcp_pause(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::Pause, payload, Dialect::LoomMcp);
    }

    #[signal(name = "loom_mcp.runtime.resume")]
    pub fn loom_mcp_resume(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::Resume, payload, Dialect::LoomMcp);
    }

    #[signal(name = "loom_mcp.runtime.provide.clarification")]
    pub fn loom_mcp_clarification(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::Clarification, payload, Dialect::LoomMcp);
    }

    #[signal(name = "loom_mcp.runtime.provide.toolresults")]
    pub fn loom_mcp_tool_results(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::ToolResults, payload, Dialect::LoomMcp);
    }

    #[signal(name = "loom_mcp.runtime.provide.confirmation")]
    pub fn loom_mcp_confirmation(&mut self, ctx: &mut SyncWorkflowContext<Self>, payload: RawValue) {
        self.receive(ctx, SignalKind::Confirmation, payload, Dialect::LoomMcp);
    }
}

impl RunWorkflow {
    fn opened(&self) -> Option<&Run> {
        match &self.stage {
            Stage::Open(run) => Some(run),
            Stage::Opening { .. } => None,
        }
    }

    fn touch(&mut self, ctx: &SyncWorkflowContext<Self>) {
        self.revision += 1;
        self.now = drive::timestamp(ctx.workflow_time());
    }

    fn receive(&mut self, ctx: &SyncWorkflowContext<Self>, kind: SignalKind, payload: RawValue, dialect: Dialect) {
        self.touch(ctx);
        let now = self.now;
        match &mut self.stage {
            Stage::Open(run) => apply(run, kind, &payload, dialect, now),
            Stage::Opening { early, .. } => early.push(EarlySignal { kind, payload, dialect }),
        }
    }

    /// The run is open: from now on it has a state, and what came early is applied.
    pub(crate) fn opened_as(&mut self, mut run: Run) {
        if let Stage::Opening { early, .. } = &mut self.stage {
            for EarlySignal { kind, payload, dialect } in std::mem::take(early) {
                apply(&mut run, kind, &payload, dialect, self.now);
            }
        }
        self.stage = Stage::Open(run);
    }
}

fn apply(run: &mut Run, kind: SignalKind, payload: &RawValue, dialect: Dialect, now: Timestamp) {
    let handled = match kind {
        SignalKind::Pause => decode::<PauseRequest>(payload, dialect).map(|request| run.pause(request, now)),
        SignalKind::Resume => decode::<ResumeRequest>(payload, dialect).map(|request| run.resume_from_pause(request)),
        SignalKind::Steer => decode::<SteerRequest>(payload, dialect).map(|request| run.steer(request)),
        SignalKind::Clarification => decode::<ClarificationAnswer>(payload, dialect)
            .and_then(|signal| answer(run, signal.run_id.clone(), signal.into(), now)),
        SignalKind::ToolResults => decode::<ToolResultsSet>(payload, dialect)
            .and_then(|signal| answer(run, signal.run_id.clone(), signal.into(), now)),
        SignalKind::Confirmation => decode::<ConfirmationDecision>(payload, dialect).and_then(|mut signal| {
            if dialect == Dialect::LoomMcp && signal.digest.is_none() {
                signal.digest = run.digest_shown_by(&signal.id);
            }
            answer(run, signal.run_id.clone(), signal.into(), now)
        }),
    };
    if let Err(why) = handled {
        run.reject_signal(kind.name(), &why);
    }
}

fn answer(run: &mut Run, addressee: Option<RunId>, answer: Answer, now: Timestamp) -> Result<(), String> {
    run.check_addressee(addressee.as_ref())?;
    run.answer(answer, now);
    Ok(())
}

impl SignalKind {
    fn name(self) -> &'static str {
        match self {
            Self::Pause => signals::PAUSE,
            Self::Resume => signals::RESUME,
            Self::Steer => signals::STEER,
            Self::Clarification => signals::CLARIFICATION,
            Self::ToolResults => signals::TOOL_RESULTS,
            Self::Confirmation => signals::CONFIRMATION,
        }
    }
}
