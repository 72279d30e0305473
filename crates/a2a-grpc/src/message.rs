//! A message as bytes and as JSON.

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde_json::{Map, Number, Value};

use crate::{POOL, weigh};

/// Bytes that are not the message, or JSON that is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the message has more than {0} values")]
    TooManyValues(usize),
    #[error("the message is not a {message}: {problem}")]
    Message { message: String, problem: String },
}

/// The type of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message(MessageDescriptor);

impl Message {
    /// By its full name, as `google.rpc.Status`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        POOL.get_message_by_name(name).map(Self)
    }

    pub(crate) fn of(descriptor: MessageDescriptor) -> Self {
        Self(descriptor)
    }

    /// Fields that this build does not know are left out, as in the JSON of protobuf. Each value takes more memory than its
    /// bytes, so they are counted before any is built.
    pub fn to_json(&self, bytes: &[u8], max_values: usize) -> Result<Value, Malformed> {
        if !weigh::has_at_most(&self.0, bytes, max_values).map_err(|problem| self.malformed(problem))? {
            return Err(Malformed::TooManyValues(max_values));
        }
        let message = DynamicMessage::decode(self.0.clone(), bytes).map_err(|error| self.malformed(error))?;
        let mut json = serde_json::to_value(&message).map_err(|error| self.malformed(error))?;
        write_whole_numbers(&mut json);
        Ok(json)
    }

    /// Fields that the message does not have are left out. `null` is an empty message.
    pub fn to_bytes(&self, json: &Value) -> Result<Bytes, Malformed> {
        let empty = Value::Object(Map::new());
        let json = if json.is_null() { &empty } else { json };
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        let message = DynamicMessage::deserialize_with_options(self.0.clone(), json, &options);
        Ok(message.map_err(|error| self.malformed(error))?.encode_to_vec().into())
    }

    fn malformed(&self, problem: impl ToString) -> Malformed {
        Malformed::Message { message: self.0.name().to_owned(), problem: problem.to_string() }
    }
}

/// All numbers of `google.protobuf.Value` are floats, and `1` would come back as `1.0`.
fn write_whole_numbers(json: &mut Value) {
    /// Up to here each whole number is a float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match json {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT);
            if let Some(whole) = whole {
                *number = Number::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(write_whole_numbers),
        _ => {}
    }
}
