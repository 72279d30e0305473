//! `windlass store backup` of a `windlass dev` under load, and `windlass store restore` elsewhere: the runs in the
//! backup continue to their end.

use std::{
    collections::BTreeSet,
    path::Path,
    process::Output,
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::Value;
use tempfile::TempDir;

use super::dev::{Dev, windlass};

const RUNS: usize = 20;

fn command(data: &Path, arguments: &[&str]) -> Output {
    windlass(data, arguments).output().unwrap()
}

/// The JSON that a command prints.
fn said(data: &Path, arguments: &[&str]) -> Value {
    let output = command(data, arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The error of a command that fails.
fn complaint(data: &Path, arguments: &[&str]) -> String {
    let output = command(data, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn ids(dev: &Dev) -> BTreeSet<String> {
    let listed = dev.get("agent-runs?limit=200");
    listed.body["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_backup_under_load_is_consistent_and_its_runs_continue_after_a_restore() {
    let home = TempDir::new().unwrap();
    let [data, restored] = ["data", "restored"].map(|name| home.path().join(name));
    let file = home.path().join("backup.db");
    let backup = file.to_str().unwrap();
    let dev = Dev::start(&data).unwrap();
    let waiting = dev.start_run("demo").unwrap();
    let begun: BTreeSet<String> = (0..RUNS).map(|_| dev.start_run("echo").unwrap()).collect();

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                dev.start_run("echo").unwrap();
            }
        });
        let made = said(&data, &["store", "backup", backup]);
        stop.store(true, Ordering::Relaxed);
        load.join().unwrap();
        assert!(made["bytes"].as_u64().unwrap() > 100_000, "{made}");
    });
    assert!(complaint(&data, &["store", "backup", backup]).contains("STO0019"), "it is there already");
    said(&data, &["store", "backup", "--force", home.path().join("second.db").to_str().unwrap()]);
    let refused = complaint(&data, &["store", "restore", backup]);
    assert!(refused.contains("ENG0002"), "the data directory is in use: {refused}");

    assert_eq!(said(&restored, &["store", "restore", backup])["replaced"], Value::Null);
    for check in said(&restored, &["doctor", "--deep"]).as_array().unwrap() {
        assert_eq!(check["ok"], true, "{check}");
    }
    let again = Dev::start(&restored).unwrap();
    let found = ids(&again);
    assert!(found.is_superset(&begun) && found.contains(&waiting), "what was started before the backup is in it");
    for run in &begun {
        again.finish(run).unwrap();
    }
    assert_eq!(again.cancel(&waiting).status, 200);
    let run = again.start_run("echo").unwrap();
    again.finish(&run).unwrap();
    again.stop();

    // Over an existing database: the replaced files are kept and undamaged.
    for run in &begun {
        dev.finish(run).unwrap();
    }
    dev.stop();
    let replaced = said(&data, &["store", "restore", backup])["replaced"].as_str().unwrap().to_owned();
    let aside = home.path().join("aside");
    said(&aside, &["store", "restore", &replaced]);
    let dev = Dev::start(&aside).unwrap();
    assert!(ids(&dev).len() > found.len().min(199), "it has what came after the backup");
}
