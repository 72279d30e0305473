//! `grpc.health.v1.Health`: the status is serving while the database can be written and read.

use std::{sync::Arc, time::Duration};

use temporalio_protos::grpc::health::v1::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
};
use windlass_sqlite::DatabaseError;

use crate::{core::Core, service_error::ServiceError};

/// The services with this status; the empty name is the whole server.
const SERVED: [&str; 2] = ["", "temporal.api.workflowservice.v1.WorkflowService"];

/// A slower database counts as not serving.
const TIMEOUT: Duration = Duration::from_secs(2);

impl Core {
    pub(super) async fn health(
        self: &Arc<Self>,
        request: HealthCheckRequest,
    ) -> Result<HealthCheckResponse, ServiceError> {
        if !SERVED.contains(&request.service.as_str()) {
            return Err(ServiceError::not_found("unknown service"));
        }
        let status = match tokio::time::timeout(TIMEOUT, self.database.probe()).await {
            Ok(Ok(())) => ServingStatus::Serving,
            Ok(Err(error)) => not_serving(&error),
            Err(_) => not_serving(&DatabaseError::Closed),
        };
        Ok(HealthCheckResponse { status: status.into() })
    }
}

fn not_serving(error: &DatabaseError) -> ServingStatus {
    tracing::warn!(%error, "the probe of the engine's database failed");
    ServingStatus::NotServing
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use prost::Message as _;
    use rusqlite::{Connection, Error, ffi};
    use tonic::Code;
    use windlass_sqlite::{Database, Faults};

    use super::*;
    use crate::{Answer, Call, Engine, Handle, Options};

    #[derive(Default)]
    struct Disk {
        fails: AtomicBool,
    }

    impl Faults for Disk {
        fn before_batch(&self, _: &Connection) -> rusqlite::Result<()> {
            match self.fails.load(Ordering::SeqCst) {
                true => Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), None)),
                false => Ok(()),
            }
        }
    }

    async fn check(engine: &Handle, rpc: &str, service: &str) -> Answer {
        let request = HealthCheckRequest { service: service.to_owned() };
        let call = Call {
            service: "grpc.health.v1.Health".to_owned(),
            rpc: rpc.to_owned(),
            message: Bytes::from(request.encode_to_vec()),
            timeout: None,
            client: String::new(),
            local: false,
        };
        engine.call(call).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn health_is_not_serving_when_writes_fail() {
        let (directory, disk) = (tempfile::tempdir().unwrap(), Arc::new(Disk::default()));
        let path = directory.path().join("engine.db");
        let options = windlass_sqlite::Options { faults: Some(disk.clone()), ..windlass_sqlite::Options::new(path) };
        let (_engine, handle) = Engine::open(Options::new(Database::open(options).unwrap())).unwrap();
        let status = async |service: &str| {
            let answer = check(&handle, "Check", service).await.unwrap();
            HealthCheckResponse::decode(&*answer).unwrap().status()
        };
        disk.fails.store(true, Ordering::SeqCst);
        for service in SERVED {
            assert_eq!(status(service).await, ServingStatus::NotServing, "{service:?}");
        }
        disk.fails.store(false, Ordering::SeqCst);
        // The result of a probe is cached for a short time.
        while status("").await != ServingStatus::Serving {}
        assert_eq!(check(&handle, "Check", "no.such.Service").await.unwrap_err().code(), Code::NotFound);
        assert_eq!(check(&handle, "Watch", "").await.unwrap_err().code(), Code::Unimplemented);
    }
}
