//! `windlass tools list`.

use std::{path::Path, process::ExitCode};

use serde_json::{Value, json};
use windlass_core::agent::ToolSpec;

use super::{Failure, Output, Workbench};
use crate::{
    failure::FAILED,
    render::{Table, one_line},
};

pub(super) async fn run(bench: &Workbench, agent: Option<&Path>, out: Output) -> Result<ExitCode, Failure> {
    let (tools, problems) = match agent {
        Some(path) => {
            let (definition, problems) = bench.agent(path).await?;
            (definition.tools, problems)
        }
        None => (bench.tools.specs().collect(), Vec::new()),
    };
    let document = json!({"tools": tools.iter().map(row).collect::<Vec<_>>(), "problems": problems});
    out.print(&document, || table(&tools).render(out.table_width()))?;
    if !out.json {
        for problem in &problems {
            out.note(problem);
        }
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// A tool without its source: that may say where systems are.
fn row(tool: &ToolSpec) -> Value {
    json!({
        "name": tool.name, "kind": tool.source.kind(), "description": tool.description, "inputSchema": tool.schema(),
        "outputSchema": tool.output_schema, "tags": tool.tags, "idempotent": tool.idempotent,
        "timeoutMs": tool.timeout_ms, "confirmation": tool.confirmation.is_some(),
    })
}

fn table(tools: &[ToolSpec]) -> Table {
    let mut table = Table::new(&["TOOL", "KIND", "TAGS", "APPROVAL", "DESCRIPTION"]);
    for tool in tools {
        let approval = if tool.confirmation.is_some() { "yes" } else { "" };
        table.row(vec![
            tool.name.to_string(),
            tool.source.kind().to_owned(),
            tool.tags.join(", "),
            approval.to_owned(),
            one_line(&tool.description, 120),
        ]);
    }
    table
}
