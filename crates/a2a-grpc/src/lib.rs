//! The gRPC binding of A2A 1.0: its service, and its messages as JSON.
//!
//! A2A's JSON is the JSON form of its protobuf messages, so a message is converted by its description (`message`), which the
//! build compiles from `proto/`. There are no message types here and no code for single fields. `codec` is for tonic, which
//! frames and compresses; `status` has the details of errors. Servers and clients bring their own connections.

mod codec;
mod message;
mod status;
#[cfg(test)]
mod tests;
mod weigh;

use std::sync::LazyLock;

use http::uri::PathAndQuery;
use prost_reflect::{DescriptorPool, MethodDescriptor};

pub use self::{
    codec::BytesCodec,
    message::{Malformed, Message},
    status::{details, reason, status},
};

pub const SERVICE: &str = "lf.a2a.v1.A2AService";

/// Everything that the build compiled. Its bytes are part of the program: a test reads them.
static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin")).as_slice()).unwrap_or_default()
});

/// A method of the service. Its name is that of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method(MethodDescriptor);

impl Method {
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|method| method.0.name() == name)
    }

    pub fn all() -> impl Iterator<Item = Self> {
        let service = POOL.get_service_by_name(SERVICE);
        service.into_iter().flat_map(|service| service.methods().map(Self).collect::<Vec<_>>())
    }

    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Whether its response is a stream of messages.
    pub fn is_streaming(&self) -> bool {
        self.0.is_server_streaming()
    }

    pub fn path(&self) -> PathAndQuery {
        // Names of protobuf are letters, digits, dots and underscores.
        format!("/{SERVICE}/{}", self.0.name()).parse().unwrap_or_else(|_| PathAndQuery::from_static("/"))
    }

    pub fn request(&self) -> Message {
        Message::of(self.0.input())
    }

    pub fn response(&self) -> Message {
        Message::of(self.0.output())
    }
}
