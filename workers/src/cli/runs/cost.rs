//! `windlass runs cost`: what the runs of a workspace cost, by agent or by model. It adds up the rows of runs that have
//! ended; a run's row has the usage of its sub-agents in it.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use serde::Serialize;
use windlass_core::{cost::Cost, envelope::TokenUsage, row::RunRow, time::Timestamp};
use windlass_store::RunFilter;

use crate::{
    cli::{Failure, Global, Output, now, reach, values},
    render::Table,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass runs cost --since 7d
  windlass runs cost --by model --json")]
pub struct CostArgs {
    /// Only runs that began within this time
    #[arg(long, value_name = "AGE", value_parser = values::age)]
    since: Option<Duration>,

    /// What the rows of the table are
    #[arg(long, default_value = "agent")]
    by: By,

    /// Runs of every workspace
    #[arg(long)]
    all_workspaces: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    Agent,
    Model,
    Workspace,
}

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    rows: Vec<Row>,
    total: Row,
    /// Runs that have not ended are not in the sums.
    open_runs: u64,
}

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    runs: u64,
    /// Runs of which no price is known.
    without_price: u64,
    usage: TokenUsage,
}

const PAGE: u32 = 200;

pub(super) async fn run(global: &Global, args: CostArgs) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let lister = reach::lister(global, args.all_workspaces).await?;
    let mut filter = RunFilter {
        workspace: (!args.all_workspaces).then(|| global.workspace.clone()),
        limit: PAGE,
        ..RunFilter::default()
    };
    let since =
        args.since.map(|age| Timestamp(now().0.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))));
    let mut runs = Vec::new();
    loop {
        let page = lister.page(filter.clone()).await?;
        // Newest first: the rest is older.
        let older = page.runs.iter().any(|run| since.is_some_and(|since| run.created_at < since));
        runs.extend(page.runs.into_iter().filter(|run| since.is_none_or(|since| run.created_at >= since)));
        filter.cursor = page.next;
        if filter.cursor.is_none() || older {
            break;
        }
    }
    let report = report(&runs, args.by);
    out.print(&report, || table(&report, args.by).render(out.table_width()))?;
    if report.open_runs > 0 && !out.json {
        out.note(format!("{} runs have not ended and are not counted", report.open_runs));
    }
    Ok(ExitCode::SUCCESS)
}

fn report(runs: &[RunRow], by: By) -> Report {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut report = Report { total: Row { name: "total".to_owned(), ..Row::default() }, ..Report::default() };
    // A sub-agent's run is part of the run at the top.
    for run in runs.iter().filter(|run| run.parent.is_none()) {
        let Some(usage) = run.ending.as_ref().and_then(|ending| ending.usage.as_ref()) else {
            report.open_runs += u64::from(!run.status.is_terminal());
            continue;
        };
        let name = match by {
            By::Agent => run.agent_id.to_string(),
            By::Model => usage.model.clone().unwrap_or_else(|| "several models".to_owned()),
            By::Workspace => run.workspace.to_string(),
        };
        let row = rows.entry(name.clone()).or_insert_with(|| Row { name, ..Row::default() });
        for row in [row, &mut report.total] {
            row.runs += 1;
            row.without_price += u64::from(usage.cost_usd.is_none());
            row.usage.add(usage);
        }
    }
    report.rows = rows.into_values().collect();
    report.rows.sort_by_key(|row| std::cmp::Reverse((row.usage.cost_usd, row.usage.total_tokens)));
    report
}

fn table(report: &Report, by: By) -> Table {
    let name = match by {
        By::Agent => "AGENT",
        By::Model => "MODEL",
        By::Workspace => "WORKSPACE",
    };
    let mut table = Table::new(&[name, "RUNS", "TOKENS", "CACHED", "COST", ""]);
    for row in report.rows.iter().chain([&report.total]) {
        let cached = row.usage.cache_hit_ratio().unwrap_or_default() * 100.0;
        let note = match row.without_price {
            0 => String::new(),
            runs => format!("{runs} without prices"),
        };
        table.row(vec![
            row.name.clone(),
            row.runs.to_string(),
            row.usage.total_tokens.to_string(),
            format!("{cached:.0}%"),
            row.usage.cost_usd.unwrap_or(Cost::ZERO).to_string(),
            note,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn run(id: &str, fields: Value) -> RunRow {
        let mut row = json!({
            "id": id, "workspace": "w", "session": null, "agentId": "desk", "modelId": "m:n", "parent": null,
            "parentCall": null, "children": [], "labels": {}, "metadata": {}, "status": "completed", "phase": "done",
            "inputPreview": "", "createdAt": 1, "updatedAt": 1, "closedAt": 2,
            "head": {"len": 0, "digest": "0".repeat(64)}, "lastSeq": 1,
        });
        row.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(row).unwrap()
    }

    fn ended(usd: Value, tokens: u64) -> Value {
        json!({"usage": {"model": "m:n", "inputTokens": tokens, "totalTokens": tokens, "cacheReadTokens": tokens / 2, "costUsd": usd}})
    }

    #[test]
    fn the_costs_of_runs_are_added_up_and_sub_agents_are_not_counted_twice() {
        let runs = [
            run("a", json!({"ending": ended(json!(0.5), 100)})),
            run("a/b", json!({"ending": ended(json!(0.2), 40), "parent": "a"})),
            run("c", json!({"ending": ended(json!(1.25), 60), "agentId": "writer"})),
            run("d", json!({"ending": ended(Value::Null, 10)})),
            run("e", json!({"status": "running", "phase": "planning", "closedAt": null})),
        ];
        let by_agent = report(&runs, By::Agent);
        let told: Vec<_> = by_agent
            .rows
            .iter()
            .chain([&by_agent.total])
            .map(|row| (row.name.as_str(), row.runs, row.without_price, row.usage.cost_usd, row.usage.total_tokens))
            .collect();
        assert_eq!(
            told,
            [
                ("writer", 1, 0, Cost::from_usd(1.25), 60),
                ("desk", 2, 1, Cost::from_usd(0.5), 110),
                ("total", 3, 1, Cost::from_usd(1.75), 170),
            ]
        );
        assert_eq!(by_agent.open_runs, 1);
        let text = table(&by_agent, By::Agent).render(None);
        assert_eq!(
            text.lines().map(str::trim_end).collect::<Vec<_>>(),
            [
                "AGENT   RUNS  TOKENS  CACHED  COST",
                "writer  1     60      50%     $1.25",
                "desk    2     110     50%     $0.5000  1 without prices",
                "total   3     170     50%     $1.75    1 without prices",
            ]
        );
        assert_eq!(report(&runs, By::Model).rows.len(), 1);
    }
}
