//! What the journal knows of a call, who may execute it, and what became of it: the same for every adapter.

use windlass_core::{canonical::Digest, envelope::ToolOutput};

use crate::{CallClaim, CallSettlement};

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
    /// It was released before it began; a later dispatch may take it.
    Released,
    /// It began, and its outcome is unknown.
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

    /// How a call whose activity was lost ended, and the state that this dispatch leaves it in, if it changes.
    pub(crate) fn settle(self, dispatch: u32) -> (CallSettlement, Option<&'static str>) {
        match self.state {
            State::Finished { output, .. } => (CallSettlement::Finished(output), None),
            State::Released => (CallSettlement::NeverStarted, (self.dispatch < dispatch).then_some("released")),
            // A settlement that was overtaken by a later dispatch must not disturb that dispatch's executor.
            State::Started => (CallSettlement::Unknown, (self.dispatch <= dispatch).then_some("unknown")),
            State::Unknown => (CallSettlement::Unknown, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::envelope::CallStatus;

    use super::*;

    #[test]
    fn a_settlement_says_what_the_journal_knows_and_disturbs_no_later_dispatch() {
        let output = || Box::new(ToolOutput::new(CallStatus::Ok));
        let settled = |dispatch, state| CallRow { dispatch, state }.settle(2);
        let finished = State::Finished { output: output(), result: None };
        assert_eq!(settled(1, finished), (CallSettlement::Finished(output()), None));
        assert_eq!(settled(1, State::Released), (CallSettlement::NeverStarted, Some("released")));
        assert_eq!(settled(2, State::Released), (CallSettlement::NeverStarted, None));
        assert_eq!(settled(2, State::Started), (CallSettlement::Unknown, Some("unknown")));
        assert_eq!(settled(3, State::Started), (CallSettlement::Unknown, None));
        assert_eq!(settled(1, State::Unknown), (CallSettlement::Unknown, None));
    }
}
