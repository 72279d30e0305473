//! `windlass approvals explain`: what the approval rules say of a call, rule by rule.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand, ValueHint};
use serde_json::Value;
use windlass_core::{
    agent::nearest,
    approval::{CallFacts, explain, layers},
    canonical::CanonicalJson,
    cost::Cost,
    envelope::Actor,
    ids::RunId,
};

use super::{Failure, Global, Output, Workbench, usage};
use crate::cli::now;

#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// Show what the rules of windlass.toml and of an agent say of a call, rule by rule
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  windlass approvals explain agent.toml refund '{\"amount\": 120, \"to\": \"ann\"}'

Nothing is executed. The rules are those of windlass.toml ([[approvals]]) and of the agent file; see
docs/guides/approvals.md.")]
pub struct ExplainArgs {
    /// Agent file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    agent: PathBuf,

    /// Name of the tool, as `tools list` shows it
    tool: String,

    /// Arguments of the call, as a JSON object
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,

    /// Id of the run's starter, for rules with `caller`
    #[arg(long, value_name = "ID")]
    caller: Option<String>,

    /// What the run has spent, in US dollars, for rules with `cost_at_least`
    #[arg(long, value_name = "USD", default_value_t = 0.0)]
    spent: f64,
}

pub(in crate::cli) async fn approvals(global: &Global, command: ApprovalsCommand) -> Result<ExitCode, Failure> {
    let ApprovalsCommand::Explain(args) = command;
    let out = Output::new(global.json);
    let bench = Workbench::open(global).await?;
    let explained = explained(global, &bench, &args, out).await;
    bench.close().await?;
    explained
}

async fn explained(global: &Global, bench: &Workbench, args: &ExplainArgs, out: Output) -> Result<ExitCode, Failure> {
    let (definition, problems) = bench.agent(&args.agent).await?;
    problems.iter().for_each(|problem| out.note(problem));
    let Some(tool) = definition.tools.iter().find(|tool| tool.name.as_str() == args.tool) else {
        let meant = nearest(&args.tool, definition.tools.iter().map(|tool| tool.name.as_str()));
        let advice =
            meant.map_or_else(|| "see `windlass tools list`".to_owned(), |meant| format!("did you mean {meant}?"));
        return Err(usage(format!("agent {} has no tool {:?}; {advice}", definition.id, args.tool)));
    };
    let given: Value = serde_json::from_str(&args.arguments)
        .map_err(|error| usage(format!("the arguments are not JSON: {error}; write a JSON object")))?;
    let cost = Cost::from_usd(args.spent).ok_or_else(|| usage("--spent is an amount of money that is not negative"))?;
    let (digest, run) = (CanonicalJson::from(given.clone()).digest(), RunId::new("run"));
    let starter = args.caller.as_deref().map(Actor::from);
    let facts = CallFacts {
        tool: &tool.name,
        tags: &tool.tags,
        source: tool.source.kind(),
        args: Some(&given),
        args_digest: digest,
        confirmation: tool.confirmation.as_ref(),
        starter: starter.as_ref(),
        cost,
        run: &run,
        session: None,
        agent: &definition.id,
    };
    // A file at the shell is the operator's.
    let layers = layers(&global.config().approvals, &definition.approvals, true);
    let explanation = explain(&facts, &layers, &[], now());
    out.print(&explanation, || explanation.to_string())?;
    Ok(ExitCode::SUCCESS)
}
