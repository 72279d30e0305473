//! The supervisor of the Temporal dev server: it starts, restarts and stops it.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    net::TcpStream,
    process::{Child, Command},
    sync::oneshot,
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use windlass_core::time::friendly;
use windlass_sqlite::private;
use windlass_workflows::attributes::NAMES;

use super::{
    home::Home,
    process::{PidFile, pid, stop},
};
use crate::failure::{Failure, failed};

/// The first and the longest pause before a restart.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A server that ran this long has started successfully.
const STEADY: Duration = Duration::from_secs(30);
/// Attempts to start a server that never ran that long.
const ATTEMPTS: u32 = 3;
/// The pause between two checks whether a starting server listens.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of its log that are shown if it does not start.
const LOG_TAIL: usize = 5;

#[derive(Debug, Clone)]
pub(super) struct ServerOptions {
    pub(super) port: u16,
    pub(super) ui_port: u16,
    pub(super) namespace: String,
}

/// A supervised server.
pub(super) struct Server {
    port: u16,
    ui_port: u16,
    stop: CancellationToken,
    supervisor: JoinHandle<()>,
    broken: tokio::sync::Mutex<oneshot::Receiver<String>>,
}

impl Server {
    pub(super) async fn start(binary: PathBuf, home: &Home, options: ServerOptions) -> Result<Self, Failure> {
        let pid_file = PidFile::new(home.pid_file());
        pid_file.stop_left_behind(&home.database()).await;
        for (port, option) in [(options.port, "--port"), (options.ui_port, "--ui-port")] {
            must_be_free(port, option)?;
        }
        let launch = Launch { binary, database: home.database(), log: home.log(), options };
        let child = launch.spawn()?;
        let (stop, (report, broken)) = (CancellationToken::new(), oneshot::channel());
        let (port, ui_port) = (launch.options.port, launch.options.ui_port);
        let supervisor = tokio::spawn(supervise(launch, child, pid_file, stop.clone(), report));
        Ok(Self { port, ui_port, stop, supervisor, broken: tokio::sync::Mutex::new(broken) })
    }

    pub(super) fn ui_port(&self) -> u16 {
        self.ui_port
    }

    /// Returns when the server listens.
    pub(super) async fn listening(&self) {
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns when the server cannot be started.
    pub(super) async fn broken(&self) -> Failure {
        match (&mut *self.broken.lock().await).await {
            Ok(reason) => failed(reason),
            // The supervisor was stopped and sends no report.
            Err(_) => std::future::pending().await,
        }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.supervisor.await {
            tracing::error!(%error, "the server's supervisor panicked");
        }
    }
}

/// Everything needed to start the server again.
struct Launch {
    binary: PathBuf,
    database: PathBuf,
    log: PathBuf,
    options: ServerOptions,
}

impl Launch {
    fn spawn(&self) -> Result<Child, Failure> {
        let opened = private::open_options().create(true).write(true).truncate(true).open(&self.log);
        let log = opened.map_err(|error| failed(format!("{} cannot be written: {error}", self.log.display())))?;
        let mut command = Command::new(&self.binary);
        command
            .args(arguments(&self.database, &self.options))
            .stdin(Stdio::null())
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log))
            // Ctrl-C in a terminal reaches every process of its group; this one must outlive the worker.
            .process_group(0)
            .kill_on_drop(true);
        command.spawn().map_err(|error| failed(format!("{} cannot be started: {error}", self.binary.display())))
    }

    /// The last lines of its log.
    fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n")
    }
}

fn arguments(database: &Path, options: &ServerOptions) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["server", "start-dev", "--ip", "127.0.0.1", "--log-level", "warn"].map(Into::into).into();
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    option("--db-filename", database.to_string_lossy().into_owned());
    option("--port", options.port.to_string());
    option("--ui-port", options.ui_port.to_string());
    option("--namespace", options.namespace.clone());
    for name in NAMES {
        option("--search-attribute", format!("{name}=Keyword"));
    }
    // With the defaults, every step of a run waits for the dev server's next poll of its queue.
    option("--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000".to_owned());
    option("--dynamic-config-value", "history.transferProcessorMaxPollHostRPS=100000".to_owned());
    arguments
}

