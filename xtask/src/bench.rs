//! `cargo xtask bench`: measures a release build on the embedded engine and on the real dev server, side by side.
//!
//! The dev server runs with its fastest settings: a write-ahead log and queues without rate limits. Each metric gets
//! its own server with an empty database.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{
    cargo::{Profile, cargo, program, run as run_command, target},
    peers, tools,
};

const METRICS: [&str; 7] = ["latency", "throughput", "signal", "first-token", "parked", "growth", "recovery"];
pub(crate) const USAGE: &str = "bench [--quick] [METRIC…]";
/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if arguments.iter().any(|word| word == "--peers") {
        return peers::run(arguments);
    }
    let wanted = Wanted::parse(arguments)?;
    run_command(&mut cargo(&["build", "--release", "-p", "windlass"]))?;
    let cli = tools::temporal_cli()?;
    let ground = target().join("bench");
    let mut rows = Vec::new();
    for metric in wanted.metrics {
        let bench = || {
            let mut command = Command::new(program(Profile::Release, "windlass"));
            command.args(["bench", metric, "--json"]).args(sizes(metric, wanted.quick));
            if ["latency", "throughput", "signal"].contains(&metric) {
                command.arg("--through-api");
            }
            command
        };
        let embedded = readings(bench())?;
        let server = Server::start(&cli, &ground.join(metric))?;
        let mut beside = bench();
        server.measured_by(&mut beside);
        rows.extend(side_by_side(&embedded, &readings(beside)?));
    }
    print!("\n{}", table(&rows));
    Ok(())
}

/// The metrics, and whether to run them at minimal sizes.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    metrics: Vec<&'static str>,
    quick: bool,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Self> {
        let (options, names): (Vec<&String>, Vec<&String>) = arguments.iter().partition(|word| word.starts_with('-'));
        if let Some(unknown) = options.iter().find(|option| **option != "--quick") {
            bail!("there is no option {unknown}; usage: cargo xtask {USAGE}");
        }
        let find = |name: &String| {
            let metric = METRICS.into_iter().find(|metric| metric == name);
            metric.with_context(|| format!("there is no metric {name}; there are: {}", METRICS.join(", ")))
        };
        let metrics =
            if names.is_empty() { METRICS.to_vec() } else { names.into_iter().map(find).collect::<Result<_>>()? };
        Ok(Self { metrics, quick: !options.is_empty() })
    }
}

fn sizes(metric: &str, quick: bool) -> &'static [&'static str] {
    match metric {
        // A turn of the dev server costs a hundred times as much.
        "growth" if !quick => &["--turns", "1000"],
        _ if !quick => &[],
        "growth" => &["--turns", "100"],
        "latency" => &["--runs", "3"],
        _ => &["--runs", "20"],
    }
}

/// A dev server on a file. It is killed when this is dropped.
pub(crate) struct Server {
    process: Child,
    address: String,
    database: PathBuf,
}

