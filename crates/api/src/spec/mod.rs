//! What a caller sends, checked: every limit of the agent-runs protocol, and what becomes of it.
//!
//! Nothing here does IO. A body is JSON; the first thing wrong with it is an [`Invalid`] that names its field. Keys that
//! nobody knows are ignored. A [`Spec`] is turned into an agent definition in [`definition`]; what a message of a session
//! changes is laid over the session's spec in [`session`].

mod agent;
mod attachments;
mod conversation;
mod definition;
mod fields;
mod guards;
mod invalid;
mod metadata;
mod session;
mod settings;
mod tool_result;
mod tools;
mod whole;

pub(crate) use self::guards::add_default_budgets;
pub use self::{
    agent::Spec,
    attachments::Attachment,
    conversation::{ATTACHMENTS, Conversation},
    definition::{SpecError, Surroundings, UnknownModel},
    invalid::Invalid,
    metadata::{Metadata, check_key as check_metadata_key},
    session::{Accepted, Kept, effective, parse_run, parse_session},
    tool_result::{Outcome, ToolResult},
    tools::Toolbox,
    whole::Start,
};

#[cfg(test)]
mod tests;
