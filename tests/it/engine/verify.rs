//! The journal against the histories and the disk: nothing acknowledged is missing, nothing is duplicated.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
};

use temporalio_protos::temporal::api::{
    common::v1::WorkflowExecution,
    history::v1::{HistoryEvent, history_event::Attributes as E},
};
use windlass_sqlite::{Database, DatabaseError};

use super::{
    client::{Client, text},
    journal::{Facts, Journal},
    plan::{DECISION, Plan},
};

/// Everything that is read after the last workflow has closed.
#[derive(Default)]
pub(super) struct Evidence {
    /// Histories by workflow id, each chain in order.
    chains: BTreeMap<String, Vec<(String, Vec<HistoryEvent>)>>,
    /// Workflow and run id of every run on disk.
    on_disk: BTreeSet<(String, String)>,
}

#[derive(Default)]
pub(super) struct Findings {
    pub(super) lost: Vec<String>,
    pub(super) doubled: Vec<String>,
    pub(super) wrong: Vec<String>,
    counts: BTreeMap<&'static str, usize>,
    acknowledged: BTreeMap<&'static str, usize>,
}

impl Evidence {
    /// Reads the histories of what was started, and of the children found there.
    pub(super) async fn gather(client: &Client, journal: &Journal) -> Self {
        let mut evidence = Self::default();
        let starts = journal.facts().starts.clone();
        let mut found: Vec<(String, String)> = starts.into_iter().collect();
        while let Some((workflow_id, run_id)) = found.pop() {
            let history = client.history(&workflow_id, &run_id).await;
            for event in &history {
                match event.attributes.as_ref().unwrap() {
                    E::ChildWorkflowExecutionStartedEventAttributes(a) => {
                        let WorkflowExecution { workflow_id, run_id } = a.workflow_execution.clone().unwrap();
                        found.push((workflow_id, run_id));
                    }
                    E::WorkflowExecutionContinuedAsNewEventAttributes(a) => {
                        found.push((workflow_id.clone(), a.new_execution_run_id.clone()));
                    }
                    _ => {}
                }
            }
            evidence.chains.entry(workflow_id).or_default().push((run_id, history));
        }
        evidence
    }

    pub(super) fn histories(&self) -> &BTreeMap<String, Vec<(String, Vec<HistoryEvent>)>> {
        &self.chains
    }

    /// Open runs with their last events.
    pub(super) fn open_runs(&self) -> String {
        let mut open = String::new();
        for (workflow_id, chain) in &self.chains {
            let Some((run_id, history)) = chain.last().filter(|(_, history)| !history.last().is_some_and(is_close))
            else {
                continue;
            };
            writeln!(open, "{workflow_id} {run_id}").unwrap();
            for event in history.iter().rev().take(12).rev() {
                writeln!(open, "  {} {}", event.event_id, event.event_type().as_str_name()).unwrap();
            }
        }
        open
    }

    /// Reads the file itself, after the engine has closed it.
    pub(super) fn look_at_disk(&mut self, file: &Path) {
        let database = Database::open(windlass_sqlite::Options::new(file)).unwrap();
        let runs = database.read_blocking(|sql| {
            let mut statement = sql.prepare("SELECT workflow_id, run_id FROM engine_runs")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok::<_, DatabaseError>(rows.collect::<Result<_, _>>()?)
        });
        self.on_disk = runs.unwrap();
    }

    pub(super) fn judge(&self, facts: &Facts) -> Findings {
        let mut findings = Findings::default();
        for (workflow_id, chain) in &self.chains {
            findings.judge_chain(workflow_id, chain);
        }
        findings.judge_runs(self);
        findings.judge_journal(self, facts);
        findings
    }

    fn events(&self) -> impl Iterator<Item = &HistoryEvent> {
        self.chains.values().flatten().flat_map(|(_, history)| history)
    }
}

impl Findings {
    fn count(&mut self, what: &'static str, by: usize) {
        *self.counts.entry(what).or_default() += by;
    }

    fn check(&mut self, fine: bool, problem: impl FnOnce() -> String) {
        if !fine {
            self.wrong.push(problem());
        }
    }

