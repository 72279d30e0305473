//! Awaits of sub-agents, as the root run shows them: its owner answers them without knowing of child runs.

use serde::{Deserialize, Serialize};

use super::{AwaitKind, AwaitView};
use crate::ids::{AgentId, AwaitId, RunId};

/// Where an await of a sub-agent is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildAwait {
    /// The run that waits.
    pub run_id: RunId,
    /// The agents from the root's to the one that asks.
    pub path: Vec<AgentId>,
}

/// Between the path of a child run below the root and the id of its await.
const BELOW: char = ':';

impl AwaitView {
    /// Whether a person answers it. Results of external tools come from programs.
    pub fn asks_a_person(&self) -> bool {
        self.kind != AwaitKind::ExternalTools
    }

    /// The await of a child run as its root shows it: its id says where it is. `None` if the run is not below the root.
    pub fn seen_from(mut self, root: &RunId, run: &RunId, path: Vec<AgentId>) -> Option<Self> {
        self.id = id_seen_from(root, run, &self.id)?;
        self.child = Some(ChildAwait { run_id: run.clone(), path });
        Some(self)
    }
}

/// The id of a child run's await as its root shows it.
pub fn id_seen_from(root: &RunId, run: &RunId, id: &AwaitId) -> Option<AwaitId> {
    let below = run.as_str().strip_prefix(root.as_str())?.strip_prefix('/')?;
    Some(AwaitId::new(format!("{below}{BELOW}{id}")))
}

/// The run that an await's id means, and its id there: the run itself, or a child run.
pub fn addressed(run: &RunId, id: &AwaitId) -> (RunId, AwaitId) {
    match id.as_str().rsplit_once(BELOW) {
        Some((below, own)) => (RunId::new(format!("{run}/{below}")), AwaitId::new(own)),
        None => (run.clone(), id.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_the_root_shows_leads_to_the_child_run_and_back() {
        let root = RunId::new("acme~run-1");
        let cases = [
            ("acme~run-1/call-0-0", "call-0-0:await-1"),
            ("acme~run-1/call-0-0/call-2-1", "call-0-0/call-2-1:await-1"),
        ];
        for (run, shown) in cases {
            let (run, own) = (RunId::new(run), AwaitId::new("await-1"));
            let id = id_seen_from(&root, &run, &own).unwrap();
            assert_eq!(id.as_str(), shown);
            assert_eq!(addressed(&root, &id), (run, own));
            assert!(AwaitId::parse(shown).is_ok(), "edges take it");
        }
        assert_eq!(addressed(&root, &"await-1".into()), (root.clone(), "await-1".into()));
        for elsewhere in ["acme~run-1", "acme~run-11/call-0-0", "other"] {
            assert_eq!(id_seen_from(&root, &elsewhere.into(), &"await-1".into()), None);
        }
    }
}
