//! `grpc.health.v1.Health`: whoever gets an answer knows that the port is served.

use bytes::Bytes;
use prost::Message;
use temporalio_protos::grpc::health::v1::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
};
use tonic::Status;

use crate::Answer;

pub(super) const SERVICE: &str = "grpc.health.v1.Health";

/// The services that are up whenever the port is; the empty name stands for the whole server.
const SERVED: [&str; 2] = ["", "temporal.api.workflowservice.v1.WorkflowService"];

pub(super) fn answer(rpc: &str, message: Bytes) -> Answer {
    if rpc != "Check" {
        return Err(Status::unimplemented(format!("unknown method {rpc} for service {SERVICE}")));
    }
    let request = HealthCheckRequest::decode(message).map_err(|error| Status::invalid_argument(error.to_string()))?;
    if !SERVED.contains(&request.service.as_str()) {
        return Err(Status::not_found("unknown service"));
    }
    Ok(HealthCheckResponse { status: ServingStatus::Serving.into() }.encode_to_vec())
}
