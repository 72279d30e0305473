//! Revisions before 2026-07-28: the handshake, sessions, and messages that belong to a call in another request.
//!
//! A session is a text that the server signs and the client repeats; the server stores nothing. With it a call can be
//! cancelled and a person can be asked during a call, whichever server gets the message. Clients that do not send it
//! back can still list and call tools.

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use windlass_core::ids::RunId;

use super::{
    answering, call,
    era::{Client, LEGACY},
    message::{Failure, Request},
    reply::{Context, Reply, server_info},
    state::{Question, Session},
};
use crate::error::ApiError;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

pub(super) const INSTRUCTIONS: &str =
    "Each tool is an agent. It gets a message and answers when it is done. A session continues a conversation.";

/// The session of a request; an error if it is not one of this key.
pub(super) async fn session(context: &Context, headers: &HeaderMap) -> Result<Option<Session>, ApiError> {
    let Some(sealed) = headers.get(SESSION) else { return Ok(None) };
    let key = context.state_key().await?;
    let session = sealed.to_str().ok().and_then(|sealed| key.open::<Session>(&context.caller, sealed));
    // The revision demands this status; the client then starts a new session.
    session.map(Some).ok_or_else(|| ApiError::not_found("MCP session"))
}

/// `initialize`: the response and the session.
pub(super) async fn initialize(context: &Context, request: &Request) -> Result<Response, Failure> {
    let asked = request.required_text("protocolVersion")?;
    let version = LEGACY.into_iter().find(|known| *known == asked).unwrap_or(LEGACY[0]);
    let client = Client::of(&request.params["capabilities"]);
    let session = Session { id: uuid::Uuid::new_v4().simple().to_string(), elicitation: client.elicitation };
    let sealed = context.state_key().await?.seal(&context.caller, &session);
    let result = json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    });
    let mut response = Reply::Result(result).respond(context, &request.id).await;
    if let Ok(value) = HeaderValue::try_from(sealed) {
        response.headers_mut().insert(SESSION, value);
    }
    Ok(response)
}

/// A notification: only that a call is cancelled matters. One that does not say which call, or whose call is unknown or
/// has ended, is ignored, as the protocol demands.
pub(super) async fn notified(context: &Context, method: &str, params: &Value) -> Result<(), Failure> {
    if method != "notifications/cancelled" {
        return Ok(());
    }
    let Some(chosen) = context.run_of_request(&params["requestId"]) else { return Ok(()) };
    let Ok(run) = RunId::scoped(&context.caller.workspace, &chosen) else { return Ok(()) };
    let reason = params["reason"].as_str().filter(|reason| !reason.is_empty()).unwrap_or("cancelled by the MCP client");
    let reason: String = reason.chars().take(500).collect();
    match call::cancel(context, &run, &reason).await {
        Err(error) if error.code == "not_found" => Ok(()),
        cancelled => Ok(cancelled?),
    }
}

/// The client's reply to a question on the stream of a call. The run decides whether the answer is valid.
pub(super) async fn replied(context: &Context, id: &Value, result: Option<&Value>) -> Result<(), Failure> {
    let key = context.state_key().await?;
    let question = id.as_str().and_then(|id| key.open::<Question>(&context.caller, id));
    let Some(Question { run, key }) = question else {
        return Err(Failure::params("id: this server did not send this request to this key"));
    };
    // A client that cannot ask replies with an error; the run goes on waiting.
    let Some(response) = result else { return Ok(()) };
    let responses = json!({key.as_str(): response});
    let answered = answering::give(&context.app, &context.caller, &run, |asked| asked == key, &responses).await?;
    if answered.is_empty() {
        return Err(Failure::params("result: is not what was asked for; send an action and the content of the form"));
    }
    Ok(())
}
