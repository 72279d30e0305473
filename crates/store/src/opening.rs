//! A run to open, with its encoded bodies.

use windlass_core::message::{Message, Role};

use crate::{NewRun, Result, StoreError, body::Body, entry::Entry, page};

pub(crate) struct Opening {
    pub(crate) run: NewRun,
    pub(crate) messages: Vec<Body>,
    pub(crate) started: Entry,
    pub(crate) input_preview: String,
}

impl Opening {
    pub(crate) fn of(run: NewRun) -> Result<Self> {
        if run.continues_session && run.session.is_none() {
            return Err(StoreError::InvalidArgument {
                argument: "continues_session",
                problem: "the run has no session; give it one".to_owned(),
            });
        }
        let first_question = run.messages.iter().find(|message| message.role == Role::User);
        let input = first_question.map(Message::plain_text).unwrap_or_default();
        Ok(Self {
            messages: Body::all_of(&run.messages)?,
            started: Entry::of(&run.started)?,
            input_preview: page::preview(&input),
            run,
        })
    }

    /// How many messages the run begins with, after a conversation of `prefix_len` messages.
    pub(crate) fn len(&self, prefix_len: u64) -> u64 {
        prefix_len + self.messages.len() as u64
    }
}
