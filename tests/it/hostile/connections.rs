//! Idle connections. They cannot block other clients of the API or of the engine's port.

use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use temporalio_protos::temporal::api::workflowservice::v1::{
    GetSystemInfoRequest, workflow_service_client::WorkflowServiceClient,
};
use tokio::{net::TcpStream, time::timeout};
use tonic::transport::Endpoint;

use super::{Tally, wire::send};
use crate::{
    proofs::scale,
    sdk::dev::{Dev, lasting_port},
    support::block_on,
};

/// How long a client waits for a slot.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn idle_connections_do_not_block_other_clients() {
    let count = scale("WINDLASS_HOSTILE_CONNECTIONS", 1100);
    raise_file_limit();
    block_on(async {
        let port = lasting_port();
        let dev = Dev::start_with(vec!["--port".into(), port.to_string().into()]);
        let engine = format!("127.0.0.1:{port}");
        let mut tally = Tally::new("silent connections");
        let mut silent = Vec::new();
        for address in [&engine, &dev.listen] {
            for _ in 0..count {
                match timeout(Duration::from_secs(5), TcpStream::connect(address)).await {
                    Ok(Ok(connection)) => silent.push(connection),
                    // The listener's backlog is full, so more connections have no effect.
                    _ => break,
                }
            }
        }
        tally.count("connections", silent.len() as u64);

        let health =
            timeout(PATIENCE, send(&dev.listen, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        match health.await {
            Ok(Ok(answer)) if answer.status == 200 => {}
            other => tally.finding(format!("the API behind silent connections: {other:?}")),
        }
        let asked = timeout(PATIENCE, async {
            let channel = Endpoint::from_shared(format!("http://{engine}")).unwrap().connect().await?;
            let info = WorkflowServiceClient::new(channel).get_system_info(GetSystemInfoRequest {}).await;
            Ok::<_, tonic::transport::Error>(info.is_ok())
        });
        match asked.await {
            Ok(Ok(true)) => {}
            other => tally.finding(format!("the engine behind silent connections: {other:?}")),
        }
        drop(silent);
        tally.close();
    });
}

/// This process holds one end of every connection.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}
