//! Nexus endpoints: names under which runs call services of workers in any namespace.
//!
//! They are few and belong to no namespace, so all are in memory. `spec` has the rules for what an endpoint may be.
//! What runs do with them is in `run::nexus`, the requests about them in `service::nexus`.

mod spec;

use std::collections::BTreeMap;

use windlass_sqlite::{Database, DatabaseError};

pub(crate) use self::spec::check_spec;
use crate::{
    persist::{self, EndpointRecord},
    run::nexus::{Endpoint, EndpointTarget},
    service_error::ServiceError,
    time::Nanos,
};
use temporalio_protos::temporal::api::nexus::v1::{EndpointSpec, endpoint_target::Variant};

/// By their ids.
#[derive(Debug, Default)]
pub(crate) struct Endpoints(BTreeMap<String, EndpointRecord>);

impl Endpoints {
    pub(crate) fn load(database: &Database) -> Result<Self, DatabaseError> {
        let records = database.read_blocking(|sql| Ok::<_, DatabaseError>(persist::endpoints(sql)?))?;
        Ok(Self(records.into_iter().map(|record| (record.id.clone(), record)).collect()))
    }

    /// The endpoint with this id or, if there is none, with this name, as runs need it.
    pub(crate) fn find(&self, id: &str, name: &str) -> Option<Endpoint> {
        let record = self.0.get(id).or_else(|| self.named(name))?;
        let target = match record.spec.target.clone()?.variant? {
            Variant::Worker(worker) => {
                EndpointTarget::Worker { namespace: worker.namespace, task_queue: worker.task_queue }
            }
            Variant::External(_) => EndpointTarget::External,
        };
        Some(Endpoint { id: record.id.clone(), target })
    }

    pub(crate) fn get(&self, id: &str) -> Option<&EndpointRecord> {
        self.0.get(id)
    }

    pub(crate) fn named(&self, name: &str) -> Option<&EndpointRecord> {
        self.0.values().find(|record| record.spec.name == name)
    }

    /// A page in the order of ids, from this id on, and the id with which the next page begins.
    pub(crate) fn page(&self, from: &str, size: usize) -> (Vec<EndpointRecord>, Option<String>) {
        let mut rest = self.0.range(from.to_owned()..).map(|(_, record)| record);
        let page = rest.by_ref().take(size).cloned().collect();
        (page, rest.next().map(|record| record.id.clone()))
    }

    /// The record of a new endpoint.
    pub(crate) fn new_record(
        &self,
        spec: EndpointSpec,
        id: String,
        now: Nanos,
    ) -> Result<EndpointRecord, ServiceError> {
        if self.named(&spec.name).is_some() {
            return Err(ServiceError::AlreadyExists(format!(
                "error creating Nexus endpoint. Endpoint with name {} already registered",
                spec.name
            )));
        }
        Ok(EndpointRecord { id, version: 1, spec, created: now, modified: 0 })
    }

    /// The record of a changed endpoint. The caller must know its version.
    pub(crate) fn changed_record(
        &self,
        id: &str,
        version: i64,
        spec: EndpointSpec,
        now: Nanos,
    ) -> Result<EndpointRecord, ServiceError> {
        let Some(known) = self.0.get(id) else {
            return Err(ServiceError::not_found(format!("error updating Nexus endpoint. endpoint ID {id} not found")));
        };
        if known.version != version {
            return Err(ServiceError::FailedPrecondition(format!(
                "nexus endpoint version mismatch. received: {version} expected {}",
                known.version
            )));
        }
        if self.named(&spec.name).is_some_and(|other| other.id != id) {
            return Err(ServiceError::AlreadyExists(format!(
                "error updating Nexus endpoint. Endpoint with name {} already registered",
                spec.name
            )));
        }
        Ok(EndpointRecord { id: id.to_owned(), version: version + 1, spec, created: 0, modified: now })
    }

    pub(crate) fn put(&mut self, record: EndpointRecord) {
        self.0.insert(record.id.clone(), record);
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.0.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str) -> EndpointSpec {
        EndpointSpec { name: name.to_owned(), ..EndpointSpec::default() }
    }

    fn endpoints(names: &[&str]) -> Endpoints {
        let mut endpoints = Endpoints::default();
        for name in names {
            let record = endpoints.new_record(spec(name), format!("id of {name}"), 1).unwrap();
            endpoints.put(record);
        }
        endpoints
    }

    #[test]
    fn a_name_is_used_once_and_a_change_needs_the_version() {
        let mut endpoints = endpoints(&["a", "b"]);
        assert!(endpoints.new_record(spec("a"), "other".to_owned(), 1).is_err());
        let changed = endpoints.changed_record("id of a", 1, spec("c"), 2).unwrap();
        assert_eq!((changed.version, changed.created, changed.modified), (2, 0, 2));
        endpoints.put(changed);
        let refused = endpoints.changed_record("id of a", 1, spec("c"), 3).unwrap_err();
        assert_eq!(refused.to_string(), "nexus endpoint version mismatch. received: 1 expected 2");
        assert!(endpoints.changed_record("id of a", 2, spec("b"), 3).is_err());
        assert!(endpoints.changed_record("no", 1, spec("d"), 3).is_err());
        assert!(endpoints.named("a").is_none());
        endpoints.remove("id of a");
        assert!(endpoints.get("id of a").is_none());
    }

    #[test]
    fn pages_are_in_the_order_of_ids() {
        let endpoints = endpoints(&["c", "a", "b"]);
        let names = |page: &[EndpointRecord]| page.iter().map(|it| it.spec.name.clone()).collect::<Vec<_>>();
        let (page, next) = endpoints.page("", 2);
        assert_eq!((names(&page), next.as_deref()), (vec!["a".to_owned(), "b".to_owned()], Some("id of c")));
        let (page, next) = endpoints.page("id of c", 2);
        assert_eq!((names(&page), next), (vec!["c".to_owned()], None));
    }
}
