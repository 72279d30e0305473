//! Search attributes: what a run can be found by in any Temporal tool.

use temporalio_common::search_attributes::{SearchAttributeKey, SearchAttributeUpdate, SearchAttributes};
use windlass_core::{
    envelope::RunInput,
    run::{Phase, RunStatus},
};

pub const AGENT: SearchAttributeKey<String> = SearchAttributeKey::keyword("WindlassAgent");
pub const SESSION: SearchAttributeKey<String> = SearchAttributeKey::keyword("WindlassSession");
pub const WORKSPACE: SearchAttributeKey<String> = SearchAttributeKey::keyword("WindlassWorkspace");
pub const STATUS: SearchAttributeKey<String> = SearchAttributeKey::keyword("WindlassStatus");
pub const PHASE: SearchAttributeKey<String> = SearchAttributeKey::keyword("WindlassPhase");

/// The memo that says which installation a run belongs to.
pub const INSTALLATION: &str = "windlass.installation";

/// All of them, as a server must know them; each is of type Keyword.
pub const NAMES: [&str; 5] =
    ["WindlassAgent", "WindlassSession", "WindlassWorkspace", "WindlassStatus", "WindlassPhase"];

/// What a run starts with.
pub fn of_start(input: &RunInput) -> SearchAttributes {
    SearchAttributes::new(at_start(input))
}

/// The same, to set on a run that was started without them.
pub(crate) fn at_start(input: &RunInput) -> Vec<SearchAttributeUpdate> {
    let mut updates = vec![
        AGENT.value_set(input.agent_id.to_string()),
        WORKSPACE.value_set(input.workspace().to_string()),
        STATUS.value_set(RunStatus::Running.as_str().to_owned()),
        PHASE.value_set(Phase::Planning.as_str().to_owned()),
    ];
    if let Some(session) = &input.session_id {
        updates.push(SESSION.value_set(session.to_string()));
    }
    updates
}
