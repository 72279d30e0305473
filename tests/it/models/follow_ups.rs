//! The requests after an answer: to the provider that gave it, which gets its own items back, and to every other one.

use std::sync::Arc;

use windlass_core::{
    ids::CallId,
    message::{Content, Message, Part, Role},
};
use windlass_models::{ModelRequest, ModelResponse};

use super::{Play, formats::Format, oracle::ToCheck};

/// The next request of each format, if there was an answer. Each has a name for people.
pub(super) fn requests(play: &Play<'_>) -> Vec<(String, ToCheck)> {
    let Ok(response) = &play.answer else { return Vec::new() };
    let to = |format: Format| {
        let name = format!("{} after {} {}", format.name(), play.format.name(), play.cassette.case);
        let written = format.write(&next(play, response, format));
        let body = written.unwrap_or_else(|error| panic!("{name}: {error}")).body;
        (name, ToCheck { format: format.name(), body })
    };
    Format::ALL.map(to).into()
}

/// The conversation goes on as the run does it: calls get the run's own ids and all of them a result.
fn next(play: &Play<'_>, response: &ModelResponse, format: Format) -> ModelRequest {
    let mut answer = response.parts.clone();
    let mut results = Vec::new();
    for part in &mut answer {
        if let Content::ToolUse { id, .. } = &mut part.content {
            *id = CallId::new(format!("call-7-{}", results.len()));
            results.push(result(id.clone(), results.len()));
        }
    }
    results.push(Part::text("Go on."));
    let mut messages = (*play.request.messages).clone();
    messages.extend([Message::new(Role::Assistant, answer), Message::new(Role::User, results)]);
    if format != play.format {
        // OpenAI has two formats; an item of one is no item of the other.
        let parts = messages.iter_mut().flat_map(|message| &mut message.parts);
        for item in parts.filter_map(|part| part.provider_item.as_mut()) {
            item.provider = format!("{}-elsewhere", item.provider);
        }
    }
    let mut parameters = play.request.parameters.clone();
    if format != play.format {
        // Options are for one format.
        parameters.provider_options.clear();
    }
    ModelRequest {
        parameters,
        provider: format.provider().to_owned(),
        model: if format == play.format { play.request.model.clone() } else { format.model().to_owned() },
        messages: Arc::new(messages),
        ..play.request.clone()
    }
}

/// A result in one of the forms that results have.
fn result(tool_use_id: CallId, n: usize) -> Part {
    let (content, parts) = match n % 3 {
        0 => (serde_json::json!({"celsius": -4.5}), Vec::new()),
        1 => (serde_json::json!("It is cold."), Vec::new()),
        _ => (serde_json::Value::Null, vec![Part::text("seen")]),
    };
    Content::ToolResult { tool_use_id, content: content.into(), parts, is_error: n == 1 }.into()
}
