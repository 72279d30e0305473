//! Workers of Temporal's SDKs whose activities and workflows are tools of agents, each in a process of its own.

use std::process::{Command, Stdio};

use super::{
    node::{Programs, fixture, tool},
    process::Process,
};

/// A task queue of its own.
pub(crate) fn queue(name: &str) -> String {
    format!("{name}-{}", uuid::Uuid::now_v7().simple())
}

/// A worker of the Python SDK that polls.
pub(crate) fn python_worker(address: &str, queue: &str) -> Process {
    let mut command = Command::new("python3");
    command.arg(fixture("temporal/worker.py")).args([address, queue]);
    command.env("PYTHONPATH", tool("WINDLASS_PYTHON_SDK"));
    polling(command)
}

/// The worker of the TypeScript SDK and its workflows.
pub(crate) fn node_programs() -> Programs {
    Programs::new("WINDLASS_NODE_TEMPORAL", &["temporal/worker.mjs", "temporal/workflows.mjs"])
}

/// A worker of the TypeScript SDK that polls. Its booking of `stuck_day` never ends.
pub(crate) fn node_worker(programs: &Programs, address: &str, queue: &str, stuck_day: &str) -> Process {
    let mut command = programs.command("worker.mjs");
    command.args([address, queue, stuck_day]);
    polling(command)
}

fn polling(mut command: Command) -> Process {
    // It ends when its standard input does, also if the test is killed.
    command.stdin(Stdio::piped());
    let worker = Process::spawn(command);
    worker.line(|line| line == "ready");
    worker
}
