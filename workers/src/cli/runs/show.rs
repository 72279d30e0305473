//! `windlass runs show` and `windlass runs awaits`.

use std::process::ExitCode;

use serde_json::json;
use windlass_core::{event::Event, ids::RunId, run_usage::RunUsage};
use windlass_store::RunFilter;

use crate::{
    cli::{Failure, failed, now, reach::Reach},
    render::{Details, await_lines, details, how_to_answer},
};

/// How many tool results are shown.
const RESULTS: usize = 5;

pub(super) async fn run(reach: &Reach, run: &RunId) -> Result<ExitCode, Failure> {
    let Some(row) = reach.row(run).await? else { return Err(not_opened(reach, run).await) };
    let ended = row.status.is_terminal();
    let (live, awaits) = if ended {
        (None, Vec::new())
    } else {
        // Concurrently, so that the timeout for a missing worker applies once.
        let (live, awaits) = tokio::join!(reach.live(run), reach.pending(run));
        (live?, awaits?)
    };
    let mut children = reach.page(RunFilter { parent: Some(run.clone()), ..RunFilter::default() }).await?.runs;
    children.reverse();
    let events = reach.events(run, 0).await?;
    // The workflow is ahead of the log.
    let spent = live.as_ref().map_or_else(|| RunUsage::of(&events), RunUsage::from);
    let answers = events.iter().filter(|event| event.kind == "await_closed").cloned().collect();
    let (results, end) = last_results_and_end(events);
    let facts = Details { row, live, spent, awaits, answers, children, results, end };
    let document = json!({
        "run": facts.row, "live": facts.live, "spent": facts.spent, "awaits": facts.awaits, "answers": facts.answers,
        "children": facts.children, "toolResults": facts.results, "end": facts.end,
    });
    let out = reach.out();
    out.print(&document, || details(&facts, now(), reach.hint(), out.paint()))?;
    Ok(ExitCode::SUCCESS)
}

/// A run that failed to open has no row; its workflow has the reason.
async fn not_opened(reach: &Reach, run: &RunId) -> Failure {
    failed(match reach.start_failure(run).await {
        Some(end) => format!("{run} failed to start: {end}"),
        None => format!("{run} is queued: no worker has opened it yet; start one with `windlass worker`"),
    })
}

/// The last tool results, and the terminal event.
fn last_results_and_end(events: Vec<Event>) -> (Vec<Event>, Option<Event>) {
    let end = events.last().filter(|event| event.is_terminal()).cloned();
    let mut results: Vec<Event> = events.into_iter().filter(|event| event.kind == "tool_result").collect();
    let surplus = results.len().saturating_sub(RESULTS);
    (results.split_off(surplus), end)
}

pub(super) async fn awaits(reach: &Reach, run: &RunId) -> Result<ExitCode, Failure> {
    let (out, hint) = (reach.out(), reach.hint());
    let row = reach.row(run).await?;
    let ended = row.is_some_and(|row| row.status.is_terminal());
    let items = if ended { Vec::new() } else { reach.pending(run).await? };
    if items.is_empty() && !out.json {
        out.note(format!("{run} has no open awaits"));
        return Ok(ExitCode::SUCCESS);
    }
    out.print(&items, || {
        let blocks = items.iter().map(|item| {
            let commands = how_to_answer(hint, run, item).into_iter().map(|command| format!("  $ {command}"));
            await_lines(item, out.paint()).into_iter().chain(commands).collect::<Vec<_>>().join("\n")
        });
        blocks.collect::<Vec<_>>().join("\n\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use windlass_core::time::Timestamp;

    use super::*;

    #[test]
    fn the_last_results_are_shown_in_order() {
        let event =
            |seq, kind: &str| Event { seq, at: Timestamp(0), key: "k".into(), kind: kind.into(), data: Value::Null };
        let mut events: Vec<Event> = (1..=7).map(|seq| event(seq, "tool_result")).collect();
        events.extend([event(8, "usage"), event(9, "result")]);
        let (results, end) = last_results_and_end(events);
        assert_eq!(results.iter().map(|event| event.seq).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
        assert_eq!(end.unwrap().seq, 9);
        assert_eq!(last_results_and_end(vec![event(1, "started")]), (Vec::new(), None));
    }
}
