//! Replies to requests: one JSON object, or an event stream that ends with it.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderValue, header};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    call::{Call, Step},
    era::{Era, SERVER_KEY},
    message::{self, Failure},
    state::{Session, StateKey},
};
use crate::{
    app::App,
    auth::Caller,
    error::{ApiError, Result},
    frames,
};

/// Who asks, and how.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) app: Arc<App>,
    pub(super) caller: Caller,
    pub(super) era: Era,
    /// Of clients of older revisions.
    pub(super) session: Option<Session>,
    /// The client accepts event streams.
    pub(super) streaming: bool,
}

impl Context {
    pub(super) async fn state_key(&self) -> Result<Arc<StateKey>> {
        let made = self
            .app
            .mcp_key
            .get_or_try_init(async || Ok::<_, ApiError>(Arc::new(StateKey::of(self.app.store()).await?)));
        made.await.cloned()
    }

    pub(super) fn can_elicit(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.elicitation)
    }

    /// A complete result in the form of the revision.
    pub(super) fn complete(&self, mut result: Value) -> Value {
        if self.era == Era::Legacy {
            return result;
        }
        if result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        result["_meta"][SERVER_KEY] = server_info();
        result
    }
}

pub(super) fn server_info() -> Value {
    json!({"name": "windlass", "version": env!("CARGO_PKG_VERSION")})
}

/// The reply to a request.
pub(super) enum Reply {
    Result(Value),
    /// The result of a call, when its run ends.
    Live(Box<Call>),
    Stream(Body),
}

impl Reply {
    pub(super) async fn respond(self, context: &Context, id: &Value) -> Response {
        match self {
            Self::Result(result) => json_response(context, id, result),
            Self::Live(call) => live(context, id, *call).await,
            Self::Stream(body) => event_stream(body),
        }
    }
}

fn json_response(context: &Context, id: &Value, result: Value) -> Response {
    Json(message::result(id, &context.complete(result))).into_response()
}

/// A call that ends soon is answered with one object, as is one of a client that reads no streams. Otherwise an event
/// stream keeps the connection open.
async fn live(context: &Context, id: &Value, mut call: Call) -> Response {
    let patience = context.streaming.then_some(context.app.limits.keep_alive);
    let draining = context.app.draining.clone();
    let step = draining.run_until_cancelled(async {
        match patience {
            Some(patience) => timeout(patience, call.step()).await.ok(),
            None => Some(call.step().await),
        }
    });
    let first = match step.await {
        None => {
            call.detach();
            let message = "the server is about to end, and the run continues; call again with the same idempotency key, or look at the run";
            return Failure::from(ApiError::unavailable(message)).respond(id);
        }
        Some(Some(Ok(Step::Result(result)))) => return json_response(context, id, result),
        Some(Some(Ok(Step::Message(message)))) => event(&message),
        Some(Some(Err(error))) => {
            call.detach();
            return Failure::from(ApiError::from(error)).respond(id);
        }
        Some(None) => keep_alive(),
    };
    let rest = Live { context: context.clone(), id: id.clone(), call: Some(call) };
    let frames = stream::unfold((Some(first), rest), |(first, mut rest)| async move {
        match first {
            Some(first) => Some((Ok(first), (None, rest))),
            None => rest.next().await.map(|frame| (frame, (None, rest))),
        }
    });
    event_stream(Body::from_stream(frames))
}

struct Live {
    context: Context,
    id: Value,
    /// `None` after the result.
    call: Option<Call>,
}

/// Ends the connection without a proper end of the body.
#[derive(Debug, thiserror::Error)]
#[error("the stream was cut off; the run continues")]
pub(super) struct CutOff;

impl Live {
    async fn next(&mut self) -> Option<std::result::Result<Bytes, CutOff>> {
        let call = self.call.as_mut()?;
        let draining = self.context.app.draining.clone();
        let step = draining.run_until_cancelled(timeout(self.context.app.limits.keep_alive, call.step())).await;
        Some(match step {
            Some(Err(_)) => Ok(keep_alive()),
            Some(Ok(Ok(Step::Message(message)))) => Ok(event(&message)),
            Some(Ok(Ok(Step::Result(result)))) => {
                self.call = None;
                Ok(event(&message::result(&self.id, &self.context.complete(result))))
            }
            cut => {
                if let Some(Ok(Err(error))) = cut {
                    tracing::warn!(run = %call.run(), %error, "stream cut off");
                }
                call.detach();
                self.call = None;
                Err(CutOff)
            }
        })
    }
}

pub(super) fn event(message: &Value) -> Bytes {
    // JSON escapes line breaks, so the message is one line.
    Bytes::from(format!("event: message\ndata: {message}\n\n"))
}

pub(super) fn keep_alive() -> Bytes {
    Bytes::from_static(frames::keep_alive().as_bytes())
}

pub(super) fn body(frames: impl Stream<Item = std::result::Result<Bytes, CutOff>> + Send + 'static) -> Body {
    Body::from_stream(frames)
}

fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let fixed = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
