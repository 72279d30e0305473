//! Servers of others that speak the vendors' formats, each in a process of its own.

use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{process::Process, world::within};

/// aimock from npm: it answers each request with the fixture that fits, in the format of the request, and keeps a journal
/// of all requests.
pub(super) struct Aimock {
    pub(super) url: String,
    _process: Process,
    _dir: TempDir,
}

/// A request in aimock's journal.
#[derive(Debug)]
pub(super) struct Asked {
    /// When, in milliseconds.
    pub(super) at: u64,
    pub(super) path: String,
    pub(super) status: u64,
    /// The `turnIndex` of the fixture that answered it.
    pub(super) turn: u32,
}

impl Aimock {
    pub(super) fn start(fixtures: &[Value]) -> Self {
        let program = tool("WINDLASS_AIMOCK");
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("fixtures.json");
        std::fs::write(&file, json!({"fixtures": fixtures}).to_string()).unwrap();
        let mut command = Command::new("node");
        command.arg(program).args(["--port", "0", "--strict", "--validate-on-load", "--fixtures"]).arg(file);
        // Without this a fixture of another turn answers if none of this turn fits.
        command.env("AIMOCK_STRICT_TURN_INDEX", "1");
        let process = Process::spawn(command);
        let line = process.line(|line| line.contains("listening on "));
        let url = line.split("listening on ").nth(1).unwrap().trim().to_owned();
        Self { url, _process: process, _dir: dir }
    }

    /// The requests for a model, in order.
    pub(super) async fn journal(&self, model: &str) -> Vec<Asked> {
        let journal = get(&format!("{}/__aimock/journal", self.url)).await.unwrap();
        let journal: Vec<Value> = serde_json::from_str(&journal.text().await.unwrap()).unwrap();
        let asked = |entry: &Value| Asked {
            at: entry["timestamp"].as_u64().unwrap(),
            path: entry["path"].as_str().unwrap().to_owned(),
            status: entry["response"]["status"].as_u64().unwrap(),
            turn: entry["response"]["fixture"]["match"]["turnIndex"].as_u64().unwrap_or_else(|| panic!("{entry}"))
                as u32,
        };
        journal.iter().filter(|entry| entry["body"]["model"] == model).map(asked).collect()
    }
}

/// The proxy of litellm.
pub(super) struct Litellm {
    pub(super) url: String,
    pub(super) key: String,
    _process: Process,
    _dir: TempDir,
}

impl Litellm {
    /// With these models: the name for callers and the parameters of litellm.
    pub(super) async fn start(models: &BTreeMap<&str, Value>) -> Self {
        let home = tool("WINDLASS_LITELLM");
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("config.yaml");
        let models: Vec<Value> =
            models.iter().map(|(name, params)| json!({"model_name": name, "litellm_params": params})).collect();
        // JSON is YAML. Temporal does the retries.
        let config = json!({"model_list": models, "litellm_settings": {"num_retries": 0, "telemetry": false}});
        std::fs::write(&file, config.to_string()).unwrap();
        let key = format!("sk-{}", uuid::Uuid::now_v7().simple());
        let port = free_port();
        let mut command = Command::new("python3");
        command.arg(home.join("bin/litellm")).arg("--config").arg(file);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]).current_dir(dir.path());
        command.env("PYTHONPATH", &home).env("LITELLM_MASTER_KEY", &key).env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let process = Process::spawn_with_log(command, Stdio::from(log));
        let url = format!("http://127.0.0.1:{port}");
        within("litellm", until_healthy(&url, dir.path())).await;
        Self { url, key, _process: process, _dir: dir }
    }
}

/// litellm needs seconds to load, and prints no line that says when it serves.
async fn until_healthy(url: &str, dir: &Path) {
    let healthy = format!("{url}/health/liveliness");
    while !get(&healthy).await.is_ok_and(|response| response.status().is_success()) {
        let log = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        assert!(!log.contains("Traceback"), "litellm does not start:\n{log}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn get(url: &str) -> reqwest::Result<reqwest::Response> {
    // Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::get(url).await
}

/// litellm cannot choose a port. Another process may take this one before litellm does; the test fails then.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn tool(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable);
    path.unwrap_or_else(|| panic!("{variable} is not set; `cargo xtask test` installs the tool and sets it")).into()
}
