//! Bodies of requests: JSON, bounded in size and in time, parsed where that does not delay other requests.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRequest, Request},
};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use windlass_core::limits::JSON_VALUES;

use crate::{
    app::App,
    error::{ApiError, Result},
    guard::Demand,
    spec::{Accepted, Invalid, Kept, ToolResult, parse_run, parse_session},
};

/// A request's body. An empty one is an empty object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonBody(pub(crate) Value);

/// A request's body, parsed into a type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Understood<T>(pub(crate) T);

/// A type that a body can be parsed into.
pub(crate) trait FromBody: Sized + Send + 'static {
    fn from_body(body: &Value) -> std::result::Result<Self, Invalid>;
}

impl FromBody for Accepted {
    fn from_body(body: &Value) -> std::result::Result<Self, Invalid> {
        parse_run(body)
    }
}

impl FromBody for Kept {
    fn from_body(body: &Value) -> std::result::Result<Self, Invalid> {
        parse_session(body)
    }
}

impl FromBody for ToolResult {
    fn from_body(body: &Value) -> std::result::Result<Self, Invalid> {
        Self::parse(body)
    }
}

impl FromRequest<Arc<App>> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let bytes = arrived(request, app).await?;
        app.apart(bytes.len(), move || value(&bytes)).await?.map(Self)
    }
}

impl<T: FromBody> FromRequest<Arc<App>> for Understood<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let bytes = arrived(request, app).await?;
        let size = bytes.len();
        app.apart(size, move || Ok(T::from_body(&value(&bytes)?)?)).await?.map(Self)
    }
}

/// The JSON of a body of at most `limit` bytes.
pub(crate) async fn json(app: &App, body: Body, limit: usize) -> Result<Value> {
    let bytes = in_time(app, body, limit).await?;
    app.apart(bytes.len(), move || value(&bytes)).await?
}

async fn arrived(request: Request, app: &App) -> Result<Bytes> {
    let limit = request.extensions().get::<Demand>().map_or(0, |demand| demand.body_limit);
    in_time(app, request.into_body(), limit).await
}

/// The bytes of a body of at most `limit` bytes.
pub(crate) async fn in_time(app: &App, body: Body, limit: usize) -> Result<Bytes> {
    let read = read(body, limit);
    tokio::time::timeout(app.limits.body_timeout, read).await.unwrap_or_else(|_| {
        let message = "the request body did not arrive in time; send the request again";
        Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", message))
    })
}

async fn read(body: Body, limit: usize) -> Result<Bytes> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(too_large(format!("the body is too large; send at most {limit} bytes")))
        }
        Err(error) => Err(ApiError::invalid(format!("body: did not arrive completely ({error})"))),
    }
}

fn value(bytes: &[u8]) -> Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Object(Default::default()));
    }
    // Each value takes more memory than its bytes, so they are counted first.
    if values(bytes) > JSON_VALUES {
        return Err(too_large(format!("body: has too many values; send at most {JSON_VALUES}")));
    }
    // serde_json refuses JSON that is nested too deep.
    serde_json::from_slice(bytes).map_err(|error| ApiError::invalid(format!("body: is not JSON ({error})")))
}

fn too_large(message: String) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message).with("field", "body")
}

/// At least as many as there are values in JSON text: each but the first follows one of these.
fn values(bytes: &[u8]) -> usize {
    let (mut values, mut in_string, mut escaped) = (1, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::limits::JSON_DEPTH;

    use super::*;

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum::<usize>(),
            Value::Object(fields) => fields.values().map(count).sum(),
            _ => 0,
        }
    }

    #[test]
    fn values_are_counted_without_being_built() {
        for body in [json!(1), json!([]), json!({"a": [1, "b,[{\"\\", {}], "c": null}), json!([[[[]]]])] {
            let counted = values(body.to_string().as_bytes());
            assert!((count(&body)..=2 * count(&body)).contains(&counted), "{body}: {counted}");
        }
        let many = vec![0; JSON_VALUES];
        let refused = value(json!(many).to_string().as_bytes()).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.code), (413, "payload_too_large"));
        assert!(value(json!("[".repeat(JSON_VALUES)).to_string().as_bytes()).is_ok(), "a text is one value");
    }

    #[test]
    fn nesting_is_limited_as_documented() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(value(nested(JSON_DEPTH).as_bytes()).is_ok());
        assert_eq!(value(nested(JSON_DEPTH + 1).as_bytes()).unwrap_err().code, "invalid_request");
    }
}
