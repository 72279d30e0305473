//! How many values a message has, from its bytes alone.

use bytes::Buf as _;
use prost::{
    DecodeError,
    encoding::{WireType, decode_key, decode_varint},
};
use prost_reflect::{Kind, MessageDescriptor};

/// As deep as prost reads.
const DEPTH: usize = 100;

/// Whether there are at most `max` fields in the message and in those that it contains.
pub(crate) fn has_at_most(message: &MessageDescriptor, bytes: &[u8], max: usize) -> Result<bool, String> {
    let mut left = max;
    count(message, bytes, &mut left, DEPTH)
}

fn count(message: &MessageDescriptor, mut bytes: &[u8], left: &mut usize, depth: usize) -> Result<bool, String> {
    let text = |error: DecodeError| error.to_string();
    let deeper = depth.checked_sub(1).ok_or("it is nested too deep")?;
    while bytes.has_remaining() {
        let Some(rest) = left.checked_sub(1) else { return Ok(false) };
        *left = rest;
        let (tag, wire) = decode_key(&mut bytes).map_err(text)?;
        let length = match wire {
            WireType::Varint => {
                decode_varint(&mut bytes).map_err(text)?;
                continue;
            }
            WireType::ThirtyTwoBit => 4,
            WireType::SixtyFourBit => 8,
            WireType::LengthDelimited => decode_varint(&mut bytes).map_err(text)?,
            WireType::StartGroup | WireType::EndGroup => {
                return Err("it has a group, which proto3 does not have".to_owned());
            }
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= bytes.len());
        let (inner, rest) = bytes.split_at(length.ok_or("it is cut off")?);
        bytes = rest;
        if let Some(Kind::Message(message)) = message.get_field(tag).map(|field| field.kind())
            && wire == WireType::LengthDelimited
            && !count(&message, inner, left, deeper)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}
