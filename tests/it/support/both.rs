//! The same work on the real server and on the engine: what is printed must be equal.

use std::{ffi::OsStr, process::Command};

use serde_json::Value;

use super::{
    node::tool,
    server::{self, Server},
};

/// The real server first: what it does is right.
pub(crate) type Pair = [&'static Server; 2];

pub(crate) fn on_both<T: Send>(work: impl Fn(&'static Server) -> T + Sync) -> [T; 2] {
    on_each([server::temporal(), server::embedded()], work)
}

/// On both servers at the same time.
pub(crate) fn on_each<T: Send>(servers: Pair, work: impl Fn(&'static Server) -> T + Sync) -> [T; 2] {
    let work = &work;
    std::thread::scope(|scope| {
        servers
            .map(|server| scope.spawn(move || work(server)))
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Lines that are the same on both servers.
#[track_caller]
pub(crate) fn assert_same(lines: impl Fn(&'static Server) -> Vec<String> + Sync) {
    assert_equal(on_both(lines));
}

/// Lines of the real server and of the engine.
#[track_caller]
pub(crate) fn assert_equal([real, engine]: [Vec<String>; 2]) {
    assert!(!real.is_empty());
    for (number, (real, engine)) in real.iter().zip(&engine).enumerate() {
        assert_eq!(engine, real, "line {number}");
    }
    assert_eq!(engine.len(), real.len());
}

/// The lines of a program that must succeed, without this name, which is another one on each server.
#[track_caller]
pub(crate) fn printed(mut command: Command, name: &str) -> Vec<String> {
    let output = command.output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {text}{errors}");
    // The SDKs write their log to the same place, in colours.
    let lines = text.lines().filter(|line| !line.starts_with('\u{1b}'));
    lines.map(|line| line.replace(name, "")).collect()
}

/// Runs the program that is named first. Threads of the SDK can crash an interpreter that ends in order, so this one does
/// not.
const RUN_AND_EXIT: &str = "\
import os, runpy, sys
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name='__main__')
sys.stdout.flush()
os._exit(0)";

/// A program of Temporal's Python SDK.
pub(crate) fn python(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("python3");
    command
        .args(["-c", RUN_AND_EXIT])
        .arg(path)
        .env("PYTHONPATH", tool("WINDLASS_PYTHON_SDK"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Removes the fields of these names, wherever they are.
pub(crate) fn without(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !names.contains(&name.as_str()));
            fields.values_mut().for_each(|field| without(field, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without(item, names)),
        _ => {}
    }
}
