//! The real Temporal server, started once for all tests of the process. It dies with the test process: its shell waits
//! for the end of a pipe that only this process holds.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use windlass_workflows::attributes;

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) cli: PathBuf,
    _shell: Child,
}

/// Ends the server when standard input ends.
const LEASH: &str = r#""$@" >/dev/null 2>&1 & pid=$!; cat >/dev/null; kill -9 $pid"#;

pub(crate) fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&[]))
}

impl Server {
    pub(crate) fn start(extra: &[&str]) -> Self {
        let cli = temporal_cli();
        let port = free_port();
        let mut command = Command::new("sh");
        command.args(["-c", LEASH, "sh"]).arg(&cli).args(["server", "start-dev", "--headless", "--log-level", "never"]);
        command.args(["--port", &port.to_string(), "--http-port", &free_port().to_string()]);
        command.args(["--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"]);
        command.args(["--dynamic-config-value", "history.transferProcessorMaxPollHostRPS=100000"]);
        for name in attributes::NAMES {
            command.args(["--search-attribute", &format!("{name}=Keyword")]);
        }
        let shell = command.args(extra).stdin(Stdio::piped()).spawn().expect("sh starts");
        let address = format!("127.0.0.1:{port}");
        wait_for(&address);
        Self { address, cli, _shell: shell }
    }
}

/// Where xtask put the Temporal CLI.
pub(crate) fn temporal_cli() -> PathBuf {
    let path = std::env::var_os("WINDLASS_TEMPORAL_CLI");
    PathBuf::from(
        path.expect("WINDLASS_TEMPORAL_CLI names the Temporal CLI; `cargo xtask test` installs it and sets it"),
    )
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free").port()
}

fn wait_for(address: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline, "the Temporal server did not come up at {address}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
