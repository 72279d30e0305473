//! System and cluster information, and empty lists of features that the engine does not have.

use prost::Message as _;
use temporalio_protos::temporal::api::{
    operatorservice::v1::{ClusterMetadata, ListClustersResponse},
    workflowservice::v1::{
        GetClusterInfoResponse, GetSystemInfoResponse, ListWorkersResponse, ListWorkflowRulesResponse,
        RecordWorkerHeartbeatResponse, get_system_info_response::Capabilities,
    },
};

use crate::{core::Core, namespaces::CLUSTER, service_error::ServiceError};

/// The server version that the engine reports.
const SPOKEN_VERSION: &str = "1.32.0";

impl Core {
    pub(super) fn about_the_service(&self, rpc: &str) -> Result<Vec<u8>, ServiceError> {
        Ok(match rpc {
            "GetSystemInfo" => system_info().encode_to_vec(),
            "GetClusterInfo" => cluster_info().encode_to_vec(),
            "ListWorkers" => ListWorkersResponse::default().encode_to_vec(),
            "ListWorkflowRules" => ListWorkflowRulesResponse::default().encode_to_vec(),
            "RecordWorkerHeartbeat" => RecordWorkerHeartbeatResponse::default().encode_to_vec(),
            rpc if rpc.contains("NexusOperationExecution") => {
                return Err(ServiceError::NotServed("Standalone Nexus operation is disabled".to_owned()));
            }
            rpc => {
                let unknown = || ServiceError::Unimplemented(rpc.to_owned());
                return Err(Self::older_versioning(rpc).unwrap_or_else(unknown));
            }
        })
    }
}

/// Workers do not use capabilities that are not listed here.
fn system_info() -> GetSystemInfoResponse {
    GetSystemInfoResponse {
        server_version: SPOKEN_VERSION.to_owned(),
        capabilities: Some(Capabilities {
            signal_and_query_header: true,
            internal_error_differentiation: true,
            activity_failure_include_heartbeat: true,
            encoded_failure_attributes: true,
            upsert_memo: true,
            eager_workflow_start: true,
            supports_schedules: true,
            sdk_metadata: true,
            // Without it, workers send their build only in the older `binary_checksum`.
            build_id_based_versioning: true,
            count_group_by_execution_status: true,
            nexus: true,
            ..Capabilities::default()
        }),
    }
}

/// The only cluster.
pub(super) fn clusters() -> ListClustersResponse {
    let cluster = ClusterMetadata {
        cluster_name: CLUSTER.to_owned(),
        cluster_id: CLUSTER.to_owned(),
        history_shard_count: 1,
        is_connection_enabled: true,
        ..ClusterMetadata::default()
    };
    ListClustersResponse { clusters: vec![cluster], ..ListClustersResponse::default() }
}

fn cluster_info() -> GetClusterInfoResponse {
    GetClusterInfoResponse {
        supported_clients: [("temporal-cli", "<2.0.0"), ("temporal-ui", "<3.0.0"), ("temporal-go", "<2.0.0")]
            .map(|(client, versions)| (client.to_owned(), versions.to_owned()))
            .into(),
        server_version: SPOKEN_VERSION.to_owned(),
        cluster_id: CLUSTER.to_owned(),
        cluster_name: CLUSTER.to_owned(),
        history_shard_count: 1,
        persistence_store: "sqlite".to_owned(),
        visibility_store: "sqlite".to_owned(),
        ..GetClusterInfoResponse::default()
    }
}
