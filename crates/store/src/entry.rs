//! Events as a log stores them.

use serde_json::Value;
use windlass_core::{
    canonical,
    event::{EventBody, NewEvent},
    run::{Phase, RunStatus},
};

use crate::{Ending, Result, StoreError};

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
        let (kind, data) = event.body.split().map_err(|error| StoreError::InvalidArgument {
            argument: "an event",
            problem: format!("it cannot be written as JSON ({error}); use string keys and finite numbers"),
        })?;
        let shows = match event.body {
            EventBody::Status { status, phase } => Some((status, phase)),
            _ => None,
        };
        let ending = event.body.is_terminal().then(|| Ending::of(&data));
        Ok(Self { key: event.key.clone(), kind, data: canonical_text(&data), ending, shows })
    }

    pub(crate) fn all_of(events: &[NewEvent]) -> Result<Vec<Self>> {
        events.iter().map(Self::of).collect()
    }
}

pub(crate) fn canonical_text(value: &Value) -> String {
    // Canonical JSON is UTF-8 by construction, so nothing is ever replaced here.
    String::from_utf8_lossy(&canonical::to_bytes(value)).into_owned()
}
