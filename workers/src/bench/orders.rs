//! The protocol between the parent and the child process: one JSON document per line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{lists::Timed, work::Work};

/// The first line: the child's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Brief {
    pub(super) data_dir: PathBuf,
    pub(super) task_queue: String,
    pub(super) work: Work,
    /// The file in which every execution of a call is recorded.
    pub(super) ledger: Option<PathBuf>,
    /// The number of calls after which `halfway` is reported.
    pub(super) halfway: Option<u64>,
    /// The total number of runs.
    pub(super) runs: u32,
}

impl Brief {
    /// Without a ledger. Directory and task queue are set when the process is started.
    pub(super) fn of(work: Work) -> Self {
        Self { data_dir: PathBuf::new(), task_queue: String::new(), work, ledger: None, halfway: None, runs: 0 }
    }
}

/// Every other line. Runs have numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(super) enum Order {
    /// Start runs that ask a question; done when all of them wait.
    Park { first: u32, count: u32 },
    /// Start runs that work; done when all are started.
    Start { count: u32 },
    /// Done when all of them have completed.
    Finish { count: u32 },
    /// Answer one that waits; done when it has completed.
    Answer { run: u32 },
    /// Run short runs; done when all of them are closed.
    Close { count: u32 },
    /// Done when the list of runs can be read.
    Look,
    /// Time lists and counts of runs, with so many closed ones.
    TimeLists { runs: u32 },
    /// Count the calls whose outcome is unknown.
    CountUnknown { count: u32 },
    /// Shut down.
    Stop,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub(super) enum Report {
    Progress { runs: u32 },
    Done,
    Counted { calls: u64 },
    Timed { requests: Vec<Timed> },
    Halfway,
    Failed { message: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let orders = [Order::Park { first: 3, count: 4 }, Order::Answer { run: 0 }, Order::Stop];
        for order in orders {
            let line = serde_json::to_string(&order).unwrap();
            assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order, "{line}");
        }
        assert_eq!(serde_json::to_string(&Report::Progress { runs: 7 }).unwrap(), r#"{"report":"progress","runs":7}"#);
    }
}
