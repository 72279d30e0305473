//! Events as a log stores them.

use windlass_core::{
    event::{EventBody, NewEvent},
    run::{Phase, RunStatus},
};

use crate::{Ending, Result, StoreError, ending};

/// How the keys of events begin that a workflow causes; see `windlass_core::run::Outgoing`.
const OF_WORKFLOWS: &str = "w/";

pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) kind: &'static str,
    pub(crate) data: String,
    /// What the run's row keeps of it, if it is a terminal one.
    pub(crate) ending: Option<Ending>,
    /// What the run's row shows from now on.
    pub(crate) shows: Option<(RunStatus, Phase)>,
}

impl Entry {
    pub(crate) fn of(event: &NewEvent) -> Result<Self> {
        let shows = match event.body {
            EventBody::Status { status, phase } => Some((status, phase)),
            _ => None,
        };
        let ending = match event.body.is_terminal() {
            true => Some(ending::of(&event.body.split().map_err(unwritable)?.1)),
            false => None,
        };
        let data = event.body.data_text().map_err(unwritable)?;
        Ok(Self { key: event.key.clone(), kind: event.body.kind(), data, ending, shows })
    }

    /// Whether an event of this type and data, which has the same key, is this one. The text of an event that a workflow
    /// causes comes from the build that executes it. If the run moves to another build and the event is delivered again,
    /// its text may differ; the first one stays.
    pub(crate) fn is(&self, kind: &str, data: &str) -> bool {
        self.kind == kind && (self.data == data || self.key.starts_with(OF_WORKFLOWS))
    }

    pub(crate) fn all_of(events: &[NewEvent]) -> Result<Vec<Self>> {
        events.iter().map(Self::of).collect()
    }
}

fn unwritable(error: serde_json::Error) -> StoreError {
    StoreError::InvalidArgument {
        argument: "an event",
        problem: format!("it cannot be written as JSON ({error}); use string keys and finite numbers"),
    }
}
