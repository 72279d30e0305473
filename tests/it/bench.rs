//! `windlass bench` measures the same work straight over Temporal and through the API, side by side, and the first token
//! beside direct calls of the provider.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::server::{self, Backend};

#[test]
fn the_way_through_the_api_stands_beside_the_direct_one() {
    for metric in ["latency", "throughput", "signal"] {
        let mut bench = Command::new(std::env::var_os("WINDLASS_BIN").expect("WINDLASS_BIN is set"));
        bench.args(["bench", metric, "--through-api", "--runs", "2", "--json"]);
        if metric != "signal" {
            bench.args(["--turns", "1"]);
        }
        if Backend::chosen() == Backend::Temporal {
            bench.args(["--temporal", &server::temporal().address]);
        }
        let output = bench.output().unwrap();
        assert!(output.status.success(), "{metric}: {}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let figure = match metric {
            "latency" => "run_ms_p50",
            "throughput" => "steps_per_s",
            _ => "p50_ms",
        };
        assert!(lines.iter().all(|line| line[figure].as_f64().unwrap() > 0.0), "{lines:?}");
        let kinds: Vec<Value> =
            lines.iter().map(|line| json!([line["metric"], line["through_api"], line["runs"]])).collect();
        assert_eq!(kinds, [json!([metric, false, 2]), json!([metric, true, 2])]);
    }
}

#[test]
fn the_tables_of_the_database_add_up_to_its_file() {
    let mut bench = Command::new(std::env::var_os("WINDLASS_BIN").expect("WINDLASS_BIN is set"));
    let output = bench.args(["bench", "size", "--runs", "2", "--turns", "2", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (whole, tables) = lines.split_first().unwrap();
    let bytes: u64 = tables.iter().map(|table| table["bytes"].as_u64().unwrap()).sum();
    let file = whole["bytes"].as_u64().unwrap();
    assert_eq!(whole["table"], "all");
    // Free pages are in no table.
    assert!((file - file / 10..=file).contains(&bytes), "{bytes} of {file}: {lines:?}");
    // Two runs of two turns with two calls, whose results have about 1 KB.
    assert!(whole["content_bytes"].as_u64() > Some(8 * 950) && whole["ratio"].as_f64() > Some(1.0), "{whole}");
    assert!(tables.iter().any(|table| table["table"] == "engine_history"), "{lines:?}");
}

/// 210 runs are three pages of the engine and five of the store.
#[test]
fn closed_runs_are_listed_and_counted_by_a_process_that_did_not_execute_them() {
    let mut bench = Command::new(std::env::var_os("WINDLASS_BIN").expect("WINDLASS_BIN is set"));
    let output = bench.args(["bench", "closed", "--runs", "210", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (process, requests) = lines.split_first().unwrap();
    assert_eq!((&process["metric"], &process["runs"]), (&json!("closed"), &json!(210)));
    for figure in ["close_s", "closed_per_s", "ready_s", "disk_bytes_per_run"] {
        assert!(process[figure].as_f64() > Some(0.0), "{figure}: {process}");
    }
    let answers = |line: &Value| {
        assert_eq!((&line["metric"], &line["runs"]), (&json!("closed-request"), &json!(210)));
        assert!(line["p99_ms"].as_f64() >= line["p50_ms"].as_f64() && line["p50_ms"].as_f64() > Some(0.0), "{line}");
        (line["request"].as_str().unwrap().to_owned(), line["found"].as_u64().unwrap())
    };
    let found: Vec<(String, u64)> = requests.iter().map(answers).collect();
    let expected = [
        ("list", 100),
        ("list-status", 3),
        ("list-type-status", 3),
        ("list-attribute", 1),
        ("list-common-attribute", 100),
        ("list-close-time", 100),
        ("list-deep", 100),
        ("count", 210),
        ("count-status", 3),
        ("count-type", 210),
        ("count-attribute", 1),
        ("count-common-attribute", 206),
        ("count-groups", 210),
        ("count-groups-type", 210),
        ("store-list", 50),
        ("store-agent", 1),
        ("store-status", 3),
        ("store-deep", 50),
        ("store-total", 210),
    ];
    assert_eq!(found, expected.map(|(request, runs)| (request.to_owned(), runs)));
}

/// With a debug build on a busy machine this is a sanity check; `docs/guides/bench.md` says how to measure.
#[test]
fn the_first_token_reaches_the_client_of_a_run_soon_after_direct_callers() {
    let mut bench = Command::new(std::env::var_os("WINDLASS_BIN").expect("WINDLASS_BIN is set"));
    bench.args(["bench", "first-token", "--runs", "20", "--json", "--openai-sdk"]);
    bench.arg(std::env::var_os("WINDLASS_MODEL_SDKS").expect("WINDLASS_MODEL_SDKS is set"));
    let output = bench.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figure = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name}: {line}"));
    println!(
        "first token to the client of a run: p50 {} ms, p99 {} ms; direct call {} ms, openai SDK {} ms",
        figure("p50_ms"),
        figure("p99_ms"),
        figure("direct_p50_ms"),
        figure("sdk_p50_ms"),
    );
    assert_eq!((&line["metric"], &line["runs"]), (&json!("first-token"), &json!(20)));
    assert!(figure("direct_p50_ms") > 0.0 && figure("p50_ms") > figure("direct_p50_ms"), "{line}");
    // Generous: other tests use the machine at the same time.
    assert!(figure("added_p50_ms") < 50.0, "{line}");
}
