//! The Temporal client: connecting, payload encoding, search attributes and pollers.

mod attributes;
mod codec;
mod connect;
mod embedded;
mod pollers;

pub use self::{
    attributes::{AttributesError, ensure_search_attributes, missing_search_attributes},
    codec::CanonicalCodec,
    connect::{Connect, ConnectError, TlsFiles, connect},
    embedded::connect_embedded,
    pollers::{Pollers, pollers},
};
