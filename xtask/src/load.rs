//! `cargo xtask load`: thousands of streams on one `windlass serve` while their runs write events.
//!
//! Engine, worker and server are separate processes, as in a cluster: worker and server share the store of one data
//! directory, or the Postgres database of `WINDLASS_POSTGRES_URL`. The client is `tests/load`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{
    bench::free_port,
    cargo::{Profile, cargo, program, run as run_command, target},
};

pub(crate) const USAGE: &str = "load [--streams N] [--rate N] [--seconds N] [--runs N]";
/// The task queue of all processes.
const QUEUE: &str = "load";
/// Memory limit of an idle stream, in bytes.
const IDLE: u64 = 32 * 1024;
/// Readers per run, unless the number of runs is given.
const READERS: u64 = 100;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let load = Load::parse(arguments)?;
    run_command(&mut cargo(&["build", "--release", "-p", "windlass"]))?;
    run_command(&mut cargo(&["build", "--release", "-p", "windlass-load"]))?;
    load.measure(Profile::Release)
}

/// The short form, on the existing debug build.
pub(crate) fn short() -> Result<()> {
    run_command(&mut cargo(&["build", "-p", "windlass-load"]))?;
    Load { streams: 200, rate: 40, seconds: 5, runs: 4 }.measure(Profile::Debug)
}

#[derive(Debug, PartialEq, Eq)]
struct Load {
    streams: u64,
    /// Events per second of all runs together.
    rate: u64,
    seconds: u64,
    runs: u64,
}

impl Load {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut load = Self { streams: 5000, rate: 200, seconds: 30, runs: 0 };
        for option in arguments.chunks(2) {
            let [name, number] = option else { bail!("usage: cargo xtask {USAGE}") };
            let place = match name.as_str() {
                "--streams" => &mut load.streams,
                "--rate" => &mut load.rate,
                "--seconds" => &mut load.seconds,
                "--runs" => &mut load.runs,
                _ => bail!("usage: cargo xtask {USAGE}"),
            };
            let above_zero = number.parse().ok().filter(|number| *number > 0);
            *place = above_zero.with_context(|| format!("{name} {number}: write a whole number above zero"))?;
        }
        if load.runs == 0 {
            load.runs = load.streams.div_ceil(READERS);
        }
        Ok(load)
    }

    /// Each run waits until its readers are connected, then writes one word at a time for the given duration.
    fn scripts(&self) -> Value {
        let words: Vec<String> =
            (0..(self.seconds * self.rate).div_ceil(self.runs)).map(|n| format!("word {n} ")).collect();
        let usage = json!({"input_tokens": 10, "output_tokens": 10});
        let wait =
            json!({"kind": "clarification", "question": "Are all readers connected?", "expires_in_ms": 3_600_000});
        let talk = json!({"deltas": words, "delta_delay_ms": 1000 * self.runs / self.rate, "usage": usage});
        json!({"load": {"turns": [{"await": wait, "usage": usage}, talk]}})
    }

    fn measure(&self, profile: Profile) -> Result<()> {
        let site = Site::prepare(profile, &self.scripts())?;
        let (engine, address) = site.engine()?;
        let key = site.key()?;
        let worker = Running(site.command(&["worker", "--temporal", &address]).spawn()?);
        let (server, api) = site.server(&address)?;
        let brief = json!({
            "api": api, "key": key, "workspace": "default", "pid": server.0.id(), "streams": self.streams,
            "runs": self.runs, "model": "script:load",
        });
        let figures = client(profile, &brief)?;
        drop((server, worker, engine));
        print!("\n{}", table(&figures));
        println!("{figures}");
        if profile == Profile::Release && figures["rss_bytes_per_stream"].as_u64() > Some(IDLE) {
            bail!("an idle stream takes more than {IDLE} bytes");
        }
        Ok(())
    }
}

/// The directories, and the commands that use them.
struct Site {
    windlass: PathBuf,
    folder: PathBuf,
}

