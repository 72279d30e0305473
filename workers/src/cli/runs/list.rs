//! `windlass runs list`. It reads the store only, or asks the server that was named.

use std::{process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use windlass_client::Client;
use windlass_core::{
    ids::{AgentId, SessionId},
    run::RunStatus,
};
use windlass_store::{RunFilter, RunPage, Store};

use crate::{
    cli::{
        Failure, Global, Output,
        context::now,
        reach::{Remote, Visitor},
        usage, values,
    },
    render::run_table,
    service::Missing,
};

/// What a server gives at once.
const LARGEST_PAGE: u32 = 200;

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

    /// Only runs of this conversation
    #[arg(long, value_name = "ID", value_parser = values::session)]
    session: Option<SessionId>,

    /// How many at most
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
    let source = Source::of(global, &args).await?;
    let mut filter = RunFilter {
        workspace: (!args.all_workspaces).then(|| global.workspace.clone()),
        session: args.session,
        agent_id: args.agent,
        statuses: args.status.map(Into::into).into_iter().collect(),
        ..RunFilter::default()
    };
    let mut listed = RunPage { runs: Vec::new(), next: None, unreadable: 0, total: None };
    loop {
        // A page has at most as many runs as the store gives at once.
        filter.limit = args.limit - u32::try_from(listed.runs.len()).unwrap_or(args.limit);
        let page = source.page(&filter).await?;
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
        out.note(format!("{count} of the runs cannot be read and are left out; `windlass doctor --deep` names them"));
    }
    if listed.runs.is_empty() && !out.json {
        out.note("no runs");
        return Ok(ExitCode::SUCCESS);
    }
    out.print(&listed, || run_table(&listed.runs, now(), out.table_width()))?;
    if listed.next.is_some() && !out.json {
        out.note(format!("there are more; --limit {} shows twice as many", args.limit.saturating_mul(2)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the list comes from.
enum Source {
    /// Needs no server, and works while there is none.
    Store(Arc<dyn Store>),
    Server(Client),
}

impl Source {
    async fn of(global: &Global, args: &ListArgs) -> Result<Self, Failure> {
        match Remote::named(global, Visitor { actor: "", give_up_after: Duration::ZERO })? {
            Some(_) if args.all_workspaces => Err(usage(
                "a key opens one workspace: leave --all-workspaces out, or list the store itself, without --server",
            )),
            Some(remote) => Ok(Self::Server(remote.client)),
            None => Ok(Self::Store(global.open_store(Missing::Refuse).await?.port())),
        }
    }

    async fn page(&self, filter: &RunFilter) -> Result<RunPage, Failure> {
        let client = match self {
            Self::Store(store) => return Ok(store.runs(filter.clone()).await?),
            Self::Server(client) => client,
        };
        let asked = windlass_client::RunFilter {
            state: filter.statuses.first().map(|status| status.as_str().to_owned()),
            agent_id: filter.agent_id.clone(),
            session_id: filter.session.clone(),
            limit: Some(filter.limit.min(LARGEST_PAGE)),
            cursor: filter.cursor.clone(),
            ..Default::default()
        };
        let page = client.rows(&asked).await?;
        Ok(RunPage { runs: page.rows, next: page.next_cursor, unreadable: page.unreadable, total: None })
    }
}
