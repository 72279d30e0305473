//! Bodies of requests: JSON, bounded in size and in time.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRequest, Request},
};
use http::StatusCode;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;

use crate::{
    app::App,
    error::{ApiError, Result},
    guard::Demand,
};

/// A request's body. An empty one is an empty object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonBody(pub(crate) Value);

impl FromRequest<Arc<App>> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let limit = request.extensions().get::<Demand>().map_or(0, |demand| demand.body_limit);
        let read = read(request.into_body(), limit);
        let bytes = match tokio::time::timeout(app.limits.body_timeout, read).await {
            Ok(bytes) => bytes?,
            Err(_) => {
                let message = "the body took too long to arrive; send it again";
                return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", message));
            }
        };
        if bytes.is_empty() {
            return Ok(Self(Value::Object(Default::default())));
        }
        // The reader refuses what is nested too deep.
        let parsed = serde_json::from_slice(&bytes);
        parsed.map(Self).map_err(|error| ApiError::invalid(format!("body: is not JSON ({error})")))
    }
}

async fn read(body: Body, limit: usize) -> Result<bytes::Bytes> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("the body is too large; send at most {limit} bytes");
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message))
        }
        Err(error) => Err(ApiError::invalid(format!("body: did not arrive whole ({error})"))),
    }
}
