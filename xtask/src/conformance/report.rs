//! The scenarios and their results, compared with what is expected.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Server,
    Client,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scenario {
    pub(super) side: Side,
    pub(super) revision: &'static str,
    pub(super) name: String,
    /// The revision requires it. Others are extensions, or newer than the revision.
    pub(super) scored: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) scenario: Scenario,
    passed: u64,
    failed: u64,
}

/// Why a scenario is not passed, and how many of its checks fail.
#[derive(Debug, PartialEq, Eq)]
struct Gap {
    failed: u64,
    reason: String,
}

/// The scenarios that are not passed, by side, revision and name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expected(BTreeMap<(Side, String, String), Gap>);

/// The scenarios of a revision, from the tests' own list.
pub(super) fn scenarios(list: &str, revision: &'static str) -> Vec<Scenario> {
    let mut side = None;
    let mut scenarios = Vec::new();
    for line in list.lines() {
        if line.starts_with("Server scenarios") {
            side = Some(Side::Server);
        } else if line.starts_with("Client scenarios") {
            side = Some(Side::Client);
        }
        let Some(entry) = line.trim().strip_prefix("- ") else { continue };
        let (name, side, scored) = match entry.split_once(' ') {
            Some((name, "[server]")) => (name, Some(Side::Server), false),
            Some((name, "[client]")) => (name, Some(Side::Client), false),
            _ => (entry, side, true),
        };
        scenarios.extend(side.map(|side| Scenario { side, revision, name: name.to_owned(), scored }));
    }
    scenarios
}

impl Outcome {
    pub(super) fn of(scenario: Scenario, checks: &[Value]) -> Self {
        let count = |status: &str| {
            let counted = checks.iter().filter(|check| check["status"] == status).count();
            u64::try_from(counted).unwrap_or(u64::MAX)
        };
        Self { scenario, passed: count("SUCCESS"), failed: count("FAILURE") }
    }
}

impl Expected {
    /// `[{"reason": "…", "server": {"2025-11-25": {"SCENARIO": failed checks}}, "client": {…}}]`
    pub(super) fn read(text: &str) -> Result<Self> {
        let groups: Vec<Value> = serde_json::from_str(text).context("expected.json is not a list of reasons")?;
        let mut expected = Self::default();
        for group in &groups {
            let reason = group["reason"].as_str().context("expected.json: a reason is missing")?;
            for side in [Side::Server, Side::Client] {
                for (revision, scenarios) in group[side.name()].as_object().into_iter().flatten() {
                    for (name, failed) in scenarios.as_object().into_iter().flatten() {
                        let failed = failed.as_u64().with_context(|| format!("expected.json: {name} is no number"))?;
                        let gap = Gap { failed, reason: reason.to_owned() };
                        if expected.0.insert((side, revision.clone(), name.clone()), gap).is_some() {
                            bail!("expected.json: {} {revision} {name} is listed twice", side.name());
                        }
                    }
                }
            }
        }
        Ok(expected)
    }

    fn gap(&self, scenario: &Scenario) -> Option<&Gap> {
        self.0.get(&(scenario.side, scenario.revision.to_owned(), scenario.name.clone()))
    }
}

/// What is not as expected.
pub(super) fn differences(outcomes: &[Outcome], expected: &Expected) -> Vec<String> {
    let mut differences: Vec<String> = outcomes
        .iter()
        .filter_map(|Outcome { scenario, failed, .. }| {
            let wanted = expected.gap(scenario).map_or(0, |gap| gap.failed);
            let place = format!("{} {} {}", scenario.side.name(), scenario.revision, scenario.name);
            (*failed != wanted).then(|| format!("{place}: {failed} checks fail, {wanted} were expected to"))
        })
        .collect();
    let known = |place: &(Side, String, String)| {
        let (side, revision, name) = place;
        outcomes.iter().any(|Outcome { scenario, .. }| {
            scenario.side == *side && scenario.revision == revision && scenario.name == *name
        })
    };
    differences.extend(expected.0.keys().filter(|place| !known(place)).map(|(side, revision, name)| {
        format!("{} {revision} {name}: expected.json lists it, and the tests do not have it", side.name())
    }));
    differences
}