    /// One open run at a time, and as many runs as planned.
    fn judge_chain(&mut self, workflow_id: &str, chain: &[(String, Vec<HistoryEvent>)]) {
        self.count(if workflow_id.contains('/') { "children" } else { "workflows" }, 1);
        let planned = match chain.first().and_then(|(_, history)| history.first()?.attributes.as_ref()) {
            Some(E::WorkflowExecutionStartedEventAttributes(a)) => Plan::read(&text(a.input.as_ref())).chain + 1,
            other => return self.wrong.push(format!("{workflow_id} begins with {other:?}")),
        };
        self.check(chain.len() == planned, || format!("{workflow_id} has {} runs of {planned}", chain.len()));
        for pair in chain.windows(2) {
            let (end, start) = (pair[0].1.last().unwrap(), pair[1].1.first().unwrap());
            let time = |event: &HistoryEvent| event.event_time.as_ref().map(|at| (at.seconds, at.nanos));
            self.check(time(end) <= time(start), || format!("{workflow_id} had two open runs"));
        }
        for (run_id, history) in chain {
            self.judge_history(run_id, history);
        }
    }

    /// No gaps, one closing event at the end, and everything that was started has ended once.
    fn judge_history(&mut self, run_id: &str, history: &[HistoryEvent]) {
        self.count("runs", 1);
        self.count("events", history.len());
        let ids: Vec<i64> = history.iter().map(|event| event.event_id).collect();
        let expected: Vec<i64> = (1..).take(history.len()).collect();
        self.check(ids == expected, || format!("{run_id} has gaps: {ids:?}"));
        let closes: Vec<i64> = history.iter().filter(|event| is_close(event)).map(|event| event.event_id).collect();
        let last = history.last().map_or(0, |event| event.event_id);
        self.check(closes == [last], || format!("{run_id} closes at {closes:?} of {last}"));

        let mut begun: BTreeMap<(&str, i64), usize> = BTreeMap::new();
        for event in history {
            let attributes = event.attributes.as_ref().unwrap();
            if let Some(what) = begins(attributes) {
                self.count(what, 1);
                begun.insert((what, event.event_id), 0);
            }
            if let Some((what, id, ending)) = ends(attributes) {
                self.count(ending, 1);
                match begun.get_mut(&(what, id)) {
                    Some(times) => *times += 1,
                    None => self.wrong.push(format!("{run_id}: {ending} at {} of what never began", event.event_id)),
                }
            }
        }
        for ((what, id), times) in begun {
            match times {
                0 => self.lost.push(format!("{run_id}: {what} of event {id} never ended")),
                1 => {}
                _ => self.doubled.push(format!("{run_id}: {what} of event {id} ended {times} times")),
            }
        }
    }

    /// The disk has exactly the runs that the histories lead to.
    fn judge_runs(&mut self, evidence: &Evidence) {
        let known =
            evidence.chains.iter().flat_map(|(id, chain)| chain.iter().map(|(run, _)| (id.clone(), run.clone())));
        let known: BTreeSet<_> = known.collect();
        self.lost.extend(known.difference(&evidence.on_disk).map(|run| format!("run {run:?} is not on disk")));
        self.doubled
            .extend(evidence.on_disk.difference(&known).map(|run| format!("run {run:?} belongs to no workflow")));
    }

    fn judge_journal(&mut self, evidence: &Evidence, facts: &Facts) {
        let mut signals: BTreeMap<String, usize> = BTreeMap::new();
        let mut results: BTreeMap<String, usize> = BTreeMap::new();
        let mut decisions: BTreeMap<String, usize> = BTreeMap::new();
        for event in evidence.events() {
            match event.attributes.as_ref().unwrap() {
                E::WorkflowExecutionSignaledEventAttributes(a) => {
                    *signals.entry(a.request_id.clone()).or_default() += 1;
                }
                E::ActivityTaskCompletedEventAttributes(a) => {
                    *results.entry(text(a.result.as_ref())).or_default() += 1;
                }
                E::MarkerRecordedEventAttributes(a) if a.marker_name == DECISION => {
                    *decisions.entry(text(a.details.get("id"))).or_default() += 1;
                }
                _ => {}
            }
        }
        self.acknowledged.insert("starts", facts.starts.len());
        for (id, signal) in &facts.signals {
            self.compare("signals", id, signal.acknowledged, signals.get(id));
        }
        for (id, acknowledged) in &facts.results {
            self.compare("activity completions", id, *acknowledged, results.get(id));
        }
        for (id, decision) in &facts.decisions {
            self.compare("workflow-task completions", id, decision.acknowledged, decisions.get(id));
        }
        self.judge_foundations(evidence, facts, &decisions);
        for (attempt, times) in facts.hand_outs.iter().filter(|(_, times)| **times > 1) {
            self.doubled.push(format!("attempt {attempt:?} was handed out {times} times"));
        }
        for (activity, times) in &facts.once {
            self.count("activities with one attempt handed out", 1);
            if *times > 1 {
                self.doubled.push(format!("{activity:?} has one attempt and was handed out {times} times"));
            }
        }
    }

