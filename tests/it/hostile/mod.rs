//! Callers that send too much, on purpose. How much is read from the environment, so that `cargo xtask hostile` can send
//! more than a test suite has time for.

mod heavy_bodies;
mod many_tools;
mod rate_limited_connections;

/// How many of something to send: the variable, or a number that takes no time.
fn count(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
