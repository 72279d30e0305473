//! The workflow and its activities: a step is an activity, an answer a signal.

use std::{sync::Arc, time::Duration};

use peer::{Call, Probe, Step, Work, plan, result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use temporalio_workflow::{
    ActivityExecutionError, ActivityOptions, SyncWorkflowContext, WorkflowContext, WorkflowResult, workflows::join_all,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// What a plan gets.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Turn {
    work: Work,
    turn: u32,
}

#[workflow]
#[derive(Debug)]
pub struct Bench {
    probe: Probe,
    answer: Option<String>,
}

impl Bench {
    pub fn new(probe: Probe) -> Self {
        Self { probe, answer: None }
    }
}

#[workflow_methods(factory_only)]
impl Bench {
    #[run(name = "bench")]
    pub async fn run(ctx: &mut WorkflowContext<Self>, work: Work) -> WorkflowResult<u64> {
        let mut conversation: Vec<Value> = Vec::new();
        for turn in 0..work.turns {
            let calls = planned(ctx, Turn { work, turn }).await?;
            let look_ups = calls.into_iter().map(|call| ctx.execute_activity(Steps::lookup, call, options()));
            for found in join_all(look_ups).await {
                conversation.push(found?);
            }
        }
        if work.asks {
            planned(ctx, Turn { work, turn: 0 }).await?;
            ctx.state(|bench| bench.probe.waits(ctx.workflow_id()));
            ctx.wait_condition(|bench| bench.answer.is_some()).await?;
            conversation.push(ctx.state(|bench| json!(bench.answer)));
        }
        planned(ctx, Turn { work, turn: work.turns }).await?;
        Ok(conversation.len() as u64)
    }

    #[signal(name = "answer")]
    pub fn answer(&mut self, _ctx: &mut SyncWorkflowContext<Self>, answer: String) {
        self.answer = Some(answer);
    }
}

async fn planned(ctx: &WorkflowContext<Bench>, turn: Turn) -> Result<Vec<Call>, ActivityExecutionError> {
    ctx.execute_activity(Steps::plan, turn, options()).await
}

fn options() -> ActivityOptions {
    ActivityOptions::start_to_close_timeout(PATIENCE)
}

#[derive(Debug)]
pub struct Steps {
    probe: Probe,
}

impl Steps {
    pub fn new(probe: Probe) -> Self {
        Self { probe }
    }
}

#[activities]
impl Steps {
    #[activity(name = "plan")]
    pub async fn plan(self: Arc<Self>, _ctx: ActivityContext, turn: Turn) -> Result<Vec<Call>, ActivityError> {
        self.probe.begins(Step::Plan);
        Ok(plan(turn.work, turn.turn))
    }

    #[activity(name = "lookup")]
    pub async fn lookup(self: Arc<Self>, ctx: ActivityContext, call: Call) -> Result<Value, ActivityError> {
        self.probe.begins(Step::Call);
        let run = ctx.info().workflow_id.as_deref().unwrap_or_default();
        Ok(result(run, &call))
    }
}
