//! What a request may change of a namespace, with the real server's error texts.

use temporalio_protos::temporal::api::{
    enums::v1::{NamespaceState, ReplicationState},
    namespace::v1::BadBinaryInfo,
    replication::v1::NamespaceReplicationConfig,
    workflowservice::v1::UpdateNamespaceRequest,
};

use super::archival;
use crate::{
    limits::Limits,
    persist::NamespaceRecord,
    service_error::ServiceError,
    time::{Nanos, span, timestamp},
};

/// The name of the only cluster.
pub(crate) const CLUSTER: &str = "windlass";
const MOST_BAD_BINARIES: usize = 10;

/// Where archives may be.
pub(crate) trait Archives {
    /// The URI of namespaces that name none; `None` if the engine has no directory for archives.
    fn default_uri(&self) -> Option<String>;
    fn check(&self, uri: &str) -> Result<(), ServiceError>;
}

pub(crate) fn check_retention(retention: Nanos, limits: &Limits) -> Result<(), ServiceError> {
    if retention < limits.shortest_retention {
        return Err(ServiceError::invalid("A valid retention period is not set on request."));
    }
    Ok(())
}

/// Applies a request to a namespace.
pub(crate) fn update(
    record: &mut NamespaceRecord,
    request: UpdateNamespaceRequest,
    limits: &Limits,
    archives: &impl Archives,
    now: Nanos,
) -> Result<(), ServiceError> {
    let config = request.config.unwrap_or_default();
    if let Some(default) = archives.default_uri() {
        let (state, uri) = (config.history_archival_state, &config.history_archival_uri);
        record.history_archival =
            archival::next(&record.history_archival, state, uri, &default, |uri| archives.check(uri))?;
        let (state, uri) = (config.visibility_archival_state, &config.visibility_archival_uri);
        record.visibility_archival =
            archival::next(&record.visibility_archival, state, uri, &default, |uri| archives.check(uri))?;
    }
    if let Some(info) = request.update_info {
        if !info.description.is_empty() {
            record.description = info.description;
        }
        if !info.owner_email.is_empty() {
            record.owner_email = info.owner_email;
        }
        record.data.extend(info.data);
        record.state = next_state(record.state, info.state)?;
    }
    if config.workflow_execution_retention_ttl.is_some() {
        record.retention = span(config.workflow_execution_retention_ttl.as_ref());
        check_retention(record.retention, limits)?;
    }
    if let Some(added) = config.bad_binaries {
        for (checksum, info) in added.binaries {
            record.bad_binaries.insert(checksum, BadBinaryInfo { create_time: Some(timestamp(now)), ..info });
        }
        if record.bad_binaries.len() > MOST_BAD_BINARIES {
            return Err(ServiceError::invalid(format!(
                "Total resetBinaries cannot exceed the max limit: {MOST_BAD_BINARIES}"
            )));
        }
    }
    if !config.custom_search_attribute_aliases.is_empty() {
        return Err(ServiceError::Unimplemented(
            "custom_search_attribute_aliases; add search attributes with AddSearchAttributes".to_owned(),
        ));
    }
    let removed = request.delete_bad_binary;
    if !removed.is_empty() && record.bad_binaries.remove(&removed).is_none() {
        return Err(ServiceError::invalid(format!("Bad binary checksum {removed} doesn't exists.")));
    }
    if let Some(replication) = &request.replication_config {
        check_replication(replication)?;
    }
    if request.promote_namespace {
        return Err(ServiceError::invalid(format!(
            "global namespace is not enabled on this cluster, cannot update global namespace or promote local namespace: {}",
            record.name
        )));
    }
    Ok(())
}

/// There is one cluster, and nothing to fail over to.
fn check_replication(replication: &NamespaceReplicationConfig) -> Result<(), ServiceError> {
    if replication.state() == ReplicationState::Handover {
        return Err(ServiceError::invalid("Handover can only be set for global namespace"));
    }
    check_clusters(&replication.active_cluster_name, replication.clusters.iter().map(|it| it.cluster_name.as_str()))
}

pub(crate) fn check_clusters<'a>(active: &'a str, clusters: impl Iterator<Item = &'a str>) -> Result<(), ServiceError> {
    let mut named = Some(active).filter(|name| !name.is_empty()).into_iter().chain(clusters);
    match named.find(|name| *name != CLUSTER) {
        Some(name) => Err(ServiceError::invalid(format!("Invalid cluster name: {name}"))),
        None => Ok(()),
    }
}

/// A namespace goes from registered to deprecated and deleted, never back.
fn next_state(current: i32, asked: i32) -> Result<i32, ServiceError> {
    use NamespaceState::{Deleted, Deprecated, Registered, Unspecified};
    let state = |state| match NamespaceState::try_from(state).unwrap_or_default() {
        Unspecified => Registered,
        known => known,
    };
    match (state(current), NamespaceState::try_from(asked).unwrap_or_default()) {
        (_, Unspecified) => Ok(current),
        (old, new) if old == new => Ok(current),
        (Registered, Deprecated) => Ok(Deprecated as i32),
        (Registered | Deprecated, Deleted) => {
            Err(ServiceError::Unimplemented("this change of state; delete a namespace with DeleteNamespace".to_owned()))
        }
        _ => Err(ServiceError::invalid("Invalid namespace state update.")),
    }
}

