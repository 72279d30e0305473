//! A task as the run's log tells it, event by event. Pure.

use a2a::{Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent};
use windlass_core::{
    awaits::AwaitView,
    event::{Event, EventBody},
    ids::AwaitId,
    run::RunStatus,
    time::Timestamp,
};

use super::task::{Ending, Ids, artifact, open_status, wants_input};

/// What the log says so far.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    ids: Ids,
    status: RunStatus,
    awaits: Vec<AwaitView>,
    /// The time of the last event.
    at: Timestamp,
    draft: Option<Draft>,
    ending: Option<Ending>,
}

/// The text that the model has written in one attempt of a turn. The next turn, or another attempt, replaces it.
#[derive(Debug, Clone, PartialEq)]
struct Draft {
    turn: u32,
    attempt: u32,
    text: String,
}

impl Progress {
    /// A run whose log is empty.
    pub(crate) fn new(ids: Ids, created_at: Timestamp) -> Self {
        Self { ids, status: RunStatus::Queued, awaits: Vec::new(), at: created_at, draft: None, ending: None }
    }

    /// Takes the next event of the log and returns the updates that it causes.
    pub(crate) fn take(&mut self, event: &Event) -> Vec<StreamResponse> {
        self.at = event.at;
        if let Some(ending) = Ending::of(&self.ids, event) {
            return self.end(ending);
        }
        let before = self.asked();
        match event.body() {
            Ok(EventBody::Started { .. }) => self.status = RunStatus::Running,
            Ok(EventBody::Status { status, .. }) if !status.is_terminal() => self.status = status,
            Ok(EventBody::AwaitOpened { item } | EventBody::ChildAwaitOpened { item }) => {
                self.awaits.retain(|open| open.id != item.id);
                self.awaits.push(item);
            }
            Ok(EventBody::AwaitClosed { await_id, .. } | EventBody::ChildAwaitClosed { await_id, .. }) => {
                self.answered(&await_id);
            }
            Ok(EventBody::AssistantDelta { text, turn, attempt, .. }) => return vec![self.write(text, turn, attempt)],
            Ok(EventBody::TurnRestarted { .. }) => self.draft = None,
            _ => {}
        }
        if self.asked() == before { Vec::new() } else { vec![self.update(self.status())] }
    }

    /// The await has its answer, although the log may not say so yet.
    pub(crate) fn answered(&mut self, answered: &AwaitId) {
        self.awaits.retain(|open| open.id != *answered);
    }

    /// The open awaits, whose large arguments are not in the log.
    pub(crate) fn awaits_mut(&mut self) -> &mut [AwaitView] {
        &mut self.awaits
    }

    /// The task as it is now.
    pub(crate) fn task(&self) -> Task {
        let draft = self.draft.as_ref().map(|draft| artifact(vec![Part::text(&draft.text)]));
        let artifact = self.ending.as_ref().map_or(draft, |ending| ending.artifact.clone());
        self.ids.task(self.status(), artifact.map(|artifact| vec![artifact]))
    }

    pub(crate) fn status(&self) -> TaskStatus {
        match &self.ending {
            Some(ending) => ending.status.clone(),
            None => open_status(&self.ids, self.status, &self.awaits, self.at),
        }
    }

    /// What a status update is sent for: the state, and the awaits that need input.
    fn asked(&self) -> (TaskState, Vec<AwaitId>) {
        let state = self.status().state;
        let waiting = state == TaskState::InputRequired;
        let asking = self.awaits.iter().filter(|item| waiting && wants_input(item));
        (state, asking.map(|item| item.id.clone()).collect())
    }

    fn write(&mut self, text: String, turn: u32, attempt: u32) -> StreamResponse {
        let chunk = artifact(vec![Part::text(&text)]);
        match &mut self.draft {
            Some(draft) if (draft.turn, draft.attempt) == (turn, attempt) => {
                draft.text.push_str(&text);
                self.chunk(chunk, true, false)
            }
            _ => {
                self.draft = Some(Draft { turn, attempt, text });
                self.chunk(chunk, false, false)
            }
        }
    }

    /// The last chunk has the whole answer and replaces the draft.
    fn end(&mut self, ending: Ending) -> Vec<StreamResponse> {
        let answer = ending.artifact.clone().map(|artifact| self.chunk(artifact, false, true));
        let status = self.update(ending.status.clone());
        self.ending = Some(ending);
        answer.into_iter().chain([status]).collect()
    }

    fn chunk(&self, artifact: a2a::Artifact, append: bool, last: bool) -> StreamResponse {
        StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: self.ids.task.clone(),
            context_id: self.ids.context.clone(),
            artifact,
            append: Some(append),
            last_chunk: Some(last),
            metadata: None,
        })
    }

    fn update(&self, status: TaskStatus) -> StreamResponse {
        StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: self.ids.task.clone(),
            context_id: self.ids.context.clone(),
            status,
            metadata: None,
        })
    }
}

#[cfg(test)]
mod tests;
