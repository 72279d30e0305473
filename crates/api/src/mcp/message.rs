//! JSON-RPC messages, and the errors of the Model Context Protocol.

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::error::ApiError;

/// A message from the client.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Incoming {
    Request(Request),
    Notification {
        method: String,
        params: Value,
    },
    /// The reply to a request of the server; only revisions before 2026-07-28 have these.
    Reply {
        id: Value,
        result: Option<Value>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    /// A text or a number.
    pub(super) id: Value,
    pub(super) method: String,
    /// An object.
    pub(super) params: Value,
}

impl Request {
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.params[key].as_str()
    }

    pub(super) fn required_text(&self, key: &str) -> Result<&str, Failure> {
        self.text(key).ok_or_else(|| Failure::params(format!("{key}: is required, a text")))
    }

    /// A key of `_meta`.
    pub(super) fn meta(&self, key: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(key)
    }
}

impl Incoming {
    /// The error is the message's id, if there is one, and what is wrong with it.
    pub(super) fn parse(body: Value) -> Result<Self, (Value, &'static str)> {
        let Value::Object(mut fields) = body else {
            let problem = "the body must be one JSON-RPC message, an object; batches are not supported";
            return Err((Value::Null, problem));
        };
        let id = fields.remove("id").filter(|id| id.is_string() || id.is_number());
        let refused = |id: Option<Value>, problem: &'static str| (id.unwrap_or_default(), problem);
        if fields.get("jsonrpc") != Some(&json!("2.0")) {
            return Err(refused(id, "jsonrpc: must be \"2.0\""));
        }
        let method = match (fields.remove("method"), &id) {
            (Some(Value::String(method)), _) => method,
            (Some(_), _) => return Err(refused(id, "method: must be a text")),
            (None, Some(id)) if fields.contains_key("result") || fields.contains_key("error") => {
                return Ok(Self::Reply { id: id.clone(), result: fields.remove("result") });
            }
            (None, _) => return Err(refused(id, "method: is required")),
        };
        let params = match fields.remove("params") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(params @ Value::Object(_)) => params,
            Some(_) => return Err(refused(id, "params: must be an object")),
        };
        Ok(match id {
            Some(id) => Self::Request(Request { id, method, params }),
            None => Self::Notification { method, params },
        })
    }
}

/// A JSON-RPC error, and the HTTP status that it is sent with.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
    pub(super) status: StatusCode,
    /// What the client is to do: authenticate with more scopes, or wait.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Failure {
    fn new(code: i64, status: StatusCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, status, headers: Vec::new() }
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(-32600, StatusCode::BAD_REQUEST, message)
    }

    /// Wrong parameters of a method.
    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, StatusCode::OK, message)
    }

    /// Required metadata of the request is missing.
    pub(super) fn metadata(message: impl Into<String>) -> Self {
        Self::new(-32602, StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn method_not_found(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        Self::new(-32601, StatusCode::NOT_FOUND, format!("this server has no method {shown:?}"))
    }

    pub(super) fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(-32020, StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn missing_capability(capabilities: Value, message: impl Into<String>) -> Self {
        let mut failure = Self::new(-32021, StatusCode::BAD_REQUEST, message);
        failure.data = Some(json!({"requiredCapabilities": capabilities}));
        failure
    }

    pub(super) fn unsupported_version(supported: &[&str], requested: &str) -> Self {
        let mut failure =
            Self::new(-32022, StatusCode::BAD_REQUEST, "this server does not support the protocol version");
        failure.data = Some(json!({"supported": supported, "requested": requested}));
        failure
    }

    pub(super) fn body(&self, id: &Value) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }

    pub(super) fn respond(self, id: &Value) -> Response {
        let mut response = (self.status, Json(self.body(id))).into_response();
        response.headers_mut().extend(self.headers);
        response
    }
}

/// The error of another route as a JSON-RPC error. Its code, and the reason for the caller, are in `data`.
impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let kept = [header::RETRY_AFTER, header::WWW_AUTHENTICATE];
        let response = error.clone().into_response();
        let headers = response.headers().iter().filter(|(name, _)| kept.contains(name));
        let headers = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
        let ApiError { status, code, message, mut extra, .. } = error;
        extra.insert("code".to_owned(), code.into());
        let (number, status) = match status {
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::CONFLICT => (-32602, StatusCode::OK),
            status => (-32603, status),
        };
        Self { code: number, message, data: Some(Value::Object(extra)), status, headers }
    }
}

pub(super) fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(super) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_request_a_notification_or_a_reply() {
        let params = json!({"a": 1});
        assert_eq!(
            Incoming::parse(json!({"jsonrpc": "2.0", "id": 7, "method": "m", "params": params})),
            Ok(Incoming::Request(Request { id: json!(7), method: "m".to_owned(), params: params.clone() }))
        );
        assert_eq!(
            Incoming::parse(json!({"jsonrpc": "2.0", "method": "m", "params": params})),
            Ok(Incoming::Notification { method: "m".to_owned(), params })
        );
        assert_eq!(
            Incoming::parse(json!({"jsonrpc": "2.0", "id": "x", "result": {"action": "accept"}})),
            Ok(Incoming::Reply { id: json!("x"), result: Some(json!({"action": "accept"})) })
        );
    }

    #[test]
    fn a_body_that_is_no_message_is_refused_with_its_id() {
        let cases = [
            (json!([]), json!(null)),
            (json!({"id": 3, "method": "m"}), json!(3)),
            (json!({"jsonrpc": "2.0", "id": 3}), json!(3)),
            (json!({"jsonrpc": "2.0", "id": 3, "method": "m", "params": []}), json!(3)),
            (json!({"jsonrpc": "2.0", "id": {}, "method": 1}), json!(null)),
        ];
        for (body, id) in cases {
            assert_eq!(Incoming::parse(body.clone()).unwrap_err().0, id, "{body}");
        }
    }
}
