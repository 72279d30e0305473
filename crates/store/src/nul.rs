//! Refuses NUL characters in text that goes into columns as it is.
//!
//! Postgres takes no NUL character in a text. So that both adapters say the same, neither does. JSON is not concerned:
//! there it is escaped.

use crate::{NewApiKey, NewPushConfig, NewSession, ReservedRun, Result, StoreError};

pub(crate) fn session(new: &NewSession) -> Result<()> {
    check("name", new.name.as_deref())?;
    check("metadata", new.metadata.iter().flat_map(|(key, value)| [key.as_str(), value]))
}

pub(crate) fn run(new: &ReservedRun) -> Result<()> {
    check("name", new.name.as_deref())?;
    check("modelId", [new.model_id.as_str()])?;
    check("metadata", new.metadata.iter().flat_map(|(key, value)| [key.as_str(), value]))
}

pub(crate) fn key(new: &NewApiKey) -> Result<()> {
    check("name", [new.name.as_str(), &new.prefix, &new.id])
}

pub(crate) fn note(key: &str, text: &str) -> Result<()> {
    check("a note", [key, text])
}

pub(crate) fn push_config(new: &NewPushConfig) -> Result<()> {
    check("the push config", [new.id.as_str(), &new.version])
}

fn check<'t>(argument: &'static str, texts: impl IntoIterator<Item = &'t str>) -> Result<()> {
    if texts.into_iter().any(|text| text.contains('\0')) {
        let problem = "it contains a NUL character; leave that out".to_owned();
        return Err(StoreError::InvalidArgument { argument, problem });
    }
    Ok(())
}
