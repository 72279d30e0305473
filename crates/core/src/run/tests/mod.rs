//! Table tests of the run: one decision at a time, told as scripts. What must hold for every run is in `invariants`.

mod approvals;
mod bench;
mod carrying;
mod children;
mod clarifications;
mod client_tools;
mod confirmations;
mod control;
mod endings;
mod expiry;
mod finalising;
mod guards;
mod models;
mod rounds;
mod sizes;
mod stops;
mod words;
