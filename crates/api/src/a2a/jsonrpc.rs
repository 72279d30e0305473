//! The JSON-RPC binding, for both versions of the protocol.

use std::sync::Arc;

use a2a::{A2AError, error_code};
use axum::{
    body::Body,
    extract::{Path, State},
    response::Response,
};
use http::{HeaderMap, StatusCode, Uri};
use serde_json::{Map, Value, json};
use windlass_core::limits::BODY_BYTES;

use super::{
    card::Base,
    error::{Refusal, Result, respond},
    operation::{Operation, Outcome},
    sse, v03,
    visit::{Version, Visit},
};
use crate::{app::App, body};

/// A request, and how its results are written.
struct Request {
    id: Value,
    version: Version,
    operation: Operation,
    params: Value,
}

pub(crate) async fn call(
    State(app): State<Arc<App>>,
    Path((slug, agent)): Path<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
    body: Body,
) -> Response {
    let mut visit = match Visit::of(app, &headers, &slug, &agent).await {
        Ok(visit) => visit,
        Err(refusal) => return refusal.json_rpc(&Value::Null),
    };
    let sent = match arrived(&visit, body).await {
        Ok(sent) => sent,
        Err(refusal) => return refusal.json_rpc(&Value::Null),
    };
    // The id is returned as it came, also with an error about the rest of the request.
    let id = sent.get("id").filter(|id| id.is_string() || id.is_number()).cloned().unwrap_or_default();
    let answered = match Request::read(sent, id.clone(), &headers, &uri) {
        Ok(request) => request.answer(&mut visit, &headers).await,
        Err(error) => Err(error.into()),
    };
    visit.tell(answered.unwrap_or_else(|refusal| refusal.json_rpc(&id)))
}

async fn arrived(visit: &Visit, body: Body) -> Result<Map<String, Value>> {
    match body::json(&visit.app, body, BODY_BYTES).await {
        Ok(Value::Object(sent)) => Ok(sent),
        Ok(_) => Err(A2AError::invalid_request("the body must be one JSON-RPC request").into()),
        Err(error) if error.status == StatusCode::BAD_REQUEST => Err(A2AError::parse_error(error.message).into()),
        Err(error) => Err(Refusal::Http(error)),
    }
}

impl Request {
    fn read(
        mut sent: Map<String, Value>,
        id: Value,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> std::result::Result<Self, A2AError> {
        let method = match (sent.get("jsonrpc").and_then(Value::as_str), sent.get("method").and_then(Value::as_str)) {
            (Some("2.0"), Some(method)) => method.to_owned(),
            _ => return Err(A2AError::invalid_request("jsonrpc: must be \"2.0\", with a method")),
        };
        let params = sent.remove("params").unwrap_or_else(|| json!({}));
        let version = Version::of(headers, uri)?;
        let (named, other) = match version {
            Version::V1_0 => (Operation::named(&method), v03::operation(&method)),
            Version::V0_3 => (v03::operation(&method), Operation::named(&method)),
        };
        match (named, other) {
            (Some(operation), _) => {
                let params = if version == Version::V0_3 { v03::params(operation, params) } else { params };
                Ok(Self { id, version, operation, params })
            }
            (None, Some(_)) => {
                let (wanted, sent) = match version {
                    Version::V1_0 => ("0.3", "1.0"),
                    Version::V0_3 => ("1.0", "0.3, which is also that of a request without the header"),
                };
                let shown: String = method.chars().take(64).collect();
                let message = format!(
                    "{shown} is a method of A2A {wanted}, and the version is {sent}; send `A2A-Version: {wanted}`"
                );
                Err(A2AError::new(error_code::VERSION_NOT_SUPPORTED, message))
            }
            (None, None) => Err(A2AError::method_not_found(&method.chars().take(64).collect::<String>())),
        }
    }

    async fn answer(self, visit: &mut Visit, headers: &HeaderMap) -> Result<Response> {
        let base = Base::of(&visit.app, headers)?;
        let Self { id, version, operation, params } = self;
        visit.version = version;
        let written = move |result: Value, last: bool| {
            let result = match version {
                Version::V1_0 => result,
                Version::V0_3 => v03::result(operation, result, last),
            };
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        };
        Ok(match operation.execute(visit, params, &base).await? {
            Outcome::Value(result) => respond(StatusCode::OK, "application/json", &written(result, true)),
            Outcome::Stream(updates) => sse::response(*updates, written),
        })
    }
}
