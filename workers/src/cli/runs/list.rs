//! `windlass runs list`. It reads the store, or asks the server of --server.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use windlass_core::{
    ids::{AgentId, SessionId},
    run::RunStatus,
};
use windlass_store::{RunFilter, RunPage};

use crate::{
    cli::{Failure, Global, Output, now, reach, values},
    render::run_table,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass runs list --status waiting
  windlass runs list --json | jq -r '.runs[].id'")]
pub struct ListArgs {
    /// Only runs in this state
    #[arg(long)]
    status: Option<Status>,

    /// Only runs of this agent
    #[arg(long, value_name = "ID", value_parser = values::agent)]
    agent: Option<AgentId>,

    /// Only runs of this session
    #[arg(long, value_name = "ID", value_parser = values::session)]
    session: Option<SessionId>,

    /// Maximum number of runs
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Runs of every workspace
    #[arg(long)]
    all_workspaces: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Queued,
    Running,
    Waiting,
    Paused,
    Completed,
    Failed,
    Cancelled,
}

impl From<Status> for RunStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Queued => Self::Queued,
            Status::Running => Self::Running,
            Status::Waiting => Self::Waiting,
            Status::Paused => Self::Paused,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

pub(super) async fn run(global: &Global, args: ListArgs) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let lister = reach::lister(global, args.all_workspaces).await?;
    let mut filter = RunFilter {
        workspace: (!args.all_workspaces).then(|| global.workspace.clone()),
        session: args.session,
        agent_id: args.agent,
        statuses: args.status.map(Into::into).into_iter().collect(),
        ..RunFilter::default()
    };
    let mut listed = RunPage { runs: Vec::new(), next: None, unreadable: 0, total: None };
    loop {
        // A page may have fewer runs than the limit.
        filter.limit = args.limit - u32::try_from(listed.runs.len()).unwrap_or(args.limit);
        let page = lister.page(filter.clone()).await?;
        listed.runs.extend(page.runs);
        listed.unreadable += page.unreadable;
        listed.next = page.next;
        if listed.next.is_none() || listed.runs.len() >= args.limit as usize {
            break;
        }
        filter.cursor.clone_from(&listed.next);
    }
    if listed.unreadable > 0 && !out.json {
        let count = listed.unreadable;
        out.note(format!("{count} runs cannot be read and are not listed; `windlass doctor --deep` names them"));
    }
    if listed.runs.is_empty() && !out.json {
        out.note("no runs");
        return Ok(ExitCode::SUCCESS);
    }
    out.print(&listed, || run_table(&listed.runs, now(), out.table_width()))?;
    if listed.next.is_some() && !out.json {
        out.note(format!("there are more runs; --limit {} shows twice as many", args.limit.saturating_mul(2)));
    }
    Ok(ExitCode::SUCCESS)
}
