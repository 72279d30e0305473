//! The endpoint: authentication, the checks that browsers make necessary, and the methods.

use std::sync::Arc;

use axum::{
    extract::{Path, Request as HttpRequest, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode, Uri, header};
use serde_json::{Value, json};
use windlass_core::limits;

use super::{
    call,
    era::{Era, SUPPORTED, TASKS},
    legacy, listen,
    message::{Failure, Incoming, Request},
    reply::{Context, Reply},
    tasks, tools,
};
use crate::{
    app::App,
    auth::{Caller, Scope},
    body,
    error::{ApiError, Result},
    guard,
    rate::Bucket,
};

/// How long clients may keep the list of tools: as long as a server may run with other agents after a restart.
const LIST_TTL_MS: u64 = 60_000;

/// `POST /mcp`: the workspace is that of the API key.
pub(crate) async fn post(State(app): State<Arc<App>>, request: HttpRequest) -> Response {
    enter(app, None, request).await.unwrap_or_else(|error| error.into_response())
}

/// `POST /api/v1/workspaces/{slug}/mcp`.
pub(crate) async fn post_in_workspace(
    State(app): State<Arc<App>>,
    Path(slug): Path<String>,
    request: HttpRequest,
) -> Response {
    enter(app, Some(&slug), request).await.unwrap_or_else(|error| error.into_response())
}

async fn enter(app: Arc<App>, slug: Option<&str>, request: HttpRequest) -> Result<Response> {
    check_origin(request.headers())?;
    let caller = Caller::of(request.headers(), app.store(), (app.clock)()).await?;
    if let Some(slug) = slug {
        guard::check_workspace(&caller, slug)?;
    }
    tracing::Span::current().record("key", &caller.key_id);
    let (parts, body) = request.into_parts();
    let streaming = accepts_streams(&parts.headers);
    let context = Context { app: Arc::clone(&app), caller, era: Era::Legacy, session: None, streaming };
    let message = match body::json(&app, body, limits::BODY_BYTES).await {
        Ok(body) => Incoming::parse(body),
        // JSON-RPC has its own code for this.
        Err(error) if error.status == StatusCode::BAD_REQUEST => {
            let parse_error = Failure { code: -32700, ..Failure::invalid_request(error.message) };
            return Ok(parse_error.respond(&Value::Null));
        }
        Err(error) => return Err(error),
    };
    Ok(match message {
        Ok(Incoming::Request(request)) => answer(context, &parts.headers, request).await,
        Ok(Incoming::Notification { method, params }) => {
            let context = in_session(context, &parts.headers).await?;
            let demand = match method.as_str() {
                "notifications/cancelled" => (Some(Scope::RunsWrite), Bucket::Lifecycle),
                _ => (None, Bucket::Lifecycle),
            };
            taken(&context, demand, Box::pin(legacy::notified(&context, &method, &params))).await
        }
        Ok(Incoming::Reply { id, result }) => {
            let context = in_session(context, &parts.headers).await?;
            taken(&context, (None, Bucket::Lifecycle), Box::pin(legacy::replied(&context, &id, result.as_ref()))).await
        }
        Err((id, problem)) => Failure::invalid_request(problem).respond(&id),
    })
}

/// A page of a browser can send requests to a server on this machine, and with DNS rebinding read the responses. So
/// requests of pages are served only if the page is itself from this machine.
fn check_origin(headers: &HeaderMap) -> Result<()> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let uri = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    if ["localhost", "127.0.0.1", "[::1]"].contains(&host) {
        return Ok(());
    }
    let message = "requests of web pages from other hosts are not served here; call the endpoint from a program";
    Err(ApiError::new(StatusCode::FORBIDDEN, "origin_not_allowed", message))
}

fn accepts_streams(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/event-stream"))
}

async fn in_session(mut context: Context, headers: &HeaderMap) -> Result<Context> {
    context.session = legacy::session(&context, headers).await?;
    Ok(context)
}

/// The response to a message that gets no result.
async fn taken(
    context: &Context,
    demand: (Option<Scope>, Bucket),
    work: impl Future<Output = std::result::Result<(), Failure>>,
) -> Response {
    let work = async {
        work.await?;
        Ok(StatusCode::ACCEPTED.into_response())
    };
    match admitted(context, demand, work).await {
        Ok(response) => response,
        Err(failure) if failure.status == StatusCode::OK => {
            Failure { status: StatusCode::BAD_REQUEST, ..failure }.respond(&Value::Null)
        }
        Err(failure) => failure.respond(&Value::Null),
    }
}

