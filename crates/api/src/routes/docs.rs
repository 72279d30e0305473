//! The OpenAPI document and a page to read it.

use axum::response::{Html, IntoResponse};
use http::header;

use crate::openapi::document_json;

pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], document_json())
}

/// One file, nothing from elsewhere: it also works where there is no internet.
pub(super) async fn page() -> impl IntoResponse {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(include_str!("docs.html")))
}
