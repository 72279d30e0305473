//! Requests about Nexus: endpoints, and tasks of workers that handle operations.

mod endpoints;
mod tasks;

pub(crate) use self::tasks::{CALLBACK_TOKEN, SYSTEM_CALLBACK};
