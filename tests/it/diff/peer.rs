//! The two servers that are compared, and a connection to one of them.

use std::{sync::OnceLock, time::Duration};

use temporalio_protos::temporal::api::workflowservice::v1::workflow_service_client::WorkflowServiceClient;
use tonic::transport::{Channel, Endpoint};

use crate::support::server::{self, Server};

pub(super) type Client = WorkflowServiceClient<Channel>;

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
        static REAL: OnceLock<Server> = OnceLock::new();
        match self {
            Self::Real => &REAL.get_or_init(|| Server::start(&PATIENT)).address,
            Self::Engine => &server::embedded().address,
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