/// Keeps the server running until the stop. Gives up on a server that never started successfully.
async fn supervise(
    launch: Launch,
    mut child: Child,
    pid_file: PidFile,
    stop_asked: CancellationToken,
    report: oneshot::Sender<String>,
) {
    let mut restarts = Restarts::default();
    loop {
        let started = Instant::now();
        if let Some(id) = child.id() {
            pid_file.write(id);
        }
        let ended = tokio::select! {
            ended = child.wait() => ended,
            () = stop_asked.cancelled() => {
                end(&mut child).await;
                pid_file.remove();
                return;
            }
        };
        let how = ended.map_or_else(|error| error.to_string(), |status: ExitStatus| status.to_string());
        let Some(pause) = restarts.pause_after(started.elapsed()) else {
            let _ = report
                .send(format!("the Temporal server keeps exiting ({how}); the end of its log:\n{}", launch.log_tail()));
            pid_file.remove();
            return;
        };
        tracing::warn!("the Temporal server exited ({how}); starting it again in {}", friendly::print(pause));
        if stop_asked.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            pid_file.remove();
            return;
        }
        match launch.spawn() {
            Ok(started) => child = started,
            Err(failure) => {
                let _ = report.send(failure.to_string());
                return;
            }
        }
    }
}

/// When a server that exited is started again.
#[derive(Debug, Default)]
struct Restarts {
    in_a_row: u32,
    was_steady: bool,
}

impl Restarts {
    /// `None` if the server never started successfully and another attempt would fail, too.
    fn pause_after(&mut self, ran: Duration) -> Option<Duration> {
        let steady = ran >= STEADY;
        self.was_steady |= steady;
        self.in_a_row = if steady { 1 } else { self.in_a_row + 1 };
        if !self.was_steady && self.in_a_row >= ATTEMPTS {
            return None;
        }
        Some((FIRST_PAUSE * 2_u32.saturating_pow(self.in_a_row - 1)).min(LONGEST_PAUSE))
    }
}

async fn end(child: &mut Child) {
    if let Some(pid) = child.id().and_then(|id| pid(&id.to_string())) {
        tokio::join!(stop(pid), async {
            let _ = child.wait().await;
        });
    }
}

fn must_be_free(port: u16, option: &str) -> Result<(), Failure> {
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => Ok(()),
        Err(error) => Err(failed(format!(
            "port {port} cannot be used ({error}); set another {option}, or use the server on that port with --temporal"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_gets_a_database_and_the_search_attributes() {
        let options = ServerOptions { port: 17233, ui_port: 18233, namespace: "default".into() };
        let arguments = arguments(Path::new("dir/temporal.db"), &options).join(" ");
        assert_eq!(
            arguments,
            "server start-dev --ip 127.0.0.1 --log-level warn --db-filename dir/temporal.db --port 17233 --ui-port 18233 \
             --namespace default --search-attribute WindlassAgent=Keyword --search-attribute WindlassSession=Keyword \
             --search-attribute WindlassWorkspace=Keyword --search-attribute WindlassStatus=Keyword \
             --search-attribute WindlassPhase=Keyword \
             --dynamic-config-value history.transferProcessorMaxPollRPS=2000 \
             --dynamic-config-value history.transferProcessorMaxPollHostRPS=100000"
        );
    }

    #[test]
    fn a_server_that_once_started_successfully_is_always_restarted() {
        let (short, long) = (Duration::from_secs(1), STEADY);
        let mut restarts = Restarts::default();
        let pauses = [short, long, short, short, short, short, short, short, long];
        let pauses: Vec<Option<u64>> =
            pauses.iter().map(|ran| restarts.pause_after(*ran).map(|pause| pause.as_secs())).collect();
        assert_eq!(pauses, [1, 1, 2, 4, 8, 16, 30, 30, 1].map(Some));
    }

    #[test]
    fn a_server_that_never_started_is_given_up_after_three_attempts() {
        let mut restarts = Restarts::default();
        let pauses = [1, 1, 1].map(|ran| restarts.pause_after(Duration::from_secs(ran)).map(|pause| pause.as_secs()));
        assert_eq!(pauses, [Some(1), Some(2), None]);
    }

    #[test]
    fn a_port_in_use_is_named_with_its_option() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let said = must_be_free(port, "--ui-port").unwrap_err().to_string();
        assert!(said.contains(&format!("port {port} cannot be used")) && said.contains("--ui-port"), "{said}");
    }
}
