//! `windlass run`: starts a run and follows it.

use std::{path::Path, process::ExitCode};

use clap::Args;
use serde_json::json;
use windlass_core::{
    agent::AgentDefinition,
    envelope::PolicyOverrides,
    ids::{AgentId, RunId, SessionId},
};
use windlass_ops::StartRun;

use super::{
    Failure, Global, agents,
    context::{Context, Missing},
    follow::{self, follow},
    person::Person,
    usage, values,
};
use crate::temporal::ensure_search_attributes;

const EXAMPLES: &str = "\
Examples:
  windlass run --agent demo 'Write a launch note'
  windlass run --agent examples/agents/echo.toml 'Hello' > answer.txt
  windlass run --agent demo --session standup --label team=core 'And now?'
  windlass run --agent demo --policy '{\"maxToolCalls\": 3}' --detach 'Go'

While the run works, its text, its calls and its questions are shown on stderr as they come; at a terminal questions can be
answered on the spot. The answer goes to stdout. Ctrl-C stops following: the run goes on.

Exit codes:
  0 the run completed   1 it failed   3 it was cancelled   4 it goes on, but is no longer followed";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// What to say to the agent
    prompt: String,

    /// Agent definition (a .toml or .json file), or the id of an agent the worker knows
    #[arg(long, value_name = "FILE|ID")]
    agent: String,

    /// Conversation to continue; it is created on first use
    #[arg(long, value_name = "ID", value_parser = values::session)]
    session: Option<SessionId>,

    /// Model to use instead of the agent's
    #[arg(long, value_name = "ID")]
    model: Option<String>,

    /// Id of the run; a second start with the same id is refused
    #[arg(long, value_name = "ID", value_parser = values::run)]
    run_id: Option<RunId>,

    /// Limits of this run, as JSON or @FILE
    #[arg(long, value_name = "JSON|@FILE", value_parser = values::policy)]
    policy: Option<PolicyOverrides>,

    /// Label of the run; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = values::label)]
    labels: Vec<(String, String)>,

    /// Start the run, print its id and leave
    #[arg(long, conflicts_with = "until_waiting")]
    detach: bool,

    /// Leave, with exit code 4, when the run waits for somebody
    #[arg(long)]
    until_waiting: bool,

    #[command(flatten)]
    person: Person,
}

pub(super) async fn run(global: &Global, args: RunArgs) -> Result<ExitCode, Failure> {
    let (agent_id, definition) = agent(&args.agent)?;
    let context = Context::open(global, Missing::Create).await?;
    // Without them a run started before the first worker would be refused.
    ensure_search_attributes(context.ops.client()).await?;
    let start = StartRun {
        session_id: args.session,
        model_id: args.model,
        labels: args.labels.into_iter().collect(),
        policy: args.policy,
        ..StartRun::of(agent_id, definition, args.prompt)
    };
    let start = StartRun { run_id: args.run_id.unwrap_or_else(|| start.run_id.clone()), ..start };
    let run = context.ops.start(start).await?;
    if args.detach {
        context.out.print(&json!({"runId": run}), || run.to_string())?;
        context.out.note(format!("follow it: {}", context.hint.command(&format!("runs attach {run}"))));
        return Ok(ExitCode::SUCCESS);
    }
    let options = follow::Options { actor: args.person.name(), until_waiting: args.until_waiting };
    follow(&context, &run, &options).await
}

/// A file's definition, or only an id for the worker to look up.
fn agent(named: &str) -> Result<(AgentId, Option<AgentDefinition>), Failure> {
    let path = Path::new(named);
    let is_file = path.extension().is_some_and(|extension| extension == "toml" || extension == "json");
    if is_file || path.exists() {
        let definition = agents::read(path)?;
        return Ok((definition.id.clone(), Some(definition)));
    }
    let id = AgentId::parse(named).map_err(|error| usage(format!("--agent: {error}, or the path of a definition")))?;
    Ok((id, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_a_file_or_an_id() {
        assert_eq!(agent("demo").unwrap(), ("demo".into(), None));
        assert_eq!(
            agent("no-such.toml").unwrap_err().to_string(),
            "no-such.toml cannot be read: No such file or directory (os error 2)"
        );
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), "id = \"echo\"\nmodel = \"script:echo\"").unwrap();
        let (id, definition) = agent(file.path().to_str().unwrap()).unwrap();
        assert_eq!((id, definition.unwrap().model.as_str()), ("echo".into(), "script:echo"));
        assert!(agent("not an id").is_err());
    }
}