/// A process that is killed when this is dropped.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Site {
    fn prepare(profile: Profile, scripts: &Value) -> Result<Self> {
        let folder = target().join("load");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("{} could not be emptied", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("{} could not be created", folder.display()))?;
        fs::write(folder.join("scripts.json"), scripts.to_string())?;
        Ok(Self { windlass: program(profile, "windlass"), folder })
    }

    /// A command of the worker or the server.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.windlass);
        command.args(arguments).args(["--json", "--log", "warn", "--task-queue", QUEUE]);
        command.arg("--data-dir").arg(self.folder.join("store"));
        if ["worker", "serve"].contains(&arguments[0]) {
            command.arg("--scripts").arg(self.folder.join("scripts.json"));
        }
        command.stdin(Stdio::null());
        command
    }

    fn engine(&self) -> Result<(Running, String)> {
        let mut command = Command::new(&self.windlass);
        command.args([
            "dev",
            "--json",
            "--log",
            "warn",
            "--listen",
            "127.0.0.1:0",
            "--port",
            &free_port()?.to_string(),
        ]);
        command.arg("--data-dir").arg(self.folder.join("engine"));
        ready(command, "address")
    }

    fn key(&self) -> Result<Value> {
        let made = self.command(&["keys", "create", "--name", "load"]).output()?;
        let made: Value = serde_json::from_slice(&made.stdout).context("`windlass keys create` made no key")?;
        Ok(made["key"].clone())
    }

    fn server(&self, temporal: &str) -> Result<(Running, String)> {
        let listen = ["serve", "--temporal", temporal, "--listen", "127.0.0.1:0", "--no-rate-limits"];
        let (server, api) = ready(self.command(&listen), "api")?;
        Ok((server, api.trim_start_matches("http://").to_owned()))
    }
}

/// Starts a process and waits for the line that contains its address.
pub(crate) fn ready(mut command: Command, field: &str) -> Result<(Running, String)> {
    let mut process = Running(command.stdout(Stdio::piped()).spawn().context("windlass could not be started")?);
    let output = process.0.stdout.take().context("windlass has no output")?;
    for line in BufReader::new(output).lines() {
        let said: Value = serde_json::from_str(&line?).unwrap_or_default();
        if let Some(place) = said[field].as_str() {
            return Ok((process, place.to_owned()));
        }
    }
    bail!("windlass ended before it was ready")
}

fn client(profile: Profile, brief: &Value) -> Result<Value> {
    let mut client = Command::new(program(profile, "windlass-load"));
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("the client did not start")?;
    let mut told = client.stdin.take().context("the client does not listen")?;
    writeln!(told, "{brief}")?;
    let output = client.wait_with_output()?;
    if !output.status.success() {
        bail!("the load was too much, or an event was lost: {}", output.status);
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn table(figures: &Value) -> String {
    let number = |field: &str| figures[field].as_f64().unwrap_or_default();
    let megabytes = |field: &str| format!("{:.1} MB", number(field) / 1e6);
    let rows = [
        (
            "streams",
            format!(
                "{} on {} runs; {} got every event once, in order",
                figures["streams"], figures["runs"], figures["complete_streams"]
            ),
        ),
        ("opened", format!("in {:.1} s", number("open_s"))),
        ("published", format!("{} events, {:.0}/s", figures["published"], number("published_per_s"))),
        ("delivered", format!("{} frames, {:.0}/s", figures["delivered"], number("delivered_per_s"))),
        (
            "from log to reader",
            format!(
                "p50 {:.0} ms, p99 {:.0} ms, longest {:.0} ms",
                number("latency_ms_p50"),
                number("latency_ms_p99"),
                number("latency_ms_max")
            ),
        ),
        (
            "memory",
            format!(
                "{} before, {} with idle streams, {} at most",
                megabytes("rss_bytes_before"),
                megabytes("rss_bytes_idle"),
                megabytes("rss_bytes_peak")
            ),
        ),
        ("an idle stream", format!("{} bytes", figures["rss_bytes_per_stream"])),
        (
            "processors at work",
            format!("{:.2} of the server, {:.2} of the client", number("server_cpus"), number("client_cpus")),
        ),
    ];
    rows.iter().map(|(name, value)| format!("{name:<20}{value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_can_be_chosen_and_runs_follow_from_streams() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Load::parse(&words).map_err(|error| error.to_string())
        };
        assert_eq!(parse(&[]), Ok(Load { streams: 5000, rate: 200, seconds: 30, runs: 50 }));
        assert_eq!(
            parse(&["--streams", "10", "--rate", "5", "--seconds", "2", "--runs", "3"]),
            Ok(Load { streams: 10, rate: 5, seconds: 2, runs: 3 })
        );
        assert_eq!(parse(&["--streams", "0"]), Err("--streams 0: write a whole number above zero".to_owned()));
        assert_eq!(parse(&["--streams"]), Err(format!("usage: cargo xtask {USAGE}")));
    }

    #[test]
    fn runs_share_the_rate() {
        let scripts = Load { streams: 100, rate: 20, seconds: 3, runs: 5 }.scripts();
        let talk = &scripts["load"]["turns"][1];
        assert_eq!((talk["deltas"].as_array().map(Vec::len), &talk["delta_delay_ms"]), (Some(12), &json!(250)));
    }
}
