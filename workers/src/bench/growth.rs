//! `growth`: one long run, and what a turn costs early and late in it.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use temporalio_client::{Client, NamespacedClient as _, UntypedWorkflow, WorkflowExecutionInfo, WorkflowHandle};
use temporalio_common::ActivityDefinition as _;
use temporalio_protos::temporal::api::history::v1::{HistoryEvent, history_event::Attributes};
use windlass_core::ids::RunId;
use windlass_workflows::contract::Plan;

use super::{
    probe::{Beats, Probe, turns},
    progress::Progress,
    reading::{Growth, Reading},
    rig::{Rig, answer, complete, finish, park},
    site::Site,
    stats::{median, rounded, window},
    work::Work,
};
use crate::failure::{Failure, failed};

/// A mark's figures are medians over so many turns before and after it: a commit that happens to fold the log, or a run
/// that continues as new, says nothing about the turns around it.
const REACH: usize = 5;
const MARKS: [u32; 6] = [10, 100, 500, 1_000, 2_500, 10_000];
/// Short runs before the long one.
const WARM_UP: u32 = 3;

pub(super) async fn measure(site: &Site, work: Work, progress: &Progress) -> Result<Vec<Reading>, Failure> {
    let beats = Arc::new(Beats::default());
    let probe = Probe { beats: Some(Arc::clone(&beats)), ledger: None };
    let _bar = progress.begin("growth", 1);
    let (turns, bytes) = Rig::with(site, work, probe, async |rig| {
        let ops = &rig.ops;
        for _ in 0..WARM_UP {
            let run = park(ops, rig.next_run()).await?;
            answer(ops, &run).await?;
            finish(ops, &run).await?;
        }
        beats.take();
        let run = rig.next_run();
        complete(ops, run.clone()).await?;
        let events = whole_history(ops.client(), &run).await?;
        Ok((turns(&beats.take()), bytes_per_turn(&events)))
    })
    .await?;
    Ok(readings(work, &turns, &bytes))
}

fn readings(work: Work, turns: &[Duration], bytes: &[usize]) -> Vec<Reading> {
    let ms: Vec<f64> = turns.iter().map(|turn| turn.as_secs_f64() * 1000.0).collect();
    let bytes: Vec<f64> = bytes.iter().map(|bytes| *bytes as f64).collect();
    let around = |samples: &[f64], turn: u32| {
        // The last turn has the run's end in it.
        let comparable = &samples[..samples.len().min(work.turns as usize)];
        rounded(median(&comparable[window(turn as usize, REACH, comparable.len())]).unwrap_or_default())
    };
    let reading = |turn| {
        Reading::Growth(Growth {
            turn,
            turns: work.turns,
            calls: work.calls,
            ms_per_turn: around(&ms, turn),
            history_bytes_per_turn: around(&bytes, turn),
        })
    };
    marks(work.turns).into_iter().map(reading).collect()
}

/// The marks as far as the run goes. The last one is its end, but for the turns around a mark.
fn marks(turns: u32) -> Vec<u32> {
    let reach = REACH as u32;
    let mut marks: Vec<u32> = MARKS.into_iter().filter(|mark| mark + reach < turns).collect();
    marks.push(turns.saturating_sub(reach + 1));
    marks
}

/// The events of every execution of the run, oldest first.
async fn whole_history(client: &Client, run: &RunId) -> Result<Vec<HistoryEvent>, Failure> {
    let mut executions = vec![history(&client.get_workflow_handle::<UntypedWorkflow>(run.to_string())).await?];
    while let Some(previous) = executions.last().and_then(|events| continued_from(events)) {
        let info = WorkflowExecutionInfo::builder()
            .namespace(client.namespace())
            .workflow_id(run.to_string())
            .run_id(previous)
            .build();
        executions.push(history(&WorkflowHandle::<_, UntypedWorkflow>::new(client.clone(), info)).await?);
    }
    Ok(executions.into_iter().rev().flatten().collect())
}

async fn history(handle: &WorkflowHandle<Client, UntypedWorkflow>) -> Result<Vec<HistoryEvent>, Failure> {
    let fetched = handle.fetch_history(Default::default()).into_events().await;
    fetched.map_err(|error| failed(format!("the run's history cannot be read: {error}")))
}

fn continued_from(events: &[HistoryEvent]) -> Option<String> {
    match &events.first()?.attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(start)) => {
            Some(start.continued_execution_run_id.clone()).filter(|previous| !previous.is_empty())
        }
        _ => None,
    }
}

/// The history bytes from one plan to the next. What an execution carries over to its successor is not part of a turn.
fn bytes_per_turn(events: &[HistoryEvent]) -> Vec<usize> {
    let mut turns: Vec<usize> = Vec::new();
    for event in events {
        match &event.attributes {
            Some(Attributes::ActivityTaskScheduledEventAttributes(scheduled))
                if scheduled.activity_type.as_ref().is_some_and(|kind| kind.name == Plan.name()) =>
            {
                turns.push(0);
            }
            Some(
                Attributes::WorkflowExecutionStartedEventAttributes(_)
                | Attributes::WorkflowExecutionContinuedAsNewEventAttributes(_),
            ) => continue,
            _ => {}
        }
        if let Some(turn) = turns.last_mut() {
            *turn += event.encoded_len();
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_spread_over_the_run() {
        assert_eq!(marks(5000), [10, 100, 500, 1000, 2500, 4994]);
        assert_eq!(marks(1000), [10, 100, 500, 994]);
        assert_eq!(marks(20), [10, 14]);
        assert_eq!(marks(1), [0]);
    }

    #[test]
    fn a_mark_is_the_median_of_the_turns_around_it() {
        let work = Work { turns: 100, calls: 2, once: false, seed: 1 };
        // Every tenth turn is an outlier, and every turn takes as many microseconds as its number.
        let span = |turn: u64| Duration::from_micros(if turn.is_multiple_of(10) { 90_000 } else { turn });
        let turns: Vec<Duration> = (0..100).map(span).collect();
        let bytes: Vec<usize> = (0..101).map(|_| 4000).collect();
        let expected = [(10, 0.011), (94, 0.095)].map(|(turn, ms_per_turn)| {
            Reading::Growth(Growth { turn, turns: 100, calls: 2, ms_per_turn, history_bytes_per_turn: 4000.0 })
        });
        assert_eq!(readings(work, &turns, &bytes), expected);
    }
}
