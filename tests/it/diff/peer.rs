//! The two servers that are compared, and a connection to one of them.

use std::{
    sync::{Mutex, OnceLock},
    time::{Duration, Instant},
};

use temporalio_protos::temporal::api::workflowservice::v1::{
    ListWorkflowExecutionsRequest, workflow_service_client::WorkflowServiceClient,
};
use tonic::transport::{Channel, Endpoint};

use crate::support::server::{self, Server};

pub(super) type Client = WorkflowServiceClient<Channel>;

/// How long a server may take to come up.
const READY: Duration = Duration::from_secs(60);

pub(super) const NAMESPACE: &str = "default";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// The real server: what it does is right.
    Real,
    Engine,
}

/// A run may follow another of the same id at once. By default the server slows them down to one a second, which makes
/// what happens depend on how fast the script is played.
const PATIENT: [&str; 2] = ["--dynamic-config-value", "history.workflowIdReuseMinimalInterval=\"0s\""];

impl Peer {
    fn address(self) -> &'static str {
        static REAL: OnceLock<String> = OnceLock::new();
        static ENGINE: OnceLock<String> = OnceLock::new();
        match self {
            Self::Real => REAL.get_or_init(real_server),
            Self::Engine if Self::is_control() => ENGINE.get_or_init(real_server),
            Self::Engine => ENGINE.get_or_init(|| server::embedded().address.clone()),
        }
    }

    /// Whether a second real server takes the place of the engine, to show how much the server differs from itself.
    pub(super) fn is_control() -> bool {
        std::env::var_os("WINDLASS_DIFF_CONTROL").is_some()
    }

    /// Waits until the server answers.
    pub(super) async fn warm_up(self) {
        let mut client = self.connect();
        let deadline = Instant::now() + READY;
        let request = ListWorkflowExecutionsRequest { namespace: NAMESPACE.to_owned(), ..Default::default() };
        while let Err(status) = client.list_workflow_executions(request.clone()).await {
            assert!(Instant::now() < deadline, "the {} is not ready: {status}", self.name());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Real => "real server",
            Self::Engine => "engine",
        }
    }

    /// A connection of its own for each script: one is limited in how many calls it carries at a time.
    pub(super) fn connect(self) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address())).expect("the address is valid");
        WorkflowServiceClient::new(endpoint.connect_timeout(Duration::from_secs(10)).connect_lazy())
    }
}

/// A real server that lives as long as the test process.
fn real_server() -> String {
    static SERVERS: Mutex<Vec<Server>> = Mutex::new(Vec::new());
    let server = Server::start(&PATIENT);
    let address = server.address.clone();
    SERVERS.lock().unwrap().push(server);
    address
}
