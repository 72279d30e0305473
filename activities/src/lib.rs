//! The Temporal activities of a run. They perform all its IO, over the ports (store, models, tools).
//!
//! One module per activity. An activity may be repeated at any time: each begins by asking the store what is already
//! done. Temporal retries; an activity only reports whether a failure is retryable. Decisions about the run
//! are in `windlass_core::run`.

mod announcements;
mod approvals;
mod bodies;
mod catalog;
mod conversations;
mod deadline;
mod definitions;
mod deltas;
mod failures;
mod follow_heartbeats;
mod heartbeat;
mod log_writer;
mod model_call;
mod open;
mod owner;
mod plan;
mod progress;
mod push;
mod recent_bodies;
mod record;
mod redaction;
mod results;
mod secrets;
mod tool;
mod toolsets;
mod turn;

use std::sync::Arc;

use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    envelope::{
        EndPushInput, EndPushOutput, FollowInput, FollowOutput, LoadInput, LoadOutput, OpenInput, OpenOutput,
        PlanActivityInput, PlanActivityOutput, PushInput, PushOutput, ReceiveInput, RecordInput, RecordOutput,
        SettleInput, SettleOutput, SettlePlanInput, SettlePlanOutput, ToolInput, ToolOutput,
    },
    ids::RunId,
};
use windlass_models::ModelRegistry;
use windlass_store::{Store, Vault};
use windlass_tools::Toolbox;
use windlass_workflows::{contract, wire::Wire};

pub use self::{
    catalog::AgentCatalog,
    follow_heartbeats::Heartbeats,
    owner::Owners,
    push::{Renderer, Updates},
    redaction::Redaction,
    secrets::RunSecrets,
};
use self::{
    conversations::Conversations, definitions::Definitions, follow_heartbeats::Following, log_writer::EventLog,
    owner::Own, push::Pushing, recent_bodies::RecentBodies,
};

/// The ports behind the activities.
pub struct RunActivities {
    store: Arc<dyn Store>,
    /// Absent if this worker has no key for secrets.
    vault: Option<Vault>,
    models: ModelRegistry,
    tools: Toolbox,
    agents: AgentCatalog,
    conversations: Conversations,
    definitions: Definitions,
    recent_bodies: RecentBodies,
    owners: Arc<dyn Owners>,
    own: Own,
    pushing: Pushing,
    following: Following,
    /// Fires when this worker shuts down. Activities cancelled by that are continued by another worker.
    draining: CancellationToken,
}

impl std::fmt::Debug for RunActivities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunActivities").finish_non_exhaustive()
    }
}

impl RunActivities {
    pub fn new(
        store: Arc<dyn Store>,
        vault: Option<Vault>,
        models: ModelRegistry,
        tools: Toolbox,
        agents: AgentCatalog,
        owners: Arc<dyn Owners>,
        draining: CancellationToken,
    ) -> Self {
        let (conversations, definitions, recent_bodies, own, pushing, following) = Default::default();
        Self {
            store,
            vault,
            models,
            tools,
            agents,
            conversations,
            definitions,
            recent_bodies,
            owners,
            own,
            pushing,
            following,
            draining,
        }
    }

    /// With how updates of runs are written for receivers of push notifications.
    #[must_use]
    pub fn with_renderer(mut self, renderer: Renderer) -> Self {
        self.pushing.renderer = Some(renderer);
        self
    }

    /// With how heartbeats of activities on other task queues are read.
    #[must_use]
    pub fn with_heartbeats(mut self, heartbeats: Arc<dyn Heartbeats>) -> Self {
        self.following.heartbeats = Some(heartbeats);
        self
    }

    fn log(&self, run: &RunId) -> EventLog {
        EventLog { store: Arc::clone(&self.store), run: run.clone() }
    }
}

