//! The checks before every route: authentication, scope, rate limit, body limit.
//!
//! One table has the requirements of each route. A route that is not in it is refused.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::{MatchedPath, Path, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::sync::SemaphorePermit;
use windlass_core::limits;

use crate::{
    app::App,
    auth::{Caller, Scope},
    error::{ApiError, Result},
    query,
    rate::{Allowance, Bucket},
    routes::PREFIX,
};

/// The requirements of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) method: &'static str,
    /// Below the workspace.
    pub(crate) path: &'static str,
    pub(crate) scope: Scope,
    pub(crate) bucket: Bucket,
    pub(crate) body_limit: usize,
}

/// Specs carry files of up to 5 MB, in base64, and texts; results likewise.
const LARGE: usize = limits::BODY_BYTES;
const SMALL: usize = limits::VERB_BODY_BYTES;

const fn get(path: &'static str, scope: Scope) -> Demand {
    Demand { method: "GET", path, scope, bucket: Bucket::Reads, body_limit: 0 }
}

const fn post(path: &'static str, scope: Scope, bucket: Bucket, body_limit: usize) -> Demand {
    Demand { method: "POST", path, scope, bucket, body_limit }
}

const fn set(path: &'static str) -> Demand {
    Demand { method: "PUT", path, scope: Scope::RunsApprove, bucket: Bucket::Changes, body_limit: SMALL }
}

pub(crate) const DEMANDS: [Demand; 33] = [
    get("/models", Scope::ModelsRead),
    get("/identity", Scope::IdentityRead),
    post("/agent-runs", Scope::RunsWrite, Bucket::Starts, LARGE),
    get("/agent-runs", Scope::RunsRead),
    get("/agent-runs/{id}", Scope::RunsRead),
    Demand { bucket: Bucket::Streams, ..get("/agent-runs/{id}/stream", Scope::RunsRead) },
    get("/agent-runs/{id}/events", Scope::RunsRead),
    get("/agent-runs/{id}/transcript", Scope::RunsRead),
    get("/agent-runs/{id}/awaits", Scope::RunsRead),
    get("/agent-runs/{id}/push-configs", Scope::RunsRead),
    post("/agent-runs/{id}/tool-results", Scope::RunsWrite, Bucket::Lifecycle, LARGE),
    post("/agent-runs/{id}/cancel", Scope::RunsWrite, Bucket::Lifecycle, SMALL),
    post("/agent-runs/{id}/pause", Scope::RunsWrite, Bucket::Lifecycle, SMALL),
    post("/agent-runs/{id}/resume", Scope::RunsWrite, Bucket::Lifecycle, SMALL),
    post("/agent-runs/{id}/steer", Scope::RunsWrite, Bucket::Lifecycle, SMALL),
    post("/agent-runs/{id}/answers", Scope::RunsAnswer, Bucket::Lifecycle, LARGE),
    post("/agent-runs/{id}/confirmations", Scope::RunsApprove, Bucket::Lifecycle, SMALL),
    post("/agent-sessions", Scope::SessionsWrite, Bucket::Changes, LARGE),
    get("/agent-sessions", Scope::SessionsRead),
    get("/agent-sessions/{id}", Scope::SessionsRead),
    get("/agent-sessions/{id}/events", Scope::SessionsRead),
    post("/agent-sessions/{id}/messages", Scope::SessionsWrite, Bucket::Starts, LARGE),
    Demand { method: "DELETE", bucket: Bucket::Changes, ..get("/agent-sessions/{id}", Scope::SessionsWrite) },
    get("/agents", Scope::ModelsRead),
    get("/approval-grants", Scope::RunsRead),
    post("/approval-grants/{id}/revoke", Scope::RunsApprove, Bucket::Changes, SMALL),
    get("/agent-runs/{id}/calls/{call}/approval", Scope::RunsRead),
    get("/agent-runs/{id}/approvals", Scope::RunsRead),
    set("/agent-runs/{id}/approvals"),
    Demand { method: "DELETE", body_limit: 0, ..set("/agent-runs/{id}/approvals") },
    get("/agent-sessions/{id}/approvals", Scope::SessionsRead),
    set("/agent-sessions/{id}/approvals"),
    Demand { method: "DELETE", body_limit: 0, ..set("/agent-sessions/{id}/approvals") },
];

