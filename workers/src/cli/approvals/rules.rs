//! `windlass approvals show | set | clear`: the rules of a run or a session.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::{Args, ValueHint};
use serde_json::json;
use windlass_core::{
    approval::{ApprovalScope, OwnRules, parse_rules_file},
    ids::{RunId, SessionId},
};

use crate::{
    cli::{Failure, failed, person::Person, reach::Reach, values},
    render::moment,
};

/// Whose rules.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct OwnerArgs {
    /// The rules of this run; they apply to its child runs, too
    #[arg(long, value_name = "RUN", value_parser = values::run)]
    run: Option<RunId>,

    /// The rules of this session
    #[arg(long, value_name = "SESSION", value_parser = values::session)]
    session: Option<SessionId>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass approvals set --run run-1 stricter.toml

  # stricter.toml
  [[approvals]]
  tool = \"pay*\"
  outcome = \"deny\"

The rules replace those that the run or the session had. They apply to the next calls that the model asks for; calls that
wait for an approval keep waiting. See docs/guides/approvals.md.")]
pub struct SetArgs {
    #[command(flatten)]
    owner: OwnerArgs,

    /// File with [[approvals]], in TOML or JSON
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    #[command(flatten)]
    pub(super) person: Person,
}

#[derive(Debug, Args)]
pub struct ClearArgs {
    #[command(flatten)]
    owner: OwnerArgs,
}

impl OwnerArgs {
    fn scope(self) -> ApprovalScope {
        match (self.run, self.session) {
            (Some(id), _) => ApprovalScope::Run { id },
            (None, Some(id)) => ApprovalScope::Session { id },
            // clap wants one of the two.
            (None, None) => ApprovalScope::Unknown,
        }
    }
}

pub(super) async fn show(reach: &Reach, args: OwnerArgs) -> Result<ExitCode, Failure> {
    let own = reach.rules(&args.scope()).await?;
    reach.out().print(&json!({"rules": own}), || own.as_ref().map_or_else(|| "no rules".to_owned(), described))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn set(reach: &Reach, args: SetArgs) -> Result<ExitCode, Failure> {
    let SetArgs { owner, file, person } = args;
    let text = fs::read_to_string(&file).map_err(|error| failed(format!("cannot read {}: {error}", file.display())))?;
    let rules = parse_rules_file(&file.to_string_lossy(), &text).map_err(|error| failed(error.to_string()))?;
    let scope = owner.scope();
    reach.set_rules(&scope, Some((rules, person.actor()))).await?;
    let own = reach.rules(&scope).await?;
    reach.out().print(&json!({"rules": own}), || own.as_ref().map_or_else(|| "no rules".to_owned(), described))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn clear(reach: &Reach, args: ClearArgs) -> Result<ExitCode, Failure> {
    reach.set_rules(&args.owner.scope(), None).await?;
    reach.out().print(&json!({"rules": null}), || "no rules".to_owned())?;
    Ok(ExitCode::SUCCESS)
}

fn described(own: &OwnRules) -> String {
    let power = if own.may_relax { "may relax what this actor could approve" } else { "only narrow" };
    let mut lines = vec![format!("set by {} at {}; they {power}", own.set_by, moment(own.set_at))];
    for (index, rule) in own.rules.iter().enumerate() {
        lines.push(format!("rule {index}: {}", json!(rule)));
    }
    lines.join("\n")
}
