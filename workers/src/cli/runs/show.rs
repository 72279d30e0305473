//! `windlass runs show` and `windlass runs awaits`.

use std::{process::ExitCode, time::Duration};

use serde_json::json;
use windlass_core::{event::Event, ids::RunId};
use windlass_store::RunFilter;

use crate::{
    cli::{
        Failure,
        context::{Context, in_time, now},
        failed,
    },
    render::{Details, await_lines, details, how_to_answer},
};

/// How many tool results are shown.
const RESULTS: usize = 5;

pub(super) async fn run(context: &Context, run: &RunId) -> Result<ExitCode, Failure> {
    let Some(row) = context.row(run).await? else {
        // A run that could not open leaves no row; its workflow knows why.
        let end = tokio::time::timeout(Duration::from_secs(1), context.ops.result(run)).await;
        return Err(failed(match end {
            Ok(Err(end)) => format!("{run} could not begin: {end}"),
            _ => format!("{run} is started, but no worker has taken it yet; start one: windlass worker"),
        }));
    };
    let ended = row.status.is_terminal();
    let (live, awaits) = if ended {
        (None, Vec::new())
    } else {
        // Together, so that an absent worker is waited for once.
        let (live, awaits) = tokio::join!(in_time(context.ops.status(run)), context.pending(run));
        (live?.flatten(), awaits?)
    };
    let below = RunFilter { parent: Some(run.clone()), ..RunFilter::default() };
    let mut children = context.store().runs(below).await?.runs;
    children.reverse();
    let (results, end) = last_words(context.events(run, 0).await?);
    let facts = Details { row, live, awaits, children, results, end };
    let document = json!({
        "run": facts.row, "live": facts.live, "awaits": facts.awaits, "children": facts.children,
        "toolResults": facts.results, "end": facts.end,
    });
    context.out.print(&document, || details(&facts, now(), &context.hint, context.out.paint()))?;
    Ok(ExitCode::SUCCESS)
}

/// The last tool results, and the terminal event.
fn last_words(events: Vec<Event>) -> (Vec<Event>, Option<Event>) {
    let end = events.last().filter(|event| event.is_terminal()).cloned();
    let mut results: Vec<Event> = events.into_iter().filter(|event| event.kind == "tool_result").collect();
    let surplus = results.len().saturating_sub(RESULTS);
    (results.split_off(surplus), end)
}

pub(super) async fn awaits(context: &Context, run: &RunId) -> Result<ExitCode, Failure> {
    context.row(run).await?;
    let items = context.pending(run).await?;
    if items.is_empty() && !context.out.json {
        context.out.note(format!("{run} waits for nobody"));
        return Ok(ExitCode::SUCCESS);
    }
    context.out.print(&items, || {
        let blocks = items.iter().map(|item| {
            let commands = how_to_answer(&context.hint, run, item).into_iter().map(|command| format!("  $ {command}"));
            await_lines(item, context.out.paint()).into_iter().chain(commands).collect::<Vec<_>>().join("\n")
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
    fn the_last_results_are_kept_in_order() {
        let event =
            |seq, kind: &str| Event { seq, at: Timestamp(0), key: "k".into(), kind: kind.into(), data: Value::Null };
        let mut events: Vec<Event> = (1..=7).map(|seq| event(seq, "tool_result")).collect();
        events.extend([event(8, "usage"), event(9, "result")]);
        let (results, end) = last_words(events);
        assert_eq!(results.iter().map(|event| event.seq).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
        assert_eq!(end.unwrap().seq, 9);
        assert_eq!(last_words(vec![event(1, "started")]), (Vec::new(), None));
    }
}