/// The name of a deleted namespace: with the beginning of its id, longer where that name is taken.
pub(crate) fn deleted_name(name: &str, id: &str, taken: impl Fn(&str) -> bool) -> String {
    let named = |length: usize| format!("{name}-deleted-{}", id.get(..length).unwrap_or(id));
    (5..id.len()).map(named).find(|name| !taken(name)).unwrap_or_else(|| named(id.len()))
}

#[cfg(test)]
mod tests {
    use temporalio_protos::temporal::api::{
        namespace::v1::{BadBinaries, NamespaceConfig, UpdateNamespaceInfo},
        replication::v1::ClusterReplicationConfig,
    };

    use super::*;
    use crate::time::{SECOND, duration};

    struct NoArchives;

    impl Archives for NoArchives {
        fn default_uri(&self) -> Option<String> {
            None
        }
        fn check(&self, _uri: &str) -> Result<(), ServiceError> {
            Ok(())
        }
    }

    const DAY: Nanos = 24 * 3600 * SECOND;

    fn record() -> NamespaceRecord {
        NamespaceRecord { name: "n".into(), retention: DAY, ..NamespaceRecord::default() }
    }

    fn updated(request: UpdateNamespaceRequest) -> Result<NamespaceRecord, String> {
        let mut record = record();
        let done = update(&mut record, request, &Limits::default(), &NoArchives, SECOND);
        done.map(|()| record).map_err(|error| error.to_string())
    }

    fn config(config: NamespaceConfig) -> UpdateNamespaceRequest {
        UpdateNamespaceRequest { config: Some(config), ..UpdateNamespaceRequest::default() }
    }

    fn replication(replication: NamespaceReplicationConfig) -> UpdateNamespaceRequest {
        UpdateNamespaceRequest { replication_config: Some(replication), ..UpdateNamespaceRequest::default() }
    }

    #[test]
    fn given_fields_change_and_others_stay() {
        assert_eq!(updated(UpdateNamespaceRequest::default()), Ok(record()));
        let info = UpdateNamespaceInfo {
            description: "d".into(),
            data: [("a".to_owned(), "b".to_owned())].into(),
            state: NamespaceState::Deprecated as i32,
            ..UpdateNamespaceInfo::default()
        };
        let request = UpdateNamespaceRequest { update_info: Some(info), ..UpdateNamespaceRequest::default() };
        assert_eq!(
            updated(request),
            Ok(NamespaceRecord {
                description: "d".into(),
                data: [("a".to_owned(), "b".to_owned())].into(),
                state: NamespaceState::Deprecated as i32,
                ..record()
            })
        );
        let hour = NamespaceConfig {
            workflow_execution_retention_ttl: Some(duration(DAY / 24)),
            // Without a directory for archives, nothing can be archived.
            history_archival_state: 2,
            history_archival_uri: "file:///x".into(),
            ..NamespaceConfig::default()
        };
        assert_eq!(updated(config(hour)), Ok(NamespaceRecord { retention: DAY / 24, ..record() }));
    }

    #[test]
    fn refusals_have_the_servers_texts() {
        let retention = |nanos| NamespaceConfig {
            workflow_execution_retention_ttl: Some(duration(nanos)),
            ..NamespaceConfig::default()
        };
        let binaries = (0..11).map(|n| (n.to_string(), BadBinaryInfo::default())).collect();
        let cluster = |name: &str| ClusterReplicationConfig { cluster_name: name.into(), ..Default::default() };
        for (request, refusal) in [
            (config(retention(DAY / 25)), "A valid retention period is not set on request."),
            (config(retention(-DAY)), "A valid retention period is not set on request."),
            (
                config(NamespaceConfig { bad_binaries: Some(BadBinaries { binaries }), ..NamespaceConfig::default() }),
                "Total resetBinaries cannot exceed the max limit: 10",
            ),
            (
                UpdateNamespaceRequest { delete_bad_binary: "y".into(), ..UpdateNamespaceRequest::default() },
                "Bad binary checksum y doesn't exists.",
            ),
            (
                replication(NamespaceReplicationConfig { active_cluster_name: "other".into(), ..Default::default() }),
                "Invalid cluster name: other",
            ),
            (
                replication(NamespaceReplicationConfig {
                    clusters: vec![cluster(CLUSTER), cluster("x")],
                    ..Default::default()
                }),
                "Invalid cluster name: x",
            ),
            (
                replication(NamespaceReplicationConfig {
                    state: ReplicationState::Handover as i32,
                    ..Default::default()
                }),
                "Handover can only be set for global namespace",
            ),
            (
                UpdateNamespaceRequest { promote_namespace: true, ..UpdateNamespaceRequest::default() },
                "global namespace is not enabled on this cluster, cannot update global namespace or promote local namespace: n",
            ),
        ] {
            assert_eq!(updated(request), Err(refusal.to_owned()));
        }
        let back = next_state(NamespaceState::Deprecated as i32, NamespaceState::Registered as i32);
        assert_eq!(back, Err(ServiceError::invalid("Invalid namespace state update.")));
    }

    #[test]
    fn a_deleted_namespace_gets_a_free_name() {
        assert_eq!(deleted_name("n", "7f8279ef-baee", |_| false), "n-deleted-7f827");
        assert_eq!(deleted_name("n", "7f8279ef-baee", |name| name.len() < 16), "n-deleted-7f8279");
    }
}
