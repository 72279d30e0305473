//! The search attributes of runs. They must be registered in the namespace before the first run: a workflow task that sets
//! an unknown attribute fails.

use std::collections::HashMap;

use temporalio_client::{Client, NamespacedClient, tonic::IntoRequest};
use temporalio_protos::temporal::api::{
    enums::v1::IndexedValueType,
    operatorservice::v1::{AddSearchAttributesRequest, ListSearchAttributesRequest},
};
use windlass_workflows::attributes::NAMES;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttributesError {
    #[error(
        "OPS0004: the search attributes of runs cannot be registered in namespace {namespace} ({reason}); register \
         {} as Keyword there", NAMES.join(", ")
    )]
    Refused { namespace: String, reason: String },
    #[error("OPS0004: search attribute {name} exists in namespace {namespace} with another type; it must be Keyword")]
    WrongType { namespace: String, name: String },
}

/// Registers the missing search attributes.
pub async fn ensure_search_attributes(client: &Client) -> Result<(), AttributesError> {
    let missing = missing_search_attributes(client).await?;
    if missing.is_empty() {
        return Ok(());
    }
    let namespace = client.namespace();
    let keyword = i32::from(IndexedValueType::Keyword);
    let search_attributes: HashMap<String, i32> = missing.iter().map(|name| ((*name).to_owned(), keyword)).collect();
    let add = AddSearchAttributesRequest { search_attributes, namespace: namespace.clone() };
    match client.connection().operator_service().add_search_attributes(add.into_request()).await {
        Ok(_) => Ok(()),
        // Another worker registered them meanwhile.
        Err(status) if status.code() == temporalio_client::tonic::Code::AlreadyExists => Ok(()),
        Err(status) => Err(AttributesError::Refused { namespace, reason: status.message().to_owned() }),
    }
}

/// The search attributes that are not registered yet. Fails if one is registered with another type.
pub async fn missing_search_attributes(client: &Client) -> Result<Vec<&'static str>, AttributesError> {
    let namespace = client.namespace();
    let list = ListSearchAttributesRequest { namespace: namespace.clone() };
    let known = client.connection().operator_service().list_search_attributes(list.into_request()).await;
    let known = known.map_err(|status| AttributesError::Refused {
        namespace: namespace.clone(),
        reason: status.message().to_owned(),
    })?;
    let known = known.into_inner().custom_attributes;
    let keyword = i32::from(IndexedValueType::Keyword);
    let mut missing = Vec::new();
    for name in NAMES {
        match known.get(name) {
            Some(kind) if *kind == keyword => {}
            Some(_) => return Err(AttributesError::WrongType { namespace, name: name.to_owned() }),
            None => missing.push(name),
        }
    }
    Ok(missing)
}
