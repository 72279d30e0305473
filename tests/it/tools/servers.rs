//! MCP servers from npm and PyPI, as a `windlass.toml` has them.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::support::process::Process;

/// Tools may reach the servers of a test.
pub(super) const LOOPBACK: &str = "[egress]\nallow = [\"127.0.0.1/32\"]\n";

fn npm_program(server: &str) -> PathBuf {
    let program = format!("node_modules/@modelcontextprotocol/server-{server}/dist/index.js");
    installed("WINDLASS_MCP_SERVERS").join(program)
}

/// `server-everything` over Streamable HTTP, with sessions, as a process of the test.
pub(super) fn everything_over_http(port: u16) -> Process {
    // It says on stderr that it listens.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh", "node"]).arg(npm_program("everything")).arg("streamableHttp");
    command.env("PORT", port.to_string());
    let process = Process::spawn(command);
    process.line(|line| line.contains("listening on port"));
    process
}

/// A reference server from npm, as a process of the worker.
pub(super) fn from_npm(server: &str, args: &[&str]) -> String {
    let program = npm_program(server);
    let command: Vec<&str> = ["node", program.to_str().unwrap()].into_iter().chain(args.iter().copied()).collect();
    // A list of texts is the same in JSON and TOML.
    format!("[mcp.{server}]\ncommand = {}\n", json!(command))
}

/// A server in Python, as a process of the worker.
pub(super) fn in_python(name: &str, args: &[&str]) -> String {
    let command: Vec<&str> = ["python3"].into_iter().chain(args.iter().copied()).collect();
    let packages = json!(installed("WINDLASS_MCP_PEERS"));
    format!("[mcp.{name}]\ncommand = {}\nenv = {{ PYTHONPATH = {packages} }}\n", json!(command))
}

/// `peer.py` as a process of the worker.
pub(super) fn peer_over_stdio(name: &str) -> String {
    in_python(name, &[peer_program().to_str().unwrap(), "stdio"])
}

/// `peer.py` over Streamable HTTP, as a process of the test.
pub(super) struct HttpPeer {
    pub(super) url: String,
    _process: Process,
}

impl HttpPeer {
    pub(super) fn start() -> Self {
        let mut command = Command::new("python3");
        command.arg(peer_program()).arg("http").env("PYTHONPATH", installed("WINDLASS_MCP_PEERS"));
        let process = Process::spawn(command);
        let port = process.line(|line| line.parse::<u16>().is_ok());
        Self { url: format!("http://127.0.0.1:{port}/mcp"), _process: process }
    }

    pub(super) fn config(&self, name: &str) -> String {
        format!("[mcp.{name}]\nurl = \"{}\"\n", self.url)
    }
}

/// A toolset of an agent: tools of the server with its name, all if `only` is empty.
pub(super) fn toolset(server: &str, only: &[&str]) -> Value {
    json!({"name": server, "mcp": {"server": server}, "only": only})
}

fn peer_program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mcp/peer.py")
}

fn installed(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable);
    path.unwrap_or_else(|| panic!("{variable} is not set; `cargo xtask test` installs the servers and sets it")).into()
}
