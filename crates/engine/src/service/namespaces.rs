//! Namespaces and search attributes.

use std::{collections::HashMap, sync::Arc};

use temporalio_protos::temporal::api::{
    enums::v1::{ArchivalState, IndexedValueType, NamespaceState, ReplicationState},
    namespace::v1::{BadBinaries, NamespaceConfig, NamespaceInfo, namespace_info, namespace_info::Capabilities},
    operatorservice::v1::{
        AddSearchAttributesRequest, AddSearchAttributesResponse, DeleteNamespaceRequest, DeleteNamespaceResponse,
        ListSearchAttributesRequest, ListSearchAttributesResponse, RemoveSearchAttributesRequest,
        RemoveSearchAttributesResponse,
    },
    replication::v1::{ClusterReplicationConfig, NamespaceReplicationConfig},
    workflowservice::v1::{
        DeprecateNamespaceRequest, DeprecateNamespaceResponse, DescribeNamespaceRequest, DescribeNamespaceResponse,
        GetSearchAttributesRequest, GetSearchAttributesResponse, ListNamespacesRequest, ListNamespacesResponse,
        RegisterNamespaceRequest, RegisterNamespaceResponse, UpdateNamespaceRequest, UpdateNamespaceResponse,
    },
};
use windlass_sqlite::Ack;

use crate::{
    core::{Core, Target, unavailable},
    limits::Limits,
    namespaces::{
        Archives as _, CLUSTER, Namespaces, check_clusters, check_retention, deleted_name, next_archival, update,
    },
    persist::{self, ArchivalConfig, NamespaceRecord},
    service_error::ServiceError,
    time::{duration, span},
    visibility::Attributes,
};

/// Namespaces of a page, unless the request asks for another number.
const PAGE: usize = 100;

impl Core {
    pub(super) async fn describe_namespace(
        self: &Arc<Self>,
        request: DescribeNamespaceRequest,
    ) -> Result<DescribeNamespaceResponse, ServiceError> {
        let namespaces = self.read_namespaces();
        let record = match (request.namespace.as_str(), request.id.as_str()) {
            ("", "") => return Err(ServiceError::invalid("Namespace not set on request.")),
            ("", id) => {
                let found = namespaces.records.values().find(|record| record.id == id);
                found.ok_or_else(|| ServiceError::NamespaceNotFound(id.to_owned()))?
            }
            (name, _) => namespaces.named(name)?,
        };
        Ok(described(record, &self.limits))
    }

    pub(super) async fn list_namespaces(
        self: &Arc<Self>,
        request: ListNamespacesRequest,
    ) -> Result<ListNamespacesResponse, ServiceError> {
        let size = usize::try_from(request.page_size).ok().filter(|size| *size > 0).unwrap_or(PAGE);
        let deleted = request.namespace_filter.is_some_and(|filter| filter.include_deleted);
        let after =
            String::from_utf8(request.next_page_token).map_err(|_| ServiceError::invalid("Invalid NextPageToken."))?;
        let namespaces = self.read_namespaces();
        let listed = namespaces.records.values().filter(|record| record.name > after);
        let mut listed = listed.filter(|record| deleted || record.deleted_name.is_empty());
        let page: Vec<_> = listed.by_ref().take(size).collect();
        let more = listed.next().is_some();
        let last = page.last().filter(|_| more).map(|record| record.name.clone()).unwrap_or_default();
        Ok(ListNamespacesResponse {
            namespaces: page.into_iter().map(|record| described(record, &self.limits)).collect(),
            next_page_token: last.into_bytes(),
        })
    }

    pub(super) async fn register_namespace(
        self: &Arc<Self>,
        request: RegisterNamespaceRequest,
    ) -> Result<RegisterNamespaceResponse, ServiceError> {
        if request.namespace.is_empty() {
            return Err(ServiceError::invalid("Namespace not set on request."));
        }
        if request.namespace.len() > self.limits.id_length {
            return Err(ServiceError::invalid("Namespace length exceeds limit."));
        }
        if request.is_global_namespace {
            return Err(ServiceError::invalid("Cannot register global namespace when not enabled"));
        }
        let retention = span(request.workflow_execution_retention_period.as_ref());
        check_retention(retention, &self.limits)?;
        let _change = self.namespace_changes.lock().await;
        let name = request.namespace;
        {
            let namespaces = self.read_namespaces();
            if namespaces.records.contains_key(&name) {
                return Err(ServiceError::NamespaceExists(name));
            }
            if namespaces.records.values().any(|record| record.deleted_name == name) {
                return Err(ServiceError::Unavailable(format!(
                    "the runs of the deleted namespace {name} are still being removed; try again"
                )));
            }
        }
        let clusters = request.clusters.iter().map(|cluster| cluster.cluster_name.as_str());
        check_clusters(&request.active_cluster_name, clusters)?;
        let mut record = NamespaceRecord {
            name,
            id: uuid::Uuid::new_v4().to_string(),
            description: request.description,
            owner_email: request.owner_email,
            retention,
            data: request.data.into_iter().collect(),
            ..NamespaceRecord::default()
        };
        if let Some(default) = self.archive.default_uri() {
            let next = |state, uri: &str| {
                next_archival(&ArchivalConfig::default(), state, uri, &default, |uri| self.archive.check(uri))
            };
            record.history_archival = next(request.history_archival_state, &request.history_archival_uri)?;
            record.visibility_archival = next(request.visibility_archival_state, &request.visibility_archival_uri)?;
        }
        self.save_namespace(record).await?;
        Ok(RegisterNamespaceResponse {})
    }