async fn answer(mut context: Context, headers: &HeaderMap, request: Request) -> Response {
    context.era = match Era::of(headers, &request) {
        Ok(era) => era,
        Err(failure) => return failure.respond(&request.id),
    };
    if context.era == Era::Legacy && request.method != "initialize" {
        context = match in_session(context, headers).await {
            Ok(context) => context,
            Err(error) => return error.into_response(),
        };
    }
    let done = match demand(context.era, &request) {
        Some(demand) => admitted(&context, demand, Box::pin(handled(&context, &request))).await,
        None => Err(Failure::method_not_found(&request.method)),
    };
    match done {
        Ok(Handled::Response(response)) => response,
        // The run is followed without a permit, because most of the time it is idle.
        Ok(Handled::Reply(reply)) => reply.respond(&context, &request.id).await,
        // Clients of older revisions expect errors of methods with status 200.
        Err(failure) if context.era == Era::Legacy && failure.status.is_client_error() && failure.code != -32603 => {
            Failure { status: StatusCode::OK, ..failure }.respond(&request.id)
        }
        Err(failure) => failure.respond(&request.id),
    }
}

/// The scope and the rate limit of a method; `None` if the revision does not have it.
fn demand(era: Era, request: &Request) -> Option<(Option<Scope>, Bucket)> {
    let modern = era != Era::Legacy;
    Some(match request.method.as_str() {
        "server/discover" if modern => (None, Bucket::Reads),
        "initialize" | "ping" if !modern => (None, Bucket::Reads),
        "tools/list" => (Some(Scope::ModelsRead), Bucket::Reads),
        "tools/call" if request.params.get("requestState").is_some() => (Some(Scope::RunsWrite), Bucket::Lifecycle),
        "tools/call" => (Some(Scope::RunsWrite), Bucket::Starts),
        "tasks/get" if modern => (Some(Scope::RunsRead), Bucket::Reads),
        // The scope depends on what is answered.
        "tasks/update" if modern => (None, Bucket::Lifecycle),
        "tasks/cancel" if modern => (Some(Scope::RunsWrite), Bucket::Lifecycle),
        "subscriptions/listen" if modern => (Some(Scope::RunsRead), Bucket::Streams),
        _ => return None,
    })
}

/// Does the work if the key may, often enough not, and while the server has room.
async fn admitted<T>(
    context: &Context,
    (scope, bucket): (Option<Scope>, Bucket),
    work: impl Future<Output = std::result::Result<T, Failure>>,
) -> std::result::Result<T, Failure> {
    if let Some(scope) = scope {
        context.caller.require(scope)?;
    }
    let allowance = context.app.take(&context.caller.key_id, bucket);
    if let Some(allowance) = allowance.filter(|allowance| !allowance.allowed) {
        return Err(guard::too_often(bucket, allowance).into());
    }
    let place = guard::place(&context.app, bucket)?;
    let done = work.await;
    drop(place);
    done
}

enum Handled {
    Reply(Reply),
    Response(Response),
}

async fn handled(context: &Context, request: &Request) -> std::result::Result<Handled, Failure> {
    let reply = match request.method.as_str() {
        "initialize" => return legacy::initialize(context, request).await.map(Handled::Response),
        "server/discover" => Reply::Result(discovered()),
        "ping" => Reply::Result(json!({})),
        "tools/list" => Reply::Result(listed(context, request)?),
        "tools/call" => Box::pin(call::call(context, request)).await?,
        "tasks/get" => tasks::get(context, request).await?,
        "tasks/update" => tasks::update(context, request).await?,
        "tasks/cancel" => tasks::cancel(context, request).await?,
        "subscriptions/listen" => listen::listen(context, request).await?,
        method => return Err(Failure::method_not_found(method)),
    };
    Ok(Handled::Reply(reply))
}

fn discovered() -> Value {
    json!({
        "supportedVersions": SUPPORTED,
        "capabilities": {"tools": {}, "extensions": {TASKS: {}}},
        "instructions": legacy::INSTRUCTIONS,
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "public",
    })
}

/// Which tools there are depends on the key.
fn listed(context: &Context, request: &Request) -> std::result::Result<Value, Failure> {
    if request.params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
        return Err(Failure::params("cursor: is not valid; the list has one page"));
    }
    let offered = tools::offered(&context.app.agents, &context.caller);
    let tools: Vec<Value> = offered.iter().map(|(name, agent)| tools::tool(name, agent)).collect();
    if context.era == Era::Legacy {
        return Ok(json!({"tools": tools}));
    }
    Ok(json!({"tools": tools, "ttlMs": LIST_TTL_MS, "cacheScope": "private"}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_pages_of_this_machine_are_served() {
        for allowed in ["http://localhost:3000", "http://127.0.0.1", "https://[::1]:8080"] {
            assert!(check_origin(&headers(&[("origin", allowed)])).is_ok(), "{allowed}");
        }
        assert!(check_origin(&headers(&[])).is_ok());
        for refused in
            ["http://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1.evil.example", ""]
        {
            let error = check_origin(&headers(&[("origin", refused)])).unwrap_err();
            assert_eq!((error.status.as_u16(), error.code), (403, "origin_not_allowed"), "{refused}");
        }
    }

    #[test]
    fn a_client_says_whether_it_reads_streams() {
        assert!(accepts_streams(&headers(&[("accept", "application/json, text/event-stream")])));
        assert!(!accepts_streams(&headers(&[("accept", "application/json")])) && !accepts_streams(&headers(&[])));
    }
}