fn demand(method: &Method, matched: &str) -> Option<&'static Demand> {
    // HEAD needs what GET needs.
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let path = matched.strip_prefix(PREFIX)?;
    DEMANDS.iter().find(|demand| demand.method == method && demand.path == path)
}

/// Passes a request to its handler, or returns the error.
pub(crate) async fn enter(
    State(app): State<Arc<App>>,
    matched: MatchedPath,
    Path(parameters): Path<HashMap<String, String>>,
    mut request: Request,
    next: Next,
) -> Response {
    let slug = parameters.get("slug").map(String::as_str).unwrap_or_default();
    let demanded = demand(request.method(), matched.as_str());
    let (caller, demand, allowance) = match admit(&app, request.headers(), slug, demanded).await {
        Ok(admitted) => admitted,
        Err(error) => return error.into_response(),
    };
    let limited = allowance.filter(|allowance| !allowance.allowed);
    let mut response = match (limited, query::check(demand.path, request.uri())) {
        (Some(allowance), _) => too_often(demand.bucket, allowance).into_response(),
        (None, Err(error)) => error.into_response(),
        (None, Ok(())) => {
            tracing::Span::current().record("key", &caller.key_id);
            request.extensions_mut().insert(*demand);
            request.extensions_mut().insert(caller);
            at_work(&app, demand.bucket, next.run(request)).await
        }
    };
    if let Some(allowance) = allowance {
        tell(response.headers_mut(), demand.bucket, allowance);
    }
    response
}

async fn admit(
    app: &App,
    headers: &HeaderMap,
    slug: &str,
    demanded: Option<&'static Demand>,
) -> Result<(Caller, &'static Demand, Option<Allowance>)> {
    let caller = caller_in(app, headers, slug).await?;
    let Some(demand) = demanded else {
        return Err(ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this path does not support this method",
        ));
    };
    caller.require(demand.scope)?;
    let allowance = app.take(&caller.key_id, demand.bucket);
    Ok((caller, demand, allowance))
}

/// The holder of the request's key, which must belong to this workspace.
pub(crate) async fn caller_in(app: &App, headers: &HeaderMap, slug: &str) -> Result<Caller> {
    let caller = Caller::of(headers, app.store(), (app.clock)()).await?;
    check_workspace(&caller, slug)?;
    Ok(caller)
}

/// Refuses a path of another workspace than the key's.
pub(crate) fn check_workspace(caller: &Caller, slug: &str) -> Result<()> {
    if slug == caller.workspace.as_str() {
        return Ok(());
    }
    let hint = format!("this key belongs to workspace {}", caller.workspace);
    let message = "this key is not valid for this workspace";
    Err(ApiError::new(StatusCode::NOT_FOUND, "not_found", message).with("hint", hint))
}

async fn at_work(app: &App, bucket: Bucket, response: impl Future<Output = Response>) -> Response {
    let place = match place(app, bucket) {
        Ok(place) => place,
        Err(error) => return error.into_response(),
    };
    let response = response.await;
    drop(place);
    response
}

/// A permit to hold while a request is served. Streams need none, because they are mostly idle.
pub(crate) fn place(app: &App, bucket: Bucket) -> Result<Option<SemaphorePermit<'_>>> {
    if bucket == Bucket::Streams {
        return Ok(None);
    }
    let full = |_| ApiError::unavailable("the server is at its limit of concurrent requests; try again");
    app.room.try_acquire().map(Some).map_err(full)
}

pub(crate) fn too_often(bucket: Bucket, allowance: Allowance) -> ApiError {
    let message = format!(
        "this key may send {} requests of kind {} per minute; try again in {} s",
        allowance.limit,
        bucket.as_str(),
        allowance.retry_after_secs
    );
    let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message);
    error.retry_after_secs = Some(allowance.retry_after_secs);
    error
}

pub(crate) fn tell(headers: &mut HeaderMap, bucket: Bucket, allowance: Allowance) {
    let numbers = [
        ("x-ratelimit-limit", u64::from(allowance.limit)),
        ("x-ratelimit-remaining", u64::from(allowance.remaining)),
        ("x-ratelimit-reset", allowance.reset_secs),
    ];
    for (name, number) in numbers {
        headers.insert(HeaderName::from_static(name), number.into());
    }
    headers.insert(HeaderName::from_static("x-ratelimit-bucket"), HeaderValue::from_static(bucket.as_str()));
}