    pub(super) async fn update_namespace(
        self: &Arc<Self>,
        request: UpdateNamespaceRequest,
    ) -> Result<UpdateNamespaceResponse, ServiceError> {
        let _change = self.namespace_changes.lock().await;
        let mut record = self.chosen(&request.namespace)?;
        update(&mut record, request, &self.limits, &self.archive, self.now())?;
        self.save_namespace(record.clone()).await?;
        let described = described(&record, &self.limits);
        Ok(UpdateNamespaceResponse {
            namespace_info: described.namespace_info,
            config: described.config,
            replication_config: described.replication_config,
            ..UpdateNamespaceResponse::default()
        })
    }

    pub(super) async fn deprecate_namespace(
        self: &Arc<Self>,
        request: DeprecateNamespaceRequest,
    ) -> Result<DeprecateNamespaceResponse, ServiceError> {
        let _change = self.namespace_changes.lock().await;
        let mut record = self.chosen(&request.namespace)?;
        record.state = NamespaceState::Deprecated as i32;
        self.save_namespace(record).await?;
        Ok(DeprecateNamespaceResponse {})
    }

    /// Gives a namespace another name at once, so that no request finds it any more. Its runs are removed afterwards.
    pub(super) async fn delete_namespace(
        self: &Arc<Self>,
        request: DeleteNamespaceRequest,
    ) -> Result<DeleteNamespaceResponse, ServiceError> {
        let (name, id) = (request.namespace, request.namespace_id);
        if !name.is_empty() && !id.is_empty() {
            return Err(ServiceError::invalid("Only one of namespace name or Id should be set on request."));
        }
        let _change = self.namespace_changes.lock().await;
        let mut record = if id.is_empty() {
            self.chosen(&name)?
        } else {
            let namespaces = self.read_namespaces();
            let found = namespaces.records.values().find(|record| record.id == id);
            found.cloned().ok_or_else(|| ServiceError::NamespaceNotFound(id.clone()))?
        };
        if record.deleted_name.is_empty() {
            let former = record.name.clone();
            let new = deleted_name(&former, &record.id, |name| self.read_namespaces().records.contains_key(name));
            record.name.clone_from(&new);
            record.deleted_name.clone_from(&former);
            record.state = NamespaceState::Deleted as i32;
            let kept = record.clone();
            let ticket =
                self.database.apply(Ack::Durable, move |tx| persist::rename_namespace(tx, &kept.deleted_name, &kept));
            ticket.await.map_err(|error| unavailable(&error))?;
            let mut namespaces = self.write_namespaces();
            namespaces.records.remove(&former);
            namespaces.records.insert(new, record.clone());
        }
        self.sweep_now.notify_one();
        Ok(DeleteNamespaceResponse { deleted_namespace: record.name })
    }

    /// Removes the runs of deleted namespaces, and then the namespaces.
    pub(crate) async fn remove_deleted_namespaces(self: &Arc<Self>) -> Result<(), ServiceError> {
        const AT_ONCE: usize = 500;
        let records = self.read_namespaces().records.values().cloned().collect::<Vec<_>>();
        for record in records.into_iter().filter(|record| !record.deleted_name.is_empty()) {
            let former = record.deleted_name.clone();
            loop {
                let runs = self.read(|sql| persist::runs_of(sql, &former, AT_ONCE))?;
                if runs.is_empty() {
                    break;
                }
                for [workflow_id, run_id] in runs {
                    self.remove_run(&Target::new(&former, &workflow_id, &run_id)).await?;
                }
            }
            let (name, kept) = (record.name.clone(), former.clone());
            let ticket = self.database.apply(Ack::Durable, move |tx| persist::remove_namespace(tx, &name, &kept));
            ticket.await.map_err(|error| unavailable(&error))?;
            self.write_namespaces().forget(&record.name, &former);
        }
        Ok(())
    }

