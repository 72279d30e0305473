//! Answers of a person to the awaits of a run.

use std::collections::HashSet;

use serde_json::Value;
use windlass_core::{
    awaits::AwaitView,
    envelope::AnswerBody,
    ids::{AwaitId, RunId},
};
use windlass_ops::OpsError;

use super::{elicit, message::Failure};
use crate::{
    app::App,
    auth::Caller,
    error::Result,
    routes::{control, runs},
};

/// The open awaits of a run; none if it has just ended or has not started.
pub(super) async fn pending(app: &App, caller: &Caller, run: &RunId) -> Result<Vec<AwaitView>> {
    match app.ops_for(caller).pending(run).await {
        Ok(items) => Ok(items),
        Err(OpsError::NotFound { .. }) => {
            runs::end_if_gone(app, caller, run.as_str()).await?;
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    }
}

/// Gives the run the responses to what was asked, by their keys, and returns the awaits that are answered now. Responses
/// with other keys are ignored. A form that was not filled in as it asks stays open.
pub(super) async fn give(
    app: &App,
    caller: &Caller,
    run: &RunId,
    asked: impl Fn(&str) -> bool,
    responses: &Value,
) -> std::result::Result<HashSet<AwaitId>, Failure> {
    let mut answered = HashSet::new();
    let Some(responses) = responses.as_object().filter(|responses| !responses.is_empty()) else { return Ok(answered) };
    let items = pending(app, caller, run).await?;
    for (key, response) in responses.iter().filter(|(key, _)| asked(key)) {
        let (id, shown) = elicit::parse_key(key);
        let Some(item) = items.iter().find(|item| item.id.as_str() == id) else {
            // It was answered before, or has expired. The log may not say so yet.
            answered.insert(AwaitId::new(id));
            continue;
        };
        if let Some(body) = elicit::answer(item, shown, response) {
            give_one(app, caller, run, item, body).await?;
            answered.insert(item.id.clone());
        }
    }
    Ok(answered)
}

/// Answers one await, if the caller may.
pub(super) async fn give_one(
    app: &App,
    caller: &Caller,
    run: &RunId,
    item: &AwaitView,
    body: AnswerBody,
) -> Result<()> {
    caller.require(elicit::scope(item.kind))?;
    let body = match body {
        AnswerBody::ToolResults { results } => {
            AnswerBody::ToolResults { results: control::stored(app, results).await? }
        }
        body => body,
    };
    match control::reply(app, caller, run.as_str(), (item.id.to_string(), None), body).await {
        // Another answer was faster, or the run has ended: the log says what became of it.
        Err(error) if ["await_closed", "run_terminal"].contains(&error.code) => Ok(()),
        replied => replied.map(|_| ()),
    }
}
