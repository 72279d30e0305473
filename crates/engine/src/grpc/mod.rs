//! The TCP port: HTTP/2 gRPC in, [`Call`]s out, and their answers back.
//!
//! Nothing here knows a single RPC: every path of the form `/service/rpc` goes to the handler as bytes.

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

/// What answers the calls of every connection.
pub trait Handler: Fn(Call) -> BoxFuture<'static, Answer> + Clone + Send + Sync + 'static {}

impl<H: Fn(Call) -> BoxFuture<'static, Answer> + Clone + Send + Sync + 'static> Handler for H {}
