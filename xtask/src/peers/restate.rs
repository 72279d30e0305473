//! The Restate server for one session, and the registration of the program that serves its workflow.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::processes::Server;

const PATIENCE: Duration = Duration::from_secs(60);

/// Ports of a session. They stay the same when everything is killed and started again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) ingress: u16,
    pub(super) admin: u16,
    pub(super) fabric: u16,
    /// Of the program.
    pub(super) worker: u16,
}

/// The server with its default settings but for these: no telemetry; and a run that has been waiting for ten seconds, not for
/// a minute, is suspended, so that its memory is measured without waiting longer.
pub(super) fn start(binary: &Path, home: &Path, ports: Ports) -> Result<Server> {
    let mut command = Command::new(binary);
    command.arg("--no-logo").env("RESTATE_BASE_DIR", home.join("data"));
    for (name, port) in [
        ("RESTATE_INGRESS__BIND_ADDRESS", ports.ingress),
        ("RESTATE_ADMIN__BIND_ADDRESS", ports.admin),
        ("RESTATE_BIND_ADDRESS", ports.fabric),
    ] {
        command.env(name, format!("127.0.0.1:{port}"));
    }
    command.env("RESTATE_NODE_NAME", "peer").env("RESTATE_DISABLE_TELEMETRY", "true");
    command.env("RESTATE_WORKER__INVOKER__INACTIVITY_TIMEOUT", "10s").env("RESTATE_LOG_FILTER", "error");
    let mut server = Server::start(&mut command)?;
    let deadline = Instant::now() + PATIENCE;
    while !matches!(request(ports.admin, "GET", "/health", ""), Ok(200)) {
        if server.has_ended() || Instant::now() > deadline {
            bail!("the Restate server did not come up");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(server)
}

/// Tells the server where the program serves its workflow. The server keeps it.
pub(super) fn register(ports: Ports) -> Result<()> {
    let body = json!({"uri": format!("http://127.0.0.1:{}/", ports.worker)}).to_string();
    let deadline = Instant::now() + PATIENCE;
    loop {
        match request(ports.admin, "POST", "/deployments", &body) {
            Ok(200 | 201) => return Ok(()),
            other if Instant::now() > deadline => bail!("the Restate server refused the program: {other:?}"),
            // The program, or the server's metadata, is not ready.
            _ => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The status of an HTTP request to this machine.
fn request(port: u16, method: &str, path: &str, body: &str) -> Result<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    status(&answer).with_context(|| format!("not an HTTP answer: {answer}"))
}

fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read_from_the_first_line() {
        assert_eq!(status("HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n"), Some(201));
        assert_eq!(status("SSH-2.0-OpenSSH"), None);
    }
}
