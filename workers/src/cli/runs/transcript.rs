//! `windlass runs transcript`: the conversation.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::RunArg;
use crate::{
    cli::{Failure, failed, reach::Reach},
    render::{conversation, transcript_lines},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass runs transcript run-1
  windlass runs transcript run-1 --full | less
  windlass runs transcript run-1 --json | jq '.entries[] | select(.type == \"answer\")'

Shows the messages with calls and results, and questions with answers, by whom and when. Works while the run is running
and after it has ended. With --json nothing is cut.")]
pub struct TranscriptArgs {
    #[command(flatten)]
    run: RunArg,

    /// Do not cut long arguments and results
    #[arg(long)]
    full: bool,
}

pub(super) async fn run(reach: &Reach, args: TranscriptArgs) -> Result<ExitCode, Failure> {
    let (run, out) = (args.run.run, reach.out());
    let Some(row) = reach.row(&run).await? else {
        return Err(failed(format!("{run} is queued: no worker has opened it yet; start one with `windlass worker`")));
    };
    // Messages are read before the log, so that the log covers at least as much.
    let (messages, opening, earlier) = reach.transcript(&run).await?;
    let entries = conversation(&messages, opening, earlier, &reach.events(&run, 0).await?);
    let document = json!({"runId": run, "status": row.status, "entries": entries});
    out.print(&document, || transcript_lines(&entries, args.full, out.paint()).join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
