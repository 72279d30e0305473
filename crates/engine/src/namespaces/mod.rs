//! The namespaces, kept in memory because every request names one.

mod archival;
mod changes;

use std::collections::{BTreeMap, HashMap};

use temporalio_protos::temporal::api::{common::v1::SearchAttributes, enums::v1::IndexedValueType};
use windlass_sqlite::{Database, DatabaseError};

use crate::{
    persist::{self, NamespaceRecord},
    service_error::ServiceError,
    visibility::{self, Attributes},
};

pub(crate) use self::{
    archival::next as next_archival,
    changes::{Archives, CLUSTER, check_clusters, check_retention, deleted_name, update},
};

#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    pub(crate) records: BTreeMap<String, NamespaceRecord>,
    attributes: HashMap<String, BTreeMap<String, IndexedValueType>>,
}

impl Namespaces {
    pub(crate) fn load(database: &Database) -> Result<Self, DatabaseError> {
        let (records, attributes) = database
            .read_blocking(|sql| Ok::<_, DatabaseError>((persist::namespaces(sql)?, persist::attributes(sql)?)))?;
        let mut namespaces = Self::default();
        for record in records {
            namespaces.records.insert(record.name.clone(), record);
        }
        for (namespace, name, kind) in attributes {
            namespaces.attributes.entry(namespace).or_default().insert(name, kind);
        }
        Ok(namespaces)
    }

    pub(crate) fn id(&self, name: &str) -> Option<String> {
        self.records.get(name).map(|record| record.id.clone())
    }

    /// The namespace of a request.
    pub(crate) fn named(&self, name: &str) -> Result<&NamespaceRecord, ServiceError> {
        if name.is_empty() {
            return Err(ServiceError::invalid("Namespace is empty."));
        }
        self.records.get(name).ok_or_else(|| ServiceError::NamespaceNotFound(name.to_owned()))
    }

    /// Forgets what was kept for a deleted namespace.
    pub(crate) fn forget(&mut self, name: &str, former: &str) {
        self.records.remove(name);
        self.attributes.remove(former);
    }

    pub(crate) fn attributes(&self, namespace: &str) -> Attributes {
        self.attributes.get(namespace).into_iter().flatten().map(|(name, kind)| (name.clone(), *kind)).collect()
    }

    pub(crate) fn custom_attributes(&self, namespace: &str) -> HashMap<String, i32> {
        let known = self.attributes.get(namespace).into_iter().flatten();
        known.map(|(name, kind)| (name.clone(), *kind as i32)).collect()
    }

    pub(crate) fn add_attribute(&mut self, namespace: &str, name: String, kind: IndexedValueType) {
        self.attributes.entry(namespace.to_owned()).or_default().insert(name, kind);
    }

    pub(crate) fn remove_attribute(&mut self, namespace: &str, name: &str) {
        if let Some(attributes) = self.attributes.get_mut(namespace) {
            attributes.remove(name);
        }
    }

    /// Rejects search attributes that the namespace does not have, and adds the type to each value.
    pub(crate) fn check(&self, namespace: &str, given: &mut SearchAttributes) -> Result<(), ServiceError> {
        visibility::index::index(namespace, given, &self.attributes(namespace))?;
        for (name, value) in &mut given.indexed_fields {
            if let Some(kind) = self.attributes(namespace).kind_of(name) {
                value.metadata.entry("type".to_owned()).or_insert_with(|| kind.as_bytes().to_vec());
            }
        }
        Ok(())
    }
}
