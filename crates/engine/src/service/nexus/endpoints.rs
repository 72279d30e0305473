//! Nexus endpoints: create, read, change, delete, list.

use std::sync::Arc;

use temporalio_protos::temporal::api::{
    nexus::v1::Endpoint,
    operatorservice::v1::{
        CreateNexusEndpointRequest, CreateNexusEndpointResponse, DeleteNexusEndpointRequest,
        DeleteNexusEndpointResponse, GetNexusEndpointRequest, GetNexusEndpointResponse, ListNexusEndpointsRequest,
        ListNexusEndpointsResponse, UpdateNexusEndpointRequest, UpdateNexusEndpointResponse,
    },
};
use windlass_sqlite::Ack;

use crate::{
    core::{Core, unavailable},
    nexus::{Endpoints, check_spec},
    persist::{self, EndpointRecord},
    service_error::ServiceError,
    time::optional_timestamp,
};

const PAGE: i32 = 1000;

impl Core {
    pub(in crate::service) async fn create_nexus_endpoint(
        self: &Arc<Self>,
        request: CreateNexusEndpointRequest,
    ) -> Result<CreateNexusEndpointResponse, ServiceError> {
        let spec = request.spec.unwrap_or_default();
        self.check_endpoint(&spec)?;
        let _one_by_one = self.nexus_changes.lock().await;
        let id = uuid::Uuid::new_v4().to_string();
        let record = self.read_endpoints().new_record(spec, id, self.now())?;
        let endpoint = Some(self.keep_endpoint(record).await?);
        Ok(CreateNexusEndpointResponse { endpoint })
    }

    pub(in crate::service) async fn update_nexus_endpoint(
        self: &Arc<Self>,
        request: UpdateNexusEndpointRequest,
    ) -> Result<UpdateNexusEndpointResponse, ServiceError> {
        let spec = request.spec.unwrap_or_default();
        self.check_endpoint(&spec)?;
        let _one_by_one = self.nexus_changes.lock().await;
        let record = self.read_endpoints().changed_record(&request.id, request.version, spec, self.now())?;
        let endpoint = Some(self.keep_endpoint(record).await?);
        Ok(UpdateNexusEndpointResponse { endpoint })
    }

    pub(in crate::service) async fn delete_nexus_endpoint(
        self: &Arc<Self>,
        request: DeleteNexusEndpointRequest,
    ) -> Result<DeleteNexusEndpointResponse, ServiceError> {
        let mut issues = id_issues(&request.id);
        if request.version <= 0 {
            issues.push("endpoint version is non-positive".to_owned());
        }
        refuse(&issues)?;
        let _one_by_one = self.nexus_changes.lock().await;
        let id = request.id;
        if self.read_endpoints().get(&id).is_none() {
            return Err(ServiceError::not_found(format!("error deleting nexus endpoint with ID: {id}")));
        }
        let removed = id.clone();
        let ticket = self.database.apply(Ack::Durable, move |tx| persist::remove_endpoint(tx, &removed));
        ticket.await.map_err(|error| unavailable(&error))?;
        self.write_endpoints().remove(&id);
        Ok(DeleteNexusEndpointResponse {})
    }

    pub(in crate::service) async fn get_nexus_endpoint(
        self: &Arc<Self>,
        request: GetNexusEndpointRequest,
    ) -> Result<GetNexusEndpointResponse, ServiceError> {
        refuse(&id_issues(&request.id))?;
        match self.read_endpoints().get(&request.id) {
            Some(record) => Ok(GetNexusEndpointResponse { endpoint: Some(shown(record)) }),
            None => Err(ServiceError::not_found(format!("Nexus endpoint with ID `{}` not found", request.id))),
        }
    }

    pub(in crate::service) async fn list_nexus_endpoints(
        self: &Arc<Self>,
        request: ListNexusEndpointsRequest,
    ) -> Result<ListNexusEndpointsResponse, ServiceError> {
        let endpoints = self.read_endpoints();
        if !request.name.is_empty() {
            let endpoints = endpoints.named(&request.name).map(shown).into_iter().collect();
            return Ok(ListNexusEndpointsResponse { endpoints, ..ListNexusEndpointsResponse::default() });
        }
        if request.page_size < 0 {
            return Err(ServiceError::invalid("page_size is negative"));
        }
        if request.page_size > PAGE {
            return Err(ServiceError::invalid(format!("page_size exceeds limit of {PAGE}")));
        }
        let size = usize::try_from(request.page_size).ok().filter(|size| *size > 0).unwrap_or(100);
        let (page, next) = endpoints.page(&String::from_utf8_lossy(&request.next_page_token), size);
        Ok(ListNexusEndpointsResponse {
            endpoints: page.iter().map(shown).collect(),
            next_page_token: next.map(String::into_bytes).unwrap_or_default(),
        })
    }

    fn check_endpoint(
        &self,
        spec: &temporalio_protos::temporal::api::nexus::v1::EndpointSpec,
    ) -> Result<(), ServiceError> {
        check_spec(spec, |namespace| self.read_namespaces().id(namespace).is_some())
    }

    async fn keep_endpoint(&self, record: EndpointRecord) -> Result<Endpoint, ServiceError> {
        let kept = record.clone();
        let ticket = self.database.apply(Ack::Durable, move |tx| persist::save_endpoint(tx, &kept));
        ticket.await.map_err(|error| unavailable(&error))?;
        let endpoint = shown(&record);
        self.write_endpoints().put(record);
        Ok(endpoint)
    }

    pub(crate) fn read_endpoints(&self) -> std::sync::RwLockReadGuard<'_, Endpoints> {
        self.nexus_endpoints.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write_endpoints(&self) -> std::sync::RwLockWriteGuard<'_, Endpoints> {
        self.nexus_endpoints.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn shown(record: &EndpointRecord) -> Endpoint {
    Endpoint {
        version: record.version,
        id: record.id.clone(),
        spec: Some(record.spec.clone()),
        created_time: optional_timestamp(record.created),
        last_modified_time: optional_timestamp(record.modified),
        url_prefix: format!("/nexus/endpoints/{}/services", record.id),
    }
}

fn id_issues(id: &str) -> Vec<String> {
    if id.is_empty() {
        return vec!["endpoint ID not set".to_owned()];
    }
    match uuid::Uuid::try_parse(id) {
        Ok(_) => Vec::new(),
        Err(_) => vec![format!("malformed endpoint ID: \"invalid UUID length: {}\"", id.len())],
    }
}

fn refuse(issues: &[String]) -> Result<(), ServiceError> {
    if issues.is_empty() { Ok(()) } else { Err(ServiceError::invalid(issues.join(", "))) }
}
