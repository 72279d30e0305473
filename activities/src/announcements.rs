//! What events of a run cause beside its log: grants are stored, and a sub-agent's questions are shown in its root's log.

use temporalio_sdk::activities::ActivityError;
use windlass_core::{
    awaits::id_seen_from,
    event::{EventBody, NewEvent},
    ids::{AgentId, RunId},
};
use windlass_store::{RunRow, StoreError};

use crate::{RunActivities, failures};

impl RunActivities {
    /// Called before the events are in the log, so that a retry repeats it. Every effect is idempotent.
    pub(crate) async fn announce(&self, run: &RunId, events: &[NewEvent]) -> Result<(), ActivityError> {
        // Only child runs have a `/` in their ids.
        let is_child = run.as_str().contains('/');
        let events: Vec<&NewEvent> = events.iter().filter(|event| concerns_others(&event.body, is_child)).collect();
        if events.is_empty() {
            return Ok(());
        }
        let Some(row) = self.store.run(run).await.map_err(|error| failures::store(&error))? else { return Ok(()) };
        let mut seen_from_root = Vec::new();
        let lineage = if row.parent.is_some() { Some(self.lineage(&row).await?) } else { None };
        for event in events {
            if let EventBody::ApprovalGranted { grant } = &event.body {
                let kept = self.store.put_grant(&row.workspace, grant.clone()).await;
                kept.map_err(|error| failures::store(&error))?;
            } else if let Some((root, path)) = &lineage {
                let body = seen_by_root(&event.body, root, run, path);
                seen_from_root.extend(body.map(|body| NewEvent::new(format!("child/{run}/{}", event.key), body)));
            }
        }
        match lineage {
            Some((root, _)) if !seen_from_root.is_empty() => {
                match self.store.append_events(&root, seen_from_root).await {
                    // The root has ended, and its child runs are about to.
                    Err(StoreError::RunClosed { .. }) => Ok(()),
                    appended => appended.map(|_| ()).map_err(|error| failures::store(&error)),
                }
            }
            _ => Ok(()),
        }
    }

    /// The root of a child run, and the agents from the root's to the child's.
    async fn lineage(&self, row: &RunRow) -> Result<(RunId, Vec<AgentId>), ActivityError> {
        let (mut root, mut path, mut parent) = (row.id.clone(), vec![row.agent_id.clone()], row.parent.clone());
        while let Some(run) = parent {
            let above = self.store.run(&run).await.map_err(|error| failures::store(&error))?;
            parent = above.as_ref().and_then(|row| row.parent.clone());
            path.extend(above.map(|row| row.agent_id));
            root = run;
        }
        path.reverse();
        Ok((root, path))
    }
}

fn concerns_others(body: &EventBody, is_child: bool) -> bool {
    match body {
        EventBody::ApprovalGranted { .. } => true,
        EventBody::AwaitOpened { .. } | EventBody::AwaitClosed { .. } => is_child,
        _ => false,
    }
}

fn seen_by_root(body: &EventBody, root: &RunId, run: &RunId, path: &[AgentId]) -> Option<EventBody> {
    match body {
        EventBody::AwaitOpened { item } if item.asks_a_person() => {
            let item = item.clone().seen_from(root, run, path.to_vec())?;
            Some(EventBody::ChildAwaitOpened { item })
        }
        EventBody::AwaitClosed { await_id, outcome, actor, .. } => {
            let await_id = id_seen_from(root, run, await_id)?;
            Some(EventBody::ChildAwaitClosed { await_id, outcome: *outcome, actor: actor.clone() })
        }
        _ => None,
    }
}
