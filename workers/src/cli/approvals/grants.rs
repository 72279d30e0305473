//! `windlass approvals list | revoke`.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use windlass_core::{
    approval::{ApprovalScope, Grant, GrantShape},
    ids::{GrantId, ToolName},
    time::Timestamp,
};

use crate::{
    cli::{Failure, failed, now, reach::Reach},
    render::{Table, age, moment},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A grant is given with an approval: `windlass runs approve RUN AWAIT --grant session`.")]
pub struct ListArgs {
    /// Only grants for this tool
    #[arg(long, value_name = "NAME", value_parser = |text: &str| ToolName::parse(text).map_err(|error| error.to_string()))]
    tool: Option<ToolName>,

    /// Revoked grants, too
    #[arg(long)]
    all: bool,

    /// How many grants at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
}

#[derive(Debug, Args)]
pub struct RevokeArgs {
    /// Id of the grant, as shown by `approvals list`
    #[arg(value_parser = |text: &str| GrantId::parse(text).map_err(|error| error.to_string()))]
    grant: GrantId,
}

pub(super) async fn list(reach: &Reach, args: ListArgs) -> Result<ExitCode, Failure> {
    let grants = reach.grants(args.tool, args.all, args.limit).await?;
    let out = reach.out();
    out.print(&json!({"grants": grants}), || match grants.is_empty() {
        true => "no grants".to_owned(),
        false => table(&grants, now()).render(out.table_width()),
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn revoke(reach: &Reach, args: RevokeArgs) -> Result<ExitCode, Failure> {
    let revoked = reach.revoke_grant(&args.grant).await?;
    let grant =
        revoked.ok_or_else(|| failed(format!("there is no grant {}; see `windlass approvals list`", args.grant)))?;
    reach
        .out()
        .print(&grant, || format!("revoked {}: {} in {} is asked about again", grant.id, grant.tool, scope(&grant)))?;
    Ok(ExitCode::SUCCESS)
}

fn table(grants: &[Grant], now: Timestamp) -> Table {
    let mut table = Table::new(&["ID", "TOOL", "WHERE", "ARGUMENTS", "STATE", "AGE", "BY"]);
    for grant in grants {
        let state = match grant.expires_at {
            _ if grant.revoked => "revoked".to_owned(),
            Some(at) if at <= now => "expired".to_owned(),
            Some(at) => format!("until {}", moment(at)),
            None => "active".to_owned(),
        };
        table.row(vec![
            grant.id.to_string(),
            grant.tool.to_string(),
            scope(grant),
            arguments(&grant.shape),
            state,
            age(now, grant.granted_at),
            grant.granted_by.to_string(),
        ]);
    }
    table
}

fn scope(grant: &Grant) -> String {
    match &grant.scope {
        ApprovalScope::Run { id } => format!("run {id}"),
        ApprovalScope::Session { id } => format!("session {id}"),
        ApprovalScope::Agent { id } => format!("agent {id}"),
        ApprovalScope::Unknown => "(of a newer version)".to_owned(),
    }
}

fn arguments(shape: &GrantShape) -> String {
    match shape {
        GrantShape::AnyArguments => "any".to_owned(),
        GrantShape::SameArguments { digest } => format!("digest {}", digest.short()),
        GrantShape::SameValues { values } => {
            let values = values.iter().map(|(at, value)| format!("{at} = {value}"));
            values.collect::<Vec<_>>().join(", ").chars().take(80).collect()
        }
        GrantShape::Unknown => "(of a newer version)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shows_where_a_grant_holds_for_which_arguments_and_until_when() {
        let grant = |scope, shape, differs: serde_json::Value| -> Grant {
            let mut grant = json!({
                "id": "grant-1", "scope": scope, "tool": "pay", "shape": shape,
                "grantedBy": {"id": "key-1", "name": "ann"}, "grantedAt": 940_000,
            });
            differs.as_object().unwrap().iter().for_each(|(key, value)| grant[key] = value.clone());
            serde_json::from_value(grant).unwrap()
        };
        let any = json!({"kind": "any_arguments"});
        let grants = [
            grant(json!({"kind": "run", "id": "run-1"}), any.clone(), json!({})),
            grant(json!({"kind": "agent", "id": "desk"}), any, json!({"revoked": true})),
            grant(
                json!({"kind": "session", "id": "s"}),
                json!({"kind": "same_values", "values": {"/to": "ann", "/n": 1}}),
                json!({"expiresAt": 1_000_000}),
            ),
            grant(json!({"kind": "planet"}), json!({"kind": "similar"}), json!({"expiresAt": 2_000_000})),
        ];
        let shown = table(&grants, Timestamp(1_000_000)).render(None);
        let lines: Vec<String> =
            shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "ID TOOL WHERE ARGUMENTS STATE AGE BY",
                "grant-1 pay run run-1 any active 1m ann (key-1)",
                "grant-1 pay agent desk any revoked 1m ann (key-1)",
                "grant-1 pay session s /n = 1, /to = \"ann\" expired 1m ann (key-1)",
                "grant-1 pay (of a newer version) (of a newer version) until 1970-01-01T00:33:20.000Z 1m ann (key-1)",
            ]
        );
    }
}
