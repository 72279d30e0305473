//! The namespaces, kept in memory because every request names one.

mod archival;
mod changes;

use std::collections::{BTreeMap, HashMap};

use temporalio_protos::temporal::api::{
    common::v1::SearchAttributes,
    enums::v1::{IndexedValueType, NamespaceState},
};
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

    /// A namespace that is deprecated or deleted gets no new runs from clients. One that is not there is found out later.
    pub(crate) fn must_take_runs(&self, name: &str) -> Result<(), ServiceError> {
        let state = self.records.get(name).and_then(|record| NamespaceState::try_from(record.state).ok());
        match state {
            None | Some(NamespaceState::Unspecified | NamespaceState::Registered) => Ok(()),
            Some(state) => Err(ServiceError::NamespaceNotRegistered { namespace: name.to_owned(), state }),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registered_namespaces_take_runs() {
        let mut namespaces = Namespaces::default();
        for (name, state) in [("new", NamespaceState::Unspecified), ("old", NamespaceState::Deprecated)] {
            let record = NamespaceRecord { name: name.to_owned(), state: state as i32, ..NamespaceRecord::default() };
            namespaces.records.insert(name.to_owned(), record);
        }
        assert_eq!(namespaces.must_take_runs("new"), Ok(()));
        let error = namespaces.must_take_runs("old").unwrap_err();
        assert_eq!(error.to_string(), "Namespace has invalid state: Deprecated. Must be Registered.");
        assert_eq!(error.code(), tonic::Code::FailedPrecondition);
    }
}
