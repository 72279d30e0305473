//! Request bodies of the agent-runs protocol: parsing, limits, and resolving them into agent definitions.
//!
//! Nothing here does IO. The first problem of a body is an [`Invalid`] that names its field. Unknown keys
//! are ignored, as the protocol demands. [`definition`] resolves a [`Spec`] into an agent definition; [`session`] merges
//! the overrides of a message with the session's spec.

mod agent;
mod attachments;
mod conversation;
mod definition;
mod fields;
mod guards;
mod invalid;
mod metadata;
mod secrets;
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
    secrets::{SplitSecret, split},
    session::{Accepted, Kept, effective, parse_run, parse_session},
    tool_result::{Outcome, ToolResult},
    tools::Toolbox,
    whole::Start,
};

#[cfg(test)]
mod tests;
