//! The embedded engine under faults: its process killed, its disk failing, its memory too small. A workload of raw
//! protocol calls keeps a journal of what was acknowledged, and histories must agree with it.
//!
//! - `client`, `plan`, `worker`, `driver`: the workload; `journal`: its requests and acknowledgements.
//! - `verify`: the journal against the histories and the disk.
//! - `equal`: single behaviours that must equal the real server's.
//! - `host`: an engine in the test's process; `script`: single requests to it.

mod batches;
mod bounds;
mod children;
mod client;
mod driver;
mod equal;
mod faults;
mod heartbeats;
mod host;
mod journal;
mod kill;
mod load;
mod orphans;
mod plan;
mod runs;
mod schedule_kills;
mod script;
mod truncated_log;
mod verify;
mod waiting;
mod worker;
