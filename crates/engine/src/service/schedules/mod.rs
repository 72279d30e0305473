//! Schedules: the requests, and the turns of a schedule.
//!
//! A schedule is loaded for each request or turn and is not kept in memory. `turn` executes what the state machine
//! decides; `requests` has changes, `reads` descriptions and lists, `checks` the checks of both, `runs` the runs that a
//! schedule starts.

mod checks;
mod reads;
mod requests;
mod runs;
mod turn;
