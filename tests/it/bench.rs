//! `windlass bench` measures the same work straight over Temporal and through the API, side by side.

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