#[activities]
impl RunActivities {
    #[activity(definition = contract::Open)]
    pub async fn open(
        self: Arc<Self>,
        _ctx: ActivityContext,
        Wire(input): Wire<OpenInput>,
    ) -> Result<Wire<OpenOutput>, ActivityError> {
        let run = input.run.run_id.clone();
        self.judged(&run, self.open_run(input).await).await.map(Wire)
    }

    #[activity(definition = contract::Plan)]
    pub async fn plan(
        self: Arc<Self>,
        ctx: ActivityContext,
        Wire(input): Wire<PlanActivityInput>,
    ) -> Result<Wire<PlanActivityOutput>, ActivityError> {
        let run = input.run_id.clone();
        self.judged(&run, self.plan_turn(ctx, input).await).await.map(Wire)
    }

    #[activity(definition = contract::Tool)]
    pub async fn tool(
        self: Arc<Self>,
        ctx: ActivityContext,
        Wire(input): Wire<ToolInput>,
    ) -> Result<Wire<ToolOutput>, ActivityError> {
        let run = input.run_id.clone();
        self.judged(&run, self.execute_call(ctx, input).await).await.map(Wire)
    }

    #[activity(definition = contract::Record)]
    pub async fn record(
        self: Arc<Self>,
        _ctx: ActivityContext,
        Wire(input): Wire<RecordInput>,
    ) -> Result<Wire<RecordOutput>, ActivityError> {
        let run = input.run_id.clone();
        self.judged(&run, self.record_outbox(input).await).await.map(Wire)
    }

    #[activity(definition = contract::SettlePlan)]
    pub async fn settle_plan(
        self: Arc<Self>,
        _ctx: ActivityContext,
        Wire(input): Wire<SettlePlanInput>,
    ) -> Result<Wire<SettlePlanOutput>, ActivityError> {
        let run = input.run_id.clone();
        self.judged(&run, self.settle_turn(input).await).await.map(Wire)
    }

    #[activity(definition = contract::Settle)]
    pub async fn settle(
        self: Arc<Self>,
        _ctx: ActivityContext,
        Wire(input): Wire<SettleInput>,
    ) -> Result<Wire<SettleOutput>, ActivityError> {
        let run = input.run_id.clone();
        self.judged(&run, self.settle_call(input).await).await.map(Wire)
    }

    #[activity(definition = contract::Load)]
    pub async fn load(
        self: Arc<Self>,
        _ctx: ActivityContext,
        Wire(input): Wire<LoadInput>,
    ) -> Result<Wire<LoadOutput>, ActivityError> {
        let LoadInput { v, run_id, stored } = input;
        let loaded = self.stored(stored).await.map(|text| LoadOutput { v, text });
        self.judged(&run_id, loaded).await.map(Wire)
    }

    #[activity(definition = contract::Receive)]
    pub async fn receive(
        self: Arc<Self>,
        _ctx: ActivityContext,
        Wire(input): Wire<ReceiveInput>,
    ) -> Result<Wire<ToolOutput>, ActivityError> {
        let run = input.run_id.clone();
        self.judged(&run, self.receive_result(input).await).await.map(Wire)
    }

    #[activity(definition = contract::FollowHeartbeats)]
    pub async fn follow_heartbeats(
        self: Arc<Self>,
        ctx: ActivityContext,
        Wire(input): Wire<FollowInput>,
    ) -> Result<Wire<FollowOutput>, ActivityError> {
        self.follow_call(ctx, input).await.map(Wire)
    }

    #[activity(definition = contract::Push)]
    pub async fn push(
        self: Arc<Self>,
        ctx: ActivityContext,
        Wire(input): Wire<PushInput>,
    ) -> Result<Wire<PushOutput>, ActivityError> {
        self.push_update(ctx, input).await.map(Wire)
    }

    #[activity(definition = contract::EndPush)]
    pub async fn end_push(
        self: Arc<Self>,
        _ctx: ActivityContext,
        Wire(input): Wire<EndPushInput>,
    ) -> Result<Wire<EndPushOutput>, ActivityError> {
        self.end_config(input).await.map(Wire)
    }
}
