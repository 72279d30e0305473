//! Reaching an engine in this process: the SDK is unchanged, its requests just never leave.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use temporalio_client::{
    Client, Connection, ConnectionOptions, Url,
    callback_based::{CallbackBasedGrpcService, GrpcRequest, GrpcSuccessResponse},
    tonic::Status,
};
use windlass_engine::{Answer, Call, Handle};

use super::{ConnectError, connect::client_options};

/// What the engine is called in messages.
const NAME: &str = "the embedded engine";

/// A client of an engine in this process.
pub async fn connect_embedded(engine: &Handle, namespace: &str, identity: &str) -> Result<Client, ConnectError> {
    let unreachable = |error: &dyn std::fmt::Display| ConnectError::Unreachable {
        address: NAME.to_owned(),
        reason: error.to_string(),
    };
    // Nothing is ever looked up under this name.
    let url = "http://embedded.invalid".parse::<Url>().map_err(|error| unreachable(&error))?;
    let engine = engine.clone();
    let service = CallbackBasedGrpcService { callback: Arc::new(move |request| answer(&engine, request)) };
    let options = ConnectionOptions::new(url)
        .identity(identity.to_owned())
        .service_override(service)
        // There is nothing to balance between, and the client refuses the combination.
        .dns_load_balancing(None)
        .build();
    let connection = Connection::connect(options).await.map_err(|error| unreachable(&error))?;
    Client::new(connection, client_options(namespace)).map_err(|error| unreachable(&error))
}

fn answer(engine: &Handle, request: GrpcRequest) -> BoxFuture<'static, Result<GrpcSuccessResponse, Status>> {
    let timeout = request.headers.get("grpc-timeout").and_then(|value| value.to_str().ok()).and_then(timeout);
    let call = Call {
        service: request.service,
        rpc: request.rpc,
        message: request.proto,
        timeout,
        client: String::new(),
        local: true,
    };
    let answer = engine.call(call);
    async move { Ok(GrpcSuccessResponse { headers: Default::default(), proto: answer.await? }) }.boxed()
}

/// What answers the calls of an engine's TCP port.
pub fn handler(engine: Handle) -> impl Fn(Call) -> BoxFuture<'static, Answer> + Clone + Send + Sync + 'static {
    move |call| engine.call(call)
}

/// The protocol's short form of a span, for example `70S` or `1500m`.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let value: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(value.checked_mul(3600)?),
        "M" => Duration::from_secs(value.checked_mul(60)?),
        "S" => Duration::from_secs(value),
        "m" => Duration::from_millis(value),
        "u" => Duration::from_micros(value),
        "n" => Duration::from_nanos(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_in_every_unit() {
        let cases = [
            ("70S", Some(Duration::from_secs(70))),
            ("1500m", Some(Duration::from_millis(1500))),
            ("2M", Some(Duration::from_secs(120))),
            ("1H", Some(Duration::from_secs(3600))),
            ("9u", Some(Duration::from_micros(9))),
            ("7n", Some(Duration::from_nanos(7))),
            ("", None),
            ("S", None),
            ("1s", None),
            ("-1S", None),
        ];
        for (text, expected) in cases {
            assert_eq!(timeout(text), expected, "{text}");
        }
    }
}
