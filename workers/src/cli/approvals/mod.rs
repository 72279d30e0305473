//! `windlass approvals`: grants, the rules of runs and sessions, and why a call ran, waited or was refused.

mod explain;
mod grants;
mod rules;

use std::{process::ExitCode, time::Duration};

use clap::Subcommand;

use super::{
    Failure, Global,
    reach::{Reach, Visitor},
};

#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// List grants: calls that are not asked about again
    List(grants::ListArgs),
    /// Revoke a grant: later calls are asked about again
    Revoke(grants::RevokeArgs),
    /// Show why a call of a run was allowed, asked about or denied; or what the rules say of a call of an agent file
    Explain(explain::ExplainArgs),
    /// Show the approval rules of a run or a session
    Show(rules::OwnerArgs),
    /// Replace the approval rules of a run or a session; they apply to the next calls
    Set(rules::SetArgs),
    /// Remove the approval rules of a run or a session
    Clear(rules::ClearArgs),
}

/// How long to wait for a server that does not respond.
const WAIT: Duration = Duration::from_secs(10);

pub(super) async fn run(global: &Global, command: ApprovalsCommand) -> Result<ExitCode, Failure> {
    match command {
        ApprovalsCommand::List(args) => grants::list(&reach(global, "").await?, args).await,
        ApprovalsCommand::Revoke(args) => grants::revoke(&reach(global, "").await?, args).await,
        ApprovalsCommand::Explain(args) => explain::run(global, args).await,
        ApprovalsCommand::Show(args) => rules::show(&reach(global, "").await?, args).await,
        ApprovalsCommand::Set(args) => rules::set(&reach(global, &args.person.name()).await?, args).await,
        ApprovalsCommand::Clear(args) => rules::clear(&reach(global, "").await?, args).await,
    }
}

async fn reach(global: &Global, actor: &str) -> Result<Reach, Failure> {
    Reach::open_existing(global, Visitor { actor, give_up_after: WAIT }).await
}
