//! Events as a log stores them.

use windlass_core::{
    event::{EventBody, NewEvent},
    run::{Phase, RunStatus},
};

use crate::{Ending, Result, StoreError, ending};

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
