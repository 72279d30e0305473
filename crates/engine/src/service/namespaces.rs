//! Namespaces and search attributes.

use std::{collections::HashMap, sync::Arc};

use temporalio_protos::temporal::api::{
    enums::v1::{ArchivalState, IndexedValueType, NamespaceState},
    namespace::v1::{NamespaceConfig, NamespaceInfo, namespace_info::Capabilities},
    operatorservice::v1::{
        AddSearchAttributesRequest, AddSearchAttributesResponse, ListSearchAttributesRequest,
        ListSearchAttributesResponse, RemoveSearchAttributesRequest, RemoveSearchAttributesResponse,
    },
    replication::v1::{ClusterReplicationConfig, NamespaceReplicationConfig},
    workflowservice::v1::{
        DescribeNamespaceRequest, DescribeNamespaceResponse, GetSearchAttributesRequest, GetSearchAttributesResponse,
        ListNamespacesRequest, ListNamespacesResponse, RegisterNamespaceRequest, RegisterNamespaceResponse,
        UpdateNamespaceRequest, UpdateNamespaceResponse,
    },
};
use windlass_sqlite::Ack;

use crate::{
    core::{Core, unavailable},
    namespaces::Namespaces,
    persist::{self, NamespaceRecord},
    service_error::ServiceError,
    time::{Nanos, SECOND, duration, span},
};

/// The minimum retention.
const SHORTEST_RETENTION: Nanos = 24 * 3600 * SECOND;

impl Core {
    pub(super) async fn describe_namespace(
        self: &Arc<Self>,
        request: DescribeNamespaceRequest,
    ) -> Result<DescribeNamespaceResponse, ServiceError> {
        let namespaces = self.read_namespaces();
        let record = if request.namespace.is_empty() && !request.id.is_empty() {
            let found = namespaces.records.values().find(|record| record.id == request.id);
            found.ok_or_else(|| ServiceError::NamespaceNotFound(request.id.clone()))?
        } else {
            namespaces.named(&request.namespace)?
        };
        Ok(described(record))
    }

    pub(super) async fn list_namespaces(
        self: &Arc<Self>,
        _request: ListNamespacesRequest,
    ) -> Result<ListNamespacesResponse, ServiceError> {
        let namespaces = self.read_namespaces().records.values().map(described).collect();
        Ok(ListNamespacesResponse { namespaces, ..ListNamespacesResponse::default() })
    }

    pub(super) async fn register_namespace(
        self: &Arc<Self>,
        request: RegisterNamespaceRequest,
    ) -> Result<RegisterNamespaceResponse, ServiceError> {
        if request.namespace.is_empty() {
            return Err(ServiceError::invalid("Namespace not set on request."));
        }
        let retention = span(request.workflow_execution_retention_period.as_ref());
        check_retention(retention)?;
        let _change = self.namespace_changes.lock().await;
        if self.read_namespaces().records.contains_key(&request.namespace) {
            return Err(ServiceError::NamespaceExists);
        }
        self.save_namespace(NamespaceRecord {
            name: request.namespace,
            id: uuid::Uuid::new_v4().to_string(),
            description: request.description,
            owner_email: request.owner_email,
            retention,
            data: request.data.into_iter().collect(),
        })
        .await?;
        Ok(RegisterNamespaceResponse {})
    }

    pub(super) async fn update_namespace(
        self: &Arc<Self>,
        request: UpdateNamespaceRequest,
    ) -> Result<UpdateNamespaceResponse, ServiceError> {
        let _change = self.namespace_changes.lock().await;
        let mut record = self.read_namespaces().named(&request.namespace)?.clone();
        if let Some(info) = request.update_info {
            if !info.description.is_empty() {
                record.description = info.description;
            }
            if !info.owner_email.is_empty() {
                record.owner_email = info.owner_email;
            }
            record.data.extend(info.data);
        }
        if let Some(config) = request.config
            && config.workflow_execution_retention_ttl.is_some()
        {
            record.retention = span(config.workflow_execution_retention_ttl.as_ref());
            check_retention(record.retention)?;
        }
        self.save_namespace(record.clone()).await?;
        let described = described(&record);
        Ok(UpdateNamespaceResponse {
            namespace_info: described.namespace_info,
            config: described.config,
            replication_config: described.replication_config,
            ..UpdateNamespaceResponse::default()
        })
    }

    /// Stores a namespace. It can be used after the write is durable.
    pub(crate) async fn save_namespace(self: &Arc<Self>, record: NamespaceRecord) -> Result<(), ServiceError> {
        let kept = record.clone();
        let ticket = self.database.apply(Ack::Durable, move |tx| persist::save_namespace(tx, &kept));
        ticket.await.map_err(|error| unavailable(&error))?;
        self.write_namespaces().records.insert(record.name.clone(), record);
        Ok(())
    }