    /// The namespace that a request changes.
    fn chosen(&self, name: &str) -> Result<NamespaceRecord, ServiceError> {
        if name.is_empty() {
            return Err(ServiceError::invalid("Namespace not set on request."));
        }
        self.read_namespaces().named(name).cloned()
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
        Ok(ListSearchAttributesResponse {
            custom_attributes: self.attributes_of(&request.namespace)?,
            system_attributes: system_attributes(),
            ..ListSearchAttributesResponse::default()
        })
    }

    /// The custom attributes of the namespace of a request.
    fn attributes_of(&self, namespace: &str) -> Result<HashMap<String, i32>, ServiceError> {
        if namespace.is_empty() {
            return Err(ServiceError::invalid("Namespace is not set on request."));
        }
        let namespaces = self.read_namespaces();
        namespaces.named(namespace)?;
        Ok(namespaces.custom_attributes(namespace))
    }

    pub(super) async fn add_search_attributes(
        self: &Arc<Self>,
        request: AddSearchAttributesRequest,
    ) -> Result<AddSearchAttributesResponse, ServiceError> {
        if request.search_attributes.is_empty() {
            return Err(ServiceError::invalid("SearchAttributes are not set on request."));
        }
        let known = self.attributes_of(&request.namespace)?;
        let mut added = Vec::new();
        for (name, kind) in request.search_attributes {
            if is_reserved(&name) {
                return Err(ServiceError::invalid(format!("Search attribute {name} is reserved by system.")));
            }
            let Ok(kind) = IndexedValueType::try_from(kind) else {
                return Err(ServiceError::invalid(format!("Unknown search attribute type: {kind}.")));
            };
            if kind == IndexedValueType::Unspecified {
                return Err(ServiceError::invalid(
                    "Unable to create search attributes: cannot have more than 0 search attribute of type Unspecified.",
                ));
            }
            // One that exists keeps its type, as on the real server.
            if !known.contains_key(&name) {
                added.push((name, kind));
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
        if request.search_attributes.is_empty() {
            return Err(ServiceError::invalid("SearchAttributes are not set on request."));
        }
        self.attributes_of(&request.namespace)?;
        let system = system_attributes();
        if let Some(name) = request.search_attributes.iter().find(|name| system.contains_key(*name)) {
            return Err(ServiceError::invalid(format!("Unable to remove non-custom search attributes: {name}.")));
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

fn system_attributes() -> HashMap<String, i32> {
    Attributes::system_and_predefined().map(|(name, kind)| (name.to_owned(), kind as i32)).collect()
}

/// Attributes that are reserved: known ones, and names that Temporal may use later.
fn is_reserved(name: &str) -> bool {
    const INTERNAL: [&str; 4] = ["NamespaceId", "MemoEncoding", "Memo", "VisibilityTaskKey"];
    name.starts_with("Temporal") || INTERNAL.contains(&name) || system_attributes().contains_key(name)
}

fn described(record: &NamespaceRecord, limits: &Limits) -> DescribeNamespaceResponse {
    let archival = |config: &ArchivalConfig| match config.enabled {
        true => ArchivalState::Enabled as i32,
        false => ArchivalState::Disabled as i32,
    };
    let state = if record.state == 0 { NamespaceState::Registered as i32 } else { record.state };
    let size = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    DescribeNamespaceResponse {
        namespace_info: Some(NamespaceInfo {
            name: record.name.clone(),
            state,
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
            limits: Some(namespace_info::Limits {
                blob_size_limit_error: size(limits.blob_bytes),
                memo_size_limit_error: size(limits.memo_bytes),
                ..namespace_info::Limits::default()
            }),
            supports_schedules: true,
        }),
        config: Some(NamespaceConfig {
            workflow_execution_retention_ttl: Some(duration(record.retention)),
            bad_binaries: Some(BadBinaries { binaries: record.bad_binaries.clone().into_iter().collect() }),
            history_archival_state: archival(&record.history_archival),
            history_archival_uri: record.history_archival.uri.clone(),
            visibility_archival_state: archival(&record.visibility_archival),
            visibility_archival_uri: record.visibility_archival.uri.clone(),
            ..NamespaceConfig::default()
        }),
        replication_config: Some(NamespaceReplicationConfig {
            active_cluster_name: CLUSTER.to_owned(),
            clusters: vec![ClusterReplicationConfig {
                cluster_name: CLUSTER.to_owned(),
                ..ClusterReplicationConfig::default()
            }],
            state: ReplicationState::Normal as i32,
        }),
        ..DescribeNamespaceResponse::default()
    }
}
