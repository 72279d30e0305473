//! The public key of the signatures under what this installation sends.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use serde_json::json;

use crate::{app::App, error::ApiError};

/// A JSON Web Key Set. It needs no key of the API: receivers of notifications are not callers.
pub(crate) async fn show(State(app): State<Arc<App>>) -> Response {
    let keys = match &app.vault {
        Some(vault) => match vault.signing_key().await {
            Ok(key) => vec![key.jwk()],
            Err(error) => return ApiError::from(error).into_response(),
        },
        None => Vec::new(),
    };
    let mut response = Json(json!({"keys": keys})).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    response
}
