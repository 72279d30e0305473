//! The promises that need more than one run to show. Each has a short form here and a long one behind `cargo xtask`,
//! scaled by an environment variable, and prints what it measured.

mod chaos;
pub(crate) mod dice;
mod flat_history;
mod invariants;
mod long_wait;
mod rolling;
mod same_history;

/// A size from the environment, or the short form's.
pub(crate) fn scale(variable: &str, short: usize) -> usize {
    std::env::var(variable).map_or(short, |value| value.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
