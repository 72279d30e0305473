//! The engine's tables: what is written when a run takes a step, and what is read when one is needed again.
//!
//! Nothing is decided here. Lists and their filters are in `visibility`.

mod history;
mod namespaces;
mod runs;

use windlass_sqlite::Database;

pub(crate) use self::{
    history::{Batch, batches, event, events_after, events_before},
    namespaces::{NamespaceRecord, attributes, namespaces, remove_attribute, save_attribute, save_namespace},
    runs::{Found, RunWrite, alarms, current_run, delete_run, expired, find_run, highest_number, ready_runs},
};

const COMPONENT: &str = "engine";
pub(crate) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_history_in_order.sql"),
    include_str!("migrations/0003_steps_touch_fewer_pages.sql"),
];

pub(crate) fn migrate(database: &Database) -> windlass_sqlite::Result<()> {
    database.migrate(COMPONENT, MIGRATIONS)
}
