//! What the filter of a list demands of a row: the same for every adapter, which only spells it in SQL.

use windlass_core::{
    envelope::Labels,
    ids::{AgentId, RunId, SessionId, WorkspaceId},
    time::Timestamp,
};

use crate::{RunFilter, SessionFilter, SessionStatus};

pub(crate) enum Condition<'f> {
    Is {
        column: &'static str,
        value: &'f str,
    },
    IsAny {
        column: &'static str,
        values: Vec<&'f str>,
    },
    IsNull {
        column: &'static str,
    },
    IsNotNull {
        column: &'static str,
    },
    Since {
        column: &'static str,
        at: Timestamp,
    },
    /// The metadata has each of these as a string.
    HasLabels(&'f Labels),
}

impl RunFilter {
    pub(crate) fn conditions(&self) -> Vec<Condition<'_>> {
        let wanted = [
            ("workspace", self.workspace.as_ref().map(WorkspaceId::as_str)),
            ("session", self.session.as_ref().map(SessionId::as_str)),
            ("agent_id", self.agent_id.as_ref().map(AgentId::as_str)),
            ("model_id", self.model_id.as_deref()),
            ("parent", self.parent.as_ref().map(RunId::as_str)),
        ];
        let mut conditions: Vec<_> = wanted
            .into_iter()
            .filter_map(|(column, value)| value.map(|value| Condition::Is { column, value }))
            .collect();
        if !self.statuses.is_empty() {
            let values = self.statuses.iter().map(|status| status.as_str()).collect();
            conditions.push(Condition::IsAny { column: "status", values });
        }
        conditions.extend(any_agent("root_agent", self.root_agents.as_deref()));
        conditions.extend(self.roots.then_some(Condition::IsNull { column: "parent" }));
        conditions.extend(self.updated_since.map(|at| Condition::Since { column: "updated_at", at }));
        conditions.extend(labels(&self.metadata));
        conditions
    }
}

impl SessionFilter {
    pub(crate) fn conditions(&self) -> Vec<Condition<'_>> {
        let column = "ended_at";
        let status = self.status.map(|status| match status {
            SessionStatus::Active => Condition::IsNull { column },
            SessionStatus::Ended => Condition::IsNotNull { column },
        });
        let workspace = Condition::Is { column: "workspace", value: self.workspace.as_str() };
        let agents = any_agent("agent", self.agents.as_deref());
        [workspace].into_iter().chain(status).chain(agents).chain(labels(&self.metadata)).collect()
    }
}

fn any_agent<'f>(column: &'static str, wanted: Option<&'f [AgentId]>) -> Option<Condition<'f>> {
    wanted.map(|agents| Condition::IsAny { column, values: agents.iter().map(AgentId::as_str).collect() })
}

fn labels(wanted: &Labels) -> Option<Condition<'_>> {
    (!wanted.is_empty()).then_some(Condition::HasLabels(wanted))
}
