//! What the journal knows of a call, and who may execute it: the same for every adapter.

use windlass_core::{canonical::Digest, envelope::ToolOutput};

use crate::CallClaim;

pub(crate) struct CallRow {
    pub(crate) dispatch: u32,
    pub(crate) state: State,
}

pub(crate) enum State {
    /// An executor has it.
    Started,
    Finished {
        output: Box<ToolOutput>,
        result: Option<Digest>,
    },
    /// It was given back before anybody began; a later dispatch may take it.
    Released,
    /// It began and nobody knows how it ended.
    Unknown,
}

impl CallRow {
    /// Whether a call that the journal knows may be executed.
    pub(crate) fn claim(self, dispatch: u32, idempotent: bool) -> CallClaim {
        match self.state {
            State::Finished { output, .. } => CallClaim::Finished(output),
            State::Unknown => CallClaim::Fenced,
            State::Started | State::Released if self.dispatch > dispatch => CallClaim::Fenced,
            State::Released if self.dispatch == dispatch => CallClaim::Fenced,
            State::Started if !idempotent => CallClaim::Unknown,
            State::Started => CallClaim::Execute { again: true },
            State::Released => CallClaim::Execute { again: false },
        }
    }
}
