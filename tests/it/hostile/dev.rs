//! `windlass dev` on a data directory that may be damaged: it serves, or it ends with an error.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use serde_json::{Value, json};

use crate::sdk::dev::binary;

/// Longer than anything takes that does not hang.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Dev {
    child: Child,
    address: String,
    key: String,
}

/// An answer of the API.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Dev {
    /// Returns the process's output if it ended instead of serving.
    pub(super) fn start(data_dir: &Path) -> Result<Self, String> {
        let said = data_dir.with_extension("stderr");
        let mut command = windlass(data_dir, &["dev", "--port", "0", "--listen", "127.0.0.1:0", "--log", "warn"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&said).unwrap());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        // Read continuously: a full pipe would block the process.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| sender.send(line).unwrap_or(()))
        });
        let banner = loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains("\"apiKey\"") => break serde_json::from_str::<Value>(&line).unwrap(),
                Ok(_) => {}
                Err(ended) => {
                    let hangs = ended == mpsc::RecvTimeoutError::Timeout;
                    child.kill().ok();
                    let status = child.wait().unwrap();
                    assert!(!hangs, "dev neither serves nor ends");
                    assert!(!status.success(), "dev ends without a word");
                    let text = fs::read_to_string(&said).unwrap();
                    return Err(text.lines().last().unwrap_or_default().to_owned());
                }
            }
        };
        let text = |field: &str| banner[field].as_str().unwrap().to_owned();
        Ok(Self { child, address: text("api").trim_start_matches("http://").to_owned(), key: text("apiKey") })
    }

    /// Stops the process and waits for its end.
    pub(super) fn stop(mut self) {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        self.child.wait().unwrap();
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None).unwrap()
    }

    /// A path of the workspace, or of the server if it begins with a slash.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, String> {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/api/v1/workspaces/default/{path}") };
        let body = body.map(Value::to_string).unwrap_or_default();
        let failed = |error: std::io::Error| format!("{method} {path}: {error}");
        let mut stream = TcpStream::connect(&self.address).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (length, key) = (body.len(), &self.key);
        let head = format!("{method} {path} HTTP/1.0\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}\r\n");
        write!(stream, "{head}Content-Type: application/json\r\n\r\n{body}").map_err(failed)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(failed)?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("{method} {path}: no answer"))?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Ok(Answer { status, body: serde_json::from_str(body).unwrap_or_else(|_| body.into()) })
    }

    pub(super) fn start_run(&self, agent: &str) -> Result<String, String> {
        let started = self.ask("POST", "agent-runs", Some(&json!({"agentId": agent, "prompt": "hello"})))?;
        match started.body["runId"].as_str() {
            Some(run) if started.status == 202 => Ok(run.to_owned()),
            _ => Err(format!("POST agent-runs: {} {}", started.status, started.body)),
        }
    }

    /// Follows a run to its end.
    pub(super) fn finish(&self, run: &str) -> Result<(), String> {
        self.ask("GET", &format!("agent-runs/{run}/stream"), None)?;
        let shown = self.ask("GET", &format!("agent-runs/{run}"), None)?;
        match shown.body["status"].as_str() {
            Some("succeeded") => Ok(()),
            _ => Err(format!("run {run} ended with {} {}", shown.status, shown.body)),
        }
    }

    pub(super) fn cancel(&self, run: &str) -> Answer {
        self.ask("POST", &format!("agent-runs/{run}/cancel"), Some(&json!({}))).unwrap()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A command of the binary on this data directory.
pub(super) fn windlass(data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).arg("--json").arg("--data-dir").arg(data_dir);
    command
}
