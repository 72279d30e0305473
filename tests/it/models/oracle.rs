//! The vendors' SDKs as a process: `oracle/main.py`.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// What an SDK is asked to read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToRead {
    pub(super) format: &'static str,
    pub(super) base_url: String,
    pub(super) model: String,
    pub(super) body: String,
}

/// What the types of an SDK are asked to check.
#[derive(Debug, Serialize)]
pub(super) struct ToCheck {
    pub(super) format: &'static str,
    pub(super) body: String,
}

/// What an SDK read: as programs use it, and, if that differs, with every event checked by the SDK's types.
#[derive(Debug, Deserialize)]
pub(super) struct Reading {
    pub(super) read: Value,
    pub(super) strict: Option<Value>,
}

pub(super) fn read(items: &[ToRead]) -> Vec<Reading> {
    ask("read", items)
}

/// The problems of each request.
pub(super) fn check(items: &[ToCheck]) -> Vec<Vec<String>> {
    ask("validate", items)
}

fn ask<T: DeserializeOwned>(mode: &str, items: &[impl Serialize]) -> Vec<T> {
    let mut command = Command::new("python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("it/models/oracle/main.py")).arg(mode);
    command.env("PYTHONPATH", sdks()).env("PYTHONDONTWRITEBYTECODE", "1");
    // Proxies of the machine must not get the requests, and variables for the SDKs must not change them.
    command.env("NO_PROXY", "127.0.0.1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("python3 starts");
    let mut input = child.stdin.take().unwrap();
    let work = serde_json::to_vec(items).unwrap();
    let writer = std::thread::spawn(move || input.write_all(&work));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    writer.join().unwrap().unwrap_or_else(|error| panic!("main.py {mode} did not read its input ({error}):\n{said}"));
    assert!(output.status.success(), "main.py {mode} failed:\n{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<T> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), items.len(), "main.py {mode} answers each item:\n{said}");
    answers
}

/// Where `cargo xtask` put the SDKs.
fn sdks() -> PathBuf {
    let folder = std::env::var_os("WINDLASS_MODEL_SDKS");
    PathBuf::from(folder.expect("WINDLASS_MODEL_SDKS names the vendors' SDKs; `cargo xtask test` installs them"))
}
