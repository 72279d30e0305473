//! The rounds: every system is measured once before any is measured again.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::json;

use super::{
    install::{self, Installed},
    options::{Options, Sizes},
    program::{samples, waiting, working},
    session::Session,
    stats::{median, percentile},
    syncs,
    system::{Figures, System},
    table::{Samples, markdown},
    windlass::Bench,
};
use crate::cargo::{Profile, cargo, program, run as run_command, target};

/// The shapes of `windlass bench`: turns, and calls per turn.
const LATENCY: (u32, u32) = (20, 1);
const THROUGHPUT: (u32, u32) = (5, 2);
const WARM_UP: u32 = 20;
/// Warm-up runs of each other measurement.
const FEW: u32 = 3;
/// Figures of a system that keeps its runs.
const OF_DISKS: [&str; 4] =
    ["syncs_per_step", "disk_bytes_per_step", "rest_bytes_per_step", "parked_disk_bytes_per_run"];
/// After this time without an event, Restate suspends a run that waits; see `restate::start`.
const SUSPENDED: Duration = Duration::from_secs(13);

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let windlass = match &options.windlass {
        Some(windlass) => windlass.clone(),
        None if options.systems.iter().all(|system| system.has_program()) => PathBuf::new(),
        None => {
            run_command(&mut cargo(&["build", "--release", "-p", "windlass"]))?;
            program(Profile::Release, "windlass")
        }
    };
    let installed = install::all(&options.systems)?;
    let home = target().join("bench/peers");
    let mut measured = Samples::default();
    for round in 1..=options.rounds {
        for system in &options.systems {
            eprintln!("round {round} of {}: {}", options.rounds, system.name());
            let figures = match system.has_program() {
                true => Peer { system: *system, installed: &installed, sizes: options.sizes }.measure(),
                false => Bench { windlass: &windlass, installed: &installed, home: home.clone(), sizes: options.sizes }
                    .measure(*system),
            };
            let figures = figures.with_context(|| format!("{} could not be measured", system.name()))?;
            measured.add(*system, &figures);
            if options.json {
                println!("{}", json!({"round": round, "system": system.name(), "figures": figures}));
            }
        }
    }
    if !options.json {
        print!("\n{}", markdown(&options.systems, &measured));
    }
    Ok(())
}

struct Peer<'a> {
    system: System,
    installed: &'a Installed,
    sizes: Sizes,
}

impl Peer<'_> {
    fn measure(&self) -> Result<Figures> {
        let mut figures = self.work()?;
        figures.extend(self.parked()?);
        if self.system.keeps_runs() {
            figures.extend(self.recovery()?);
        } else {
            figures.retain(|field, _| !OF_DISKS.contains(field));
        }
        Ok(figures)
    }

    fn open(&self, name: &str) -> Result<Session<'_>> {
        // Not under `target`: the account of Postgres has to reach it.
        let home =
            std::env::temp_dir().join(format!("windlass-bench-{}-{name}-{}", self.system.name(), std::process::id()));
        Session::open(self.system, self.installed, home)
    }

    /// Throughput first, between two orderly stops, so that the growth of the files is that of its runs.
    fn work(&self) -> Result<Figures> {
        let (mut session, runs) = (self.open("work")?, self.sizes.throughput);
        let (turns, calls) = THROUGHPUT;
        let steps = f64::from(runs * turns * (1 + calls));
        session.order(&working("batch", 0, WARM_UP, turns, calls))?;
        let rest_before = self.at_rest(&mut session)?;
        let (bytes, cpu) = (session.bytes()?, session.cpu_ms());
        let report = session.order(&working("batch", 1_000_000, runs, turns, calls))?;
        let (cpu, bytes) = (session.cpu_ms() - cpu, session.bytes()?.saturating_sub(bytes));
        let rest = self.at_rest(&mut session)?.saturating_sub(rest_before);
        let mut figures = Figures::from([
            ("steps_per_s", steps / report["wall_s"].as_f64().context("a report has no wall_s")?),
            ("cpu_ms_per_step", cpu / steps),
            ("disk_bytes_per_step", bytes as f64 / steps),
            ("rest_bytes_per_step", rest as f64 / steps),
        ]);

        let (turns, calls) = LATENCY;
        session.order(&working("run", 2_000_000, FEW, turns, calls))?;
        let report = session.order(&working("run", 3_000_000, self.sizes.latency, turns, calls))?;
        let gaps = samples(&report, "gaps_ms")?;
        let counted = working("run", 6_000_000, FEW, turns, calls);
        let (_, syncs) = syncs::during(&session.pids(), || session.order(&counted))?;
        let counted = f64::from(FEW * turns * (1 + calls));
        figures.extend(syncs.map(|syncs| ("syncs_per_step", syncs as f64 / counted)));
        session.order(&waiting("signal", 4_000_000, FEW))?;
        let report = session.order(&waiting("signal", 5_000_000, self.sizes.signal))?;
        let found = [
            ("ms_per_step_p50", median(&gaps)),
            ("ms_per_step_p99", percentile(&gaps, 99.0)),
            ("signal_p50_ms", median(&samples(&report, "ms")?)),
        ];
        figures.extend(found.into_iter().filter_map(|(field, value)| Some((field, value?))));
        session.stop()?;
        Ok(figures)
    }

    fn parked(&self) -> Result<Figures> {
        let (mut session, runs) = (self.open("parked")?, self.sizes.parked);
        session.order(&waiting("park", 0, WARM_UP))?;
        let disk = self.at_rest(&mut session)?;
        session.order(&waiting("signal", 1_000_000, FEW))?;
        let before = self.memory(&session);
        session.order(&waiting("park", 2_000_000, runs))?;
        let after = self.memory(&session);
        session.stop()?;
        let disk = session.bytes_at_rest()?.saturating_sub(disk);
        Ok(Figures::from([
            ("parked_bytes", after as f64),
            ("parked_bytes_per_run", after.saturating_sub(before) as f64 / f64::from(runs)),
            ("parked_disk_bytes_per_run", disk as f64 / f64::from(runs)),
        ]))
    }

    /// Bytes after an orderly stop. A system that keeps no runs has none and goes on: it need not start cold.
    fn at_rest(&self, session: &mut Session<'_>) -> Result<u64> {
        if !self.system.keeps_runs() {
            return Ok(0);
        }
        session.stop()?;
        let bytes = session.bytes_at_rest()?;
        session.start()?;
        Ok(bytes)
    }

    fn memory(&self, session: &Session<'_>) -> u64 {
        if self.system == System::Restate {
            thread::sleep(SUSPENDED);
        }
        session.settled_memory()
    }

    /// Everything is killed when half of the calls have begun.
    fn recovery(&self) -> Result<Figures> {
        let (mut session, runs) = (self.open("recovery")?, self.sizes.recovery);
        let (turns, calls) = THROUGHPUT;
        session.order(&working("batch", 1_000_000, FEW, turns, calls))?;
        let mut begin = working("begin", 0, runs, turns, calls);
        begin["until"] = json!(u64::from(runs * turns * calls / 2));
        session.order(&begin)?;
        session.kill();
        let restarted = Instant::now();
        session.start()?;
        session.order(&working("finish", 0, runs, turns, calls))?;
        let took = restarted.elapsed().as_secs_f64();
        session.stop()?;
        Ok(Figures::from([("recovery_s", took)]))
    }
}
