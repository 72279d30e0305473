//! Scripts of requests against a deployment, and properties of the routing.

mod changes;
mod routes;
