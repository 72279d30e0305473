//! Data directories that are damaged in seeded ways: `windlass dev` rejects them with an error that says what to do, or
//! it is ready and starts and finishes runs. It is never ready while starts fail.
//!
//! `WINDLASS_HOSTILE_FILES` is the number of directories, `WINDLASS_HOSTILE_SEED` the random seed.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{
    Tally,
    damage::{ALL, Damage, database, log},
    dev::Dev,
};
use crate::proofs::{dice::Dice, scale};

/// The outcome of `dev` on damaged files.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It did not start, with this error.
    Refused(String),
    /// It was ready, and a run completed.
    Works,
    /// It serves and reports that it is not ready.
    Unready(String),
    /// It was ready, and this failed.
    Fails(String),
}

impl Outcome {
    fn is_right(&self) -> bool {
        match self {
            Self::Refused(said) => ["windlass store restore", "remove", "move", "upgrade this build"]
                .iter()
                .any(|hint| said.contains(hint)),
            Self::Works => true,
            Self::Unready(_) | Self::Fails(_) => false,
        }
    }
}

/// A healthy data directory after a clean stop, and one after a kill.
struct Healthy {
    stopped: TempDir,
    killed: TempDir,
}

impl Healthy {
    fn make(runs: usize) -> Self {
        let (stopped, killed) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let dev = Dev::start(&stopped.path().join("data")).unwrap();
        for _ in 0..runs {
            let run = dev.start_run("echo").unwrap();
            dev.finish(&run).unwrap();
        }
        dev.start_run("demo").unwrap();
        copy(&stopped.path().join("data"), &killed.path().join("data"));
        dev.stop();
        assert!(fs::metadata(log(&killed.path().join("data"))).unwrap().len() > 0);
        Self { stopped, killed }
    }

    fn break_one(&self, other: &Self, damage: Damage, dice: &mut Dice) -> Outcome {
        let home = TempDir::new().unwrap();
        let data = home.path().join("data");
        copy(&if damage.needs_log() { &self.killed } else { &self.stopped }.path().join("data"), &data);
        damage.inflict(&data, &other.killed.path().join("data"), dice);
        outcome(&data)
    }
}

fn outcome(data: &Path) -> Outcome {
    let dev = match Dev::start(data) {
        Ok(dev) => dev,
        Err(said) => return Outcome::Refused(said),
    };
    let ready = dev.get("/readyz");
    if ready.status != 200 {
        return Outcome::Unready(ready.body["message"].to_string());
    }
    let worked = dev.start_run("echo").and_then(|run| dev.finish(&run)).and_then(|()| match dev.get("agent-runs") {
        listed if listed.status == 200 => Ok(()),
        listed => Err(format!("GET agent-runs: {} {}", listed.status, listed.body)),
    });
    match worked {
        Ok(()) => Outcome::Works,
        Err(problem) => Outcome::Fails(problem),
    }
}

/// Damages this many directories, prints a table of the outcomes, and returns the rows that are wrong.
fn attack(files: usize, seed: u64) -> Vec<String> {
    let (healthy, other) = (Healthy::make(6), Healthy::make(3));
    let mut table = format!("{files} broken data directories, seed {seed}\n");
    let mut wrong = Vec::new();
    for (number, damage) in ALL.into_iter().cycle().take(files).enumerate() {
        let mut dice = Dice::seeded(seed.wrapping_mul(1000).wrapping_add(number as u64));
        let outcome = healthy.break_one(&other, damage, &mut dice);
        let row = format!("{number:>3}  {:<16} {outcome:?}", format!("{damage:?}"));
        writeln!(table, "{row}").unwrap();
        if !outcome.is_right() {
            wrong.push(row);
        }
    }
    println!("{table}");
    wrong
}

#[test]
fn a_damaged_database_is_rejected_or_still_runs_agents() {
    let seed = scale("WINDLASS_HOSTILE_SEED", 1) as u64;
    let files = scale("WINDLASS_HOSTILE_FILES", 8);
    let mut tally = Tally::new("damaged databases");
    attack(files, seed).into_iter().for_each(|finding| tally.finding(finding));
    tally.count("files", files as u64);
    tally.close();
}

#[test]
fn readiness_fails_while_the_store_rejects_writes() {
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let dev = Dev::start(&data).unwrap();
    assert_eq!(dev.get("/readyz").status, 200);
    let shell = rusqlite::Connection::open(database(&data)).unwrap();
    shell.execute_batch("ALTER TABLE schema_versions RENAME TO elsewhere").unwrap();
    // The result of a probe is cached for a short time.
    let unready = until(|| Some(dev.get("/readyz")).filter(|answer| answer.status != 200));
    let said = unready.body["message"].as_str().unwrap().to_owned();
    assert_eq!((unready.status, said.starts_with("the store check failed: STO")), (503, true), "{said}");
    shell.execute_batch("ALTER TABLE elsewhere RENAME TO schema_versions").unwrap();
    until(|| Some(dev.get("/readyz")).filter(|answer| answer.status == 200));
}

/// Repeats until there is a result.
fn until<T>(ask: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "the answer comes");
    }
}

/// What a kill leaves: the database and its log as they are on disk now, without the shared memory file.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in [database, log] {
        if path(from).exists() {
            fs::copy(path(from), path(to)).unwrap();
        }
    }
}
