//! Invariant 11 over long runs: turn after turn of the same work costs the same bytes.
