//! `windlass approvals explain`: what was decided about a call, and what the rules say of it, rule by rule.

use std::{path::Path, process::ExitCode};

use clap::{Args, ValueHint};
use serde_json::Value;
use windlass_core::{
    agent::nearest,
    approval::{CallFacts, explain, layers},
    canonical::CanonicalJson,
    cost::Cost,
    envelope::Actor,
    ids::{CallId, RunId},
};

use super::reach;
use crate::cli::{Failure, Global, Output, failed, now, reach::Reach, tools::Workbench, usage, values};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass approvals explain run-1 call-0-0
  windlass approvals explain agent.toml refund '{\"amount\": 120, \"to\": \"ann\"}'

Nothing is executed. For a call of a run: what was decided, and what the rules and grants say of it now. For an agent file:
what the rules of windlass.toml ([[approvals]]) and of the file say of a call. See docs/guides/approvals.md.")]
pub struct ExplainArgs {
    /// Id of a run, or an agent file
    #[arg(value_name = "RUN|FILE", value_hint = ValueHint::FilePath)]
    target: String,

    /// Id of the run's call, or the name of the agent's tool
    #[arg(value_name = "CALL|TOOL")]
    subject: String,

    /// Agent file: arguments of the call, as a JSON object [default: {}]
    #[arg(value_name = "JSON")]
    arguments: Option<String>,

    /// Agent file: id of the run's starter, for rules with `caller`
    #[arg(long, value_name = "ID")]
    caller: Option<String>,

    /// Agent file: what the run has spent, in US dollars, for rules with `cost_at_least`
    #[arg(long, value_name = "USD", default_value_t = 0.0)]
    spent: f64,
}

pub(super) async fn run(global: &Global, args: ExplainArgs) -> Result<ExitCode, Failure> {
    let path = Path::new(&args.target);
    let is_file = path.exists() || path.extension().is_some_and(|extension| extension == "toml" || extension == "json");
    if is_file { of_file(global, &args).await } else { of_run(&reach(global, "").await?, &args).await }
}

async fn of_run(reach: &Reach, args: &ExplainArgs) -> Result<ExitCode, Failure> {
    if args.arguments.is_some() || args.caller.is_some() {
        return Err(usage("a call of a run has its arguments and its starter: remove JSON and --caller"));
    }
    let run = values::run(&args.target)
        .map_err(|error| usage(format!("{:?} is neither an agent file nor a run: {error}", args.target)))?;
    let call = CallId::parse(&args.subject).map_err(|error| usage(error.to_string()))?;
    let approval = reach.explain_call(&run, &call).await?;
    let approval =
        approval.ok_or_else(|| failed(format!("{run} has no call {call}; see `windlass runs transcript {run}`")))?;
    reach.out().print(&approval, || approval.to_string())?;
    Ok(ExitCode::SUCCESS)
}

async fn of_file(global: &Global, args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let bench = Workbench::open(global).await?;
    let explained = explained(global, &bench, args, out).await;
    bench.close().await?;
    explained
}

async fn explained(global: &Global, bench: &Workbench, args: &ExplainArgs, out: Output) -> Result<ExitCode, Failure> {
    let (definition, problems) = bench.agent(Path::new(&args.target)).await?;
    problems.iter().for_each(|problem| out.note(problem));
    let Some(tool) = definition.tools.iter().find(|tool| tool.name.as_str() == args.subject) else {
        let meant = nearest(&args.subject, definition.tools.iter().map(|tool| tool.name.as_str()));
        let advice =
            meant.map_or_else(|| "see `windlass tools list`".to_owned(), |meant| format!("did you mean {meant}?"));
        return Err(usage(format!("agent {} has no tool {:?}; {advice}", definition.id, args.subject)));
    };
    let given: Value = serde_json::from_str(args.arguments.as_deref().unwrap_or("{}"))
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
        configured: true,
    };
    // A file at the shell is the operator's.
    let layers = layers(&global.config().approvals, &definition, Some(&definition), Vec::new());
    let explanation = explain(&facts, &layers, &[], now());
    out.print(&explanation, || explanation.to_string())?;
    Ok(ExitCode::SUCCESS)
}
