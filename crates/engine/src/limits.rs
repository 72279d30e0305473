//! Limits on sizes and counts. The values are the real server's, so that workflows behave the same on both.

use crate::time::{Nanos, SECOND};

#[derive(Debug, Clone)]
pub struct Limits {
    /// Length of ids and names, in bytes.
    pub id_length: usize,
    /// Size of one payload field, in bytes.
    pub blob_bytes: usize,
    pub memo_bytes: usize,
    pub suggest_continue_bytes: i64,
    pub suggest_continue_events: i64,
    pub pending_activities: usize,
    pub pending_children: usize,
    pub pending_signals: usize,
    pub pending_nexus_operations: usize,
    /// Completion callbacks of a run.
    pub callbacks: usize,
    pub pending_cancels: usize,
    pub signals: usize,
    pub updates_in_flight: usize,
    pub updates_in_all: usize,
    pub queries_waiting: usize,
    /// How long a worker may extend one workflow task by heartbeats.
    pub task_heartbeats: Nanos,
    /// The shortest retention of closed runs that a namespace may have.
    pub shortest_retention: Nanos,
    /// Runs of one page of a list.
    pub list_page: usize,
    /// Runs of one page of a list of archived runs.
    pub archived_page: usize,
    /// Reset points that a chain keeps.
    pub reset_points: usize,
    /// Runs kept in memory. Others are read from disk when they are needed.
    pub cached_runs: usize,
    /// Tasks of one queue kept in memory. Others are read from disk when there is room.
    pub queued_tasks: usize,
    /// Queued writes above which requests are rejected. The database accepts twice as many, so that operations in
    /// progress can finish.
    pub waiting_writes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            id_length: 1000,
            blob_bytes: 2 * 1024 * 1024,
            memo_bytes: 2 * 1024 * 1024,
            suggest_continue_bytes: 4 * 1024 * 1024,
            suggest_continue_events: 4 * 1024,
            pending_activities: 2000,
            pending_children: 2000,
            pending_signals: 2000,
            pending_nexus_operations: 30,
            callbacks: 2000,
            pending_cancels: 2000,
            signals: 10_000,
            updates_in_flight: 10,
            updates_in_all: 2000,
            queries_waiting: 1000,
            task_heartbeats: 30 * 60 * SECOND,
            shortest_retention: 3600 * SECOND,
            list_page: 1000,
            archived_page: 10_000,
            reset_points: 20,
            cached_runs: 1000,
            queued_tasks: 100_000,
            waiting_writes: 32 * 1024,
        }
    }
}
