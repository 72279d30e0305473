//! What came of every scenario with every version.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::client::Sdk;

const TITLE: &str = "mantyx-sdk";

/// By scenario and version: nothing, or what was wrong. What a version does not have is absent.
#[derive(Default)]
pub(super) struct Table {
    outcomes: BTreeMap<(usize, Sdk), Option<String>>,
}

impl Table {
    pub(super) fn enter(&mut self, scenario: usize, sdk: Sdk, wrong: Option<String>) {
        self.outcomes.insert((scenario, sdk), wrong);
    }

    pub(super) fn render(&self, names: &[&str]) -> String {
        let width = names.iter().chain([&TITLE]).map(|name| name.len()).max().unwrap_or_default();
        let row = |name: &str, cells: [&str; 4]| {
            let cells: String = cells.iter().map(|cell| format!(" {cell:>10}")).collect();
            format!("{name:<width$}{cells}\n")
        };
        let mut text = row(TITLE, Sdk::ALL.map(Sdk::version));
        for (index, name) in names.iter().enumerate() {
            let cell = |sdk| match self.outcomes.get(&(index, sdk)) {
                Some(None) => "ok",
                Some(Some(_)) => "FAILED",
                None => "-",
            };
            text.push_str(&row(name, Sdk::ALL.map(cell)));
        }
        text
    }

    /// What was wrong, for people.
    pub(super) fn failures(&self, names: &[&str]) -> String {
        let wrong = self.outcomes.iter().filter_map(|(place, wrong)| Some((place, wrong.as_ref()?)));
        wrong.map(|((index, sdk), wrong)| format!("{} with {}:\n{wrong}\n", names[*index], sdk.version())).collect()
    }
}

/// Where two documents differ, by path.
pub(crate) fn differences(expected: &Value, got: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", expected, got, &mut found);
    found
}

fn compare(path: &str, expected: &Value, got: &Value, found: &mut Vec<String>) {
    match (expected, got) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let keys: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (ours.get(key), theirs.get(key)) {
                    (Some(ours), Some(theirs)) => compare(&path, ours, theirs, found),
                    (Some(ours), None) => found.push(format!("  {path}\n    expected {ours}\n    got      nothing")),
                    (None, Some(theirs)) => {
                        found.push(format!("  {path}\n    expected nothing\n    got      {theirs}"))
                    }
                    (None, None) => {}
                }
            }
        }
        _ if expected == got => {}
        _ => found.push(format!("  {path}\n    expected {expected}\n    got      {got}")),
    }
}

#[test]
fn a_table_has_a_column_for_every_version() {
    let mut table = Table::default();
    table.enter(0, Sdk::V0_9, None);
    table.enter(1, Sdk::V2026, Some("  no".to_owned()));
    let lines = [
        "mantyx-sdk      0.9.1     0.10.1     0.25.0  2026.10.2",
        "run                ok          -          -          -",
        "list                -          -          -     FAILED",
        "",
    ];
    assert_eq!(table.render(&["run", "list"]), lines.join("\n"));
    assert_eq!(table.failures(&["run", "list"]), "list with 2026.10.2:\n  no\n");
}

#[test]
fn differences_are_named_by_their_path() {
    use serde_json::json;

    let found = differences(&json!({"a": {"b": 1, "c": 2}}), &json!({"a": {"b": 1, "c": 3}, "d": null}));
    assert_eq!(found, ["  .a.c\n    expected 2\n    got      3", "  .d\n    expected nothing\n    got      null"]);
}
