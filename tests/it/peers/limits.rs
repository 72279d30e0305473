//! A dynamic config on the real server and on the engine: programs and the stock CLI reach the same limits.

use std::sync::OnceLock;

use windlass_engine::Limits;

use super::{cli::Cli, typescript::programs};
use crate::support::{
    both::{Pair, assert_equal, on_each, printed, python},
    node::fixture,
    sdk_workers::queue,
    server::Server,
};

/// Without these the real server does not look at the limits of errors. The engine has no warnings.
const WARNINGS: [&str; 2] = ["limit.blobSize.warn=100", "limit.memoSize.warn=100"];

/// Keys and values, as for `--dynamic-config-value`.
const VALUES: [&str; 10] = [
    "limit.maxIDLength=200",
    "limit.blobSize.error=10000",
    "limit.memoSize.error=400",
    "limit.numPendingActivities.error=2",
    "limit.numPendingChildExecutions.error=1",
    "limit.historyCount.suggestContinueAsNew=20",
    "history.maximumSignalsPerExecution=3",
    "history.maxTotalUpdates=2",
    "frontend.visibilityMaxPageSize=2",
    r#"system.namespaceMinRetentionLocal="2h""#,
];

fn servers() -> Pair {
    static SERVERS: OnceLock<[Server; 2]> = OnceLock::new();
    SERVERS
        .get_or_init(|| {
            let mut limits = Limits::default();
            VALUES.iter().for_each(|pair| limits.set_pair(pair).unwrap());
            let pairs = VALUES.into_iter().chain(WARNINGS);
            let flags: Vec<&str> = pairs.flat_map(|pair| ["--dynamic-config-value", pair]).collect();
            [Server::start(&flags), Server::start_engine(limits)]
        })
        .each_ref()
}

#[test]
fn a_typescript_program_reaches_the_same_limits() {
    let programs = programs("limits.mjs");
    assert_equal(on_each(servers(), |server| {
        let name = queue("node");
        let mut command = programs.command("limits.mjs");
        command.args([&server.address, &name]);
        printed(command, &name)
    }));
}

#[test]
fn a_python_program_reaches_the_same_limits() {
    assert_equal(on_each(servers(), |server| {
        let name = queue("python");
        let mut command = python(fixture("temporal/peers/limits.py"));
        command.args([&server.address, &name]);
        printed(command, &name)
    }));
}

#[test]
fn the_stock_cli_reaches_the_same_limits() {
    assert_equal(on_each(servers(), |server| {
        let mut cli = Cli::new(server);
        cli.await_ready();
        let name = cli.name.clone();
        cli.start("Waiting", &"c".repeat(200), &[]);
        cli.start("Waiting", &"c".repeat(201), &[]);
        for size in [9_000, 11_000] {
            let input = format!("\"{}\"", "x".repeat(size));
            cli.start("Waiting", &format!("{name}-{size}"), &["--input", &input]);
        }
        for size in [300, 500] {
            let memo = format!("text=\"{}\"", "x".repeat(size));
            cli.start("Waiting", &format!("{name}-{size}"), &["--memo", &memo]);
        }
        for _ in 0..4 {
            cli.say(&["workflow", "signal", "--workflow-id", &format!("{name}-300"), "--name", "word"]);
        }
        for (suffix, retention) in [("brief", "119m"), ("longer", "2h")] {
            let namespace = format!("{name}-{suffix}");
            cli.say_in(&namespace, &["operator", "namespace", "create", "--retention", retention]);
        }
        let query = format!("TaskQueue = '{name}'");
        cli.counted(&query, 3);
        // The CLI reads all pages.
        cli.say(&["workflow", "list", "--page-size", "1000", "--query", &query]);
        cli.lines
    }));
}
