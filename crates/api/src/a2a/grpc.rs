//! The gRPC binding, on the port of the API. A request is converted to the JSON of its operation and its results back, so
//! that all bindings have the same operations.

use std::sync::Arc;

use a2a::{A2AError, error_code};
use axum::{
    body::Body,
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http::{HeaderMap, StatusCode, Uri, Version as HttpVersion, header, request::Parts};
use http_body_util::Full;
use serde_json::{Value, json};
use tonic::{Code, Status, codec::CompressionEncoding, metadata::MetadataMap, server::Grpc};
use windlass_a2a_grpc::{BytesCodec, Malformed, Message, Method, status};
use windlass_core::limits::{BODY_BYTES, JSON_VALUES};

use super::{
    card::Base,
    error::{Refusal, details, http_status_name, status_name},
    operation::{Operation, Outcome},
    stream::{Update, Updates},
    tenant,
    visit::{Version, Visit},
};
use crate::{app::App, auth::Caller, body, error::ApiError, reader::CutOff};

pub(crate) const PATH: &str = "/lf.a2a.v1.A2AService/{method}";

/// The flag and the length before a message.
const FRAME_HEAD: usize = 5;

type Result<T> = std::result::Result<T, Status>;

/// One request, without its message.
#[derive(Clone)]
struct Call {
    app: Arc<App>,
    caller: Caller,
    method: Method,
    operation: Operation,
    headers: HeaderMap,
    uri: Uri,
}

pub(crate) async fn call(State(app): State<Arc<App>>, Path(name): Path<String>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if parts.version != HttpVersion::HTTP_2 || !is_grpc(&parts.headers) {
        let message = "this path is for gRPC: send HTTP/2 with the content type application/grpc";
        return ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request", message).into_response();
    }
    match begin(app, &name, parts, body).await {
        Ok((call, request)) => call.serve(request).await,
        Err(status) => status.into_http(),
    }
}

/// Checks the key before the message is read.
async fn begin(app: Arc<App>, name: &str, parts: Parts, body: Body) -> Result<(Call, Request<Full<Bytes>>)> {
    let Some((method, operation)) = Method::named(name).zip(Operation::named(name)) else {
        return Err(Status::unimplemented("the service has no such method"));
    };
    let caller = Caller::of(&parts.headers, app.store(), (app.clock)()).await.map_err(refused_by_http)?;
    let bytes = body::in_time(&app, body, BODY_BYTES + FRAME_HEAD).await.map_err(refused_by_http)?;
    let call = Call { app, caller, method, operation, headers: parts.headers.clone(), uri: parts.uri.clone() };
    Ok((call, Request::from_parts(parts, Full::new(bytes))))
}

impl Call {
    async fn serve(self, request: Request<Full<Bytes>>) -> Response {
        let mut grpc =
            Grpc::new(BytesCodec).accept_compressed(CompressionEncoding::Gzip).max_decoding_message_size(BODY_BYTES);
        let response = if self.method.is_streaming() {
            let service = tower::service_fn(move |request: tonic::Request<Bytes>| {
                let call = self.clone();
                async move { call.execute(request.into_inner(), Self::stream).await }
            });
            grpc.server_streaming(service, request).await
        } else {
            let service = tower::service_fn(move |request: tonic::Request<Bytes>| {
                let call = self.clone();
                async move { call.execute(request.into_inner(), Self::unary).await }
            });
            grpc.unary(service, request).await
        };
        response.map(Body::new)
    }

    /// The response, with the state of the rate limit as metadata.
    async fn execute<T>(
        self,
        message: Bytes,
        written: impl FnOnce(Message, Outcome) -> Result<T>,
    ) -> Result<tonic::Response<T>> {
        let (app, schema) = (Arc::clone(&self.app), self.method.request());
        let read = app.apart(message.len(), move || schema.to_json(&message, JSON_VALUES)).await;
        let params = read.map_err(refused_by_http)?.map_err(malformed)?;
        if Version::of(&self.headers, &self.uri).map_err(refused)? != Version::V1_0 {
            let message = "gRPC has A2A 1.0; send the metadata `a2a-version: 1.0` (a request without it is one of 0.3)";
            return Err(refused(A2AError::new(error_code::VERSION_NOT_SUPPORTED, message)));
        }
        let tenant = params.get("tenant").and_then(Value::as_str);
        let mut visit = tenant::visit(self.app, self.caller, tenant).map_err(refused)?;
        let base = Base::of(&visit.app, &self.headers).map_err(refused)?;
        let outcome = Box::pin(self.operation.execute(&mut visit, params, &base)).await.map_err(refused);
        match outcome.and_then(|outcome| written(self.method.response(), outcome)) {
            Ok(message) => {
                let mut response = tonic::Response::new(message);
                *response.metadata_mut() = rate_limit(&visit);
                Ok(response)
            }
            Err(mut status) => {
                status.metadata_mut().as_mut().extend(rate_limit(&visit).into_headers());
                Err(status)
            }
        }
    }

    fn unary(schema: Message, outcome: Outcome) -> Result<Bytes> {
        match outcome {
            Outcome::Value(value) => encode(&schema, &value),
            Outcome::Stream(_) => Err(Status::internal("the method has one response")),
        }
    }

    fn stream(schema: Message, outcome: Outcome) -> Result<BoxStream<'static, Result<Bytes>>> {
        match outcome {
            Outcome::Stream(updates) => Ok(messages(schema, *updates).boxed()),
            Outcome::Value(_) => Err(Status::internal("the method has a stream of responses")),
        }
    }
}

