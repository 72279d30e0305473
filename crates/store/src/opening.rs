//! Runs on their way into a store.

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
        let Some(known) = run.messages.len().checked_sub(run.new_messages) else {
            return Err(StoreError::InvalidArgument {
                argument: "new_messages",
                problem: format!("{} of {} messages cannot be new", run.new_messages, run.messages.len()),
            });
        };
        let first_question = run.messages[known..].iter().find(|message| message.role == Role::User);
        let input = first_question.map(Message::plain_text).unwrap_or_default();
        Ok(Self {
            messages: Body::all_of(&run.messages)?,
            started: Entry::of(&run.started)?,
            input_preview: page::preview(&input),
            run,
        })
    }
}
