//! `windlass run`: starts a run and follows it.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, ValueHint};
use serde_json::json;
use windlass_core::{
    agent::AgentDefinition,
    envelope::PolicyOverrides,
    ids::{AgentId, RunId, SessionId},
};

use super::{
    Failure, Global,
    follow::{self, follow},
    person::Person,
    reach::{NewRun, Reach, Visitor},
    usage, values,
};
use crate::service::{Missing, agents};

/// How long to wait for a server that does not respond.
pub(super) const GIVE_UP_AFTER: &str = "10m";

/// The demo agent and its default prompt.
const DEMO: &str = "demo";
const DEMO_PROMPT: &str = "Write a launch note";

const EXAMPLES: &str = "\
Examples:
  windlass run demo
  windlass run examples/agents/echo.toml 'Hello' > answer.txt
  windlass run --agent demo --session standup --label team=core 'And now?'
  windlass run demo --policy '{\"maxToolCalls\": 3}' --detach 'Go'
  windlass run agent.toml 'Hello' --scripts scripts.json

Where the run is started:
  1. --server URL, with its key in WINDLASS_API_KEY or --api-key-file: on that server
  2. --temporal HOST:PORT or a Postgres store: directly on that Temporal server, with the store of --data-dir or Postgres
  3. otherwise on the `windlass dev` that serves --data-dir, if it runs
  4. otherwise in this process, on --data-dir; an unfinished run continues with the next command or `windlass dev`

Text, calls and questions of the run are shown on stderr as they come; at a terminal, questions can be answered directly.
The final answer is printed on stdout. Ctrl-C stops following; the run continues. If the server goes away, the command
waits for it.

Exit codes:
  0 the run completed   1 it failed   3 it was cancelled   4 it continues, but is no longer followed";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Agent definition (a .toml or .json file), or the id of an agent of the worker; with --agent, the prompt
    #[arg(value_name = "AGENT")]
    first: String,

    /// Prompt; optional for the demo agent
    #[arg(value_name = "PROMPT", conflicts_with = "agent")]
    second: Option<String>,

    /// Agent definition or id; the only argument is then the prompt
    #[arg(long, value_name = "FILE|ID")]
    agent: Option<String>,

    /// Session to continue; it is created on first use
    #[arg(long, value_name = "ID", value_parser = values::session)]
    session: Option<SessionId>,

    /// Model to use instead of the agent's
    #[arg(long, value_name = "ID")]
    model: Option<String>,

    /// Id of the run; repeating the same start returns the same run, a different start with this id is rejected
    #[arg(long, value_name = "ID", value_parser = values::run)]
    run_id: Option<RunId>,

    /// Limits of the run, as JSON or @FILE
    #[arg(long, value_name = "JSON|@FILE", value_parser = values::policy)]
    policy: Option<PolicyOverrides>,

    /// Label of the run; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = values::label)]
    labels: Vec<(String, String)>,

    /// Scripts for `script:` models, if the run is executed in this process; they are kept in the data directory
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    scripts: Option<PathBuf>,

    /// Start the run, print its id and exit
    #[arg(long, conflicts_with = "until_waiting")]
    detach: bool,

    /// Exit, with code 4, when the run waits for an answer
    #[arg(long)]
    until_waiting: bool,

    /// How long to wait for a server that does not respond
    #[arg(long, value_name = "DURATION", default_value = GIVE_UP_AFTER, value_parser = values::span)]
    give_up_after: Duration,

    #[command(flatten)]
    person: Person,
}

pub(super) async fn run(global: &Global, args: RunArgs) -> Result<ExitCode, Failure> {
    let (named, prompt) = args.words()?;
    let agent = agent(&named)?;
    let visitor = Visitor { actor: &args.person.name(), give_up_after: args.give_up_after };
    let reach = Reach::open(global, Missing::Create, visitor, args.scripts.as_deref()).await?;
    let ended = run_on(&reach, args, agent, prompt).await;
    reach.close().await?;
    ended
}

/// The id of an agent, and its definition if the command has it.
type Agent = (AgentId, Option<AgentDefinition>);

async fn run_on(reach: &Reach, args: RunArgs, agent: Agent, prompt: String) -> Result<ExitCode, Failure> {
    if args.scripts.is_some() && !reach.serves_here() {
        let needed = "give --scripts to the `windlass dev` or `windlass worker` that executes it";
        return Err(usage(format!("--scripts needs a run that this command executes itself: {needed}")));
    }
    if args.detach && reach.serves_here() {
        let needed = "start `windlass dev`, or set --server or --temporal";
        return Err(usage(format!("--detach needs a server that continues the run: {needed}")));
    }
    let options = follow::Options { actor: args.person.actor(), until_waiting: args.until_waiting };
    let detach = args.detach;
    let run = reach.start(args.new_run(agent, prompt)).await?;
    if detach {
        reach.out().print(&json!({"runId": run}), || run.to_string())?;
        reach.out().note(format!("follow it: {}", reach.hint().command(&format!("runs attach {run}"))));
        return Ok(ExitCode::SUCCESS);
    }
    follow(reach, &run, &options).await
}

impl RunArgs {
    /// The agent and the prompt.
    fn words(&self) -> Result<(String, String), Failure> {
        match (&self.agent, &self.second) {
            (Some(agent), _) => Ok((agent.clone(), self.first.clone())),
            (None, Some(prompt)) => Ok((self.first.clone(), prompt.clone())),
            (None, None) if self.first == DEMO => Ok((DEMO.to_owned(), DEMO_PROMPT.to_owned())),
            (None, None) => Err(usage(format!("the prompt is missing: windlass run {} 'TEXT'", self.first))),
        }
    }

    fn new_run(self, (agent_id, definition): Agent, prompt: String) -> NewRun {
        NewRun {
            agent_id,
            definition,
            prompt,
            run_id: self.run_id,
            session: self.session,
            model: self.model,
            policy: self.policy,
            labels: self.labels.into_iter().collect(),
            started_by: self.person.actor(),
        }
    }
}

/// The definition in a file, or an id that the worker looks up.
fn agent(named: &str) -> Result<Agent, Failure> {
    let path = Path::new(named);
    let is_file = path.extension().is_some_and(|extension| extension == "toml" || extension == "json");
    if is_file || path.exists() {
        let definition = agents::read(path)?;
        return Ok((definition.id.clone(), Some(definition)));
    }
    let id = AgentId::parse(named)
        .map_err(|error| usage(format!("{error}; give the id of an agent or the path of a definition")))?;
    Ok((id, None))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RunArgs,
    }

    #[test]
    fn the_agent_is_the_first_argument_or_an_option() {
        let words = |line: &[&str]| {
            let line = Line::parse_from([&["run"], line].concat());
            line.args.words().map_err(|failure| failure.to_string())
        };
        let pair = |agent: &str, prompt: &str| Ok((agent.to_owned(), prompt.to_owned()));
        assert_eq!(words(&["demo"]), pair("demo", "Write a launch note"));
        assert_eq!(words(&["demo", "Go"]), pair("demo", "Go"));
        assert_eq!(words(&["--agent", "demo", "Go"]), pair("demo", "Go"));
        assert_eq!(words(&["echo"]), Err("the prompt is missing: windlass run echo 'TEXT'".to_owned()));
    }

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
