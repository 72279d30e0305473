//! `windlass tools`: which tools an agent has, and one of them called from the shell. `windlass mcp inspect` is here, too.
//!
//! The commands execute tools as a worker does, from the same config, in this process.

mod inspect;
mod list;
mod test;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Subcommand, ValueHint};
use windlass_activities::RunSecrets;
use windlass_core::{agent::AgentDefinition, ids::RunId};
use windlass_tools::Toolbox;

pub(super) use self::inspect::{InspectArgs, inspect};
use super::{Failure, Global, Output, usage, worker::CatalogueArgs};
use crate::service::{AnyStore, Missing, agents};

#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// List the tools of an agent, with those that its servers describe now; without an agent, those of every worker
    List {
        /// Agent file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        agent: Option<PathBuf>,
    },
    /// Call one tool of an agent with arguments from the shell, and print its result
    Test(test::TestArgs),
}

pub(super) async fn run(global: &Global, command: ToolsCommand) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let bench = Workbench::open(global).await?;
    let done = match command {
        ToolsCommand::List { agent } => list::run(&bench, agent.as_deref(), out).await,
        ToolsCommand::Test(args) => test::run(&bench, &args, out).await,
    };
    bench.close().await?;
    done
}

/// What a worker executes tools with.
pub(super) struct Workbench {
    store: AnyStore,
    tools: Toolbox,
    secrets: Arc<RunSecrets>,
    pub(super) workspace: windlass_core::ids::WorkspaceId,
}

impl Workbench {
    pub(super) async fn open(global: &Global) -> Result<Self, Failure> {
        let (_, catalogues) = CatalogueArgs::default().load_agents(global)?;
        // Notes and secrets are there. A directory without a store is made one, as by every other command that writes.
        let store = global.open_store(Missing::Create).await?;
        let ports = catalogues.load(store.port(), Vec::new(), &global.secret_keys()?)?;
        let run = RunId::new(format!("tools-{}", std::process::id()));
        let secrets = Arc::new(RunSecrets::new(ports.vault, global.workspace.clone(), run, None));
        Ok(Self { store, tools: ports.tools, secrets, workspace: global.workspace.clone() })
    }

    pub(super) async fn close(self) -> Result<(), Failure> {
        self.tools.shutdown().await;
        Ok(self.store.close().await?)
    }

    /// The agent of a file, complete: with the defaults of built-in tools, and the tools of its toolsets.
    pub(super) async fn agent(&self, path: &std::path::Path) -> Result<(AgentDefinition, Vec<String>), Failure> {
        let mut definition = agents::read(path)?;
        let missing = definition.complete_builtins(&|name| self.tools.spec(name));
        if let Some(missing) = missing.first() {
            return Err(usage(format!("{}: no worker has a tool {:?}", path.display(), missing.tool.as_str())));
        }
        let mut problems = Vec::new();
        for index in 0..definition.toolsets.len() {
            match self.tools.resolve(&definition.toolsets[index], &*self.secrets).await {
                Ok((tools, resolved)) => {
                    let (tools, resolved) = self.secrets.redaction().toolset(tools, resolved);
                    definition.tools.extend(tools);
                    definition.toolsets[index].resolved = Some(resolved);
                }
                Err(failure) => {
                    let failure = self.secrets.redaction().failure(failure);
                    problems.push(format!("toolset {}: {}", definition.toolsets[index].name, failure.error.message));
                }
            }
        }
        Ok((definition, problems))
    }
}