fn messages(schema: Message, updates: Updates) -> impl stream::Stream<Item = Result<Bytes>> {
    stream::unfold(Some((schema, updates)), async |state| {
        let (schema, mut updates) = state?;
        loop {
            return match updates.next().await {
                Ok(None) => None,
                // HTTP/2 has its own pings.
                Ok(Some(Update::KeepAlive)) => continue,
                Ok(Some(Update::Event(event, _))) => {
                    let message = encode(&schema, &serde_json::to_value(event).unwrap_or_default());
                    Some((message, Some((schema, updates))))
                }
                Err(CutOff) => {
                    let status = Status::unavailable("this server shuts down; subscribe to the task again");
                    Some((Err(status), None))
                }
            };
        }
    })
}

fn encode(schema: &Message, json: &Value) -> Result<Bytes> {
    schema.to_bytes(json).map_err(|error| refused(ApiError::internal(&error)))
}

fn rate_limit(visit: &Visit) -> MetadataMap {
    MetadataMap::from_headers(visit.tell(Response::default()).into_parts().0.headers)
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    matches!(kind, Some("application/grpc" | "application/grpc+proto"))
}

fn malformed(error: Malformed) -> Status {
    refused(A2AError::invalid_params(error.to_string()))
}

/// An error of the API that the protocol has no word for.
fn refused_by_http(error: ApiError) -> Status {
    refused(Refusal::Http(error))
}

fn refused(refusal: impl Into<Refusal>) -> Status {
    match refusal.into() {
        Refusal::Protocol(error) => status(code(status_name(&error)), &error.message, &json!(details(&error))),
        Refusal::Http(error) => {
            let mut status = Status::new(code(http_status_name(error.status)), error.message);
            if let Some(seconds) = error.retry_after_secs {
                status.metadata_mut().insert("retry-after", seconds.into());
            }
            status
        }
    }
}

fn code(name: &str) -> Code {
    match name {
        "INVALID_ARGUMENT" => Code::InvalidArgument,
        "NOT_FOUND" => Code::NotFound,
        "PERMISSION_DENIED" => Code::PermissionDenied,
        "RESOURCE_EXHAUSTED" => Code::ResourceExhausted,
        "FAILED_PRECONDITION" => Code::FailedPrecondition,
        "UNIMPLEMENTED" => Code::Unimplemented,
        "UNAVAILABLE" => Code::Unavailable,
        "UNAUTHENTICATED" => Code::Unauthenticated,
        _ => Code::Internal,
    }
}
