//! The request id and the access log: method, path, status, duration and key. Bodies, queries and headers are not
//! logged.

use std::time::Instant;

use axum::{extract::Request, middleware::Next, response::Response};
use http::{HeaderName, HeaderValue};
use tracing::{Instrument as _, field};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_REQUEST_ID: usize = 64;

pub(crate) async fn log(request: Request, next: Next) -> Response {
    let id = request_id(&request);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::info_span!("request", id = %id, key = field::Empty);
    let began = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status().as_u16();
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    span.in_scope(|| tracing::info!(target: "windlass_api::access", %method, path, status, ms, "served"));
    if let Ok(value) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The caller's request id if it is safe to log, else a new one.
fn request_id(request: &Request) -> String {
    let given = request.headers().get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    let word = |id: &&str| {
        (1..=MAX_REQUEST_ID).contains(&id.len()) && id.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    given.filter(word).map_or_else(|| uuid::Uuid::new_v4().simple().to_string(), str::to_owned)
}