/// One line for each scenario, then the totals.
pub(super) fn table(outcomes: &[Outcome], expected: &Expected) -> String {
    let width = outcomes.iter().map(|outcome| outcome.scenario.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for Outcome { scenario, passed, failed } in outcomes {
        let Scenario { side, revision, name, scored } = scenario;
        let checks = format!("{passed}/{}", passed + failed);
        let note = match expected.gap(scenario) {
            _ if *failed == 0 && *passed == 0 => "the tests skip it",
            _ if *failed == 0 => "",
            Some(gap) => &gap.reason,
            None => "unexpected",
        };
        let scored = if *scored { "" } else { "(not scored) " };
        let line = format!("{} {revision}  {name:<width$}  {checks:>7}  {scored}{note}", side.name());
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    let mut all: Vec<(Side, &str)> =
        outcomes.iter().map(|outcome| (outcome.scenario.side, outcome.scenario.revision)).collect();
    all.dedup();
    for (side, revision) in all {
        let of_part = || {
            outcomes
                .iter()
                .filter(move |outcome| outcome.scenario.side == side && outcome.scenario.revision == revision)
        };
        let count = |scored: bool| {
            let counted = || of_part().filter(move |outcome| outcome.scenario.scored == scored);
            format!("{}/{}", counted().filter(|outcome| outcome.failed == 0).count(), counted().count())
        };
        let passed: u64 = of_part().map(|outcome| outcome.passed).sum();
        let failed: u64 = of_part().map(|outcome| outcome.failed).sum();
        text.push_str(&format!(
            "{} {revision}: scored scenarios passed {}, others {}, checks {passed}/{}\n",
            side.name(),
            count(true),
            count(false),
            passed + failed
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIST: &str = "Required for R (2 scenarios):\n\nServer scenarios (test against a server):\n  - ping\n\
                        Client scenarios (test against a client):\n  - auth/basic\n\nRun and reported, but never scored:\n  \
                        extension (1):\n    - tasks [server]\n";

    fn outcomes(failed: [u64; 3]) -> Vec<Outcome> {
        let scenarios = scenarios(LIST, "2025-11-25");
        scenarios.into_iter().zip(failed).map(|(scenario, failed)| Outcome { scenario, passed: 2, failed }).collect()
    }

    fn expected() -> Expected {
        let groups = json!([{"reason": "no pages", "server": {"2025-11-25": {"tasks": 1}}}]);
        Expected::read(&groups.to_string()).unwrap()
    }

    #[test]
    fn the_tests_list_says_what_is_scored() {
        let names: Vec<_> =
            scenarios(LIST, "R").into_iter().map(|scenario| (scenario.side, scenario.name, scenario.scored)).collect();
        let expected =
            [(Side::Server, "ping", true), (Side::Client, "auth/basic", true), (Side::Server, "tasks", false)];
        assert_eq!(names, expected.map(|(side, name, scored)| (side, name.to_owned(), scored)));
    }

    #[test]
    fn checks_are_counted_by_their_status() {
        let scenario = scenarios(LIST, "R").remove(0);
        let checks =
            ["SUCCESS", "FAILURE", "SUCCESS", "INFO", "SKIPPED", "WARNING"].map(|status| json!({"status": status}));
        assert_eq!(Outcome::of(scenario.clone(), &checks), Outcome { scenario, passed: 2, failed: 1 });
    }

    #[test]
    fn a_scenario_must_fail_exactly_as_it_is_listed() {
        assert_eq!(differences(&outcomes([0, 0, 1]), &expected()), Vec::<String>::new());
        let all = [
            "server 2025-11-25 ping: 2 checks fail, 0 were expected to",
            "server 2025-11-25 tasks: 0 checks fail, 1 were expected to",
        ];
        assert_eq!(differences(&outcomes([2, 0, 0]), &expected()), all);
        let gone = ["server 2025-11-25 tasks: expected.json lists it, and the tests do not have it"];
        assert_eq!(differences(&outcomes([0, 0, 1])[..2], &expected()), gone);
    }

    #[test]
    fn a_scenario_is_listed_once() {
        let twice = json!([
            {"reason": "a", "client": {"R": {"x": 1}}},
            {"reason": "b", "client": {"R": {"x": 2}}},
        ]);
        let error = Expected::read(&twice.to_string()).unwrap_err().to_string();
        assert_eq!(error, "expected.json: client R x is listed twice");
    }

    #[test]
    fn the_table_has_the_reasons_and_the_totals() {
        let expected_table = "\
server 2025-11-25  ping            2/2
client 2025-11-25  auth/basic      2/4  unexpected
server 2025-11-25  tasks           2/3  (not scored) no pages

server 2025-11-25: scored scenarios passed 1/1, others 0/0, checks 2/2
";
        let table = table(&outcomes([0, 2, 1]), &expected());
        assert!(table.starts_with(&expected_table[..expected_table.find("\n\n").unwrap()]), "{table}");
        let mut sorted = outcomes([0, 2, 1]);
        sorted.sort_by_key(|outcome| outcome.scenario.side);
        let totals = super::table(&sorted, &expected());
        assert!(
            totals.ends_with(
                "\nserver 2025-11-25: scored scenarios passed 1/1, others 0/1, checks 4/5\n\
                 client 2025-11-25: scored scenarios passed 0/1, others 0/0, checks 2/4\n"
            ),
            "{totals}"
        );
    }
}
