//! A client of the engine in this process: requests of the unchanged SDK are passed to it by function call.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use temporalio_client::{
    Client, Connection, ConnectionOptions, Url,
    callback_based::{CallbackBasedGrpcService, GrpcRequest, GrpcSuccessResponse},
    tonic::Status,
};
use windlass_engine::{Call, Handle, grpc};

use super::{ConnectError, connect::client_options};

/// The engine's name in error messages.
const NAME: &str = "the embedded engine";

/// A client of an engine in this process.
pub async fn connect_embedded(engine: &Handle, namespace: &str, identity: &str) -> Result<Client, ConnectError> {
    let unreachable = |error: &dyn std::fmt::Display| ConnectError::Unreachable {
        address: NAME.to_owned(),
        reason: error.to_string(),
    };
    // This name is never resolved.
    let url = "http://embedded.invalid".parse::<Url>().map_err(|error| unreachable(&error))?;
    let engine = engine.clone();
    let service = CallbackBasedGrpcService { callback: Arc::new(move |request| answer(&engine, request)) };
    let options = ConnectionOptions::new(url)
        .identity(identity.to_owned())
        .service_override(service)
        // The client rejects load balancing together with an in-process service.
        .dns_load_balancing(None)
        .build();
    let connection = Connection::connect(options).await.map_err(|error| unreachable(&error))?;
    Client::new(connection, client_options(namespace)).map_err(|error| unreachable(&error))
}

fn answer(engine: &Handle, request: GrpcRequest) -> BoxFuture<'static, Result<GrpcSuccessResponse, Status>> {
    let timeout = match grpc::timeout(&request.headers) {
        Ok(timeout) => timeout,
        Err(status) => return std::future::ready(Err(status)).boxed(),
    };
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
