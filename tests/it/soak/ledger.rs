//! The end: what the clients know is compared with what the server has.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use super::mix::Client;

/// A run that has not ended this long after the last kill is stuck.
const PATIENCE: Duration = Duration::from_secs(120);
/// Logs that are read at once.
const AT_ONCE: usize = 16;
const PAGE: usize = 200;

/// Every difference, after all runs have ended.
pub(super) async fn judge(client: &Client) -> Vec<String> {
    let listed = ended(client).await;
    let (known, mut findings) = {
        let mut books = client.books();
        (std::mem::take(&mut books.runs), std::mem::take(&mut books.findings))
    };
    findings.extend(compare(&known, &listed));
    let logs = stream::iter(&known).map(|(run, text)| check_log(client, run, text.as_deref()));
    findings.extend(logs.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect::<Vec<_>>().await);
    findings
}

/// All runs of the workspace and their states, after the last of them has ended.
async fn ended(client: &Client) -> Vec<(String, String)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (mut runs, mut cursor) = (Vec::new(), String::new());
        loop {
            let (page, _) = client.insist("GET", &format!("/agent-runs?limit={PAGE}{cursor}"), None).await;
            runs.extend(page.body["runs"].as_array().cloned().unwrap_or_default());
            match page.body["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        if Instant::now() > deadline || runs.iter().all(|run| !run["completedAt"].is_null()) {
            let field = |run: &Value, name: &str| run[name].as_str().unwrap_or_default().to_owned();
            return runs.iter().map(|run| (field(run, "id"), field(run, "status"))).collect();
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Every acknowledged run is there once and succeeded, and there are no others but their sub-agents.
fn compare(known: &BTreeMap<String, Option<String>>, listed: &[(String, String)]) -> Vec<String> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    for (run, status) in listed {
        *times.entry(run).or_default() += 1;
        if status != "succeeded" {
            findings.push(format!("{run}: {status}"));
        }
    }
    for run in known.keys() {
        match times.remove(run.as_str()) {
            Some(1) => {}
            found => findings.push(format!("{run} was acknowledged and is listed {} times", found.unwrap_or_default())),
        }
    }
    for (run, found) in times {
        let parent = run.rsplit_once('/').map(|(parent, _)| parent);
        if found != 1 || !parent.is_some_and(|parent| known.contains_key(parent)) {
            findings.push(format!("{run} is listed {found} times, but no client was told of it"));
        }
    }
    findings
}

/// A problem of the log of an ended run: a gap, a second start or end, or another text than the clients know.
async fn check_log(client: &Client, run: &str, text: Option<&str>) -> Option<String> {
    let (answer, _) = client.insist("GET", &format!("/agent-runs/{run}/events?limit={PAGE}"), None).await;
    let events = answer.body["events"].as_array().cloned().unwrap_or_default();
    problem(&events, text).map(|problem| format!("{run}: {problem}"))
}

fn problem(events: &[Value], text: Option<&str>) -> Option<String> {
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    let gapless = events.iter().zip(1..).all(|(event, seq)| event["seq"] == seq);
    let said = events.last().map(|event| event["data"]["text"].clone()).unwrap_or_default();
    let facts = (gapless, count("started"), count("result"), said.as_str());
    let expected = (true, 1, 1, text);
    (facts != expected).then(|| format!("(no gaps, starts, results, text) is {facts:?}, not {expected:?}"))
}

#[test]
fn a_lost_run_a_doubled_run_and_an_unknown_run_are_found() {
    let known = ["a", "b", "c"].map(|run| (run.to_owned(), None)).into();
    let listed = ["a", "a/call-0-0", "b", "b", "x"].map(|run| (run.to_owned(), "succeeded".to_owned()));
    let expected = [
        "b was acknowledged and is listed 2 times",
        "c was acknowledged and is listed 0 times",
        "x is listed 1 times, but no client was told of it",
    ];
    assert_eq!(compare(&known, &listed), expected);
}

#[test]
fn a_gap_a_second_end_and_another_text_are_found() {
    let event =
        |seq: u64, kind: &str, text: &str| serde_json::json!({"seq": seq, "type": kind, "data": {"text": text}});
    let good = [event(1, "started", ""), event(2, "result", "done")];
    assert_eq!(problem(&good, Some("done")), None);
    assert!(problem(&good, Some("other")).is_some() && problem(&good, None).is_some());
    assert!(problem(&[event(1, "started", ""), event(3, "result", "done")], Some("done")).is_some());
    assert!(problem(&[good[0].clone(), good[1].clone(), event(3, "result", "done")], Some("done")).is_some());
}
