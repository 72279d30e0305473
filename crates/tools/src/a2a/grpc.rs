//! The gRPC binding: messages as JSON, over the guarded HTTP/2 client.

use std::error::Error;

use futures_util::{Stream, StreamExt as _, future::ready};
use http_body_util::BodyExt as _;
use reqwest::{Method as HttpMethod, Url};
use serde_json::Value;
use tonic::{Code, Request, Status, client::Grpc, codec::CompressionEncoding, metadata::MetadataValue};
use windlass_a2a_grpc::{BytesCodec, Method, reason};
use windlass_core::{
    envelope::{RetryReason, ToolErrorKind},
    limits::JSON_VALUES,
};

use super::{
    access::{Access, MAX_EVENT, MAX_RESPONSE},
    failure::{self, Effect, RequestFailure, colon},
};
use crate::ToolFailure;

/// A failure inside of a request, as tonic carries it.
type BoxError = Box<dyn Error + Send + Sync>;
type HttpRequest = http::Request<tonic::body::Body>;
type HttpResponse = http::Response<reqwest::Body>;

/// The service of a peer at one address.
#[derive(Clone, Copy)]
pub(super) struct Service<'a> {
    pub(super) access: Access<'a>,
    pub(super) url: &'a Url,
}

impl<'a> Service<'a> {
    /// The JSON of the one response of a method.
    pub(super) async fn call(&self, name: &str, params: &Value, effect: Effect) -> Result<String, RequestFailure> {
        let method = known(name)?;
        let request = self.request(&method, params)?;
        let mut grpc = self.grpc(&method)?.max_decoding_message_size(MAX_RESPONSE);
        // Boxed because a request in flight is large, and callers hold it inside others.
        let answered = Box::pin(grpc.unary(request, method.path(), BytesCodec)).await;
        let response = answered.map_err(|status| self.failed(&status, effect))?;
        let text = self.text(&method, &response.into_inner());
        Ok(text.ok_or_else(|| failure::unreadable("response"))?)
    }

    /// The JSON of the messages of a stream, until it breaks off.
    pub(super) async fn stream(
        self,
        name: &str,
        params: &Value,
    ) -> Result<impl Stream<Item = String> + Unpin + use<'a>, RequestFailure> {
        let method = known(name)?;
        let request = self.request(&method, params)?;
        let mut grpc = self.grpc(&method)?.max_decoding_message_size(MAX_EVENT);
        let answered = Box::pin(grpc.server_streaming(request, method.path(), BytesCodec)).await;
        let response = answered.map_err(|status| self.failed(&status, Effect::None))?;
        // A stream that broke off is opened again; why it did makes no difference.
        let messages = response.into_inner().map(move |message| self.text(&method, &message.ok()?));
        Ok(messages.take_while(|text| ready(text.is_some())).filter_map(ready))
    }

    fn request(&self, method: &Method, params: &Value) -> Result<Request<bytes::Bytes>, ToolFailure> {
        let message = method.request().to_bytes(params).map_err(|error| failure::failed(error.to_string()))?;
        let mut request = Request::new(message);
        request.metadata_mut().insert("a2a-version", MetadataValue::from_static("1.0"));
        Ok(request)
    }

    fn grpc(
        &self,
        method: &Method,
    ) -> Result<
        Grpc<impl tower::Service<HttpRequest, Response = HttpResponse, Error = BoxError, Future: Send> + use<>>,
        ToolFailure,
    > {
        let mut url = self.url.clone();
        url.set_path(method.path().as_str());
        let request = self.access.http2_request(HttpMethod::POST, url)?;
        let mut request = Some(request);
        let send = tower::service_fn(move |sent: HttpRequest| {
            let request = request.take();
            async move {
                let request = request.ok_or("a request is sent once")?;
                let (parts, body) = sent.into_parts();
                // One message: nothing is gained by sending it in pieces.
                let body = body.collect().await?.to_bytes();
                let response = request.headers(parts.headers).body(body).send().await?;
                Ok::<_, BoxError>(HttpResponse::from(response))
            }
        });
        Ok(Grpc::new(send).accept_compressed(CompressionEncoding::Gzip))
    }

    fn text(&self, method: &Method, message: &[u8]) -> Option<String> {
        let json = method.response().to_json(message, JSON_VALUES).ok()?;
        Some(self.access.without_secrets(json.to_string()))
    }

    fn failed(&self, status: &Status, effect: Effect) -> RequestFailure {
        if let Some(error) = status.source().and_then(transport_error) {
            return failure::of_transport(error, effect).into();
        }
        let said = colon(&self.access.without_secrets(status.message().to_owned()));
        let retry_after =
            status.metadata().get("retry-after").and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        RequestFailure {
            failure: of_status(status, &said, effect),
            retry_after: retry_after.map(std::time::Duration::from_secs),
        }
    }
}

fn known(name: &str) -> Result<Method, ToolFailure> {
    Method::named(name).ok_or_else(|| failure::failed(format!("A2A's service has no method {name}")))
}

/// What the peer, or something between, says about a request. `said` is the message.
fn of_status(status: &Status, said: &str, effect: Effect) -> ToolFailure {
    let code = name(status.code());
    let unavailable = || {
        let message = format!("the peer is not available now ({code}){said}");
        failure::passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, message, None)
    };
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => failure::failed(format!(
            "the peer refused the credentials ({code}){said}; check the tool's headers and oauth"
        )),
        Code::ResourceExhausted => {
            let message = format!("the peer limits how often it is asked ({code}){said}");
            failure::passing(ToolErrorKind::RateLimited, RetryReason::RateLimited, message, None)
        }
        Code::DeadlineExceeded => failure::timed_out(effect),
        Code::Unavailable => unavailable(),
        // An error of the protocol is a decision of the peer.
        Code::Internal | Code::Unknown | Code::DataLoss | Code::Aborted | Code::Cancelled => match effect {
            Effect::None => unavailable(),
            Effect::Message if reason(status).is_some() => {
                failure::failed(format!("the peer answered with an error ({code}){said}"))
            }
            Effect::Message => failure::outcome_unknown(&format!("the peer failed ({code}){said}")),
        },
        _ => failure::failed(format!("the peer answered with an error ({code}){said}")),
    }
}

/// A code as the protocol's documents write it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// The error of the HTTP client in a chain of errors: then no status came from the peer.
fn transport_error<'a>(mut error: &'a (dyn Error + 'static)) -> Option<&'a reqwest::Error> {
    loop {
        match error.downcast_ref::<reqwest::Error>() {
            Some(found) => return Some(found),
            None => error = error.source()?,
        }
    }
}
