//! What the tests of this crate and of others begin with.

use windlass_core::{
    envelope::Labels,
    ids::{AgentId, RunId, WorkspaceId},
};

use crate::ReservedRun;

/// A run of the workspace `acme` that was accepted and has not begun.
pub fn reserved(id: &str, input: &str) -> ReservedRun {
    ReservedRun {
        id: RunId::new(id),
        workspace: WorkspaceId::new("acme"),
        session: None,
        agent_id: AgentId::new("asked-for"),
        model_id: "script:asked-for".to_owned(),
        name: None,
        spec: None,
        metadata: Labels::new(),
        input: input.to_owned(),
        start: None,
    }
}
