//! The TCP port: decodes HTTP/2 gRPC into [`Call`]s and encodes their replies.
//!
//! This module does not know any RPC: every path of the form `/service/rpc` goes to the handler as bytes.

mod codec;
#[cfg(test)]
mod connection_tests;
mod connections;
mod exchange;
#[cfg(test)]
mod tests;
mod timeout;

use futures_util::future::BoxFuture;

pub use self::{connections::serve, timeout::timeout};
use crate::{Answer, Call};

/// Answers the calls of all connections.
pub trait Handler: Fn(Call) -> BoxFuture<'static, Answer> + Clone + Send + Sync + 'static {}

impl<H: Fn(Call) -> BoxFuture<'static, Answer> + Clone + Send + Sync + 'static> Handler for H {}
