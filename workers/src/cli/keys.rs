//! `windlass keys`: the keys to the API. They live in the store; no server is needed.

use std::{process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use serde_json::json;
use windlass_api::auth::{MadeKey, Scope};
use windlass_core::ids::AgentId;
use windlass_store::{ApiKeyRow, Store};

use super::{
    Failure, Global, Output,
    context::{Missing, now, open_store},
    failed, values,
};
use crate::render::{Table, age};

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key for a workspace; it is shown once
    Create(CreateArgs),
    /// List the keys of a workspace
    List,
    /// Revoke a key; requests with it are refused from now on
    Revoke {
        /// The key's id, as `keys list` shows it
        id: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass keys create --name ci
  windlass keys create --name dashboard --scope runs:read --scope sessions:read
  windlass keys create --name support --workspace acme --agent desk")]
pub struct CreateArgs {
    /// What the key is for
    #[arg(long, value_name = "TEXT")]
    name: String,

    /// What it may be used for; everything unless it is said
    #[arg(long = "scope", value_name = "SCOPE", value_parser = Scope::parse)]
    scopes: Vec<String>,

    /// The only agents it may start
    #[arg(long = "agent", value_name = "ID", value_parser = values::agent)]
    agents: Vec<AgentId>,
}

pub(super) async fn run(global: &Global, command: KeysCommand) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let store = open_store(global, Missing::Create).await?;
    let done = execute(global, command, store.port(), out).await;
    store.close().await?;
    done
}

async fn execute(
    global: &Global,
    command: KeysCommand,
    store: Arc<dyn Store>,
    out: Output,
) -> Result<ExitCode, Failure> {
    let workspace = &global.workspace;
    match command {
        KeysCommand::Create(CreateArgs { name, scopes, agents }) => {
            let scopes = if scopes.is_empty() { vec!["*".to_owned()] } else { scopes };
            let made = MadeKey::new(workspace.clone(), &name, scopes, (!agents.is_empty()).then_some(agents));
            let row = store.create_key(made.row).await?;
            out.note("this is the only time the key is shown");
            let document =
                json!({"id": row.id, "key": made.key.reveal(), "workspace": row.workspace, "scopes": row.scopes});
            out.print(&document, || made.key.reveal().to_owned())?;
        }
        KeysCommand::List => {
            let keys = store.keys(workspace).await?;
            out.print(&json!({"keys": keys}), || table(&keys).render(out.table_width()))?;
        }
        KeysCommand::Revoke { id } => {
            let revoked = store.revoke_key(workspace, &id).await?;
            let row = revoked
                .ok_or_else(|| failed(format!("workspace {workspace} has no key {id}; see `windlass keys list`")))?;
            out.print(&row, || format!("revoked {} ({})", row.id, row.name))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(keys: &[ApiKeyRow]) -> Table {
    let mut table = Table::new(&["ID", "KEY", "STATE", "USED", "NAME", "SCOPES"]);
    for key in keys {
        let state = if key.revoked_at.is_some() { "revoked" } else { "active" };
        let used = key.last_used_at.map_or_else(|| "never".to_owned(), |at| age(now(), at));
        let prefix = format!("{}…", key.prefix);
        table.row(vec![key.id.clone(), prefix, state.to_owned(), used, key.name.clone(), key.scopes.join(" ")]);
    }
    table
}
