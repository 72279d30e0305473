//! The HTTP+JSON binding. Its paths are below `/v1`, which is the address of this interface in the card.

use std::sync::Arc;

use a2a::{A2AError, error_code};
use axum::{
    body::Body,
    extract::{Path, State},
    response::Response,
};
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::{Map, Value, json};
use windlass_core::limits::{BODY_BYTES, QUERY_PARAMETERS, VERB_BODY_BYTES};

use super::{
    card::Base,
    error::{MEDIA_TYPE, Refusal, Result, invalid, respond},
    operation::{Operation, Outcome},
    sse, tenant,
    visit::{Version, Visit},
};
use crate::{app::App, body};

/// What the path of a task's push configs has after the task.
const CONFIGS: &str = "/pushNotificationConfigs";

/// The parts of a request that an operation is read from.
struct Sent<'a> {
    method: &'a Method,
    uri: &'a Uri,
    /// Below the agent, for example `tasks/x:cancel`, with escapes removed.
    path: &'a str,
}

pub(crate) async fn call(
    State(app): State<Arc<App>>,
    Path((slug, agent, path)): Path<(String, String, String)>,
    method: Method,
    headers: HeaderMap,
    uri: Uri,
    body: Body,
) -> Response {
    let mut visit = match Visit::of(app, &headers, &slug, &agent).await {
        Ok(visit) => visit,
        Err(refusal) => return refusal.http_json(),
    };
    let (tenant, path) = tenant::in_path(&path);
    let sent = Sent { method: &method, uri: &uri, path };
    let answered = match tenant::check(&visit, tenant) {
        Ok(()) => answer(&mut visit, &sent, &headers, body).await,
        Err(refusal) => Err(refusal),
    };
    visit.tell(answered.unwrap_or_else(Refusal::http_json))
}

async fn answer(visit: &mut Visit, sent: &Sent<'_>, headers: &HeaderMap, body: Body) -> Result<Response> {
    let (operation, mut params) = sent.operation()?;
    if Version::of(headers, sent.uri)? != Version::V1_0 {
        let message =
            "the HTTP+JSON interface has A2A 1.0; send `A2A-Version: 1.0` (a request without it is one of 0.3)";
        return Err(A2AError::new(error_code::VERSION_NOT_SUPPORTED, message).into());
    }
    if matches!(operation, Operation::SendMessage | Operation::SendStreamingMessage) {
        params = body::json(&visit.app, body, BODY_BYTES).await?;
    } else if operation == Operation::CreatePushConfig {
        let task = params["taskId"].take();
        params = body::json(&visit.app, body, VERB_BODY_BYTES).await?;
        let fields = params.as_object_mut().ok_or_else(|| invalid("body", "must be a push config"))?;
        fields.insert("taskId".to_owned(), task);
    }
    let base = Base::of(&visit.app, headers)?;
    Ok(match operation.execute(visit, params, &base).await? {
        Outcome::Value(result) => respond(StatusCode::OK, MEDIA_TYPE, &result),
        Outcome::Stream(updates) => sse::response(*updates, |event, _| event),
    })
}

impl Sent<'_> {
    /// The operation, and its parameters unless they are the body.
    fn operation(&self) -> Result<(Operation, Value)> {
        let get = self.method == Method::GET;
        let task = |id: &str| json!({"id": id});
        Ok(match (get, self.path) {
            (false, "message:send") => (Operation::SendMessage, Value::Null),
            (false, "message:stream") => (Operation::SendStreamingMessage, Value::Null),
            (true, "extendedAgentCard") => (Operation::GetExtendedAgentCard, Value::Null),
            (true, "tasks") => (Operation::ListTasks, Value::Object(self.query()?)),
            (_, path) => match path.strip_prefix("tasks/") {
                Some(rest) if rest.contains(CONFIGS) => self.push_config(rest)?,
                Some(rest) => match (get, rest.rsplit_once(':')) {
                    (false, Some((id, "cancel"))) => (Operation::CancelTask, task(id)),
                    // The protocol's text has POST, its service definition GET.
                    (_, Some((id, "subscribe"))) => (Operation::SubscribeToTask, task(id)),
                    (true, _) => {
                        let mut params = self.query()?;
                        params.insert("id".to_owned(), json!(rest));
                        (Operation::GetTask, Value::Object(params))
                    }
                    (false, _) => return Err(self.unknown()),
                },
                None => return Err(self.unknown()),
            },
        })
    }

    /// An operation on the push configs of a task, or on one of them.
    fn push_config(&self, rest: &str) -> Result<(Operation, Value)> {
        let (task, id) = rest.rsplit_once(CONFIGS).unwrap_or_default();
        let one = json!({"taskId": task, "id": id.trim_start_matches('/')});
        Ok(match (self.method.as_str(), id) {
            ("POST", "") => (Operation::CreatePushConfig, json!({"taskId": task})),
            ("GET", "") => (Operation::ListPushConfigs, json!({"taskId": task})),
            ("GET", _) => (Operation::GetPushConfig, one),
            ("DELETE", _) => (Operation::DeletePushConfig, one),
            _ => return Err(self.unknown()),
        })
    }

    fn unknown(&self) -> Refusal {
        A2AError::method_not_found(&self.path.chars().take(64).collect::<String>()).into()
    }

    /// The query parameters as fields of a request. Unknown ones are ignored, as the protocol demands.
    fn query(&self) -> Result<Map<String, Value>> {
        let pairs = form_urlencoded::parse(self.uri.query().unwrap_or_default().as_bytes());
        let mut fields = Map::new();
        for (key, value) in pairs.take(QUERY_PARAMETERS) {
            let value = match &*key {
                "pageSize" | "historyLength" => {
                    let number = value.parse::<i32>().map_err(|_| invalid(&key, "must be a whole number"))?;
                    json!(number)
                }
                "includeArtifacts" => json!(&*value == "true"),
                "contextId" | "status" | "pageToken" | "statusTimestampAfter" => json!(value),
                _ => continue,
            };
            fields.insert(key.into_owned(), value);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests;
