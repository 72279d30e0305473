//! Messages of Temporal's API as its JSON, as the stock CLI prints and reads it.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::Value;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin")).as_slice()).unwrap_or_default()
});

#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("there is no message {0}")]
    Unknown(&'static str),
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    Proto(#[from] prost::DecodeError),
}

fn description(name: &'static str) -> Result<MessageDescriptor, JsonError> {
    POOL.get_message_by_name(name).ok_or(JsonError::Unknown(name))
}

/// An encoded message as JSON.
pub(super) fn to_json(name: &'static str, encoded: &[u8]) -> Result<Value, JsonError> {
    Ok(serde_json::to_value(DynamicMessage::decode(description(name)?, encoded)?)?)
}

/// A message of JSON. Fields that this build does not know are left out.
pub(super) fn from_json<M: Message + Default>(name: &'static str, value: Value) -> Result<M, JsonError> {
    let options = prost_reflect::DeserializeOptions::new().deny_unknown_fields(false);
    let message = DynamicMessage::deserialize_with_options(description(name)?, value, &options)?;
    Ok(M::decode(message.encode_to_vec().as_slice())?)
}
