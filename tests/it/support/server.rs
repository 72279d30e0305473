//! The server that tests run on, started once for the process: the real Temporal server or, with
//! `WINDLASS_IT_BACKEND=embedded`, the embedded engine. Either is reachable over TCP, and dies with the test process.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use tempfile::TempDir;
use temporalio_protos::temporal::api::enums::v1::IndexedValueType;
use tokio_util::sync::CancellationToken;
use windlass_engine::{Engine, Handle, Limits, NamespaceOptions, Options, grpc};
use windlass_sqlite::Database;
use windlass_workflows::attributes;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Temporal,
    Embedded,
}

impl Backend {
    pub(crate) fn chosen() -> Self {
        match std::env::var("WINDLASS_IT_BACKEND").as_deref() {
            Ok("embedded") => Self::Embedded,
            Ok("temporal") | Err(_) => Self::Temporal,
            Ok(other) => panic!("WINDLASS_IT_BACKEND is `{other}`; it must be `temporal` or `embedded`"),
        }
    }
}

pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) cli: PathBuf,
    /// The way in that needs no socket, where there is one.
    pub(crate) engine: Option<Handle>,
    _alive: Alive,
}

/// What keeps a server alive.
#[expect(dead_code, reason = "held until the process ends")]
enum Alive {
    Process(Child),
    Thread(TempDir),
}

/// Ends the server when standard input ends.
const LEASH: &str = r#""$@" >/dev/null 2>&1 & pid=$!; cat >/dev/null; kill -9 $pid"#;

/// The server of the chosen backend.
pub(crate) fn shared() -> &'static Server {
    match Backend::chosen() {
        Backend::Temporal => temporal(),
        Backend::Embedded => embedded(),
    }
}

/// The real server, whatever was chosen.
pub(crate) fn temporal() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&[]))
}

/// The engine, whatever was chosen.
pub(crate) fn embedded() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start_engine(Limits::default()))
}

impl Server {
    pub(crate) fn start(extra: &[&str]) -> Self {
        let cli = temporal_cli();
        // A client that tries to connect before the server listens must not get its port, and so connect to itself.
        let port = lasting_port();
        let mut command = Command::new("sh");
        command.args(["-c", LEASH, "sh"]).arg(&cli).args(["server", "start-dev", "--headless", "--log-level", "never"]);
        command.args(["--port", &port.to_string(), "--http-port", &lasting_port().to_string()]);
        command.args(["--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"]);
        command.args(["--dynamic-config-value", "history.transferProcessorMaxPollHostRPS=100000"]);
        // Otherwise it answers 50 lists and counts per second.
        command.args(["--dynamic-config-value", "frontend.namespaceRPS.visibility=100000"]);
        command.args(["--dynamic-config-value", "frontend.namespaceBurstRatio.visibility=1"]);
        for name in attributes::NAMES {
            command.args(["--search-attribute", &format!("{name}=Keyword")]);
        }
        let shell = command.args(extra).stdin(Stdio::piped()).spawn().expect("sh starts");
        let address = format!("127.0.0.1:{port}");
        wait_for(&address);
        Self { address, cli, engine: None, _alive: Alive::Process(shell) }
    }

    /// On a thread of its own, since every test has its own runtime.
    pub(crate) fn start_engine(limits: Limits) -> Self {
        let dir = TempDir::new().expect("a directory");
        let database = Database::open(windlass_sqlite::Options::new(dir.path().join("engine.db"))).expect("a database");
        let options = Options { limits, namespaces: namespaces(), ..Options::new(database) };
        let (engine, handle) = Engine::open(options).expect("the engine opens");
        let (ready, address) = mpsc::channel();
        let served = handle.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap().to_string();
                let stop = CancellationToken::new();
                let port = tokio::spawn(grpc::serve(listener, move |call| served.call(call), stop.clone()));
                let run = tokio::spawn(engine.run(stop));
                ready.send(address).unwrap();
                run.await.unwrap().unwrap();
                port.await.unwrap();
            });
        });
        let address = address.recv().expect("the engine runs");
        Self { address, cli: temporal_cli(), engine: Some(handle), _alive: Alive::Thread(dir) }
    }
}

/// The namespace that runs are started in, with the attributes they have.
pub(crate) fn namespaces() -> Vec<NamespaceOptions> {
    vec![NamespaceOptions {
        name: "default".to_owned(),
        search_attributes: attributes::NAMES.map(|name| (name.to_owned(), IndexedValueType::Keyword)).into(),
    }]
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

/// A free port that stays free while its server is away: not of the range from which the system gives ports to clients,
/// of which many try to connect in the meantime.
pub(crate) fn lasting_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = std::process::id().wrapping_mul(64).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(20_000 + step % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn wait_for(address: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline, "the Temporal server did not come up at {address}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
