//! `windlass keys`: API keys. They are in the store; no server is needed.

use std::{process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use serde_json::json;
use windlass_api::auth::{MadeKey, Scope};
use windlass_core::{
    ids::AgentId,
    time::{Millis, Timestamp},
};
use windlass_store::{ApiKeyRow, NewApiKey, Store};

use super::{Failure, Global, Output, failed, now, usage, values};
use crate::{
    render::{Table, age, moment},
    service::Missing,
};

#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Create an API key for a workspace; it is shown once
    Create(CreateArgs),
    /// List the API keys of a workspace
    List,
    /// Revoke an API key; requests with it are rejected from now on
    Revoke {
        /// Id of the key, as shown by `keys list`
        id: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass keys create --name ci
  windlass keys create --name dashboard --scope runs:read --scope sessions:read
  windlass keys create --name support --workspace acme --agent desk --expires-in 90d
  windlass keys create --name approver --scope runs:read --scope runs:approve --role finance

Scopes, and what a key with --agent may send, are described in docs/security.md.")]
pub struct CreateArgs {
    /// Description of the key
    #[arg(long, value_name = "TEXT")]
    name: String,

    /// Scope of the key; may be repeated [default: all scopes]
    #[arg(long = "scope", value_name = "SCOPE", value_parser = Scope::parse)]
    scopes: Vec<String>,

    /// Role of the key, which approval rules ask for; may be repeated [default: none]
    #[arg(long = "role", value_name = "NAME", value_parser = values::role)]
    roles: Vec<String>,

    /// Agent that the key may start; may be repeated [default: any agent]
    #[arg(long = "agent", value_name = "ID", value_parser = values::agent)]
    agents: Vec<AgentId>,

    /// How long the key is valid, for example 30d [default: no expiry]
    #[arg(long, value_name = "DURATION", value_parser = values::age)]
    expires_in: Option<Duration>,

    /// When the key expires, for example 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::time, conflicts_with = "expires_in")]
    expires_at: Option<Timestamp>,
}

pub(super) async fn run(global: &Global, command: KeysCommand) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let store = global.open_store(Missing::Create).await?;
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
        KeysCommand::Create(CreateArgs { name, scopes, roles, agents, expires_in, expires_at }) => {
            let scopes = if scopes.is_empty() { vec!["*".to_owned()] } else { scopes };
            let made = MadeKey::new(workspace.clone(), &name, scopes, (!agents.is_empty()).then_some(agents));
            let expires_at = expires_at.or_else(|| {
                expires_in.map(|span| now().after(Millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))))
            });
            if expires_at.is_some_and(|at| at <= now()) {
                return Err(usage("--expires-at is in the past; choose a later time"));
            }
            let row = store.create_key(NewApiKey { roles, expires_at, ..made.row }).await?;
            out.note("store the key now: it is not shown again");
            let document = json!({
                "id": row.id, "key": made.key.reveal(), "workspace": row.workspace, "scopes": row.scopes, "roles": row.roles,
                "agents": row.agents, "expiresAt": row.expires_at,
            });
            out.print(&document, || made.key.reveal().to_owned())?;
        }
        KeysCommand::List => {
            let keys = store.keys(workspace).await?;
            out.print(&json!({"keys": keys}), || table(&keys, now()).render(out.table_width()))?;
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

fn table(keys: &[ApiKeyRow], now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "KEY", "STATE", "USED", "EXPIRES", "NAME", "AGENTS", "ROLES", "SCOPES"]);
    for key in keys {
        let state = match () {
            () if key.revoked_at.is_some() => "revoked",
            () if key.has_expired(now) => "expired",
            () => "active",
        };
        let used = key.last_used_at.map_or_else(|| "never".to_owned(), |at| age(now, at));
        let expires = key.expires_at.map_or_else(|| "never".to_owned(), moment);
        let agents = key.agents.as_ref().map_or_else(
            || "any".to_owned(),
            |agents| agents.iter().map(AgentId::as_str).collect::<Vec<_>>().join(" "),
        );
        table.row(vec![
            key.id.clone(),
            format!("{}…", key.prefix),
            state.to_owned(),
            used,
            expires,
            key.name.clone(),
            agents,
            if key.roles.is_empty() { "none".to_owned() } else { key.roles.join(" ") },
            key.scopes.join(" "),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use windlass_store::KeyHash;

    use super::*;

    #[test]
    fn the_list_shows_scopes_agents_and_expiry_of_each_key() {
        let key =
            |id: &str, expires_at: Option<u64>, revoked_at: Option<u64>, agents: Option<Vec<AgentId>>| ApiKeyRow {
                id: id.to_owned(),
                workspace: "acme".into(),
                name: "ci".to_owned(),
                prefix: "wl_12".to_owned(),
                hash: KeyHash(Vec::new()),
                scopes: vec!["runs:read".to_owned(), "runs:write".to_owned()],
                roles: expires_at.map(|_| vec!["finance".to_owned()]).unwrap_or_default(),
                agents,
                created_at: Timestamp(0),
                last_used_at: expires_at.map(|_| Timestamp(940_000)),
                revoked_at: revoked_at.map(Timestamp),
                expires_at: expires_at.map(Timestamp),
            };
        let keys = [
            key("key-1", None, None, None),
            key("key-2", Some(1_000_000), None, Some(vec!["desk".into(), "demo".into()])),
            key("key-3", Some(2_000_000), Some(1), None),
        ];
        let shown = table(&keys, Timestamp(1_000_000)).render(None);
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [
                vec!["ID", "KEY", "STATE", "USED", "EXPIRES", "NAME", "AGENTS", "ROLES", "SCOPES"],
                vec!["key-1", "wl_12…", "active", "never", "never", "ci", "any", "none", "runs:read", "runs:write"],
                vec![
                    "key-2",
                    "wl_12…",
                    "expired",
                    "1m",
                    "1970-01-01T00:16:40.000Z",
                    "ci",
                    "desk",
                    "demo",
                    "finance",
                    "runs:read",
                    "runs:write"
                ],
                vec![
                    "key-3",
                    "wl_12…",
                    "revoked",
                    "1m",
                    "1970-01-01T00:33:20.000Z",
                    "ci",
                    "any",
                    "finance",
                    "runs:read",
                    "runs:write"
                ],
            ]
        );
    }
}
