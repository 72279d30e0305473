//! The TCP port: HTTP/2 gRPC in, [`Call`]s out, and their answers back.
//!
//! Nothing here knows a single RPC except the health check, which is about the port itself: every path of the form
//! `/service/rpc` goes to the handler as bytes.

mod codec;
mod connections;
#[cfg(test)]
mod crowd;
mod exchange;
mod health;
#[cfg(test)]
mod tests;
mod timeout;

use futures_util::future::BoxFuture;

pub use self::{connections::serve, timeout::timeout};
use crate::{Answer, Call};

/// What answers the calls of every connection.
pub trait Handler: Fn(Call) -> BoxFuture<'static, Answer> + Clone + Send + Sync + 'static {}

impl<H: Fn(Call) -> BoxFuture<'static, Answer> + Clone + Send + Sync + 'static> Handler for H {}