impl Server {
    pub(crate) fn start(cli: &Path, folder: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("{} could not be emptied", folder.display()))?;
        }
        fs::create_dir_all(folder).with_context(|| format!("{} could not be created", folder.display()))?;
        let (port, database) = (free_port()?, folder.join("temporal.db"));
        let mut command = Command::new(cli);
        command.args(["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "never"]);
        command.args(["--port", &port.to_string(), "--http-port", &free_port()?.to_string()]);
        command.arg("--db-filename").arg(&database);
        // Every commit is synced to the disk: what the other backends promise.
        command.args(["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=FULL"]);
        command.args(["--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"]);
        command.args(["--dynamic-config-value", "history.transferProcessorMaxPollHostRPS=100000"]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.with_context(|| format!("{} could not be started", cli.display()))?;
        let server = Self { process, address: format!("127.0.0.1:{port}"), database };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(&server.address).is_err() {
            if Instant::now() > deadline {
                bail!("the dev server did not come up at {}", server.address);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Adds the options by which `windlass bench` uses and measures this server.
    pub(crate) fn measured_by(&self, bench: &mut Command) {
        bench.args(["--temporal", &self.address, "--server-pid", &self.pid().to_string()]);
        bench.arg("--server-database").arg(&self.database);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors do not matter: the data is discarded.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(folder) = self.database.parent() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
    Ok(listener.local_addr()?.port())
}

/// Runs the benchmark and prints its lines as they come.
fn readings(command: Command) -> Result<Vec<Value>> {
    readings_with(command, |line| println!("{line}"))
}

/// Runs the benchmark.
pub(crate) fn readings_with(mut command: Command, show: impl Fn(&str)) -> Result<Vec<Value>> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("the benchmark could not be started")?;
    let output = child.stdout.take().context("the benchmark has no output")?;
    let mut readings = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        show(&line);
        readings.push(serde_json::from_str(&line).with_context(|| format!("not a reading: {line}"))?);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("the benchmark failed: {status}");
    }
    Ok(readings)
}

/// A figure of both backends.
#[derive(Debug, PartialEq)]
struct Row {
    figure: String,
    embedded: Option<f64>,
    server: Option<f64>,
}

/// The figures of a metric with their units.
fn figures(metric: &str) -> &'static [(&'static str, &'static str)] {
    match metric {
        "latency" => &[
            ("ms_per_step_p50", "ms per step, p50"),
            ("ms_per_step_p99", "ms per step, p99"),
            ("ms_per_step_mean", "ms per step, mean of whole runs"),
        ],
        "throughput" => &[
            ("steps_per_s", "steps/s"),
            ("runs_per_s", "runs/s"),
            ("cpu_ms_per_step", "CPU ms per step"),
            ("server_cpu_ms_per_step", "server's CPU ms per step"),
            ("disk_bytes_per_step", "disk bytes per step"),
            ("fsyncs_per_step", "fsyncs per step"),
        ],
        "signal" => &[("p50_ms", "ms from signal to result, p50"), ("p99_ms", "ms from signal to result, p99")],
        "first-token" => &[
            ("p50_ms", "ms from the first token to the client, p50"),
            ("p99_ms", "ms from the first token to the client, p99"),
            ("added_p50_ms", "ms more than a direct call, p50"),
        ],
        "parked" => &[
            ("rss_bytes", "bytes of memory"),
            ("rss_bytes_per_run", "bytes of memory per run"),
            ("server_rss_bytes", "server's bytes of memory"),
            ("disk_bytes_per_run", "disk bytes per run"),
            ("restart_to_ready_s", "s from restart to an answered run"),
        ],
        "growth" => &[("ms_per_turn", "ms per turn"), ("history_bytes_per_turn", "history bytes per turn")],
        _ => &[
            ("all_complete_s", "s from restart to all complete"),
            ("executed", "calls executed"),
            ("duplicated", "calls executed twice"),
            ("missing", "calls never executed"),
            ("unknown", "calls of unknown outcome"),
        ],
    }
}

/// Pairs the readings, which have the same order on both sides.
fn side_by_side(embedded: &[Value], server: &[Value]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (embedded, server) in embedded.iter().zip(server) {
        let metric = embedded["metric"].as_str().unwrap_or_default();
        let of = match metric {
            "parked" => format!("{} parked", embedded["runs"]),
            "growth" => format!("turn {}", embedded["turn"]),
            _ if embedded["through_api"] == true => format!("{metric} through the API"),
            _ => metric.to_owned(),
        };
        rows.extend(figures(metric).iter().map(|(field, unit)| Row {
            figure: format!("{of}: {unit}"),
            embedded: embedded[field].as_f64(),
            server: server[field].as_f64(),
        }));
    }
    rows
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.figure.chars().count()).max().unwrap_or_default();
    let shown = |value: Option<f64>| match value {
        None => "–".to_owned(),
        Some(value) if value.fract() == 0.0 || value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    };
    let mut text = format!("{:<width$}  {:>12}  {:>12}\n", "", "embedded", "dev server");
    for Row { figure, embedded, server } in rows {
        text.push_str(&format!("{figure:<width$}  {:>12}  {:>12}\n", shown(*embedded), shown(*server)));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_measured_can_be_chosen() {
        let parse = |words: &[&str]| Wanted::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(parse(&[]).unwrap(), Wanted { metrics: METRICS.to_vec(), quick: false });
        assert_eq!(parse(&["signal", "--quick"]).unwrap(), Wanted { metrics: vec!["signal"], quick: true });
        let refusals = [&["speed"][..], &["--slow"]].map(|words| parse(words).unwrap_err().to_string());
        assert_eq!(
            refusals[0],
            "there is no metric speed; there are: latency, throughput, signal, first-token, parked, growth, recovery"
        );
        assert_eq!(refusals[1], "there is no option --slow; usage: cargo xtask bench [--quick] [METRIC…]");
    }

    #[test]
    fn figures_are_printed_side_by_side() {
        let embedded = [
            json!({"metric": "growth", "turn": 10, "ms_per_turn": 2.25, "history_bytes_per_turn": 4000.0}),
            json!({"metric": "growth", "turn": 100, "ms_per_turn": 2.0, "history_bytes_per_turn": null}),
        ];
        let server = [
            json!({"metric": "growth", "turn": 10, "ms_per_turn": 123.456, "history_bytes_per_turn": 4000.0}),
            json!({"metric": "growth", "turn": 100, "ms_per_turn": 125.0}),
        ];
        let expected = "                                      embedded    dev server
turn 10: ms per turn                      2.25           123
turn 10: history bytes per turn           4000          4000
turn 100: ms per turn                        2           125
turn 100: history bytes per turn             –             –
";
        assert_eq!(table(&side_by_side(&embedded, &server)), expected);
    }
}
