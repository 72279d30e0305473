//! How envelopes cross to activities and back: straight to canonical JSON and straight from it.
//!
//! The SDK's own converter builds a JSON value on the way in, and its output would have to be made canonical afterwards.
//! A step does both several times, with everything the model and its tools have said.

use serde::{Serialize, de::DeserializeOwned};
use temporalio_common::{
    data_converters::{PayloadConversionError, SerializationContext, TemporalDeserializable, TemporalSerializable},
    protos::temporal::api::common::v1::Payload,
};
use windlass_core::canonical;

const ENCODING: &str = "encoding";
pub(crate) const JSON_ENCODING: &str = "json/plain";
const JSON: &[u8] = JSON_ENCODING.as_bytes();

/// Says that a payload is canonical already. It never leaves the process: the codec of the connection takes it off.
pub const CANONICAL: &str = "windlass-canonical";

/// An envelope at the boundary.
#[derive(Debug, Clone, PartialEq)]
pub struct Wire<T>(pub T);

impl<T: Serialize> TemporalSerializable for Wire<T> {
    fn to_payload(&self, _context: &SerializationContext<'_>) -> Result<Payload, PayloadConversionError> {
        let data = canonical::bytes_of(&self.0).map_err(|error| PayloadConversionError::EncodingError(error.into()))?;
        let metadata = [(ENCODING.to_owned(), JSON.to_vec()), (CANONICAL.to_owned(), Vec::new())];
        Ok(Payload { metadata: metadata.into(), data, ..Payload::default() })
    }
}

impl<T: DeserializeOwned> TemporalDeserializable for Wire<T> {
    fn from_payload(_context: &SerializationContext<'_>, payload: Payload) -> Result<Self, PayloadConversionError> {
        if payload.metadata.get(ENCODING).map(Vec::as_slice) != Some(JSON) {
            return Err(PayloadConversionError::WrongEncoding);
        }
        let envelope = serde_json::from_slice(&payload.data);
        envelope.map(Self).map_err(|error| PayloadConversionError::EncodingError(error.into()))
    }
}