    fn write_namespaces(&self) -> std::sync::RwLockWriteGuard<'_, Namespaces> {
        self.namespaces.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) async fn search_attributes(
        self: &Arc<Self>,
        _request: GetSearchAttributesRequest,
    ) -> Result<GetSearchAttributesResponse, ServiceError> {
        Ok(GetSearchAttributesResponse { keys: system_attributes() })
    }

    pub(super) async fn list_search_attributes(
        self: &Arc<Self>,
        request: ListSearchAttributesRequest,
    ) -> Result<ListSearchAttributesResponse, ServiceError> {
        let namespaces = self.read_namespaces();
        namespaces.named(&request.namespace)?;
        Ok(ListSearchAttributesResponse {
            custom_attributes: namespaces.custom_attributes(&request.namespace),
            system_attributes: system_attributes(),
            ..ListSearchAttributesResponse::default()
        })
    }

    pub(super) async fn add_search_attributes(
        self: &Arc<Self>,
        request: AddSearchAttributesRequest,
    ) -> Result<AddSearchAttributesResponse, ServiceError> {
        if request.search_attributes.is_empty() {
            return Err(ServiceError::invalid("SearchAttributes are not set on request."));
        }
        self.read_namespaces().named(&request.namespace)?;
        let known = self.read_namespaces().custom_attributes(&request.namespace);
        let system = system_attributes();
        let mut added = Vec::new();
        for (name, kind) in request.search_attributes {
            let kind = IndexedValueType::try_from(kind).unwrap_or_default();
            if system.contains_key(&name) {
                return Err(ServiceError::invalid(format!("Search attribute {name} is reserved by system.")));
            }
            if kind == IndexedValueType::Unspecified {
                return Err(ServiceError::invalid(format!("Unknown search attribute type: {kind:?}.")));
            }
            match known.get(&name) {
                Some(existing) if *existing == kind as i32 => {}
                Some(_) => {
                    return Err(ServiceError::AlreadyExists(format!("Search attribute {name} already exists.")));
                }
                None => added.push((name, kind)),
            }
        }
        let (namespace, kept) = (request.namespace.clone(), added.clone());
        let ticket = self.database.apply(Ack::Durable, move |tx| {
            kept.iter().try_for_each(|(name, kind)| persist::save_attribute(tx, &namespace, name, *kind))
        });
        ticket.await.map_err(|error| unavailable(&error))?;
        let mut namespaces = self.write_namespaces();
        for (name, kind) in added {
            namespaces.add_attribute(&request.namespace, name, kind);
        }
        Ok(AddSearchAttributesResponse {})
    }

    pub(super) async fn remove_search_attributes(
        self: &Arc<Self>,
        request: RemoveSearchAttributesRequest,
    ) -> Result<RemoveSearchAttributesResponse, ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        let known = self.read_namespaces().custom_attributes(&request.namespace);
        if let Some(unknown) = request.search_attributes.iter().find(|name| !known.contains_key(*name)) {
            return Err(ServiceError::not_found(format!("Search attribute {unknown} doesn't exist.")));
        }
        let (namespace, names) = (request.namespace.clone(), request.search_attributes.clone());
        let ticket = self.database.apply(Ack::Durable, move |tx| {
            names.iter().try_for_each(|name| persist::remove_attribute(tx, &namespace, name))
        });
        ticket.await.map_err(|error| unavailable(&error))?;
        let mut namespaces = self.write_namespaces();
        for name in request.search_attributes {
            namespaces.remove_attribute(&request.namespace, &name);
        }
        Ok(RemoveSearchAttributesResponse {})
    }
}

fn check_retention(retention: Nanos) -> Result<(), ServiceError> {
    if retention < SHORTEST_RETENTION {
        return Err(ServiceError::invalid("A valid retention period is not set on request."));
    }
    Ok(())
}

fn system_attributes() -> HashMap<String, i32> {
    use IndexedValueType as Type;
    [
        ("WorkflowId", Type::Keyword),
        ("RunId", Type::Keyword),
        ("WorkflowType", Type::Keyword),
        ("StartTime", Type::Datetime),
        ("ExecutionTime", Type::Datetime),
        ("CloseTime", Type::Datetime),
        ("ExecutionStatus", Type::Keyword),
        ("TaskQueue", Type::Keyword),
        ("HistoryLength", Type::Int),
        ("HistorySizeBytes", Type::Int),
        ("ExecutionDuration", Type::Int),
        ("StateTransitionCount", Type::Int),
        ("ParentWorkflowId", Type::Keyword),
        ("ParentRunId", Type::Keyword),
        ("RootWorkflowId", Type::Keyword),
        ("RootRunId", Type::Keyword),
        ("TemporalChangeVersion", Type::KeywordList),
        ("BinaryChecksums", Type::KeywordList),
        ("BuildIds", Type::KeywordList),
        ("TemporalNamespaceDivision", Type::Keyword),
    ]
    .map(|(name, kind)| (name.to_owned(), kind as i32))
    .into()
}

fn described(record: &NamespaceRecord) -> DescribeNamespaceResponse {
    DescribeNamespaceResponse {
        namespace_info: Some(NamespaceInfo {
            name: record.name.clone(),
            state: NamespaceState::Registered as i32,
            description: record.description.clone(),
            owner_email: record.owner_email.clone(),
            data: record.data.clone().into_iter().collect(),
            id: record.id.clone(),
            capabilities: Some(Capabilities {
                eager_workflow_start: true,
                sync_update: true,
                async_update: true,
                ..Capabilities::default()
            }),
            ..NamespaceInfo::default()
        }),
        config: Some(NamespaceConfig {
            workflow_execution_retention_ttl: Some(duration(record.retention)),
            history_archival_state: ArchivalState::Disabled as i32,
            visibility_archival_state: ArchivalState::Disabled as i32,
            ..NamespaceConfig::default()
        }),
        replication_config: Some(NamespaceReplicationConfig {
            active_cluster_name: "windlass".to_owned(),
            clusters: vec![ClusterReplicationConfig {
                cluster_name: "windlass".to_owned(),
                ..ClusterReplicationConfig::default()
            }],
            ..NamespaceReplicationConfig::default()
        }),
        ..DescribeNamespaceResponse::default()
    }
}