    fn compare(&mut self, what: &'static str, id: &str, acknowledged: bool, found: Option<&usize>) {
        let found = found.copied().unwrap_or_default();
        *self.acknowledged.entry(what).or_default() += usize::from(acknowledged);
        if acknowledged && found == 0 {
            self.lost.push(format!("{what}: {id}"));
        }
        if found > 1 {
            self.doubled.push(format!("{what}: {id} is there {found} times"));
        }
    }

    /// The history that a worker had when it completed a task is the final one.
    fn judge_foundations(&mut self, evidence: &Evidence, facts: &Facts, decisions: &BTreeMap<String, usize>) {
        let histories: BTreeMap<&str, &Vec<HistoryEvent>> =
            evidence.chains.values().flatten().map(|(run_id, history)| (run_id.as_str(), history)).collect();
        for (id, decision) in facts.decisions.iter().filter(|(id, _)| decisions.contains_key(*id)) {
            let Some(history) = histories.get(decision.run_id.as_str()) else { continue };
            let differs = decision.based_on.iter().zip(history.iter()).find(|(shown, kept)| shown != kept);
            if let Some((shown, kept)) = differs {
                self.wrong.push(format!("decision {id} was based on {shown:?}, history has {kept:?}"));
            }
        }
    }

    /// Panics if there are findings.
    pub(super) fn demand(&self) {
        let some = |problems: &[String]| problems.iter().take(10).cloned().collect::<Vec<_>>().join("\n  ");
        let Self { lost, doubled, wrong, .. } = self;
        assert!(
            lost.is_empty() && doubled.is_empty() && wrong.is_empty(),
            "lost {}:\n  {}\ndoubled {}:\n  {}\nwrong {}:\n  {}",
            lost.len(),
            some(lost),
            doubled.len(),
            some(doubled),
            wrong.len(),
            some(wrong),
        );
    }

    pub(super) fn report(&self, facts: &Facts) -> String {
        let list = |counts: &BTreeMap<&'static str, usize>| {
            counts.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
        };
        format!(
            "acknowledged: {}\nfound:        {}\nrepeated:     {}\nlost {}, doubled {}",
            list(&self.acknowledged),
            list(&self.counts),
            list(&facts.repeats),
            self.lost.len(),
            self.doubled.len()
        )
    }
}

fn is_close(event: &HistoryEvent) -> bool {
    matches!(
        event.attributes.as_ref().unwrap(),
        E::WorkflowExecutionCompletedEventAttributes(_)
            | E::WorkflowExecutionContinuedAsNewEventAttributes(_)
            | E::WorkflowExecutionFailedEventAttributes(_)
            | E::WorkflowExecutionTimedOutEventAttributes(_)
            | E::WorkflowExecutionTerminatedEventAttributes(_)
            | E::WorkflowExecutionCanceledEventAttributes(_)
    )
}

/// What an event starts that must end exactly once.
fn begins(attributes: &E) -> Option<&'static str> {
    Some(match attributes {
        E::TimerStartedEventAttributes(_) => "timers",
        E::ActivityTaskScheduledEventAttributes(_) => "activities",
        E::StartChildWorkflowExecutionInitiatedEventAttributes(_) => "child workflows",
        E::SignalExternalWorkflowExecutionInitiatedEventAttributes(_) => "signals to children",
        _ => return None,
    })
}

/// What an event ends, and the event that started it.
fn ends(attributes: &E) -> Option<(&'static str, i64, &'static str)> {
    Some(match attributes {
        E::TimerFiredEventAttributes(a) => ("timers", a.started_event_id, "timers fired"),
        E::TimerCanceledEventAttributes(a) => ("timers", a.started_event_id, "timers cancelled"),
        E::ActivityTaskCompletedEventAttributes(a) => ("activities", a.scheduled_event_id, "activities completed"),
        E::ActivityTaskFailedEventAttributes(a) => ("activities", a.scheduled_event_id, "activities failed"),
        E::ActivityTaskTimedOutEventAttributes(a) => ("activities", a.scheduled_event_id, "activities timed out"),
        E::ChildWorkflowExecutionCompletedEventAttributes(a) => {
            ("child workflows", a.initiated_event_id, "child workflows reported")
        }
        E::ExternalWorkflowExecutionSignaledEventAttributes(a) => {
            ("signals to children", a.initiated_event_id, "signals to children delivered")
        }
        _ => return None,
    })
}
